// Package panel serves the pages on which members work with their institution and operators with
// the installation, and the pages for invitations and the set-up. It checks the access to these pages:
// sign-in, membership, permission, recent sign-in. Operations and their rules belong to other packages: a
// handler reads a form, calls an operation and redirects. These packages have English texts, which the
// panel shows in the language of the page (text.go).
//
// # How to add a page
//
//  1. Add a line to a table of routes, for example in routes.go, access.go or vault.go: method
//     and path, the required permission, the handler. Set "recent" if the page shows or
//     creates a secret, changes access, or changes where data is sent. The route then
//     requires a recent sign-in.
//  2. Write the handler: func (p *Panel) things(w http.ResponseWriter, r
//     *http.Request, v *Visit) error. v.Institution() is the institution. Every
//     query filters by the id of the institution, so that a record of another
//     institution is not found.
//  3. Write templates/things.html, which defines "title" and "main". The heading of
//     the page is in a <div class="head">. The files parts.html of this package and
//     of package page contain the shared parts, for example codeblock, pager and
//     copy. panel.css contains the styles, for example card, list, tabs, empty and
//     timeline.
//  4. p.draw shows a form. p.showAgain shows the form again with its problems. After an
//     action, p.redirect redirects to a page with a notice from the map notices
//     (notice.go). An irreversible action has a separate page that asks for confirmation
//     and shows the name of the object.
//  5. Add the page to the navigation in nav.go. The navigation shows an entry if the
//     route of the entry exists and the member has permission.
//  6. TestAccess requests every route with every role, in the member's institution and
//     in another one. If the path has a new placeholder, add a sample for the
//     placeholder to panel_test.go. Add the page to the fixture in test/quality, which
//     checks the accessibility of pages.
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
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/replica"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
	certtemplate "github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/verification"
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
	// Language is the tag of the language that the person has chosen, or "".
	Language string
	// Operator reports whether the person may see the pages for operators.
	Operator bool
}

// Gate identifies the signed-in person, and redirects other visitors to the sign-in.
type Gate interface {
	// Person returns the signed-in person, or false.
	Person(r *http.Request) (Person, bool)
	// Require wraps a handler that requires a sign-in. RequireRecent wraps a handler that requires
	// a recent sign-in or confirmation. RequireRecentForSubmit wraps a handler that receives a form
	// whose page requires a recent sign-in. It allows an older sign-in than RequireRecent, because
	// the person needs time to fill in the form.
	Require(f web.Func) web.Func
	RequireRecent(f web.Func) web.Func
	RequireRecentForSubmit(f web.Func) web.Func
	// CheckSession returns identity.ErrNoSession if the session of a request has ended since the
	// request began.
	CheckSession(r *http.Request) error
}

// Members reads the memberships of people.
type Members interface {
	Memberships(ctx context.Context, userID int64) ([]account.Membership, error)
}

// Finder finds certificates by UUID or reference id.
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
	// Certs, Search, Tasks, Batches and BulkImports are services of the vault.
	Certs       *cert.Service
	Search      *search.Service
	Tasks       *task.Service
	Batches     *batch.Service
	BulkImports *bulkimport.Service
	// Templates is the service for templates of certificates.
	Templates *certtemplate.Service
	// Applications is the service for offers and applications.
	Applications *application.Service
	// Approvals is the service for signatories.
	Approvals *approval.Service
	// Verifications counts verifications.
	Verifications *verification.Service
	// Links creates public addresses.
	Links *web.Links
	Find  Finder
	// Issuer is the service for credentials and achievements.
	Issuer *issuer.Service
	// Keys contains the institutions' signing keys. RotateKey creates a new key of an institution
	// and records the rotation.
	Keys      *authority.Authority
	RotateKey func(ctx context.Context, inst *account.Institution) error
	// Mail is the service for mail to recipients.
	Mail *recipient.Service
	// Replica may serve lists and exports. It may be nil.
	Replica *replica.Replica
	// Limit counts requests, by person or by address.
	Limit *limit.Counter
	// Stopping is closed when the server stops. Event streams then end.
	Stopping <-chan struct{}
	// BaseURL is the vault's base URL.
	BaseURL string
	Now     func() time.Time
	Log     *slog.Logger

	view     *page.Set
	table    []route
	patterns []string
}

// Prefixes are the prefixes of the paths of all pages of the panel.
var Prefixes = []string{"/panel", "/operator", "/invitation", "/setup"}

// Handler prepares the table of routes and the pages, and returns the handler for all routes.
func (p *Panel) Handler() (http.Handler, error) {
	p.table = slices.Concat(p.routes(), p.accessRoutes(), p.vaultRoutes(), p.templateRoutes(), p.issueRoutes(), p.applicationRoutes(), p.approvalRoutes(),
		p.verificationRoutes(), p.waitingRoutes(), p.achievementRoutes())
	var err error
	if p.view, err = p.Site.Set(page.Options{
		Templates: templates, Styles: []string{"form.css", "panel.css"}, Modules: []string{"panel.js", "palette.js"},
		Funcs: withBulkFuncs(template.FuncMap{
			"state": stateOf, "recordLink": recordLink, "linkTo": linkTo,
			"host": host, "status": statusOf, "breaks": breaks, "addressBreaks": addressBreaks, "shown": shown, "sample": sample,
			"styleNames": styleNames, "mm": mm, "decimal": decimal,
			"applicationState": applicationState, "offerState": offerState, "recordPath": recordPath, "expired": p.hasExpired,
			"templateState": stateOfTemplate, "templateKey": templateKey, "sizeOfPage": sizeOfPage,
			"testVault": func() bool { return web.IsLocal(p.BaseURL) }, "baseURL": func() string { return p.BaseURL },
		}),
		LanguageFuncs: p.languageFuncs, Person: p.person, Frame: p.frame, Notices: notices,
	}); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, rt := range p.table {
		p.patterns = append(p.patterns, rt.pattern)
		mux.Handle(rt.pattern, web.Handler(p.renderer(rt), p.guard(rt)))
	}
	return web.SameOrigin(p.render, web.Routes(mux, p.render)), nil
}

// Patterns returns the patterns of all routes. The result is empty before Handler is called.
func (p *Panel) Patterns() []string { return p.patterns }

func (p *Panel) draw(w http.ResponseWriter, r *http.Request, name string, data any) error {
	return p.view.Draw(w, r, http.StatusOK, name, data)
}

// showAgain shows a form again with the problems in err if the person can correct the input or submit the form
// again later. Otherwise it returns err.
func (p *Panel) showAgain(w http.ResponseWriter, r *http.Request, name string, data any, err error) error {
	return p.view.ShowAgain(w, r, name, data, p.texts(r).translated(withMessages(p.texts(r), err, r.PostForm)))
}

// redirect redirects to a page of the institution. The page shows the notice with the numbers, or no notice
// if notice is empty.
func (p *Panel) redirect(w http.ResponseWriter, r *http.Request, v *Visit, path, notice string, numbers ...int) error {
	return p.view.Redirect(web.AsScript(w, r), r, v.Path(path), p.mailNotice(notice), numbers...)
}
