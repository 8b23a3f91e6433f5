// Package public is what anyone may see: the verification of a certificate as
// a page and as JSON, its QR code and barcode, and the files behind capability
// URLs. It never shows an e-mail address, and of what failed or never was it
// says the same: nothing.
package public

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

//go:embed templates
var templates embed.FS

// Assets are those of the public pages alone. The decoder is named so that a
// build without it fails.
//
//go:embed assets assets/qr/decode.js assets/qr/index.js
var Assets embed.FS

// example is a reference id that belongs to nobody: its last sixteen are not
// random.
const example = "NWU-7K3M9QX2P4RTVW8Z"

// mostMegabytes bounds a file that a browser hashes: an original of 20 MB, and
// as much again of tail and to spare.
const mostMegabytes = 40

// Pages serves the public pages.
type Pages struct {
	Site     *page.Site
	Accounts *account.Service
	Certs    *cert.Service
	Links    *web.Links
	Limit    *limit.Counter
	Now      func() time.Time
	// Keys has the root that vouches for signatures.
	Keys *authority.Authority

	view *page.Set
	// cards bounds how many cards are drawn at once: each takes some megabytes.
	cards    chan struct{}
	patterns []string
}

// cardsAtOnce is how many cards are drawn at once.
const cardsAtOnce = 2

// Handler gives the routes.
func (p *Pages) Handler() (http.Handler, error) {
	var err error
	if p.view, err = p.Site.Set(page.Options{
		Templates: templates, Indexed: []string{"lookup.html", "signatures.html"},
		Funcs: template.FuncMap{
			"example": func() template.HTML { return page.Code(example) }, "mostMegabytes": func() int { return mostMegabytes },
			"anchor": anchor,
		},
	}); err != nil {
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
		mux.Handle(pattern, web.Handler(p.view.Render, f))
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
	return web.Throttled(p.Limit, p.view.Render, web.Routes(mux, p.view.Render)), nil
}

// Patterns lists the routes that Handler made, but for styles and pictures.
func (p *Pages) Patterns() []string { return p.patterns }

// Render answers an error as these pages do.
func (p *Pages) Render(w http.ResponseWriter, r *http.Request, err error) { p.view.Render(w, r, err) }

// anchor links to the page of a reference id.
func anchor(g *page.Page, referenceID string) template.HTML {
	href := template.HTMLEscapeString(g.Link("/verify/" + url.PathEscape(referenceID)))
	return template.HTML(`<a href="`) + template.HTML(href) + template.HTML(`">`) + page.Code(referenceID) + template.HTML(`</a>`) //nolint:gosec // both are escaped
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
	return page.ErrUnknown
}
