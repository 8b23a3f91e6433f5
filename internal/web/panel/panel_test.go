package panel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/task"
	certtemplate "github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/webhook"
)

// samples creates records for the placeholders in the paths of routes. It creates a record when its
// placeholder is first used.
type samples struct {
	t    *testing.T
	o    *panelTest
	inst account.Institution
	ids  map[string]string
}

func (o *panelTest) samples(t *testing.T, inst account.Institution) *samples {
	t.Helper()
	return &samples{t, o, inst, map[string]string{"institution": inst.Slug, "row": "2"}}
}

// under returns the same records for paths with the slug of another institution.
func (s *samples) under(slug string) *samples {
	ids := maps.Clone(s.ids)
	ids["institution"] = slug
	return &samples{s.t, s.o, s.inst, ids}
}

// of returns the value of a placeholder. It creates the record if necessary.
func (s *samples) of(name string) string {
	if id, ok := s.ids[name]; ok {
		return id
	}
	id, err := s.create(name)
	if err != nil {
		s.t.Fatalf("creating a sample of %s: %v", name, err)
	}
	s.ids[name] = id
	return id
}

func (s *samples) create(name string) (string, error) {
	ctx, o, id := s.t.Context(), s.o, s.inst.ID
	switch name {
	case "slug":
		return s.inst.Slug, nil
	case "token":
		created, _, err := o.panel.Tokens.Create(ctx, id, "Sample", token.All, nil)
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(created.ID, 10), nil
	case "webhook":
		hook, _, err := o.panel.Hooks.Create(ctx, id, "https://hooks.example.org/path", nil)
		if err != nil {
			return "", err
		}
		return hook.UUID, nil
	case "delivery":
		delivery, err := o.panel.Hooks.Test(ctx, id, s.of("webhook"), webhook.Approved)
		return strconv.FormatInt(delivery, 10), err
	case "view":
		user := o.people.persons["owner"].ID
		if o.uploader != 0 {
			user = o.uploader
		}
		if id == o.other.ID {
			user = o.people.persons["outsider"].ID
		}
		if err := o.panel.Search.SaveView(ctx, id, user, "Sample", "status=failed"); err != nil {
			return "", err
		}
		views, err := o.panel.Search.SavedViews(ctx, id, user)
		if err != nil || len(views) == 0 {
			return "", fmt.Errorf("reading the saved view: %w", err)
		}
		return views[0].UUID, nil
	case "member":
		o.peopleCount++
		member, err := o.panel.Accounts.AddMember(ctx, id, account.NewMember{
			Email: fmt.Sprintf("member%d@example.org", o.peopleCount), Name: "Sample", Role: account.Issuer,
		})
		if err != nil {
			return "", err
		}
		return member.UUID, nil
	case "plan":
		return o.plannedMail(s.t, s.inst).UUID, nil
	case "invitation":
		return o.invitation(s.t, s.inst)
	case "secret":
		s.of("invitation")
		return o.invitationSecret(s.t), nil
	case "task":
		started, err := o.panel.Tasks.Start(ctx, id, task.Request{Kind: task.Retry})
		if err != nil {
			return "", err
		}
		return started.UUID, nil
	case "group":
		c := o.approvedCertificate(s.inst)
		for _, person := range o.people.persons {
			if err := o.DB.Tx(ctx, func(tx *db.Tx) error {
				_, err := tx.ExecContext(ctx, `
					INSERT INTO certificate_signatures (certificate_id, institution_id, batch_id, signatory_index, user_id, designation, in_order, digest, status, asked_at)
					VALUES ($1, $2, $3, $4, $4, '', $5, $6, 'pending', 1)`, c.ID, s.inst.ID, c.UUID, person.ID, false, []byte{})
				return err
			}); err != nil {
				return "", err
			}
		}
		return c.UUID, nil
	case "certificate":
		return o.approvedCertificate(s.inst).UUID, nil
	case "correction":
		c, err := o.panel.Certs.ByUUID(ctx, id, s.of("certificate"))
		if err != nil {
			return "", err
		}
		return o.requestCorrection(c, "Another spelling, please."), nil
	case "template":
		made, err := o.panel.Templates.Create(ctx, certtemplate.NewTemplate{Institution: &s.inst, Name: "Sample", Design: bytes.NewReader(pdftest.Page("a design"))})
		if err != nil {
			return "", err
		}
		return made.UUID, nil
	case "picture":
		return o.panel.Templates.AddPicture(ctx, &s.inst, bytes.NewReader(samplePNG(s.t)))
	case "font":
		file := "../../typeset/testdata/SourceSerifVariable-abc.ttf"
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		// Fonts are identified by their digest, so the fonts of two institutions must be different
		// files.
		font, err := o.panel.Templates.AddFont(ctx, &s.inst, "font.ttf", bytes.NewReader(append(data, byte(id))))
		if err != nil {
			return "", err
		}
		return font.ID, nil
	case "achievement":
		o.peopleCount++
		a, err := o.Issuer.SaveAchievement(ctx, id, "", issuer.AchievementInput{Title: "BSc " + strconv.Itoa(o.peopleCount), Description: "Text", Criteria: "Text"})
		if err != nil {
			return "", err
		}
		return a.UUID, nil
	case "offer":
		return o.openOffer(s.inst).UUID, nil
	case "application":
		return o.apply(s.inst, "Chi Eze", vaulttest.PDF).UUID, nil
	case "attachment":
		a, err := o.Applications.ByUUID(ctx, id, s.of("application"))
		if err != nil {
			return "", err
		}
		return a.Files[0].ID, nil
	case "upload":
		return o.stageFile(s.inst), nil
	case "draft":
		return o.createDraft(s.inst).UUID, nil
	case "file":
		d, err := o.panel.BulkImports.ByUUID(ctx, id, o.uploader, s.of("draft"))
		if err != nil {
			return "", err
		}
		f, err := o.panel.BulkImports.AddFile(ctx, &s.inst, d, "ada.pdf", bytes.NewReader(vaulttest.PDF))
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(f.ID, 10), nil
	}
	return "", errors.New("the test has no sample for this placeholder")
}

