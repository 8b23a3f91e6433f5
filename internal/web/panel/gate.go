package panel

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
	"github.com/certvault/certvault/internal/web/page"
)

// maxForm is the maximum size in bytes of a form without files.
const maxForm = 256 << 10

var (
	errForbidden = fault.New(fault.Forbidden, "panel_error.forbidden")
	errForm      = fault.New(fault.BadRequest, "panel_error.form")
)

// Visit is the person of a request with the person's memberships. The id of Person is 0 if no person is
// signed in.
type Visit struct {
	Person Person
	// Member is the person's membership of the institution in the path. It is nil if the path
	// contains no institution, and before admit has checked the membership.
	Member *account.Membership
	// All are the memberships of the person.
	All []account.Membership
}

// Institution returns the institution in the path. Member must not be nil.
func (v *Visit) Institution() *account.Institution { return &v.Member.Institution }

// Path returns the address of a page of the institution, such as "tokens". The page "" is the dashboard.
func (v *Visit) Path(page string) string {
	address := "/panel/" + url.PathEscape(v.Institution().Slug)
	if page != "" {
		address += "/" + page
	}
	return address
}

// Can reports whether the person is a member of the institution in the path and has a permission.
func (v *Visit) Can(may account.Permission) bool { return v.Member != nil && v.Member.Can(may) }

type contextKey struct{}

// visitOf returns the visit of a request, or nil before guard has identified the person.
func visitOf(r *http.Request) *Visit {
	v, ok := r.Context().Value(contextKey{}).(*Visit)
	if !ok {
		return nil
	}
	return v
}

// guard returns the handler of a route. Unless the route is open to everyone, the handler first
// requires a sign-in. The handler then checks, in this order: the limit on the person's requests, the
// role of an operator or the membership, whether the institution is enabled, the permission, the form,
// and the recent sign-in. A person without the role or the membership gets the error page for an
// unknown address.
func (p *Panel) guard(rt route) web.Func {
	handle := func(w http.ResponseWriter, r *http.Request) error { return rt.handler(w, r, visitOf(r)) }
	if rt.recent {
		confirmed := p.Gate.RequireRecent
		if strings.HasPrefix(rt.pattern, http.MethodPost) {
			confirmed = p.Gate.RequireRecentForSubmit
		}
		handle = confirmed(handle)
	}
	check := func(w http.ResponseWriter, r *http.Request) error {
		v, r, err := p.visit(r)
		if err == nil {
			if err = p.admit(w, r, v, rt); err == nil {
				err = handle(w, r)
			}
		}
		if err != nil {
			// Render the error here, because the error page needs the visit for its navigation.
			p.renderer(rt)(w, r, err)
		}
		body.Drain(r)
		return nil
	}
	if rt.scope == ofEveryone {
		return check
	}
	return p.Gate.Require(check)
}

// renderer returns the renderer for the errors of a route. If the status is 503, the error page of a form
// for signed-in people contains the typed input, which can be submitted again. The error page does not
// contain the input of a form with files. It also does not contain the input of a form that is open to
// everyone, because the input may include a password.
func (p *Panel) renderer(rt route) web.Renderer {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		if web.Status(err) == http.StatusServiceUnavailable && r.Method == http.MethodPost {
			switch {
			case rt.limits != nil || rt.scope == ofEveryone:
				r.PostForm = nil
			case r.PostForm == nil && body.ParseForm(w, r, rt.maxForm()) != nil:
				// The form cannot be read, so the error page does not contain the input.
				r.PostForm = nil
			}
		}
		p.render(w, r, err)
	}
}

// afterRecentSignIn calls f if the person has signed in or confirmed the sign-in recently, and
// otherwise redirects to the confirmation.
func (p *Panel) afterRecentSignIn(w http.ResponseWriter, r *http.Request, f func() error) error {
	return p.Gate.RequireRecent(func(http.ResponseWriter, *http.Request) error { return f() })(w, r)
}

// visit identifies the person of a request. The returned request has the visit and the actor for
// the audit log in its context.
func (p *Panel) visit(r *http.Request) (*Visit, *http.Request, error) {
	v := &Visit{}
	ctx := r.Context()
	actor := audit.Actor{Type: audit.System, Name: "Certvault"}
	var err error
	if person, ok := p.Gate.Person(r); ok {
		v.Person = person
		actor = audit.Actor{Type: audit.User, ID: person.UUID, Name: person.Name}
		v.All, err = p.Members.Memberships(ctx, person.ID)
	}
	actor.Address, actor.RequestID = web.Client(r), web.RequestID(r)
	return v, r.WithContext(audit.WithActor(context.WithValue(ctx, contextKey{}, v), actor)), err
}

// admit checks the limit on the person's requests, and whether the person may use the route. It sets
// v.Member. For a POST request, admit also limits the size of the body, and parses the form unless the
// handler reads the body itself.
func (p *Panel) admit(w http.ResponseWriter, r *http.Request, v *Visit, rt route) error {
	if v.Person.ID != 0 {
		if err := web.Throttle(w, p.Limit, "person:"+strconv.FormatInt(v.Person.ID, 10)); err != nil {
			return err
		}
	}
	if rt.scope == ofOperator && !v.Person.Operator {
		return page.ErrUnknown
	}
	if rt.scope == ofInstitution {
		slug := r.PathValue("institution")
		i := slices.IndexFunc(v.All, func(m account.Membership) bool { return m.Institution.Slug == slug })
		if i < 0 {
			return p.former(r.Context(), v, slug)
		}
		if err := v.All[i].Institution.CheckEnabled(); err != nil {
			return err // v.Member is nil, so the error page has no links to pages of the institution
		}
		v.Member = &v.All[i]
		if rt.may != "" && !v.Can(rt.may) {
			return errForbidden
		}
	}
	if r.Method != http.MethodPost {
		return nil
	}
	if rt.limits != nil {
		body.Limit(w, r, *rt.limits)
		return nil
	}
	if err := body.ParseForm(w, r, rt.maxForm()); err != nil {
		return fmt.Errorf("reading the form: %w", errForm)
	}
	return nil
}

// former returns a *web.Moved if a slug is a former slug of an institution of the person, and otherwise
// page.ErrUnknown.
func (p *Panel) former(ctx context.Context, v *Visit, slug string) error {
	inst, err := p.Accounts.InstitutionBySlug(ctx, slug)
	switch {
	case err == nil && slices.ContainsFunc(v.All, func(m account.Membership) bool { return m.Institution.ID == inst.ID }):
		return &web.Moved{From: slug, To: inst.Slug}
	case err == nil || fault.Is(err, fault.NotFound):
		return page.ErrUnknown
	default:
		return err
	}
}

// person returns the signed-in person for the menu in the header, or nil.
func (p *Panel) person(r *http.Request) *page.Person {
	v := visitOf(r)
	if v == nil || v.Person.ID == 0 {
		return nil
	}
	return &page.Person{Name: v.Person.Name, Email: v.Person.Email, Language: v.Person.Language, Member: len(v.All) > 0, Operator: v.Person.Operator}
}
