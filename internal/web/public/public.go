// Package public is what anyone may see: the verification of a certificate as
// a page and as JSON, its QR code and barcode, and the files behind capability
// URLs. It never shows an e-mail address, and of what failed or never was it
// says the same: nothing.
package public

import (
	"net/http"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
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
	// cards bounds how many cards are drawn at once: each takes some megabytes.
	cards    chan struct{}
	patterns []string
}

// cardsAtOnce is how many cards are drawn at once.
const cardsAtOnce = 2

// Handler gives the routes.
func (p *Pages) Handler() (http.Handler, error) {
	var err error
	if p.view, err = newView(); err != nil {
		return nil, err
	}
	p.cards = make(chan struct{}, cardsAtOnce)
	mux := http.NewServeMux()
	route := func(pattern string, f web.Func) {
		if pattern == belowPattern {
			p.patterns = append(p.patterns, belowPatterns...)
		} else {
			p.patterns = append(p.patterns, pattern)
		}
		mux.Handle(pattern, web.Handler(p.render, f))
	}
	route("GET /{$}", func(w http.ResponseWriter, r *http.Request) error {
		http.Redirect(w, r, "/verify", http.StatusSeeOther)
		return nil
	})
	route("GET /verify", p.lookUp)
	route("GET /verify/{reference_id}", p.verify)
	route(belowPattern, p.below)
	route("GET /logos/{slug}/{digest}", p.logo)
	route("GET /files/{uuid}/{kind}", p.file)
	route("GET /signatures", p.signatures)
	route("GET "+rootPath, p.root)
	route("GET /setup", p.setup)
	for _, pattern := range []string{"GET /assets/{version}/{file}", "GET /assets/{version}/{folder}/{file}"} {
		mux.Handle(pattern, web.Handler(p.render, p.view.asset))
	}
	return p.throttle(web.Routes(mux, p.render)), nil
}

// Patterns lists the routes that Handler made, but for styles and pictures.
func (p *Pages) Patterns() []string { return p.patterns }

// throttle counts the requests of an address, also those that lead nowhere. What
// a page brings along, and is kept for good, does not count.
func (p *Pages) throttle(next http.Handler) http.Handler {
	return web.Handler(p.render, func(w http.ResponseWriter, r *http.Request) error {
		if !strings.HasPrefix(r.URL.Path, "/assets/") {
			if err := web.Throttle(w, p.Limit, limit.AddressKey(web.Client(r))); err != nil {
				web.SetRoute(r, "(throttled)")
				return err
			}
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// belowPattern is the route of all that lies below a certificate's page: a mux
// takes no route for it that could be a reference id's as well. belowPatterns are
// what there is.
const belowPattern = "GET /verify/{reference_id}/{what}"

var belowPatterns = []string{
	"GET /verify/file/{sha256}", "GET /verify/{reference_id}/qrcode.svg", "GET /verify/{reference_id}/barcode.svg",
	"GET /verify/{reference_id}/card.png", "GET /verify/{reference_id}/certificate.pdf", "GET /verify/{reference_id}/image.png",
}

// below serves what lies below a certificate's page, and the look-up of files:
// "file" is no reference id, since it lacks sixteen characters.
func (p *Pages) below(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("reference_id") == "file" {
		return p.digest(w, r)
	}
	switch r.PathValue("what") {
	case "qrcode.svg":
		return p.qrCode(w, r)
	case "barcode.svg":
		return p.barcode(w, r)
	case "card.png":
		return p.card(w, r)
	case "certificate.pdf":
		return p.publicFile(w, r, web.PDFFile)
	case "image.png":
		return p.publicFile(w, r, web.ImageFile)
	}
	return errUnknownPage
}
