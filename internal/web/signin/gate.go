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

// Cookies that a browser is known by. __Host- keeps other hosts of a domain from
// setting them (RFC 6265bis, 4.1.3.2).
const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device"
)

// origin tells where a request comes from.
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

// Enter gives a browser the cookies of somebody who signed in. Other surfaces call
// it for who came by a link of theirs.
func (p *Pages) Enter(w http.ResponseWriter, e *identity.Entry) {
	// When a session ends the vault decides; the cookie must only live that long.
	setCookie(w, sessionCookie, e.Secret, identity.SessionLife)
	if e.Device != "" {
		setCookie(w, deviceCookie, e.Device, identity.DeviceLife)
	}
}

// Origin tells where a request comes from, for surfaces that let somebody in by a
// link of theirs.
func (*Pages) Origin(r *http.Request) identity.Origin { return origin(r) }

func leave(w http.ResponseWriter) { setCookie(w, sessionCookie, "", -time.Second) }

// visit is what is known of a request: looked up once, by who asks first.
type visit struct {
	once    sync.Once
	session *identity.Session
}

type contextKey struct{}

// Around goes around all surfaces that ask who somebody is.
func (p *Pages) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := r.WithContext(context.WithValue(r.Context(), contextKey{}, &visit{}))
		next.ServeHTTP(w, inner)
		// The route that was found is noted on the request that the log has.
		r.Pattern = inner.Pattern
	})
}

// Person tells who is signed in.
func (p *Pages) Person(r *http.Request) (*identity.Session, bool) {
	v, ok := r.Context().Value(contextKey{}).(*visit)
	if !ok {
		v = &visit{}
	}
	v.once.Do(func() {
		session, err := p.People.Session(r.Context(), origin(r))
		if err != nil {
			if !errors.Is(err, identity.ErrNoSession) {
				p.Log.ErrorContext(r.Context(), "a session could not be looked up", slog.String("request_id", web.RequestID(r)), slog.Any("error", err))
			}
			return
		}
		v.session = session
	})
	return v.session, v.session != nil
}

// reader tells pages who reads them.
func (p *Pages) reader(r *http.Request) *page.Person { return ReaderOf(p.Person(r)) }

// ReaderOf gives what pages show of who is signed in, for all surfaces.
func ReaderOf(s *identity.Session, ok bool) *page.Person {
	if !ok {
		return nil
	}
	return &page.Person{Name: s.Person.Name, Email: s.Person.Email, Language: s.Person.Language, Member: s.Person.Member, Operator: s.Person.Operator}
}

// Require lets a request through whose person is signed in, and asks others to
// sign in first.
func (p *Pages) Require(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, ok := p.Person(r); !ok {
			return p.detour(w, r, "/sign-in")
		}
		return f(w, r)
	}
}

// RequireRecent lets a request through whose person showed a short time ago who
// they are, and asks others to show it first.
func (p *Pages) RequireRecent(f web.Func) web.Func { return p.confirmed((*identity.Session).Recent, f) }

// RequireFilledIn is RequireRecent for what takes a form whose page has that
// before it: it leaves time to fill the form in.
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

// detour leads to another page and from there back: to the page that was asked
// for, or to the one whose form was sent.
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

// to gives a path with a parameter, when that says something.
func to(path, name, value string) string {
	if value == "" {
		return path
	}
	return path + "?" + url.Values{name: {value}}.Encode()
}

// Local gives an address when it is a path of ours, else nothing: what came with a
// request must not lead to another host.
func Local(next string) string {
	if len(next) > 2000 || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") {
		return ""
	}
	// Browsers take \ for / and leave out tabs and line ends (WHATWG URL, 4.4).
	if strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) {
		return ""
	}
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || u.User != nil || strings.HasPrefix(u.Path, "//") || strings.HasPrefix(u.Path, "/sign-") {
		return ""
	}
	return next
}

// home is where somebody goes who signed in and did not say where to.
func home(s *identity.Session, next string) string {
	if next = Local(next); next != "" {
		return next
	}
	if s.Person.Member || s.Person.Operator {
		return "/panel"
	}
	return "/account"
}
