package web

import (
	"net/http"

	"github.com/certvault/certvault/internal/fault"
)

var errForeign = fault.New(fault.Forbidden, "This request came from another site. Open the page here and try again.")

// SameOrigin rejects requests that a page of another origin sends, except GET, HEAD and OPTIONS. It checks
// the header Sec-Fetch-Site, or Origin if Sec-Fetch-Site is missing.
func SameOrigin(render Renderer, next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(Handler(render, func(http.ResponseWriter, *http.Request) error { return errForeign }))
	return protection.Handler(next)
}
