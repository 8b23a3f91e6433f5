package panel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/webhook"
)

// samples creates records for the {name}s in route paths, each when it is first needed.
type samples struct {
	t    *testing.T
	o    *panelTest
	inst account.Institution
	made map[string]string
}

func (o *panelTest) samples(t *testing.T, inst account.Institution) *samples {
	t.Helper()
	return &samples{t, o, inst, map[string]string{"institution": inst.Slug, "row": "2"}}
}

// under returns the same records below the slug of another institution.
func (s *samples) under(slug string) *samples {
	made := maps.Clone(s.made)
	made["institution"] = slug
	return &samples{s.t, s.o, s.inst, made}
}

// of returns the record of a name.
func (s *samples) of(name string) string {
	if one, ok := s.made[name]; ok {
		return one
	}
	one, err := s.make(name)
	if err != nil {
		s.t.Fatalf("a sample of %s: %v", name, err)
	}
	s.made[name] = one
	return one
}

func (s *samples) make(name string) (string, error) {
	ctx, o, id := s.t.Context(), s.o, s.inst.ID
	switch name {
	case "token":
		made, _, err := o.panel.Tokens.Create(ctx, id, "Sample", token.All, nil)
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(made.ID, 10), nil
	case "webhook":
		hook, _, err := o.panel.Hooks.Create(ctx, id, "https://hooks.example.org/path", nil)
		if err != nil {
			return "", err
		}
		return hook.UUID, nil
	case "delivery":
		delivery, err := o.panel.Hooks.Test(ctx, id, s.of("webhook"), webhook.Approved)
		return strconv.FormatInt(delivery, 10), err
	case "member":
		o.guests++
		member, err := o.panel.Accounts.AddMember(ctx, id, account.NewMember{
			Email: fmt.Sprintf("member%d@example.org", o.guests), Name: "Sample", Role: account.Issuer,
		})
		if err != nil {
			return "", err
		}
		return member.UUID, nil
	case "invitation":
		return o.invitation(s.t, s.inst)
	case "secret":
		s.of("invitation")
		return o.secret(s.t), nil
	case "task":
		started, err := o.panel.Tasks.Start(ctx, id, task.Request{Kind: task.Retry})
		if err != nil {
			return "", err
		}
		return started.UUID, nil
	case "certificate":
		return o.approved(s.inst).UUID, nil
	case "correction":
		c, err := o.panel.Certs.ByUUID(ctx, id, s.of("certificate"))
		if err != nil {
			return "", err
		}
		return o.asked(c, "Another spelling, please."), nil
	case "upload":
		return o.staged(s.inst), nil
	case "draft":
		return o.draft(s.inst).UUID, nil
	case "file":
		d, err := o.panel.BulkImports.ByUUID(ctx, id, o.maker, s.of("draft"))
		if err != nil {
			return "", err
		}
		f, err := o.panel.BulkImports.AddFile(ctx, &s.inst, d, "ada.pdf", bytes.NewReader(vaulttest.PDF))
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(f.ID, 10), nil
	}
	return "", errors.New("nobody knows how to make one")
}

