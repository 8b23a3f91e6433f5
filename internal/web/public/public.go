// Package public owns the public pages: the verification of certificates, files and credentials; the
// QR code, barcode, card, badge and public files of a certificate; the files with capability URLs; and
// the offers for which people can apply. Responses never contain a recipient's e-mail address. The
// response for a failed certificate is the same as for an unknown certificate.
package public

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

//go:embed templates
var templates embed.FS

// Assets has the assets of the public pages. The files of the QR code decoder are listed
// separately, so that a build without these files fails.
//
//go:embed assets assets/qr/decode.js assets/qr/index.js
var Assets embed.FS

// example is the reference id that pages show as an example. It is practically never issued, because a
// reference id contains 80 random bits.
const example = "NWU-7K3M9QX2P4RTVW8Z"

// maxMegabytes is the maximum size in MB of a file that a browser hashes. An original has at most 20 MB, and
// its verified PDF can be larger.
const maxMegabytes = 40

// Pages has the handlers of the public pages.
type Pages struct {
	Site     *page.Site
	Accounts *account.Service
	Certs    *cert.Service
	// Applications has the offers for which people can apply.
	Applications *application.Service
	Links        *web.Links
	Limit        *limit.Counter
	Now          func() time.Time
	// Keys has the root certificates of the signatures in verified PDFs.
	Keys *authority.Authority
	// Fonts draws the texts of badges. It may be nil.
	Fonts *typeset.Fonts
	// Issuer has the credentials of certificates.
	Issuer *issuer.Service
	// Verified counts a verification of a certificate. IsMember reports whether a request comes from a
	// signed-in member of an institution, whose requests are not counted. Both are optional.
	Verified func(certificateID int64)
	IsMember func(r *http.Request, institutionID int64) bool
	// Fetcher fetches the documents that a credential refers to. If it is nil, no documents are fetched.
	Fetcher credential.Fetcher

	// Read calls a function with a context for reads that may go to a replica, see [db.DB.Read]. It is
	// optional.
	Read func(ctx context.Context, f func(ctx context.Context) error) error

	view *page.Set
	// cards limits the number of cards that are drawn concurrently, because each of them requires
	// several megabytes of memory.
	cards chan struct{}
	// verifications limits the number of credentials that are checked concurrently.
	verifications chan struct{}
	patterns      []string
}

// maxCards is the maximum number of cards that are drawn concurrently.
const maxCards = 2

// Handler returns the handler for all routes.
func (p *Pages) Handler() (http.Handler, error) {
	var err error
	if p.view, err = p.Site.Set(page.Options{
		Templates: templates, Indexed: []string{"lookup.html", "signatures.html", "offers.html", "offer.html"},
		Funcs: template.FuncMap{
			"example": func() template.HTML { return page.Code(example) }, "maxMegabytes": func() int { return maxMegabytes },
			"anchor": anchor, "checkLine": p.checkLine, "checkKey": checkKey, "ltr": leftToRight,
		},
	}); err != nil {
		return nil, err
	}
	p.cards, p.verifications = make(chan struct{}, maxCards), make(chan struct{}, maxVerifications)
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
	p.patterns = append(p.patterns, "POST /verify")
	mux.Handle("POST /verify", web.SameOrigin(p.view.Render, web.Handler(p.view.Render, p.checkCredential)))
	route("GET /verify/{reference_id}", p.verify)
	route(belowPattern, p.below)
	mux.Handle("POST /verify/{reference_id}/wallet", web.SameOrigin(p.view.Render, web.Handler(p.view.Render, p.offerToWallet)))
	p.patterns = append(p.patterns, "POST /verify/{reference_id}/wallet")
	route("GET /logos/{slug}/{digest}", p.logo)
	route("GET /files/{uuid}/{kind}", p.file)
	route("GET /apply/{institution}", p.offers)
	route("GET /apply/{institution}/{offer}", p.offer)
	route("GET /signatures", p.signatures)
	route("GET "+rootPath, p.root)
	return web.Throttled(p.Limit, p.view.Render, web.Routes(mux, p.view.Render)), nil
}

// Patterns returns the patterns of all routes. Call Handler first.
func (p *Pages) Patterns() []string { return p.patterns }

// Render writes an error as a public page, or as JSON if the client prefers JSON.
func (p *Pages) Render(w http.ResponseWriter, r *http.Request, err error) { p.view.Render(w, r, err) }

// anchor returns a link to the page of a reference id.
func anchor(g *page.Page, referenceID string) template.HTML {
	href := template.HTMLEscapeString(g.Link("/verify/" + url.PathEscape(referenceID)))
	return template.HTML(`<a href="`) + template.HTML(href) + template.HTML(`">`) + page.Code(referenceID) + template.HTML(`</a>`) //nolint:gosec // both are escaped
}

// belowPattern is the only pattern for the GET routes below a certificate's page. http.ServeMux refuses
// separate patterns, because /verify/file/{sha256} and /verify/{reference_id}/qrcode.svg both match
// /verify/file/qrcode.svg. belowPatterns has the actual routes.
const belowPattern = "GET /verify/{reference_id}/{what}"

var belowPatterns = []string{
	"GET /verify/file/{sha256}", "GET /verify/{reference_id}/qrcode.svg", "GET /verify/{reference_id}/barcode.svg",
	"GET /verify/{reference_id}/card.png", "GET /verify/{reference_id}/certificate.pdf", "GET /verify/{reference_id}/image.png",
	"GET /verify/{reference_id}/badge.svg", "GET /verify/{reference_id}/credential", "GET /verify/{reference_id}/wallet",
}

// below is the handler of belowPattern. The word "file" cannot be a reference id, because a
// reference id has sixteen characters after the prefix.
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
	case "badge.svg":
		return p.badge(w, r)
	case "credential":
		return p.credential(w, r)
	case "wallet":
		return p.wallet(w, r)
	case "certificate.pdf":
		return p.publicFile(w, r, web.PDFFile)
	case "image.png":
		return p.publicFile(w, r, web.ImageFile)
	}
	return page.ErrUnknown
}
