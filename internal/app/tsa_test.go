package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRequestTimeStamp checks that requestTimeStamp limits the size of the response, and that the error
// for a wrong status or content type contains this status or type.
func TestRequestTimeStamp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		respond func(w http.ResponseWriter)
		want    string // part of the error; empty if no error is expected
	}{
		"time stamp":  {func(w http.ResponseWriter) { _, _ = w.Write([]byte("reply")) }, ""},
		"bad gateway": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, "502"},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(http.StatusFound)
		}, "302"},
		"HTML page": {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html; charset=utf-8") }, "text/html"},
		"too large": {func(w http.ResponseWriter) {
			for range 2 {
				_, _ = w.Write(make([]byte, maxStamp))
			}
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/timestamp-query" {
					t.Errorf("request = %s with the content type %s, want POST with application/timestamp-query", r.Method, r.Header.Get("Content-Type"))
				}
				w.Header().Set("Content-Type", "application/timestamp-reply")
				test.respond(w)
			}))
			t.Cleanup(server.Close)
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			body, err := requestTimeStamp(t.Context(), client, server.URL, []byte("query"))
			switch {
			case test.want == "" && (err != nil || string(body) != "reply"):
				t.Errorf("requestTimeStamp = %q, %v, want \"reply\"", body, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error = %v, want an error that contains %q", err, test.want)
			}
		})
	}
}