// invitation creates an open invitation.
func (o *panelTest) invitation(t *testing.T, inst account.Institution) (string, error) {
	t.Helper()
	o.guests++
	// Revoke earlier samples, so that they do not count toward the limit of open invitations.
	if err := o.DB.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE invitations SET revoked_at = 1 WHERE institution_id = $1`, inst.ID)
		return err
	}); err != nil {
		return "", err
	}
	invitation, err := o.panel.Invitations.Invite(t.Context(), account.Installation, inst.ID, account.NewInvitation{
		Email: fmt.Sprintf("guest%d@example.org", o.guests), Role: account.Issuer,
	})
	if err != nil {
		return "", err
	}
	return invitation.UUID, nil
}

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// path fills in a route's path.
func path(t *testing.T, pattern string, samples *samples) (method, target string) {
	t.Helper()
	method, target, _ = strings.Cut(pattern, " ")
	return method, placeholder.ReplaceAllStringFunc(target, func(name string) string {
		return samples.of(strings.Trim(name, "{}"))
	})
}

// Every route is requested with every role, in the person's own institution and in another: the
// table of roles decides access, and records of another institution are not found.
func TestAccess(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.person("operator")
	o.operator("operator")
	for _, one := range o.panel.table {
		for _, s := range account.Roles {
			who := string(s.Role)
			o.maker = o.people.persons[who].ID
			// An action may delete its subject, so each request has samples of its own.
			mine, others := o.samples(t, o.mine), o.samples(t, o.other)
			method, target := path(t, one.pattern, mine)
			w := o.do(who, method, target, nil)
			allowed := one.may == "" || s.Role.Can(one.may)
			switch {
			case one.scope == ofOperator, strings.Contains(one.pattern, " /setup"): // only its link grants access
				if w.Code != http.StatusNotFound {
					t.Errorf("%s as %s: %d", one.pattern, who, w.Code)
				}
			case allowed && (w.Code == http.StatusForbidden || w.Code == http.StatusNotFound || w.Code >= http.StatusInternalServerError):
				t.Errorf("%s as %s: %d %s", one.pattern, who, w.Code, words(t, w))
			case !allowed && w.Code != http.StatusForbidden:
				t.Errorf("%s as %s: %d", one.pattern, who, w.Code)
			}
			if one.scope != ofInstitution {
				continue
			}
			method, target = path(t, one.pattern, others)
			if w := o.do(who, method, target, nil); w.Code != http.StatusNotFound || strings.Contains(words(t, w), "South East") {
				t.Errorf("%s as %s of another institution: %d %s", one.pattern, who, w.Code, words(t, w))
			}
			// A record of another institution below the slug of one's own.
			if method, target = path(t, one.pattern, others.under(o.mine.Slug)); allowed && strings.Count(one.pattern, "{") > 1 {
				if w := o.do(who, method, target, nil); w.Code != http.StatusNotFound {
					t.Errorf("%s as %s on another institution's record: %d %s", one.pattern, who, w.Code, words(t, w))
				}
			}
		}
		if one.scope == ofOperator {
			method, target := path(t, one.pattern, o.samples(t, o.mine))
			if w := o.do("operator", method, target, nil); w.Code == http.StatusNotFound || w.Code == http.StatusForbidden || w.Code >= http.StatusInternalServerError {
				t.Errorf("%s as an operator: %d", one.pattern, w.Code)
			}
		}
		if one.scope == ofAnybody {
			continue
		}
		method, target := path(t, one.pattern, o.samples(t, o.mine))
		if w := o.do("", method, target, nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/sign-in?next=") {
			t.Errorf("%s as nobody: %d %s", one.pattern, w.Code, w.Header().Get("Location"))
		}
		if w := o.do("nobody", method, target, nil); one.scope != ofPerson && w.Code != http.StatusNotFound {
			t.Errorf("%s as a member of nothing: %d", one.pattern, w.Code)
		}
		if w := o.do("operator", method, target, nil); one.scope == ofInstitution && w.Code != http.StatusNotFound {
			t.Errorf("%s as an operator who is no member: %d", one.pattern, w.Code)
		}
	}
}

// A form of another site is refused, and so is one without an origin from an old browser.
func TestFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := o.request("owner", http.MethodPost, "/panel/nwu/tokens", url.Values{"name": {"x"}, "permissions": {"batch:list"}, "end": {"never"}})
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set(header, value)
		says(t, header, o.send(r), http.StatusForbidden, "another site")
	}
	if list, err := o.panel.Tokens.List(t.Context(), o.mine.ID); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestStartPage(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if w := o.get("admin", "/panel"); w.Header().Get("Location") != "/panel/nwu" {
		t.Errorf("a member of one institution is led to %s", w.Header().Get("Location"))
	}
	o.join("admin", o.other, account.Auditor)
	w := o.get("admin", "/panel")
	says(t, "two", w, http.StatusOK, "Northern & Western University", "NWU · Admin", "South East College", "SEC · Auditor")
	says(t, "none", o.get("nobody", "/panel"), http.StatusOK, "You belong to no institution yet")
	if w := o.get("owner", "/panel/nwu/"); w.Code != http.StatusNotFound {
		t.Errorf("an unclean path: %d", w.Code)
	}
}

// The navigation contains the existing pages that the role may see, and nothing else.
func TestNavigation(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	text := words(t, o.get("developer", "/panel/nwu/tokens"))
	if !strings.Contains(text, "API tokens") || strings.Contains(text, "Audit log") {
		t.Errorf("a developer sees %s", text)
	}
	w := o.get("developer", "/panel/nwu/tokens/new")
	if n := strings.Count(w.Body.String(), `aria-current="page"`); n != 1 || !strings.Contains(w.Body.String(), `href="/panel/nwu/tokens" aria-current="page"`) {
		t.Errorf("%d entries are marked: %s", n, w.Body)
	}
	patterns := o.panel.Patterns()
	for _, group := range entries {
		for _, e := range group {
			address := "/panel/nwu"
			if e.path != "" {
				address += "/" + e.path
			}
			pattern := "GET /panel/{institution}" + strings.TrimPrefix(address, "/panel/nwu")
			if linked := strings.Contains(o.get("owner", "/panel/nwu/tokens").Body.String(), `<li><a href="`+address+`"`); linked && !slices.Contains(patterns, pattern) {
				t.Errorf("the navigation leads to %s, which there is not", address)
			}
		}
	}
}
