package web

import (
	"net/http"
	"path"
	"slices"

	"github.com/certvault/certvault/internal/fault"
)

// Routes returns a handler that serves mux. For an unknown path or method, and for a path that is
// not clean, the handler renders an error in the form of the surface.
func Routes(mux *http.ServeMux, render Renderer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect a path such as //a to the clean path. No client expects a redirect.
		clean := path.Clean(r.URL.Path) == r.URL.Path || r.URL.Path == ""
		handler, pattern := mux.Handler(r)
		if pattern != "" && clean {
			// Record the route here. The mux sets the pattern only on the request that it gets, and
			// a surface may have replaced the request of the middleware.
			SetRoute(r, pattern)
			mux.ServeHTTP(w, r)
			return
		}
		SetRoute(r, "(unknown)")
		if !clean {
			render(w, r, fault.New(fault.NotFound, "The route could not be found."))
			return
		}
		probe := &probe{header: http.Header{}}
		handler.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			render(w, r, NotAllowed(w, r, probe.header.Get("Allow")))
			return
		}
		render(w, r, fault.New(fault.NotFound, "The route could not be found."))
	})
}

// NotAllowed returns the error for a method that a route does not support, and sets Allow to the
// supported methods (RFC 9110, 10.2.1).
func NotAllowed(w http.ResponseWriter, r *http.Request, allow string) error {
	w.Header().Set("Allow", allow)
	message := "This method is not supported for this route."
	if slices.Contains(methods, r.Method) {
		message = "The " + r.Method + " method is not supported for this route."
	}
	return fault.New(fault.NotAllowed, message)
}

// probe records the status and the Allow header of the mux's own response.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }
