package panel

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	certtemplate "github.com/certvault/certvault/internal/template"
)

// templateOf returns a new template that names the persons as its signatories.
func (o *panelTest) templateOf(persons ...string) *certtemplate.Template {
	o.tb.Helper()
	made, err := o.Templates.Create(o.tb.Context(), certtemplate.NewTemplate{Institution: &o.inst, Name: "Diploma", Design: bytes.NewReader(pdftest.Page("a design"))})
	if err != nil {
		o.tb.Fatal(err)
	}
	naming := certtemplate.Naming{Revision: made.Draft.Revision}
	for _, name := range persons {
		naming.Signatories = append(naming.Signatories, certtemplate.NamedSignatory{UUID: o.people.persons[name].UUID, Designation: "Dean"})
	}
	if made, err = o.Templates.SetSignatories(o.tb.Context(), &o.inst, made.UUID, naming); err != nil {
		o.tb.Fatal(err)
	}
	return made
}

// The page of the members names all signatories who can no longer approve certificates.
func TestSeveralMissingSignatories(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.templateOf("issuer", "admin")
	for _, name := range []string{"issuer", "admin"} {
		if w := o.post("owner", o.memberPath(name)+"/remove", nil); w.Code != http.StatusSeeOther {
			t.Fatalf("removing the %s: status = %d, want 303", name, w.Code)
		}
	}
	checkPage(t, "the members", o.get("owner", o.pathOf("members")), http.StatusOK, "Several signatories can no longer approve certificates.", "Issuer Person", "Admin Person", "Name a replacement")
}

// Before a signatory leaves or gets another role, the pages show how many templates name this person.
// Afterwards, the pages of the members and of the template ask for a replacement.
func TestSignatoryWhoLeaves(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	made := o.templateOf("issuer")
	member := o.memberPath("issuer")
	for page, person := range map[string]string{member + "/remove": "owner", member: "owner", o.pathOf("leave"): "issuer"} {
		checkPage(t, page, o.get(person, page), http.StatusOK, "named as a signatory. Templates: 1. Certificates that are waiting for", "until an owner names a replacement")
	}
	for page, person := range map[string]string{o.memberPath("admin") + "/remove": "owner", o.pathOf("leave"): "admin"} {
		if text := visibleText(t, o.get(person, page)); strings.Contains(text, "as a signatory") {
			t.Errorf("%s says that a member whom no template names is a signatory: %s", page, text)
		}
	}
	w := o.get("auditor", o.pathOf("members"))
	checkPage(t, "the members", w, http.StatusOK, "Signatory of templates: 1")
	if strings.Contains(visibleText(t, w), "no longer approve") {
		t.Error("the page of the members says that a signatory can no longer approve certificates, before the role changed")
	}
	if w := o.post("owner", member, url.Values{"role": {"auditor"}}); w.Code != http.StatusSeeOther {
		t.Fatalf("changing the role: status = %d, want 303", w.Code)
	}
	checkPage(t, "the members after the role changed", o.get("owner", o.pathOf("members")), http.StatusOK, "A signatory can no longer approve certificates. Issuer Person .",
		"Name a replacement", "Signatory of templates: 1 can no longer approve")
	w = o.followRedirect(t, "owner", o.post("owner", member+"/remove", nil), o.pathOf("members"))
	checkPage(t, "the members after the removal", w, http.StatusOK, "The member was removed.", "A signatory can no longer approve certificates. Issuer Person .", "Name a replacement")
	w = o.get("admin", o.pathOf("members"))
	checkPage(t, "the members for an admin", w, http.StatusOK, "until an owner names a replacement")
	if strings.Contains(w.Body.String(), `href="`+o.pathOf("signatories")) {
		t.Error("the page for an admin has a link to a page for owners")
	}
	checkPage(t, "the template", o.get("owner", o.pathOf("templates/"+made.UUID)), http.StatusOK, "A signatory can no longer approve certificates.", "Name a replacement")
}

// A signatory who selects "Approve all" or "Decline all" decides the certificates on the shown page. If
// other certificates wait now, the page is shown again.
func TestApproveAllThatWereShown(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	ctx := t.Context()
	path := o.published(t)
	made, err := o.Templates.ByUUID(ctx, o.inst.ID, path[strings.LastIndex(path, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	naming := certtemplate.Naming{Revision: made.Published.Revision, Signatories: []certtemplate.NamedSignatory{{UUID: o.people.persons["owner"].UUID}}}
	if made, err = o.Templates.SetSignatories(ctx, &o.inst, made.UUID, naming); err == nil {
		_, err = o.Templates.Publish(ctx, &o.inst, made.UUID, made.Draft.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name, email string) *cert.Certificate {
		entry := certtemplate.Entry{FullName: name, Email: email, Title: "Diploma", Values: map[string]string{"Final grade": "A"}}
		u, err := o.Templates.Upload(ctx, &o.inst, cert.Actor{Type: "user", ID: 7, Name: "Issuer"}, made.UUID, entry)
		if err != nil {
			t.Fatal(err)
		}
		c, err := o.Certs.Upload(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := issue("Amelia Hart", "amelia@example.org")
	page := o.pathOf("approvals/single")
	seen := hiddenValues(o.get("owner", page), "seen")
	if _, err := o.Certs.Revoke(ctx, o.inst.ID, first.UUID, cert.Revocation{Reason: "Issued by mistake"}); err != nil {
		t.Fatal(err)
	}
	issue("Zoë Unseen", "zoe@example.org")
	var again *httptest.ResponseRecorder
	for _, form := range []url.Values{{"do": {"approve-all"}, "seen": seen}, {"do": {"decline-all"}, "seen": seen, "reason": {"Wrong date"}}, {"do": {"approve-all"}, "n": {"1"}}} {
		again = o.post("owner", page, form)
		checkPage(t, form.Encode(), again, http.StatusConflict, "waiting for your approval have changed in the meantime", "Zoë Unseen")
	}
	w := o.post("owner", page, url.Values{"do": {"approve-all"}, "seen": hiddenValues(again, "seen")})
	checkPage(t, "after another look", o.followRedirect(t, "owner", w, o.pathOf("approvals")), http.StatusOK, "Approved certificates: 1")
}
