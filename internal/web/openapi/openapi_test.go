package openapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/web"
)

const base = "https://vault.example.org"

func newDocs(t *testing.T, perMinute int) (*Docs, http.Handler) {
	t.Helper()
	d, err := New(base, limit.NewCounter(perMinute, time.Now), false)
	if err != nil {
		t.Fatal(err)
	}
	return d, web.Wrap(web.Options{Log: slog.New(slog.DiscardHandler), Now: time.Now}, d.Handler())
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody)
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "203.0.113.9:4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestDocumentHasBaseURL(t *testing.T) {
	t.Parallel()
	_, h := newDocs(t, 0)
	w := get(h, "/openapi.json")
	var doc struct {
		OpenAPI  string              `json:"openapi"`
		Servers  []map[string]string `json:"servers"`
		Paths    map[string]any      `json:"paths"`
		Webhooks map[string]struct {
			Post struct{ Parameters []any }
		} `json:"webhooks"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || !reflect.DeepEqual(doc.Servers, []map[string]string{{"url": base}}) || len(doc.Paths) == 0 {
		t.Errorf("the document has the version %s, the servers %v and %d paths, want 3.1.0, only the base URL, and at least one path", doc.OpenAPI, doc.Servers, len(doc.Paths))
	}
	for name, hook := range doc.Webhooks {
		if len(hook.Post.Parameters) == 0 {
			t.Errorf("the webhook %s has no parameters, want at least one header", name)
		}
	}
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("status = %d, Content-Type = %s, want 200 and application/json", w.Code, w.Header().Get("Content-Type"))
	}
	if again := get(h, "/openapi.json", "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("a request with If-None-Match: status = %d, want 304", again.Code)
	}
}

// TestDocumentOfLists checks that the description of the parameter page contains the maximum depth, the
// status 422 and the cursor. It also checks that every list with pages has a cursor and the status 422.
func TestDocumentOfLists(t *testing.T) {
	t.Parallel()
	_, h := newDocs(t, 0)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Ref string `json:"$ref"`
			} `json:"parameters"`
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
		Components struct {
			Parameters map[string]struct {
				Description string `json:"description"`
			} `json:"parameters"`
		} `json:"components"`
	}
	if err := json.Unmarshal(get(h, "/openapi.json").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	limit := strconv.Itoa(listing.MaxDepth/1000) + "," + fmt.Sprintf("%03d", listing.MaxDepth%1000)
	for _, word := range []string{limit, "422", "`cursor`"} {
		if !strings.Contains(doc.Components.Parameters["Page"].Description, word) {
			t.Errorf("the description of the parameter page does not contain %s: %s", word, doc.Components.Parameters["Page"].Description)
		}
	}
	lists := 0
	for path, operations := range doc.Paths {
		refs := map[string]bool{}
		for _, p := range operations["get"].Parameters {
			refs[p.Ref] = true
		}
		if !refs["#/components/parameters/Page"] {
			continue
		}
		lists++
		if !refs["#/components/parameters/Cursor"] || operations["get"].Responses["422"] == nil {
			t.Errorf("%s has the parameter page, but not both the parameter cursor and the status 422", path)
		}
	}
	if lists < 4 {
		t.Errorf("%d lists have pages, want at least 4", lists)
	}
}

var (
	address    = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	foreign    = regexp.MustCompile(`(?i)<script|<style|\sstyle=|\son[a-z]+=|url\(|@import|<iframe`)
	unresolved = regexp.MustCompile(`%!|<no value>|\{\{|ZgotmplZ`)
)

// TestPages checks that every page loads only assets of the vault, and that the target of every link
// exists.
func TestPages(t *testing.T) {
	t.Parallel()
	d, h := newDocs(t, 0)
	all, err := d.rendered()
	if err != nil || len(all.pages) < 20 {
		t.Fatalf("error = %v, want at least 20 pages and no error", err)
	}
	for name := range all.pages {
		target := strings.TrimSuffix("/docs/"+name, "/")
		w := get(h, target)
		body := w.Body.String()
		if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != policy || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s: status = %d, header %v; want 200, the policy and text/html", target, w.Code, w.Header())
		}
		if found := foreign.FindString(body); found != "" {
			t.Errorf("%s contains %s, which the policy forbids", target, found)
		}
		if found := unresolved.FindString(body); found != "" {
			t.Errorf("%s contains %s, want no output of a failed template action", target, found)
		}
		for _, m := range address.FindAllStringSubmatch(body, -1) {
			path, fragment, _ := strings.Cut(m[1], "#")
			if path != "" && !strings.HasPrefix(path, "/") {
				t.Errorf("%s has a link to %s, want an absolute path or a fragment", target, m[1])
				continue
			}
			page := body
			if path != "" {
				linked := get(h, path)
				if page = linked.Body.String(); linked.Code != http.StatusOK {
					t.Errorf("%s has a link to %s: status = %d, want 200", target, path, linked.Code)
				}
			}
			if fragment != "" && !strings.Contains(page, `id="`+fragment+`"`) {
				t.Errorf("%s has a link to %s, but the linked page has no element with this id", target, m[1])
			}
		}
	}
	for name, a := range d.assets {
		if strings.Contains(string(a.body), "http") && !strings.HasSuffix(name, ".svg") || strings.Contains(string(a.body), "url(") {
			t.Errorf("%s contains a URL, want none", name)
		}
	}
}

func TestPageContents(t *testing.T) {
	t.Parallel()
	_, h := newDocs(t, 0)
	for target, want := range map[string][]string{
		"/docs": {"Certvault API", base, "Standard Webhooks", `<code>POST</code> <code>/business/certificate-vault/bulk</code>`},
		"/docs/uploadCertificate": {
			"Upload one certificate", "certificate-vault:create", "certificate_file", "up to 255 characters", `-F certificate_file=@diploma.pdf`, "Authorization: Bearer $TOKEN",
			"data.status.value", "placement_box", "Idempotency-Key", "<code>422</code>", "&#34;reference_id&#34;: &#34;NWU-7Q4M2H9K3XBT05VC&#34;",
		},
		"/docs/listCertificates": {
			"Any of these permissions", "certificate:list", "certificate-vault:list", "sort_field", "<code>generated_at</code>", "data[].signatures[].signatory_index",
		},
		"/docs/replaceVaultCertificate": {"All of these permissions: <code>certificate-vault:create</code> and <code>certificate-vault:revoke</code>"},
		"/docs/submitBatch":             {"entries[&lt;n&gt;][file_id]", "application/json", "entries[].full_name"},
		"/docs/getBatch":                {"data.entries[].reference_id"},
		"/docs/createApplication":       {"fields[&lt;key&gt;]", "files[&lt;key&gt;]", "fields.student_number", "application/json"},
		"/docs/verify":                  {"No token is needed."},
		"/docs/certificateFailed":       {"webhook-signature", "always <code>certificate_application.failed</code>", "failure.code", "Your response"},
		"/docs/certificateApproved":     {"always <code>certificate_application.approved</code>"},
		"/docs/retryVaultCertificate":   {"-X POST"},
	} {
		body := get(h, target).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not contain %s", target, text)
			}
		}
	}
}

func TestUnknownPage(t *testing.T) {
	t.Parallel()
	_, h := newDocs(t, 0)
	for _, target := range []string{"/docs/no-such-page", "/docs/assets/no-such-file", "/docs/a/b/c"} {
		w := get(h, target)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "<h1>Not Found</h1>") || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s: status = %d, want 404, an HTML page and the policy; body %s", target, w.Code, w.Body)
		}
		w = get(h, target, "Accept", "application/json")
		if w.Code != http.StatusNotFound || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: status = %d, want 404 and JSON; body %s", target, w.Code, w.Body)
		}
	}
}

func TestPagesAreLimited(t *testing.T) {
	t.Parallel()
	_, h := newDocs(t, 2)
	for i, want := range []int{200, 200, 429} {
		if w := get(h, "/docs"); w.Code != want || w.Header().Get("X-RateLimit-Limit") != "2" {
			t.Errorf("request %d: status = %d, X-RateLimit-Limit = %q, want %d and \"2\"", i, w.Code, w.Header().Get("X-RateLimit-Limit"), want)
		}
	}
	if w := get(h, "/openapi.json"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("/openapi.json: status = %d, want 429, Retry-After and JSON; body %s", w.Code, w.Body)
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	got := blocks("One `code`\nparagraph.\n\n## A heading here\n\n- first\n- `second` item\n  goes on\n")
	want := []block{
		{Text: []span{{Text: "One "}, {Text: "code", Code: true}, {Text: " paragraph."}}},
		{Heading: "A heading here", ID: "a-heading-here"},
		{Items: [][]span{{{Text: "first"}}, {{Text: "second", Code: true}, {Text: " item goes on"}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("blocks = %+v, want %+v", got, want)
	}
}

func TestReadInvalidDocument(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"invalid JSON":                {`{"servers": [`, "unexpected end of JSON input"},
		"a list instead of a map":     {`{"servers": [], "paths": ["a"]}`, "expected an object"},
		"an unknown component":        {`{"servers": [], "paths": {"/a": {"get": {"parameters": [{"$ref": "#/components/parameters/None"}]}}}}`, "no component"},
		"a component of another kind": {`{"servers": [], "paths": {"/a": {"get": {"responses": {"200": {"$ref": "#/components/schemas/None"}}}}}}`, "no component"},
		"no servers":                  {`{"paths": {}}`, "no servers"},
	} {
		if _, err := read([]byte(c.text), base); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("document with %s: error = %v, want one with %q", name, err, c.want)
		}
	}
}
