// Package recipient owns the pages for recipients and applicants, and for people with whom they share
// certificates: the certificates of a mailed link, without an account; the certificates, applications and
// portfolio of an account; share links; and the export and the deletion of an account. It also owns the
// hook for reports of mail that could not be delivered. The rules are in the packages
// internal/recipient and internal/application.
//
// Programs follow the links in a mail before a person does. Therefore a GET request for a mailed link only
// records that the link was opened. The secret in a path grants access to the page, so the pages make
// browsers send no Referer header.
package recipient

import (
	"embed"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
	"github.com/certvault/certvault/internal/web/page"
)

//go:embed templates
var templates embed.FS

// Assets are the assets of these pages.
//
//go:embed assets
var Assets embed.FS

// Gate identifies the signed-in person, and protects handlers with a sign-in.
type Gate interface {
	// Person returns the session of the signed-in person, or false.
	Person(r *http.Request) (*identity.Session, bool)
	// Require returns a handler that requires a sign-in and then calls f. RequireRecent returns a
	// handler that requires a recent sign-in or confirmation.
	Require(f web.Func) web.Func
	RequireRecent(f web.Func) web.Func
}

// Pages serves the pages and holds their dependencies.
type Pages struct {
	Site       *page.Site
	Gate       Gate
	Recipients *recipient.Service
	People     *identity.Service
	Accounts   *account.Service
	Certs      *cert.Service
	// Applications has the offers for which people apply, and their applications.
	Applications *application.Service
	Mailer       *mail.Mailer
	Links        *web.Links
	// Verifications has the numbers of verifications.
	Verifications *verification.Service
	// Issuer has the credentials of certificates.
	Issuer *issuer.Service
	// Limit counts the requests of each address.
	Limit *limit.Counter
	// BounceToken is the secret for reports of mail that could not be delivered. If it is empty, no
	// reports are accepted.
	BounceToken string
	Now         func() time.Time
	Log         *slog.Logger

	// secret has the pages that require no sign-in, such as the pages of secret links. signedIn has the
	// pages of an account.
	secret, signedIn *page.Set
	patterns         []string
}

// Prefixes are the path prefixes of these pages. Paths that begin with a prefix of package signin belong to
// that package.
var Prefixes = []string{"/c", "/s", "/unsubscribe", "/account", "/hooks", "/p"}

const (
	// maxForm is the maximum size in bytes of a form without files. maxReport is the maximum size in bytes
	// of a report to the hook.
	maxForm   = 64 << 10
	maxReport = 256 << 10
)

// notices maps the name of a notice that is shown after a redirect to the key of its message.
var notices = map[string]string{
	"share_revoked": "recipient.share_was_revoked", "correction_sent": "recipient.correction_sent", "mailed_ended": "recipient.mailed_ended",
	"replaced":          "replaced.notice",
	"application_saved": "my_application.draft_saved", "application_file_removed": "my_application.file_removed", "application_open": "my_application.problem_open",
	"application_answered": "my_application.answer_sent", "application_withdrawn": "my_application.was_withdrawn",
	"portfolio_saved": "portfolio.saved", "portfolio_add": "portfolio.added", "portfolio_remove": "portfolio.removed",
	"portfolio_up": "portfolio.moved", "portfolio_down": "portfolio.moved",
}

// Handler loads the templates and returns the handler of all routes.
func (p *Pages) Handler() (http.Handler, error) {
	funcs := maps.Clone(applyFuncs)
	funcs["stateOf"] = p.stateOf
	options := page.Options{
		Templates: templates, Styles: []string{"form.css", "recipient.css"}, Notices: notices, Funcs: funcs,
		Indexed: []string{"share_public.html", "portfolio_public.html"},
	}
	var err error
	if p.secret, err = p.Site.Set(options); err != nil {
		return nil, err
	}
	options.Person = p.reader
	if p.signedIn, err = p.Site.Set(options); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	route := func(view *page.Set, pattern string, f web.Func) {
		p.patterns = append(p.patterns, pattern)
		mux.Handle(pattern, web.Handler(view.Render, p.limited(maxForm, f)))
	}
	route(p.secret, "GET /c/{token}", p.link)
	for base, set := range map[string]struct {
		view  *page.Set
		guard func(web.Func) web.Func
	}{
		"/c/{token}/{uuid}":            {p.secret, func(f web.Func) web.Func { return f }},
		"/account/certificates/{uuid}": {p.signedIn, p.Gate.Require},
	} {
		route(set.view, "GET "+base, set.guard(p.certificate))
		route(set.view, "GET "+base+"/{file}", set.guard(p.file))
		route(set.view, "GET "+base+"/wallet", set.guard(p.wallet))
		route(set.view, "POST "+base+"/wallet", set.guard(p.offerToWallet))
		route(set.view, "POST "+base+"/shares", set.guard(p.createShare))
		route(set.view, "POST "+base+"/shares/{share}/revoke", set.guard(p.revokeShare))
		route(set.view, "POST "+base+"/correction", set.guard(p.correct))
	}
	route(p.signedIn, "POST /account/certificates/{uuid}/mailed/end", p.Gate.Require(p.endMailLink))
	route(p.secret, "GET /s/{token}", p.share)
	route(p.secret, "GET /s/{token}/{file}", p.shareFile)
	route(p.secret, "GET /unsubscribe/{token}", p.unsubscribePage)
	route(p.secret, "POST /unsubscribe/{token}", p.unsubscribe)

	route(p.signedIn, "GET /account", p.Gate.Require(p.accountCertificates))
	route(p.signedIn, "GET /account/export", p.Gate.Require(p.exportPage))
	route(p.signedIn, "POST /account/export", p.Gate.RequireRecent(p.export))
	route(p.signedIn, "GET /account/delete", p.Gate.RequireRecent(p.deletePage))
	route(p.signedIn, "POST /account/delete", p.Gate.RequireRecent(p.delete))
	route(p.secret, "GET /account/deleted", func(w http.ResponseWriter, r *http.Request) error {
		return p.secret.Draw(w, r, http.StatusOK, "deleted.html", nil)
	})
	p.applyRoutes(route)
	p.portfolioRoutes(route)
	for _, pattern := range []string{"POST /hooks/bounce", "POST /hooks/bounce/{token}"} {
		p.patterns = append(p.patterns, pattern)
		mux.Handle(pattern, web.Handler(web.WriteJSONError, p.bounce))
	}
	return web.Throttled(p.Limit, p.secret.Render, web.SameOrigin(p.secret.Render, web.Routes(mux, p.secret.Render))), nil
}

