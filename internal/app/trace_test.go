package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/certvault/certvault/internal/token"
)

// collector is an HTTP server that stores the bodies of requests with spans.
type collector struct {
	mu     sync.Mutex
	bodies [][]byte
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.bodies = append(c.bodies, body)
	c.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

// receivedSpan has the fields of a span that the tests compare.
type receivedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
}

func (c *collector) spans(d *driver) (list []receivedSpan) {
	d.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.bodies {
		var m struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []receivedSpan }
			}
		}
		d.must(json.Unmarshal(body, &m))
		for _, r := range m.ResourceSpans {
			for _, s := range r.ScopeSpans {
				list = append(list, s.Spans...)
			}
		}
	}
	return list
}

// checkTraces checks the spans of all earlier operations of the test. An upload is one trace, from the
// request to the approval. The header traceparent of a webhook contains the trace and the span of a
// delivery. No span contains personal data or the secret of a token.
func (d *driver) checkTraces() {
	d.Helper()
	const remote = "4bf92f3577b34da6a3ce929d0e0e4736"
	secret := d.token(token.All...)
	d.send(http.MethodGet, "/business/certificate-vault?search=Ada", secret, http.Header{"Traceparent": {"00-" + remote + "-00f067aa0ba902b7-01"}}, "")
	d.unchecked(http.MethodGet, "/healthz", "", nil, "")
	d.must(d.app.tracer.Stop(d.Context()))
	if n := d.app.tracer.Lost(); n > 0 {
		d.Errorf("%d spans were lost", n)
	}
	spans := d.collector.spans(d)
	// child returns a span with the name whose parent is parent. If parent has no id, child returns any
	// span with the name.
	child := func(name string, parent receivedSpan) receivedSpan {
		d.Helper()
		for _, s := range spans {
			if s.Name == name && (parent.SpanID == "" || s.ParentSpanID == parent.SpanID && s.TraceID == parent.TraceID) {
				return s
			}
		}
		d.Errorf("there is no span %q with the parent %+v", name, parent)
		return receivedSpan{}
	}
	var upload receivedSpan
	for _, s := range spans {
		if s.Name == "job seal" && s.ParentSpanID != "" {
			for _, request := range spans {
				if request.SpanID == s.ParentSpanID && request.Name == "POST /business/certificate-vault" {
					upload = request
				}
			}
		}
	}
	if upload.SpanID == "" {
		d.Fatal("there is no span \"job seal\" whose parent is the request of an upload")
	}
	child("transaction", upload)
	child("store put", upload)
	job := child("job seal", upload)
	for _, step := range []string{"read", "signer", "wait", "seal", "store", "check", "approve"} {
		child("seal: "+step, job)
	}
	child("store put", child("seal: store", job))
	child("transaction", child("seal: approve", job))
	if list := child("GET /business/certificate-vault", receivedSpan{SpanID: "00f067aa0ba902b7", TraceID: remote}); list.TraceID != remote {
		d.Errorf("trace of the request = %q, want %q from its header", list.TraceID, remote)
	}
	positions := map[string]bool{}
	for _, s := range spans {
		if strings.Contains(s.Name, "healthz") {
			d.Errorf("a health check has the span %q, want none", s.Name)
		}
		if s.Name == "webhook delivery" {
			positions["00-"+s.TraceID+"-"+s.SpanID+"-01"] = true
		}
	}
	d.parents.Range(func(parent, _ any) bool {
		text, _ := parent.(string)
		if !positions[text] {
			d.Errorf("traceparent of a webhook = %q, want that of a delivery's span", text)
			return false
		}
		return true
	})
	all := bytes.ToLower(bytes.Join(d.collector.bodies, nil))
	for _, personal := range []string{"lovelace", "example.org", "bachelor", "distinction", strings.ToLower(secret), "cvt_", "issued in error", "northwest"} {
		if i := bytes.Index(all, []byte(personal)); i >= 0 {
			d.Errorf("the spans contain %q, want no personal data and no secret: %s", personal, all[max(0, i-200):min(len(all), i+100)])
		}
	}
}
