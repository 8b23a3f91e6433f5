package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web/page"
	"github.com/certvault/certvault/internal/web/panel"
	"github.com/certvault/certvault/internal/web/public"
	recipientpages "github.com/certvault/certvault/internal/web/recipient"
	"github.com/certvault/certvault/internal/web/signin"
)

// peoplePages returns the handler of the pages for signing in, of the panel, and of the pages for
// recipients. For a member or an operator, this handler redirects / to the panel. It passes all other
// requests to publicHandler.
func (a *App) peoplePages(site *page.Site, publicLimit *limit.Counter, pages *public.Pages, publicHandler http.Handler) (http.Handler, error) {
	signInPages := &signin.Pages{Site: site, People: a.People, Limit: publicLimit, Now: time.Now}
	pages.IsMember = func(r *http.Request, institutionID int64) bool { return a.isMemberOf(signInPages, r, institutionID) }
	signInHandler, err := signInPages.Handler()
	if err != nil {
		return nil, err
	}
	stopping, stop := context.WithCancel(context.Background())
	a.onStop = append(a.onStop, stop)
	panelPages := &panel.Panel{
		Access: a.access(signInPages),
		Site:   site, Gate: gate{signInPages}, Members: a.Accounts, Tokens: a.Tokens, Hooks: a.Hooks, Find: a.Certs,
		Certs: a.Certs, Search: a.Search, Tasks: a.Tasks, Batches: a.Batches, BulkImports: a.BulkImports, Templates: a.Templates, Applications: a.Applications,
		Approvals: a.Approvals, Verifications: a.Verifications,
		Links: a.links, Keys: a.Keys, RotateKey: a.rotateKey, Mail: a.Recipients, Issuer: a.Issuer,
		Limit: limit.NewCounter(a.cfg.RateLimit, time.Now), BaseURL: a.cfg.BaseURL, Now: time.Now, Log: a.log,
		Stopping: stopping.Done(), Replica: a.replica,
	}
	panelHandler, err := panelPages.Handler()
	if err != nil {
		return nil, err
	}
	wallet := &recipientpages.Pages{
		Site: site, Gate: signInPages, Recipients: a.Recipients, People: a.People, Accounts: a.Accounts, Certs: a.Certs, Applications: a.Applications,
		Mailer: a.Mailer, Links: a.links, Limit: publicLimit, BounceToken: a.cfg.BounceToken, Now: time.Now, Log: a.log,
		Verifications: a.Verifications, Issuer: a.Issuer,
	}
	walletHandler, err := wallet.Handler()
	if err != nil {
		return nil, err
	}
	below := func(prefixes []string, path string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
	}
	return signInPages.WithSession(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, end, err := a.beginRequest(gate{signInPages}, r)
		if err != nil {
			pages.Render(w, r, err)
			return
		}
		defer end()
		switch {
		case below(signin.Prefixes, r.URL.Path):
			signInHandler.ServeHTTP(w, r)
		case below(panel.Prefixes, r.URL.Path):
			panelHandler.ServeHTTP(w, r)
		case below(recipientpages.Prefixes, r.URL.Path):
			walletHandler.ServeHTTP(w, r)
		case r.URL.Path == "/" && isMember(signInPages, r):
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, "/panel", http.StatusSeeOther)
		default:
			publicHandler.ServeHTTP(w, r)
		}
	})), nil
}

// isMember reports whether the request is from a signed-in member of an institution or a signed-in
// operator.
func isMember(pages *signin.Pages, r *http.Request) bool {
	s, ok := pages.Person(r)
	return ok && (s.Person.Member || s.Person.Operator)
}

// isMemberOf reports whether the request is from a signed-in member of the institution with the given id.
// It reads the database only if the request has a session.
func (a *App) isMemberOf(pages *signin.Pages, r *http.Request, institutionID int64) bool {
	person, ok := pages.SignedIn(r)
	if !ok || !person.Member {
		return false
	}
	list, err := account.InstitutionsOf(r.Context(), a.DB, person.ID)
	return err == nil && slices.Contains(list, institutionID)
}

// rotateKey creates a new signing key for an institution and records the rotation. It returns an
// error if CheckKeyName rejects the institution's name.
func (a *App) rotateKey(ctx context.Context, inst *account.Institution) error {
	if err := a.Accounts.CheckKeyName(ctx, inst.ID); err != nil {
		return err
	}
	e := audit.Entry{InstitutionID: inst.ID, Action: audit.KeyRotated, Subject: audit.Subject{Type: "institution", ID: inst.UUID, Name: inst.Name}}
	return a.Keys.Rotate(ctx, inst.UUID, inst.Name, func(tx *db.Tx) error { return audit.RecordTx(ctx, tx, e) })
}

// gate adapts the sign-in pages to the panel.
type gate struct{ *signin.Pages }

// Person returns the person who is signed in.
func (g gate) Person(r *http.Request) (panel.Person, bool) {
	s, ok := g.Pages.Person(r)
	if !ok {
		return panel.Person{}, false
	}
	return panel.Person{ID: s.Person.ID, UUID: s.Person.UUID, Name: s.Person.Name, Email: s.Person.Email, Language: s.Person.Language, Operator: s.Person.Operator}, true
}
