// Package signin owns the pages for signing in, signing up, resetting a password, and managing the sign-in
// to an account. These pages are the same for recipients, members and operators. The package also owns the
// cookies that identify a browser. Before handlers of other packages show a page, they use this package to
// check whether a person is signed in, and whether the sign-in is recent.
//
// A mailed link opens a page with a form, which the person must submit. A GET request does not make the
// link invalid, because programs may open the links of a mail before the person does.
package signin

import (
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/limit"
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

// Pages serves the pages and contains their dependencies.
type Pages struct {
	Site   *page.Site
	People *identity.Service
	// Limit counts the requests of each client address.
	Limit *limit.Counter
	Now   func() time.Time

	view     *page.Set
	patterns []string
}

// Prefixes are the path prefixes of these pages.
var Prefixes = []string{"/sign-in", "/sign-up", "/sign-out", "/reset", "/account/security", "/account/confirm", "/account/address", "/account/addresses"}

// maxForm is the maximum size of a form, or of the response of a passkey, in bytes.
const maxForm = 64 << 10

// Handler loads the templates and returns the handler of all routes.
func (p *Pages) Handler() (http.Handler, error) {
	var err error
	if p.view, err = p.Site.Set(page.Options{
		Templates: templates, Styles: []string{"form.css", "signin.css"}, Modules: []string{"signin.js"}, Person: p.reader, Notices: notices,
		Funcs: template.FuncMap{"join": func(list []string) string { return strings.Join(list, "\n") }},
	}); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	route := func(pattern string, f web.Func) {
		p.patterns = append(p.patterns, pattern)
		mux.Handle(pattern, web.Handler(p.view.Render, p.limited(f)))
	}
	route("GET /sign-in", p.signInPage)
	route("POST /sign-in", p.signIn)
	route("POST /sign-in/link", p.requestSignInLink)
	route("GET /sign-in/sent", p.sentPage)
	route("GET /sign-in/link/{token}", p.linkPage)
	route("POST /sign-in/link/{token}", p.useLink)
	route("GET /sign-in/code", p.codePage)
	route("POST /sign-in/code", p.code)
	route("POST /sign-in/passkey", p.passkey)
	route("POST /sign-in/passkey/options", p.passkeyOptions)
	route("POST /sign-out", p.signOut)

	route("GET /sign-up", p.signUpPage)
	route("POST /sign-up", p.requestSignUpLink)
	route("GET /sign-up/sent", p.sentPage)
	route("GET /sign-up/{token}", p.joinPage)
	route("POST /sign-up/{token}", p.join)

	route("GET /reset", p.resetPage)
	route("POST /reset", p.requestResetLink)
	route("GET /reset/sent", p.sentPage)
	route("GET /reset/{token}", p.newPasswordPage)
	route("POST /reset/{token}", p.newPassword)

	route("GET /account/confirm", p.Require(p.confirmPage))
	route("POST /account/confirm", p.Require(p.confirm))
	route("POST /account/confirm/link", p.Require(p.confirmLink))
	route("POST /account/confirm/passkey", p.Require(p.confirmPasskey))

	route("GET /account/security", p.Require(p.security))
	route("POST /account/security/name", p.Require(p.setName))
	route("POST /account/security/language", p.Require(p.setLanguage))
	route("POST /account/security/password", p.RequireRecent(p.setPassword))
	route("POST /account/security/address", p.RequireRecent(p.requestAddressChange))
	route("GET /account/address/{token}", p.Require(p.addressPage))
	route("POST /account/address/{token}", p.Require(p.changeAddress))
	route("POST /account/security/addresses", p.RequireRecent(p.requestAddress))
	route("POST /account/security/addresses/remove", p.RequireRecent(p.removeAddress))
	route("GET /account/addresses/{token}", p.Require(p.furtherPage))
	route("POST /account/addresses/{token}", p.Require(p.addAddress))
	route("POST /account/security/passkeys/options", p.RequireRecent(p.newPasskeyOptions))
	route("POST /account/security/passkeys", p.RequireRecent(p.addPasskey))
	route("POST /account/security/passkeys/remove", p.RequireRecent(p.removePasskey))
	route("POST /account/security/codes/begin", p.RequireRecent(p.beginCodes))
	route("GET /account/security/codes", p.RequireRecent(p.codesPage))
	route("POST /account/security/codes", p.RequireRecent(p.confirmCodes))
	route("POST /account/security/codes/end", p.RequireRecent(p.endCodes))
	route("POST /account/security/codes/recovery", p.RequireRecent(p.newRecovery))
	route("POST /account/security/sessions/end", p.Require(p.endSession))
	route("POST /account/security/sessions/end-others", p.Require(p.endOthers))

	return web.Throttled(p.Limit, p.view.Render, web.SameOrigin(p.view.Render, web.Routes(mux, p.view.Render))), nil
}

// Patterns returns the patterns of all routes. Call Handler first.
func (p *Pages) Patterns() []string { return p.patterns }

// limited limits the size of the body and parses a form before the handler runs. It prevents
// caching of the response, keeps the secret of a mailed link out of the Referer header, and adds
// the origin of the request for the audit log.
func (p *Pages) limited(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-store")
		if r.PathValue("token") != "" {
			w.Header().Set("Referrer-Policy", "no-referrer")
		}
		if err := body.ParseForm(w, r, maxForm); err != nil {
			return err
		}
		return f(w, r.WithContext(audit.WithActor(r.Context(), audit.Actor{Type: audit.User, Address: web.Client(r), RequestID: web.RequestID(r)})))
	}
}

// draw writes a page.
func (p *Pages) draw(w http.ResponseWriter, r *http.Request, name string, data any) error {
	return p.view.Draw(w, r, http.StatusOK, name, data)
}

// again shows a form again with its problems.
func (p *Pages) again(w http.ResponseWriter, r *http.Request, name string, data any, err error) error {
	return p.view.ShowAgain(w, r, name, data, translate(err))
}