// routeFunc adds a route.
type routeFunc func(view *page.Set, pattern string, f web.Func)

// applyRoutes adds the routes for people who apply for a certificate.
func (p *Pages) applyRoutes(route routeFunc) {
	// This page requires no sign-in, because it asks a person without a session for an e-mail address.
	route(p.signedIn, "GET /account/apply/{institution}/{offer}", p.forOffer(p.apply))
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request, *offering) error{
		"POST /account/apply/{institution}/{offer}": p.saveApplication, "GET /account/apply/{institution}/{offer}/review": p.reviewApplication,
		"POST /account/apply/{institution}/{offer}/send": p.sendApplication,
	} {
		route(p.signedIn, pattern, p.Gate.Require(p.forVerified(p.forOffer(f))))
	}
	for pattern, f := range map[string]web.Func{
		"GET /account/applications": p.applications, "GET /account/applications/{uuid}": p.applicationPage, "GET /account/applications/{uuid}/sent": p.applicationSent,
		"POST /account/applications/{uuid}/answer": p.answer, "GET /account/applications/{uuid}/withdraw": p.withdrawPage,
		"POST /account/applications/{uuid}/withdraw": p.withdraw, "GET /account/applications/{uuid}/files/{file}": p.applicationFile,
	} {
		route(p.signedIn, pattern, p.Gate.Require(f))
	}
}

// Patterns returns the patterns of all routes. Call Handler first.
func (p *Pages) Patterns() []string { return p.patterns }

// limited returns a handler that parses a form of at most maxSize bytes, and then calls f. It prevents
// caching of the response, and adds the actor for the audit log to the context. It does not parse a form
// with files.
func (p *Pages) limited(maxSize int64, f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-store")
		if err := body.ParseForm(w, r, maxSize); err != nil {
			return err
		}
		return f(w, r.WithContext(audit.WithActor(r.Context(), audit.Actor{Type: audit.User, Address: web.Client(r), RequestID: web.RequestID(r)})))
	}
}

// reader returns the signed-in person for pages, or nil.
func (p *Pages) reader(r *http.Request) *page.Person {
	s, ok := p.Gate.Person(r)
	if !ok {
		return nil
	}
	return &page.Person{Name: s.Person.Name, Email: s.Person.Email, Language: s.Person.Language, Member: s.Person.Member, Operator: s.Person.Operator}
}

// problems maps a field to the key of the message about its problem.
var problems = map[string]string{
	"label": "recipient.problem_label", "expires": "recipient.problem_expires", "text": "recipient.problem_text", "confirm": "recipient.problem_confirm",
	"search": "recipient.problem_search", "display_name": "portfolio.problem_name", "slug": "portfolio.problem_slug",
}

// translate replaces the texts of an error with keys of the catalog. Texts without a key stay the same.
func translate(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	translated := *e
	switch {
	case errors.Is(err, recipient.ErrManyShares):
		translated.Message = "recipient.many_links"
	case errors.Is(err, recipient.ErrManyEntries):
		translated.Message = "portfolio.full"
	case e.Kind == fault.TooMany:
		translated.Message = "recipient.too_many"
	case e.Kind == fault.BadRequest:
		translated.Message = "recipient.not_now"
	}
	translated.Fields = nil
	for _, f := range e.Fields {
		if key, ok := problems[f.Name]; ok {
			f.Messages = []string{key}
		}
		translated.Fields = append(translated.Fields, f)
	}
	return &translated
}
