// Package panel is where the members of an institution work with it, and the
// operators with the installation. It owns pages and what is asked before one is
// shown: who is signed in, what they are in the institution, what that lets them
// do. Deeds and their rules belong to the domains: a handler reads a form, calls
// an operation, and leads on. It speaks English alone.
//
// # How to add a page
//
//  1. Write its line in the table of routes.go: method and path, the permission
//     it needs, its handler. "recent" asks again for a password first, where a
//     secret is shown or made.
//  2. Write the handler: func (p *Panel) things(w http.ResponseWriter, r
//     *http.Request, v *Visit) error. v.Institution() is the institution, and every
//     query names its id: another institution's record is not found.
//  3. Write templates/things.html, which defines "title" and "main". Its heading is
//     in a <div class="head">; parts.html has what pages share (copy, badge, pager,
//     asks), panel.css how they look: card, list, tabs, empty, facts, timeline.
//  4. A form is shown by p.draw and once more, with what is wrong with it, by
//     p.again; a deed that is done ends in p.lead to a page with a notice, whose text is
//     in notices (notice.go). What cannot be undone asks on a page of its own, by name.
//  5. Its entry in the navigation is in nav.go; it shows when the route is there and
//     the member may go there.
//  6. TestWhoMayGoWhere walks every route of the table by role and by institution: a
//     path with a new {name} in it needs a sample there. Add the page to
//     test/quality/fixture.go, so that it is judged and photographed.
package panel

import (
	"context"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/intake"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
	"github.com/certvault/certvault/internal/webhook"
)

//go:embed templates
var templates embed.FS

// Assets are those of the panel alone.
//
//go:embed assets
var Assets embed.FS

// Person is who is signed in.
type Person struct {
	ID          int64
	UUID        string
	Name, Email string
	// Operator is set of those who see the installation.
	Operator bool
}

// Gate tells who is signed in, and asks who is not.
type Gate interface {
	// Person gives who is signed in, false for nobody.
	Person(r *http.Request) (Person, bool)
	// Require asks for a sign-in before a handler; RequireRecent for one, or a
	// confirmation of it, that is not long ago; RequireFilledIn for one that may be
	// as long ago as it takes to fill in a form which RequireRecent let open.
	Require(f web.Func) web.Func
	RequireRecent(f web.Func) web.Func
	RequireFilledIn(f web.Func) web.Func
}

// Members tells to which institutions a person belongs, and as what.
type Members interface {
	Memberships(ctx context.Context, userID int64) ([]account.Membership, error)
}

// Finder finds certificates by what people have of them.
type Finder interface {
	ByUUID(ctx context.Context, institutionID int64, uuid string) (*cert.Certificate, error)
	ByReference(ctx context.Context, typed string) (*cert.Certificate, error)
}

// Panel serves the panel's pages.
type Panel struct {
	Access

	Site    *page.Site
	Gate    Gate
	Members Members
	Tokens  *token.Service
	Hooks   *webhook.Service
	// Certs, Batches and Intake are the vault at work.
	Certs   *cert.Service
	Batches *batch.Service
	Intake  *intake.Service
	// Links gives the addresses that the public has.
	Links *web.Links
	Find  Finder
	// Keys has the institutions' signing keys; RotateKey makes the next one of an
	// institution, and records it.
	Keys      *authority.Authority
	RotateKey func(ctx context.Context, inst *account.Institution) error
	// Mail is what people are sent about their certificates.
	Mail *recipient.Service
	// Limit counts the requests of each person.
	Limit *limit.Counter
	// Stopping is closed when the server stops: what would go on for minutes ends.
	Stopping <-chan struct{}
	// BaseURL is the address of the vault.
	BaseURL string
	Now     func() time.Time
	Log     *slog.Logger

	view     *page.Set
	table    []route
	patterns []string
}

// Prefixes are below what all pages of the panel are.
var Prefixes = []string{"/panel", "/operator", "/invitation", "/setup"}

// Handler gives the routes.
func (p *Panel) Handler() (http.Handler, error) {
	p.table = slices.Concat(p.routes(), p.accessRoutes(), p.vaultRoutes())
	var err error
	if p.view, err = p.Site.Set(page.Options{
		Templates: templates, English: true, Styles: []string{"form.css", "panel.css"}, Modules: []string{"panel.js"},
		Funcs:  template.FuncMap{"ago": p.ago, "plural": plural, "number": number, "host": host, "size": size, "status": statusOf, "breaks": breaks},
		Person: p.person, Frame: p.frame, Notices: notices,
	}); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, one := range p.table {
		p.patterns = append(p.patterns, one.pattern)
		mux.Handle(one.pattern, web.Handler(p.view.Render, p.guard(one)))
	}
	return web.SameOrigin(p.view.Render, web.Routes(mux, p.view.Render)), nil
}

// Patterns lists the routes that Handler made.
func (p *Panel) Patterns() []string { return p.patterns }

func (p *Panel) draw(w http.ResponseWriter, r *http.Request, name string, data any) error {
	return p.view.Draw(w, r, http.StatusOK, name, data)
}

// again shows a form once more with its problems.
func (p *Panel) again(w http.ResponseWriter, r *http.Request, name string, data any, err error) error {
	return p.view.Again(w, r, name, data, worded(err, r.PostForm))
}

// lead leads to a page of the visit's institution, which tells a notice with its
// numbers.
func (p *Panel) lead(w http.ResponseWriter, r *http.Request, v *Visit, path, notice string, numbers ...int) error {
	if r.Header.Get(scriptHeader) != "" {
		w = scripted{w}
	}
	return p.view.Redirect(w, r, v.Path(path), notice, numbers...)
}

// scriptHeader is sent by the script that shows how far an upload is. What it is
// led to it has the browser open itself: were it to follow, it would use up the
// notice.
const scriptHeader = "Upload-Script"

// scripted answers with the address alone.
type scripted struct{ http.ResponseWriter }

// WriteHeader keeps the script from being led on.
func (s scripted) WriteHeader(status int) {
	if status == http.StatusSeeOther {
		status = http.StatusOK
	}
	s.ResponseWriter.WriteHeader(status)
}
