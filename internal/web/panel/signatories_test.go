package panel

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
