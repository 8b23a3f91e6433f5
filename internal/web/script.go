package web

import "net/http"

// ScriptHeader is the header of the requests of a script that shows the progress of an upload.
const ScriptHeader = "Upload-Script"

// FromScript reports whether a script sent a request with ScriptHeader.
func FromScript(r *http.Request) bool { return r.Header.Get(ScriptHeader) != "" }

// AsScript returns a writer that replaces the status 303 with 200 if a script sent the request, so that
// the script can read the header Location. With the status 303, the browser would follow the redirect.
// The script would then receive the notice of the next page, which is shown only once. For any other
// request, AsScript returns w.
func AsScript(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if FromScript(r) {
		return scriptResponse{w}
	}
	return w
}

type scriptResponse struct{ http.ResponseWriter }

// WriteHeader replaces the status 303 of a redirect with 200.
func (s scriptResponse) WriteHeader(status int) {
	if status == http.StatusSeeOther {
		status = http.StatusOK
	}
	s.ResponseWriter.WriteHeader(status)
}
