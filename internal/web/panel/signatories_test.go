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

// The page of the members names all signatories who can no longer sign.
func TestSeveralMissingSignatories(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	made, err := o.Templates.Create(t.Context(), certtemplate.NewTemplate{Institution: &o.inst, Name: "Diploma", Design: bytes.NewReader(pdftest.Page("a design"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Templates.SetSignatories(t.Context(), &o.inst, made.UUID, certtemplate.Naming{
		Revision: made.Draft.Revision, Signatories: []certtemplate.NamedSignatory{
			{UUID: o.people.persons["issuer"].UUID, Designation: "Dean"}, {UUID: o.people.persons["admin"].UUID, Designation: "Registrar"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"issuer", "admin"} {
		if w := o.post("owner", o.memberPath(name)+"/remove", nil); w.Code != http.StatusSeeOther {
			t.Fatalf("removing the %s: status = %d, want 303", name, w.Code)
		}
	}
	checkPage(t, "the members", o.get("owner", o.pathOf("members")), http.StatusOK, "Several signatories can no longer sign.", "Issuer Person", "Admin Person", "Name a replacement")
}

// Before a signatory leaves or changes the role, the pages show how many templates name this person.
// Afterwards, the pages of the members and of the template ask for a replacement.
func TestSignatoryWhoLeaves(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	made, err := o.Templates.Create(t.Context(), certtemplate.NewTemplate{Institution: &o.inst, Name: "Diploma", Design: bytes.NewReader(pdftest.Page("a design"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Templates.SetSignatories(t.Context(), &o.inst, made.UUID, certtemplate.Naming{
		Revision: made.Draft.Revision, Signatories: []certtemplate.NamedSignatory{{UUID: o.people.persons["issuer"].UUID, Designation: "Dean"}},
	}); err != nil {
		t.Fatal(err)
	}
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
	if strings.Contains(visibleText(t, w), "no longer sign") {
		t.Error("the page of the members says that a signatory can no longer sign, before the role changed")
	}
	if w := o.post("owner", member, url.Values{"role": {"auditor"}}); w.Code != http.StatusSeeOther {
		t.Fatalf("changing the role: status = %d, want 303", w.Code)
	}
	checkPage(t, "the members after the role changed", o.get("owner", o.pathOf("members")), http.StatusOK, "A signatory can no longer sign. Issuer Person .",
		"Name a replacement", "Signatory of templates: 1 can no longer sign")
	w = o.followRedirect(t, "owner", o.post("owner", member+"/remove", nil), o.pathOf("members"))
	checkPage(t, "the members after the removal", w, http.StatusOK, "The member was removed.", "A signatory can no longer sign. Issuer Person .", "Name a replacement")
	w = o.get("admin", o.pathOf("members"))
	checkPage(t, "the members for an admin", w, http.StatusOK, "until an owner names a replacement")
	if strings.Contains(w.Body.String(), `href="`+o.pathOf("signatories")) {
		t.Error("the page for an admin has a link to a page for owners")
	}
	checkPage(t, "the template", o.get("owner", o.pathOf("templates/"+made.UUID)), http.StatusOK, "A signatory can no longer sign.", "Name a replacement")
}
