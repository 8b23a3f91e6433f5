package web

import (
	"net/http"
	"net/url"
	"strings"
)

// Moved is the error of a page whose path contains a former slug. Package page renders it as a redirect.
type Moved struct {
	// From is the former slug in the path. To is the current slug.
	From, To string
}

// CheckSlug returns a *Moved if inPath, the slug in a path, is not the current slug of the institution.
func CheckSlug(inPath, current string) error {
	if inPath == current {
		return nil
	}
	return &Moved{From: inPath, To: current}
}

// Error returns a message with both slugs, for the log.
func (m *Moved) Error() string { return "the slug " + m.From + " is now " + m.To }

// Redirect redirects a request to the same path and query with the current slug. The status is 308, so
// that a browser submits a form again (RFC 9110, 15.4.9). Browsers must not use a cached redirect without
// asking the vault, because the institution can get its former slug back.
func (m *Moved) Redirect(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i, s := range segments {
		if text, err := url.PathUnescape(s); err == nil && text == m.From {
			segments[i] = url.PathEscape(m.To)
			break
		}
	}
	to := strings.Join(segments, "/")
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Cache-Control", "no-cache")
	http.Redirect(w, r, to, http.StatusPermanentRedirect) //nolint:gosec // the route has matched, so the path begins with a segment of the vault
}
