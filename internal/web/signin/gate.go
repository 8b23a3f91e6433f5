package signin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// Cookies that identify a browser. With the prefix __Host-, other hosts of the domain cannot set
// them (RFC 6265bis, 4.1.3.2).
const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device"
)

// origin returns the origin of a request.
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

// Enter sets the cookies of a new session. Other surfaces call it after a sign-in by their own
// link.
func (p *Pages) Enter(w http.ResponseWriter, e *identity.Entry) {
	// The vault decides when a session ends; the cookie must only outlive it.
	setCookie(w, sessionCookie, e.Secret, identity.SessionLife)
	if e.Device != "" {
		setCookie(w, deviceCookie, e.Device, identity.DeviceLife)
	}
}

// Origin returns the origin of a request, for surfaces with their own sign-in links.
func (*Pages) Origin(r *http.Request) identity.Origin { return origin(r) }

func leave(w http.ResponseWriter) { setCookie(w, sessionCookie, "", -time.Second) }

// visit is the session of a request, looked up at its first use.
type visit struct {
	once    sync.Once
	session *identity.Session
}

type contextKey struct{}

// Around must wrap all surfaces that call Person.
func (p *Pages) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := r.WithContext(context.WithValue(r.Context(), contextKey{}, &visit{}))
		next.ServeHTTP(w, inner)
		// The log reads the pattern from the outer request.
		r.Pattern = inner.Pattern
	})
}

// Person returns the session of the signed-in person.
func (p *Pages) Person(r *http.Request) (*identity.Session, bool) {
	v, ok := r.Context().Value(contextKey{}).(*visit)
	if !ok {
		v = &visit{}
	}
	v.once.Do(func() {
		session, err := p.People.Session(r.Context(), origin(r))
		if err != nil {
			if !errors.Is(err, identity.ErrNoSession) {
				p.Log.ErrorContext(r.Context(), "a session could not be read", slog.String("request_id", web.RequestID(r)), slog.Any("error", err))
			}
			return
		}
		v.session = session
	})
	return v.session, v.session != nil
}

// reader returns the signed-in person for pages.
func (p *Pages) reader(r *http.Request) *page.Person { return ReaderOf(p.Person(r)) }

// ReaderOf returns the data of a signed-in person for the pages of all surfaces.
func ReaderOf(s *identity.Session, ok bool) *page.Person {
	if !ok {
		return nil
	}
	return &page.Person{Name: s.Person.Name, Email: s.Person.Email, Language: s.Person.Language, Member: s.Person.Member, Operator: s.Person.Operator}
}

// Require allows a request of a signed-in person, and redirects others to the sign-in.
func (p *Pages) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, ok := p.Person(r); !ok {
			return p.detour(w, r, "/sign-in")
		}
		return f(w, r)
	}
}

// RequireRecent allows a request after a recent sign-in or confirmation, and redirects others to
// the confirmation.
func (p *Pages) RequireRecent(f web.Func) web.Func { return p.confirmed((*identity.Session).Recent, f) }

// RequireFilledIn is RequireRecent with more time. It is for submitting a form whose page requires
// a recent sign-in.
func (p *Pages) RequireFilledIn(f web.Func) web.Func {
	return p.confirmed((*identity.Session).FilledIn, f)
}

func (p *Pages) confirmed(enough func(s *identity.Session, now time.Time) bool, f web.Func) web.Func {
	return p.Require(func(w http.ResponseWriter, r *http.Request) error {
		if s, _ := p.Person(r); !enough(s, p.Now()) {
			return p.detour(w, r, "/account/confirm")
		}
		return f(w, r)
	})
}

// detour redirects to another page that leads back afterwards: to the requested page, or to the
// page of the submitted form.
func (p *Pages) detour(w http.ResponseWriter, r *http.Request, by string) error {
	next := r.URL.RequestURI()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		next = ""
		if u, err := url.Parse(r.Referer()); err == nil && u.Host == r.Host {
			next = u.RequestURI()
		}
	}
	if page.WantsJSON(r) {
		return web.WriteJSON(w, http.StatusForbidden, map[string]string{"location": to(by, "next", Local(next))})
	}
	return p.view.Redirect(w, r, to(by, "next", Local(next)), "")
}

// to returns a path with a parameter, unless its value is empty.
func to(path, name, value string) string {
	if value == "" {
		return path
	}
	return path + "?" + url.Values{name: {value}}.Encode()
}

// Local returns an address if it is a path of the vault, or else "", so that a request cannot cause
// a redirect to another host.
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

// home returns the target after a sign-in without a requested page.
func home(s *identity.Session, next string) string {
	if next = Local(next); next != "" {
		return next
	}
	if s.Person.Member || s.Person.Operator {
		return "/panel"
	}
	return "/account"
}
