package web

import (
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
