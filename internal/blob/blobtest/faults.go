package blobtest

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is a failure of a request.
type Fault int

const (
	// None passes the request on.
	None Fault = iota
	// SlowDown answers 503 with the code SlowDown, and does not pass the request on.
	SlowDown
	// Lost passes the request on, and closes the connection instead of answering.
	Lost
	// Cut passes the request on, and closes the connection after half of the body.
	Cut
	// Down closes the connection, and does not pass the request on.
	Down
	// Denied answers 403 with the code AccessDenied, as with wrong credentials.
	Denied
	// Foreign answers 404 without an S3 error, as a proxy may do.
	Foreign
)

// Faults is a handler that counts requests and adds faults in front of an S3 server. To use it with a
// real server, set Next to the result of Proxy.
type Faults struct {
	Next http.Handler

	mu      sync.Mutex
	choose  func(*http.Request) Fault
	latency time.Duration
	counts  map[string]int
}

// Proxy returns a handler that passes requests on to a server. It does not change the header Host,
// because the signature of a request includes it.
func Proxy(tb testing.TB, endpoint string) http.Handler {
	tb.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		tb.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		host := r.In.Host
		r.SetURL(target)
		r.Out.Host = host
	}}
}

// Set sets the function that chooses the fault of each request. If choose is nil, requests have no
// faults.
func (f *Faults) Set(choose func(*http.Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
}

// First sets a fault for the first n requests of a method. Other requests have no fault.
func (f *Faults) First(n int, method string, fault Fault) {
	f.Set(func(r *http.Request) Fault {
		if r.Method != method || n == 0 {
			return None
		}
		n--
		return fault
	})
}

// Always sets a fault for all requests.
func (f *Faults) Always(fault Fault) { f.Set(func(*http.Request) Fault { return fault }) }

// SetLatency sets the delay before each request is handled.
func (f *Faults) SetLatency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latency = d
}

// Count returns the number of requests of a method since the last call of Reset.
func (f *Faults) Count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[method]
}

// Reset sets all counts to zero.
func (f *Faults) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = nil
}

func (f *Faults) next(r *http.Request) (Fault, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[r.Method]++
	if f.choose == nil {
		return None, f.latency
	}
	return f.choose(r), f.latency
}

// ServeHTTP implements [http.Handler].
func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, latency := f.next(r)
	if latency > 0 {
		time.Sleep(latency)
	}
	switch fault {
	case None:
		f.Next.ServeHTTP(w, r)
	case SlowDown:
		fail(w, http.StatusServiceUnavailable, "SlowDown")
	case Denied:
		fail(w, http.StatusForbidden, "AccessDenied")
	case Foreign:
		http.NotFound(w, r)
	case Down:
		panic(http.ErrAbortHandler)
	case Lost, Cut:
		answer := httptest.NewRecorder()
		f.Next.ServeHTTP(answer, r)
		if fault == Cut {
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			body := answer.Body.String()
			_, _ = strings.NewReader(body[:len(body)/2]).WriteTo(w)
		}
		panic(http.ErrAbortHandler)
	}
}
