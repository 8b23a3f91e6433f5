package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/certvault/certvault/internal/fault"
)

// Header is a request header that an institution adds to the deliveries of an endpoint, such as a
// key for its gateway.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const (
	maxCustom      = 10
	maxCustomName  = 100
	maxCustomValue = 1000
	// hidden replaces the value of a custom header in the log.
	hidden = "(hidden)"
)

// reserved are the headers that Certvault or the HTTP transport uses. Headers that begin with
// x-webhook- or webhook- are reserved too.
var reserved = map[string]bool{
	"accept": true, "accept-encoding": true, "connection": true, "content-encoding": true, "content-length": true, "content-type": true,
	"date": true, "expect": true, "host": true, "http2-settings": true, "keep-alive": true, "idempotency-key": true, "x-idempotency-key": true,
	"proxy-authorization": true, "proxy-connection": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"user-agent": true, "via": true,
}

// checkHeaders refuses too many headers, invalid names and values, reserved headers and duplicates.
func checkHeaders(bad *fault.Fields, list []Header) {
	if len(list) > maxCustom {
		bad.Add("headers", fmt.Sprintf("There must not be more than %d headers.", maxCustom))
	}
	seen := map[string]bool{}
	for _, h := range list {
		folded := strings.ToLower(h.Name)
		switch {
		case len(h.Name) > maxCustomName || !httpguts.ValidHeaderFieldName(h.Name):
			bad.Add("headers", fmt.Sprintf("%.100q is not a valid header name.", h.Name))
		case reserved[folded], strings.HasPrefix(folded, "x-webhook-"), strings.HasPrefix(folded, "webhook-"):
			bad.Add("headers", fmt.Sprintf("The header %s is reserved.", h.Name))
		case seen[folded]:
			bad.Add("headers", fmt.Sprintf("The header %s is listed twice.", h.Name))
		case len(h.Value) > maxCustomValue || !httpguts.ValidHeaderFieldValue(h.Value):
			bad.Add("headers", fmt.Sprintf("The value of %s must be text on one line with at most %d characters.", h.Name, maxCustomValue))
		}
		seen[folded] = true
	}
}

// maxLogged is the maximum size in bytes of each of these parts in the log of an attempt: the request
// headers, the response headers and the response body.
const maxLogged = 4 << 10

// logged returns headers as JSON for the log, without the values of custom headers. If the headers have
// more than maxLogged bytes, some headers are omitted.
func logged(h http.Header, custom []Header) (string, error) {
	if len(custom) > 0 {
		h = h.Clone()
		for _, c := range custom {
			h[c.Name] = []string{hidden}
		}
	}
	limited, size := make(http.Header, len(h)), 0
	for name, values := range h {
		for _, v := range values {
			if size += len(name) + len(v); size > maxLogged {
				break
			}
			limited[name] = append(limited[name], v)
		}
	}
	text, err := json.Marshal(limited)
	if err != nil {
		return "", fmt.Errorf("writing headers: %w", err)
	}
	return string(text), nil
}
