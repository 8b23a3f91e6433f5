package web

import (
	"errors"
	"net/http"

	"github.com/certvault/certvault/internal/fault"
)

var errForeign = fault.New(fault.Forbidden, "This request came from another site. Open the page here and try again.")

// SameOrigin refuses cross-site requests of a browser, by Sec-Fetch-Site or else by Origin.
func SameOrigin(render Renderer, next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(Handler(render, func(http.ResponseWriter, *http.Request) error { return errForeign }))
	return protection.Handler(next)
}

// ReadForm reads a form of at most the given number of bytes.
func ReadForm(w http.ResponseWriter, r *http.Request, most int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	if err := r.ParseForm(); err != nil {
		return Unread(err)
	}
	return nil
}

// Unread returns the fault for a form that could not be read.
func Unread(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Wrap(fault.TooLarge, "The form is too large.", err)
	}
	return fault.Wrap(fault.BadRequest, "The form could not be read.", err)
}
