package web_test

import (
	"net/http"
	"testing"

	"github.com/certvault/certvault/internal/web"
)

func TestAccepted(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                  "application/vc",
		"*/*":                               "application/vc",
		"text/html":                         "application/vc",
		"image/*":                           "image/png",
		"image/svg+xml, image/png;q=0.5":    "image/svg+xml",
		"application/vc;q=0, */*;q=0.1":     "image/png",
		"application/vc;q=0.2, image/*;q=1": "image/png",
		"IMAGE/PNG":                         "image/png",
		"image/svg+xml;q=x, broken":         "application/vc",
	} {
		r := &http.Request{Header: http.Header{"Accept": {header}}}
		if got := web.Accepted(r, "application/vc", "image/png", "image/svg+xml"); got != want {
			t.Errorf("Accept %q: got %s, want %s", header, got, want)
		}
	}
}