// invitation revokes the invitations of an institution, creates a new one and returns its UUID.
func (o *panelTest) invitation(t *testing.T, inst account.Institution) (string, error) {
	t.Helper()
	o.peopleCount++
	// The number of open invitations is limited.
	if err := o.DB.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE invitations SET revoked_at = 1 WHERE institution_id = $1`, inst.ID)
		return err
	}); err != nil {
		return "", err
	}
	invitation, err := o.panel.Invitations.Invite(t.Context(), account.Installation, inst.ID, account.NewInvitation{
		Email: fmt.Sprintf("guest%d@example.org", o.peopleCount), Role: account.Issuer,
	})
	if err != nil {
		return "", err
	}
	return invitation.UUID, nil
}

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// path returns the method and the path of a route, with the samples in place of the placeholders.
func path(t *testing.T, pattern string, samples *samples) (method, target string) {
	t.Helper()
	method, target, _ = strings.Cut(pattern, " ")
	return method, placeholder.ReplaceAllStringFunc(target, func(name string) string {
		return samples.of(strings.Trim(name, "{}"))
	})
}

// TestTemplates checks that all templates of the panel can be loaded.
func TestTemplates(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if err := o.panel.Site.Check(); err != nil {
		t.Error(err)
	}
}

// TestAccess requests every route with every role, in the person's own institution and in another
// institution. The role's permissions decide access to the person's own institution. Pages and
// records of another institution are not found.
func TestAccess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips this test, which requests every route with every role; make test/long runs it")
	}
	o := newPanelTest(t, dbtest.SQLite(t))
	o.person("operator")
	o.makeOperator("operator")
	for _, rt := range o.panel.table {
		for _, s := range account.Roles {
			person := string(s.Role)
			o.uploader = o.people.persons[person].ID
			// An action may delete its subject, so each role has its own samples.
			samples, foreign := o.samples(t, o.inst), o.samples(t, o.other)
			method, target := path(t, rt.pattern, samples)
			w := o.do(person, method, target, nil)
			allowed := rt.may == "" || s.Role.Can(rt.may)
			switch {
			case rt.scope == ofOperator, strings.Contains(rt.pattern, " /setup"): // no role grants access to these pages
				if w.Code != http.StatusNotFound {
					t.Errorf("%s as %s: status = %d, want 404", rt.pattern, person, w.Code)
				}
			case allowed && (w.Code == http.StatusForbidden || w.Code == http.StatusNotFound || w.Code >= http.StatusInternalServerError):
				t.Errorf("%s as %s: status = %d, want neither 403, 404 nor a server error; page %s", rt.pattern, person, w.Code, visibleText(t, w))
			case !allowed && w.Code != http.StatusForbidden:
				t.Errorf("%s as %s: status = %d, want 403", rt.pattern, person, w.Code)
			}
			if rt.scope != ofInstitution {
				continue
			}
			method, target = path(t, rt.pattern, foreign)
			if w := o.do(person, method, target, nil); w.Code != http.StatusNotFound || strings.Contains(visibleText(t, w), "South East") {
				t.Errorf("%s of another institution as %s: status = %d, want 404 and no name of that institution; page %s", rt.pattern, person, w.Code, visibleText(t, w))
			}
			// Request a record of another institution in a path with the slug of the person's own
			// institution.
			if method, target = path(t, rt.pattern, foreign.under(o.inst.Slug)); allowed && strings.Count(rt.pattern, "{") > 1 {
				if w := o.do(person, method, target, nil); w.Code != http.StatusNotFound {
					t.Errorf("%s with a record of another institution as %s: status = %d, want 404; page %s", rt.pattern, person, w.Code, visibleText(t, w))
				}
			}
		}
		if rt.scope == ofOperator {
			method, target := path(t, rt.pattern, o.samples(t, o.inst))
			if w := o.do("operator", method, target, nil); w.Code == http.StatusNotFound || w.Code == http.StatusForbidden || w.Code >= http.StatusInternalServerError {
				t.Errorf("%s as an operator: status = %d, want neither 403, 404 nor a server error", rt.pattern, w.Code)
			}
		}
		if rt.scope == ofEveryone {
			continue
		}
		method, target := path(t, rt.pattern, o.samples(t, o.inst))
		if w := o.do("", method, target, nil); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/sign-in?next=") {
			t.Errorf("%s of a signed-out visitor: status = %d, Location = %q, want a redirect to the sign-in", rt.pattern, w.Code, w.Header().Get("Location"))
		}
		if w := o.do("guest", method, target, nil); rt.scope != ofPerson && w.Code != http.StatusNotFound {
			t.Errorf("%s of a person without an institution: status = %d, want 404", rt.pattern, w.Code)
		}
		if w := o.do("operator", method, target, nil); rt.scope == ofInstitution && w.Code != http.StatusNotFound {
			t.Errorf("%s of an operator who is no member: status = %d, want 404", rt.pattern, w.Code)
		}
	}
}

// Forms of other sites are refused. The vault checks the header Sec-Fetch-Site, or Origin if an older
// browser does not send Sec-Fetch-Site.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := o.request("owner", http.MethodPost, "/panel/nwu/tokens", url.Values{"name": {"x"}, "permissions": {"batch:list"}, "end": {"never"}})
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set(header, value)
		checkPage(t, header, o.send(r), http.StatusForbidden, "another site")
	}
	if list, err := o.panel.Tokens.List(t.Context(), o.inst.ID); err != nil || len(list) != 0 {
		t.Errorf("tokens = %v, error %v, want none", list, err)
	}
}

func TestStartPage(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	if w := o.get("admin", "/panel"); w.Header().Get("Location") != "/panel/nwu" {
		t.Errorf("a member of one institution is redirected to %q, want /panel/nwu", w.Header().Get("Location"))
	}
	o.addMember("admin", o.other, account.Auditor)
	w := o.get("admin", "/panel")
	checkPage(t, "a member of two institutions", w, http.StatusOK, "Northern & Western University", "NWU · Admin", "South East College", "SEC · Auditor")
	checkPage(t, "a member of no institution", o.get("guest", "/panel"), http.StatusOK, "You are not a member of an institution")
	if w := o.get("owner", "/panel/nwu/"); w.Code != http.StatusNotFound {
		t.Errorf("a path with a slash at its end: status = %d, want 404", w.Code)
	}
}

// The navigation contains only existing pages that the role may see, and marks the entry of the
// current page.
func TestNavigation(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	text := visibleText(t, o.get("developer", "/panel/nwu/tokens"))
	if !strings.Contains(text, "API tokens") || strings.Contains(text, "Audit log") {
		t.Errorf("navigation of a developer = %s, want API tokens and no Audit log", text)
	}
	w := o.get("developer", "/panel/nwu/tokens/new")
	if n := strings.Count(w.Body.String(), `aria-current="page"`); n != 1 || !strings.Contains(w.Body.String(), `href="/panel/nwu/tokens" aria-current="page"`) {
		t.Errorf("%d entries of the navigation are marked, want only API tokens: %s", n, w.Body)
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
				t.Errorf("the navigation links to %s, which has no route", address)
			}
		}
	}
}
