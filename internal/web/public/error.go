package public

import (
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/web"
)

// wantsJSON tells whether a client prefers JSON to a page: it names it, and
// does not take HTML.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

type errorPage struct {
	Status    int
	RequestID string
}

// render answers an error: as JSON to who asked for it, else as a page.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, err error) {
	if wantsJSON(r) {
		web.WriteJSONError(w, r, err)
		return
	}
	status, text := web.Explain(w, r, err)
	w.Header().Set("Cache-Control", "no-store")
	if err := p.view.page(w, r, status, "error.html", errorPage{Status: status, RequestID: web.RequestID(r)}); err != nil {
		http.Error(w, text, status)
	}
}
