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

// maxForm bounds a form that sends no file.
const maxForm = 256 << 10

var (
	errForbidden = fault.New(fault.Forbidden, "Your role does not allow this. Ask an owner or admin of the institution if you need it.")
	errForm      = fault.New(fault.BadRequest, "The form could not be read. Please go back and try again.")
)

// Visit is a request of somebody who may make it.
type Visit struct {
	Person Person
	// Member is what they are in the institution that the path names; nil where it
	// names none.
	Member *account.Membership
	// All are all their memberships.
	All []account.Membership
}

// Institution is the one that the path names.
func (v *Visit) Institution() *account.Institution { return &v.Member.Institution }

// Path gives the address of a page of the institution, such as "tokens".
func (v *Visit) Path(page string) string {
	address := "/panel/" + url.PathEscape(v.Institution().Slug)
	if page != "" {
		address += "/" + page
	}
	return address
}

// Can tells whether the member may do something.
func (v *Visit) Can(may account.Permission) bool { return v.Member != nil && v.Member.Can(may) }

type contextKey struct{}

// visitOf gives the visit of a request, nil where nothing was found out yet.
func visitOf(r *http.Request) *Visit {
	v, ok := r.Context().Value(contextKey{}).(*Visit)
	if !ok {
		return nil
	}
	return v
}

// guard asks of a request what its route demands, in this order: a sign-in, a
// membership, the permission, a recent sign-in. Who is no member learns nothing:
// the institution is not found.
func (p *Panel) guard(one route) web.Func {
	handle := func(w http.ResponseWriter, r *http.Request) error { return one.handler(w, r, visitOf(r)) }
	if one.recent {
		confirmed := p.Gate.RequireRecent
		if strings.HasPrefix(one.pattern, http.MethodPost) {
			confirmed = p.Gate.RequireFilledIn
		}
		handle = confirmed(handle)
	}
	check := func(w http.ResponseWriter, r *http.Request) error {
		v, r, err := p.visit(r)
		if err == nil {
			if err = p.admit(w, r, v, one); err == nil {
				err = handle(w, r)
			}
		}
		if err != nil {
			// What is answered has the frame of the visit around it.
			p.view.Render(w, r, err)
		}
		body.Drain(r)
		return nil
	}
	if one.scope == ofAnybody {
		return check
	}
	return p.Gate.Require(check)
}

// visit finds out who asks, and gives the request as theirs.
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
	return v, r.WithContext(audit.With(context.WithValue(ctx, contextKey{}, v), actor)), err
}

// admit tells why a visit is not let in, nil when it is.
func (p *Panel) admit(w http.ResponseWriter, r *http.Request, v *Visit, one route) error {
	if v.Person.ID != 0 {
		if err := web.Throttle(w, p.Limit, "person:"+strconv.FormatInt(v.Person.ID, 10)); err != nil {
			return err
		}
	}
	if one.scope == ofOperator && !v.Person.Operator {
		return page.ErrUnknown
	}
	if one.scope == ofInstitution {
		slug := r.PathValue("institution")
		i := slices.IndexFunc(v.All, func(m account.Membership) bool { return m.Institution.Slug == slug })
		if i < 0 {
			return page.ErrUnknown
		}
		v.Member = &v.All[i]
		if one.may != "" && !v.Can(one.may) {
			return errForbidden
		}
	}
	if r.Method != http.MethodPost {
		return nil
	}
	if one.limits != nil {
		body.Limit(w, r, *one.limits)
		return nil
	}
	if err := body.ParseForm(w, r, maxForm); err != nil {
		return fmt.Errorf("reading the form: %w", errForm)
	}
	return nil
}

// person gives who is signed in, for the menu in the header.
func (p *Panel) person(r *http.Request) *page.Person {
	v := visitOf(r)
	if v == nil || v.Person.ID == 0 {
		return nil
	}
	return &page.Person{Name: v.Person.Name, Email: v.Person.Email, Member: len(v.All) > 0, Operator: v.Person.Operator}
}
