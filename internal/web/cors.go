package web

import (
	"net/http"
	"slices"
)

// Scripts of another origin may use the methods corsMethods, send the request headers corsSend, and read
// the response headers corsRead. The Fetch standard allows a few other headers without a list.
const (
	corsMethods = "GET, HEAD, POST"
	corsSend    = "Authorization, Content-Type, Idempotency-Key, If-None-Match, If-Range, Range, X-Request-Id"
	corsRead    = "Content-Disposition, Content-Range, ETag, Idempotency-Replayed, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-Request-Id"
	// corsMaxAge is the time in seconds for which a browser may cache the response to a preflight
	// request.
	corsMaxAge = "600"
)

// CORS allows scripts of the given origins to read the responses of next (Fetch, 3.3), and responds
// to their preflight requests. Without origins, CORS returns next.
//
// CORS does not allow credentials that a browser adds, such as cookies, because the API does not accept
// them. A script sets the token in a header.
func CORS(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if !slices.Contains(origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			h.Set("Access-Control-Expose-Headers", corsRead)
			next.ServeHTTP(w, r)
			return
		}
		// A preflight request has no token, so next would refuse it.
		SetRoute(r, "(preflight)")
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsSend)
		h.Set("Access-Control-Max-Age", corsMaxAge)
		w.WriteHeader(http.StatusNoContent)
	})
}
