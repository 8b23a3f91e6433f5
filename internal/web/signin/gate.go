package signin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// Cookies that identify a browser. Because of the prefix __Host-, other hosts of the domain cannot
// set these cookies (RFC 6265bis, 4.1.3.2).
const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device"
)

// origin returns the data of a request that identifies the network and the browser of the client.
func origin(r *http.Request) identity.Origin {
	value := func(name string) string {
		c, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return c.Value
	}
	return identity.Origin{Address: web.Client(r), UserAgent: r.UserAgent(), Session: value(sessionCookie), Device: value(deviceCookie)}
}

func setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(life.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// SetSession sets the cookies of a new session. Other packages call it after they sign a person in.
func (p *Pages) SetSession(w http.ResponseWriter, e *identity.Entry) {
	// The cookie must not expire before the vault ends the session.
	setCookie(w, sessionCookie, e.Secret, identity.SessionLife)
	if e.Device != "" {
		setCookie(w, deviceCookie, e.Device, identity.DeviceLife)
	}
}

// Origin returns the origin of a request. It is for other packages that sign a person in.
func (*Pages) Origin(r *http.Request) identity.Origin { return origin(r) }

func clearSession(w http.ResponseWriter) { setCookie(w, sessionCookie, "", -time.Second) }

// lazySession is the session of a request. The first use reads the session from the database.
type lazySession struct {
	once    sync.Once
	session *identity.Session
	err     error
}

type contextKey struct{}

// WithSession returns a handler that reads the session of a request at most once. WithSession must
// wrap all surfaces that call Person.
func (p *Pages) WithSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := r.WithContext(context.WithValue(r.Context(), contextKey{}, &lazySession{}))
		next.ServeHTTP(w, inner)
		// The log reads the pattern from the outer request.
		r.Pattern = inner.Pattern
	})
}

// Session returns the session of the signed-in person. The error is identity.ErrNoSession if the
// visitor is not signed in.
func (p *Pages) Session(r *http.Request) (*identity.Session, error) {
	v, ok := r.Context().Value(contextKey{}).(*lazySession)
	if !ok {
		v = &lazySession{}
	}
	v.once.Do(func() { v.session, v.err = p.People.Session(r.Context(), origin(r)) })
	return v.session, v.err
}

// Person returns the session of the signed-in person and reports whether there is one. If the
// session cannot be read, Person records the error and reports false, so that pages for all visitors
// do not fail.
func (p *Pages) Person(r *http.Request) (*identity.Session, bool) {
	s, err := p.Session(r)
	if err != nil && !errors.Is(err, identity.ErrNoSession) {
		web.Record(r, err)
	}
	return s, err == nil
}

// SignedIn returns the signed-in person and reports whether there is one. Unlike Person, it does not
// store the use of the session.
func (p *Pages) SignedIn(r *http.Request) (identity.Person, bool) {
	from := origin(r)
	if from.Session == "" {
		return identity.Person{}, false
	}
	s, err := p.People.ReadSession(r.Context(), from)
	if err != nil {
		return identity.Person{}, false
	}
	return s.Person, true
}

// reader returns the signed-in person for pages, or nil.
func (p *Pages) reader(r *http.Request) *page.Person { return ReaderOf(p.Person(r)) }

// ReaderOf returns the data of a signed-in person for the pages of all surfaces, or nil if ok is
// false.
func ReaderOf(s *identity.Session, ok bool) *page.Person {
	if !ok {
		return nil
	}
	return &page.Person{Name: s.Person.Name, Email: s.Person.Email, Language: s.Person.Language, Member: s.Person.Member, Operator: s.Person.Operator}
}

// CheckSession reads the session of a request again. It returns identity.ErrNoSession if the session
// has ended, and nil if the session is still valid.
func (p *Pages) CheckSession(r *http.Request) error {
	return p.People.CheckSession(r.Context(), origin(r))
}

// Require returns a handler that calls f for a signed-in person, and redirects other visitors to
// the sign-in. If the session cannot be read, the handler returns the error: the person may be
// signed in, and could not sign in again during an outage.
func (p *Pages) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		switch _, err := p.Session(r); {
		case errors.Is(err, identity.ErrNoSession):
			return p.redirectBackAfter(w, r, "/sign-in")
		case err != nil:
			return err
		}
		return f(w, r)
	}
}

// RequireRecent is like Require, but redirects a signed-in person to the confirmation if the last
// sign-in or confirmation is not recent.
func (p *Pages) RequireRecent(f web.Func) web.Func {
	return p.requireConfirmation((*identity.Session).Recent, f)
}

// RequireRecentForSubmit is like RequireRecent, but allows more time. It is for the submission of a form
// whose page requires a recent sign-in.
func (p *Pages) RequireRecentForSubmit(f web.Func) web.Func {
	return p.requireConfirmation((*identity.Session).MaySubmit, f)
}

func (p *Pages) requireConfirmation(recent func(s *identity.Session, now time.Time) bool, f web.Func) web.Func {
	return p.Require(func(w http.ResponseWriter, r *http.Request) error {
		if s, _ := p.Person(r); !recent(s, p.Now()) {
			return p.redirectBackAfter(w, r, "/account/confirm")
		}
		return f(w, r)
	})
}

// redirectBackAfter redirects to the path via. The parameter next is the address of the requested page,
// or of the page with the submitted form, so that the page at via can redirect back. A client that
// prefers JSON gets the status 403 and the address instead of a redirect.
func (p *Pages) redirectBackAfter(w http.ResponseWriter, r *http.Request, via string) error {
	next := r.URL.RequestURI()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		next = ""
		if u, err := url.Parse(r.Referer()); err == nil && u.Host == r.Host {
			next = u.RequestURI()
		}
	}
	if page.WantsJSON(r) {
		return web.WriteJSON(w, http.StatusForbidden, map[string]string{"location": pathWith(via, "next", Local(next))})
	}
	return p.view.Redirect(w, r, pathWith(via, "next", Local(next)), "")
}

// pathWith returns a path with a query parameter, or only the path if the value is empty.
func pathWith(path, name, value string) string {
	if value == "" {
		return path
	}
	return path + "?" + url.Values{name: {value}}.Encode()
}

// Local returns next if it is a path of the vault, or else "", so that a request cannot cause a
// redirect to another host. It also returns "" for a path that begins with /sign- and for an
// address of more than 2000 bytes.
func Local(next string) string {
	if len(next) > 2000 || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") {
		return ""
	}
	// Browsers treat \ as / and remove tabs and line ends (WHATWG URL, 4.4).
	if strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
		return ""
	}
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || u.User != nil || strings.HasPrefix(u.Path, "//") || strings.HasPrefix(u.Path, "/sign-") {
		return ""
	}
	return next
}

// startPage returns the target after a sign-in: next if it is a path of the vault, or else the
// person's first page.
func startPage(s *identity.Session, next string) string {
	if next = Local(next); next != "" {
		return next
	}
	if s.Person.Member || s.Person.Operator {
		return "/panel"
	}
	return "/account"
}
