// Package panel serves the pages on which members work with their institution and operators with
// the installation. It owns these pages and their access checks: sign-in, membership, permission.
// Operations and their rules belong to the domain packages: a handler reads a form, calls an
// operation and redirects. The panel is in English only.
//
// # How to add a page
//
//  1. Add a line to the table in routes.go: method and path, the required
//     permission, the handler. Set "recent" where a secret is shown or made: it
//     requires a recent sign-in.
//  2. Write the handler: func (p *Panel) things(w http.ResponseWriter, r
//     *http.Request, v *Visit) error. v.Institution() is the institution. Every
//     query filters by its id, so that another institution's record is not found.
//  3. Write templates/things.html, which defines "title" and "main". Its heading is
//     in a <div class="head">. parts.html contains the shared parts (copy, badge,
//     pager, asks), panel.css their styles: card, list, tabs, empty, facts, timeline.
//  4. p.draw shows a form; p.showAgain shows it once more with its problems. A completed
//     action ends in p.redirect, which redirects to a page with a notice from notices
//     (notice.go). An irreversible action has a page of its own that asks for
//     confirmation by name.
//  5. Add its entry in the navigation to nav.go. It shows if the route exists and
//     the member has access.
//  6. TestAccess walks every route of the table by role and by institution: a
//     path with a new {name} needs a sample there. Add the page to
//     test/quality/fixture.go, so that it is checked and photographed.
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
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
	"github.com/certvault/certvault/internal/webhook"
)

//go:embed templates
var templates embed.FS

// Assets are the assets that only the panel uses.
//
//go:embed assets
var Assets embed.FS

// Person is a signed-in person.
type Person struct {
	ID          int64
	UUID        string
	Name, Email string
	// Operator reports whether the person may see the installation.
	Operator bool
}

// Gate identifies the signed-in person, and sends others to the sign-in.
type Gate interface {
	// Person returns the signed-in person, and false if there is none.
	Person(r *http.Request) (Person, bool)
	// Require wraps a handler that needs a sign-in. RequireRecent wraps one that needs a recent
	// sign-in or confirmation. RequireFilledIn wraps one that receives a form shown under
	// RequireRecent; it allows for the time to fill in the form.
	Require(f web.Func) web.Func
	RequireRecent(f web.Func) web.Func
	RequireFilledIn(f web.Func) web.Func
}

// Members returns the memberships of a person.
type Members interface {
	Memberships(ctx context.Context, userID int64) ([]account.Membership, error)
}

// Finder finds certificates by id, reference id or text.
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
	// Certs, Search, Tasks, Batches and Intake are the services of the vault.
	Certs       *cert.Service
	Search      *search.Service
	Tasks       *task.Service
	Batches     *batch.Service
	BulkImports *bulkimport.Service
	// Links returns public addresses.
	Links *web.Links
	Find  Finder
	// Keys contains the institutions' signing keys. RotateKey makes the next key of an institution
	// and records this.
	Keys      *authority.Authority
	RotateKey func(ctx context.Context, inst *account.Institution) error
	// Mail is the service for mail to recipients.
	Mail *recipient.Service
	// Limit counts the requests of each person.
	Limit *limit.Counter
	// Stopping is closed when the server stops. It ends responses that would take minutes.
	Stopping <-chan struct{}
	// BaseURL is the vault's base URL.
	BaseURL string
	Now     func() time.Time
	Log     *slog.Logger

	view     *page.Set
	table    []route
	patterns []string
}

// Prefixes are the path prefixes of all pages of the panel.
var Prefixes = []string{"/panel", "/operator", "/invitation", "/setup"}

// Handler returns the handler for all routes.
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

// showAgain shows a form once more, with its problems.
func (p *Panel) showAgain(w http.ResponseWriter, r *http.Request, name string, data any, err error) error {
	return p.view.Again(w, r, name, data, worded(err, r.PostForm))
}

// redirect redirects to a page of the visit's institution, which shows a notice with its numbers.
func (p *Panel) redirect(w http.ResponseWriter, r *http.Request, v *Visit, path, notice string, numbers ...int) error {
	if r.Header.Get(scriptHeader) != "" {
		w = scripted{w}
	}
	return p.view.Redirect(w, r, v.Path(path), notice, numbers...)
}

// scriptHeader is sent by the script that shows the progress of an upload. The script lets the
// browser open the target of a redirect: a request by the script would consume the notice.
const scriptHeader = "Upload-Script"

// scripted responds with the address only.
type scripted struct{ http.ResponseWriter }

// WriteHeader prevents the script from following the redirect.
func (s scripted) WriteHeader(status int) {
	if status == http.StatusSeeOther {
		status = http.StatusOK
	}
	s.ResponseWriter.WriteHeader(status)
}
