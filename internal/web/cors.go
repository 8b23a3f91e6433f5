package web

import (
	"net/http"
	"slices"
)

// What scripts of another origin may send and read beside what the Fetch
// standard lets them anyway.
const (
	corsMethods = "GET, HEAD, POST"
	corsSend    = "Authorization, Content-Type, Idempotency-Key, If-None-Match, If-Range, Range, X-Request-Id"
	corsRead    = "Content-Disposition, Content-Range, ETag, Idempotency-Replayed, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-Request-Id"
	// corsMaxAge is for how long a browser may keep a preflight's answer, in
	// seconds.
	corsMaxAge = "600"
)

// CORS lets scripts of some origins read the answers of next (Fetch, 3.3). Never
// with credentials: a token is in a header that a script sets itself, and nothing
// that a browser adds by itself opens anything here. With no origins it is next.
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
		// A preflight carries no token, and asks for nothing but this.
		SetRoute(r, "(preflight)")
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsSend)
		h.Set("Access-Control-Max-Age", corsMaxAge)
		w.WriteHeader(http.StatusNoContent)
	})
}
