package page

import (
	"net/http"
	"strings"
)

// NoticeName returns the name of the notice in the cookie of a request, or "".
func NoticeName(r *http.Request) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(c.Value, ".")
	return name
}
