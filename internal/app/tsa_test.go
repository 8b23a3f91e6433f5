package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The response of a time-stamp authority is limited in size. A response of another type is a fault
// that names the type or status.
func TestAskTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string // in the error; empty means none
	}{
		"an answer":    {func(w http.ResponseWriter) { _, _ = w.Write([]byte("reply")) }, ""},
		"out of order": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, "502"},
		"moved": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(http.StatusFound)
		}, "302"},
		"a page": {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html; charset=utf-8") }, "text/html"},
		"endless": {func(w http.ResponseWriter) {
			for range 2 {
				_, _ = w.Write(make([]byte, maxStamp))
			}
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/timestamp-query" {
					t.Errorf("%s with %s", r.Method, r.Header.Get("Content-Type"))
				}
				w.Header().Set("Content-Type", "application/timestamp-reply")
				test.answer(w)
			}))
			t.Cleanup(server.Close)
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			body, err := askTime(t.Context(), client, server.URL, []byte("query"))
			switch {
			case test.want == "" && (err != nil || string(body) != "reply"):
				t.Errorf("%q, %v", body, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
