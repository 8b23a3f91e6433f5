package public

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/cert"
)

// lookUp shows the form for a reference id. For an entered reference id, or a link with a reference
// id, it redirects to the page of the certificate. For other text, it shows that there is no such
// certificate.
func (p *Pages) lookUp(w http.ResponseWriter, r *http.Request) error {
	typed := referenceIn(r.URL.Query().Get("reference_id"))
	if typed == "" {
		w.Header().Set("Cache-Control", "no-cache")
		return p.view.Draw(w, r, http.StatusOK, "lookup.html", nil)
	}
	if cert.FoldReference(typed) == "" {
		noStore(w)
		return p.unknown(w, r, typed)
	}
	http.Redirect(w, r, p.view.Reader(r).Link("/verify/"+url.PathEscape(typed)), http.StatusSeeOther) //nolint:gosec // the path begins with /verify/ for every input
	return nil
}

// referenceIn returns the reference id from a link, with or without a scheme, or from a text that
// contains only a reference id.
func referenceIn(typed string) string {
	typed, _, _ = strings.Cut(strings.TrimSpace(typed), "?")
	if _, after, found := strings.Cut(typed, "/verify/"); found {
		typed, _, _ = strings.Cut(after, "/")
	}
	return typed[strings.LastIndexByte(typed, '/')+1:]
}

// unknown shows that there is no such certificate, and suggests a similar reference id if there is one.
func (p *Pages) unknown(w http.ResponseWriter, r *http.Request, typed string) error {
	similar, err := p.Certs.Similar(r.Context(), typed)
	if err != nil {
		return err
	}
	return p.view.Draw(w, r, http.StatusNotFound, "unknown.html", struct {
		cert.Typo

		Typed, Near string
	}{cert.FindTypo(typed), typed, similar})
}
