// Package public is what anyone may see: the verification of a certificate as
// a page and as JSON, its QR code and barcode, and the files behind capability
// URLs. It never shows an e-mail address, and of what failed or never was it
// says the same: nothing.
package public

import (
	"net/http"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
)

// Pages serves the public pages.
type Pages struct {
	Accounts *account.Service
	Certs    *cert.Service
	Links    *web.Links
	Limit    *limit.Counter
	Now      func() time.Time
	// Keys has the root that vouches for signatures.
	Keys *authority.Authority
	// SetupRemote lets the set-up link be used from other machines.
	SetupRemote bool

	view *view
}

// Handler gives the routes.
func (p *Pages) Handler() (http.Handler, error) {
	var err error
	if p.view, err = newView(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	route := func(pattern string, f web.Func) {
		mux.Handle(pattern, web.Handler(p.render, func(w http.ResponseWriter, r *http.Request) error {
			if err := p.throttle(w, r); err != nil {
				return err
			}
			return f(w, r)
		}))
	}
	route("GET /{$}", func(w http.ResponseWriter, r *http.Request) error {
		http.Redirect(w, r, "/verify", http.StatusSeeOther)
		return nil
	})
	route("GET /verify", p.lookUp)
	route("GET /verify/{reference_id}", p.verify)
	route("GET /verify/{reference_id}/qrcode.svg", p.qrCode)
	route("GET /verify/{reference_id}/barcode.svg", p.barcode)
	route("GET /files/{uuid}/{kind}", p.file)
	route("GET /signatures", p.signatures)
	route("GET "+rootPath, p.root)
	route("GET /setup", p.setup)
	mux.Handle("GET /assets/{file}", web.Handler(p.render, p.view.asset))
	return web.Routes(mux, p.render), nil
}

func (p *Pages) throttle(w http.ResponseWriter, r *http.Request) error {
	answer := p.Limit.Take(limit.AddressKey(web.Client(r)))
	if answer.Limit > 0 {
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(answer.Limit))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(answer.Remaining))
	}
	if !answer.Allowed {
		return &fault.Error{Kind: fault.TooMany, Message: "Too many requests from this address. Please wait a moment.", RetryAfter: answer.RetryAfter}
	}
	return nil
}
