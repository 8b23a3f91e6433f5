package page

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// WantsJSON reports whether a client prefers JSON to a page: it accepts JSON and does not accept
// HTML.
func WantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// Failure is the data of an error page.
type Failure struct {
	Status int
	// Text is the message of the error. A surface that shows the message translates it before it calls Render.
	Text      string
	RequestID string
	// Damaged reports whether a stored file is lost or damaged.
	Damaged bool
	// Form is the submitted form if the status is 503, so that the person can submit the form again. It
	// is nil otherwise.
	Form url.Values
}

// Render writes an error: as JSON if the client prefers JSON, or else as a page. If the page cannot
// be rendered, Render writes plain text. A *web.Moved becomes a redirect.
func (s *Set) Render(w http.ResponseWriter, r *http.Request, err error) {
	if moved, ok := errors.AsType[*web.Moved](err); ok {
		moved.Redirect(w, r)
		return
	}
	if WantsJSON(r) {
		web.WriteJSONError(w, r, err)
		return
	}
	status, text := web.Explain(w, r, err)
	w.Header().Set("Cache-Control", "no-store")
	failure := Failure{Status: status, Text: text, RequestID: web.RequestID(r), Damaged: fault.Is(err, fault.Damaged)}
	if status == http.StatusServiceUnavailable && r.Method == http.MethodPost {
		failure.Form = r.PostForm
	}
	if err := s.Draw(w, r, status, "error.html", failure); err != nil {
		http.Error(w, text, status)
	}
}

// Informative reports whether Text adds information to the status.
func (f Failure) Informative() bool {
	switch f.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable:
		return false
	}
	return f.Text != ""
}
