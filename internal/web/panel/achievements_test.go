package panel

import (
	"archive/zip"
	"bytes"
	"image"
	"image/png"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	certtemplate "github.com/certvault/certvault/internal/template"
)

// achievementForm returns a request with the form of an achievement.
func (o *panelTest) achievementForm(person, target string, picture []byte, fields map[string]string) *http.Request {
	o.tb.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for name, value := range fields {
		if err := form.WriteField(name, value); err != nil {
			o.tb.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("picture", "badge.png")
	if err == nil {
		_, err = part.Write(picture)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		o.tb.Fatal(err)
	}
	r := o.request(person, http.MethodPost, target, nil)
	inner := httptest.NewRequestWithContext(r.Context(), http.MethodPost, target, &b)
	r.Body, r.ContentLength = inner.Body, inner.ContentLength
	r.Header.Set("Content-Type", form.FormDataContentType())
	return r
}

// An owner can create, change and delete achievements. Members who may not manage templates cannot see the
// list, and other institutions and other websites can change nothing.
func TestAchievements(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewNRGBA(image.Rect(0, 0, 64, 64))); err != nil {
		t.Fatal(err)
	}
	list, form := o.pathOf("achievements"), o.pathOf("achievements/new")
	fields := map[string]string{"title": "BSc Physics", "description": "Three <b>years</b>", "criteria": "", "criteria_url": "http://x.example", "skills": "Optics\nMechanics"}
	checkPage(t, "the empty list", o.get("owner", list), http.StatusOK, "No achievements")
	checkPage(t, "wrong values", o.send(o.achievementForm("owner", form, []byte("no picture"), fields)), http.StatusUnprocessableEntity,
		"Enter a web address that begins with https://", "The picture must be a PNG or JPEG file", "Three <b>years</b>")
	fields["criteria_url"] = "https://nwu.example/physics"
	cross := o.achievementForm("owner", form, picture.Bytes(), fields)
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := o.send(cross); w.Code != http.StatusForbidden {
		t.Errorf("a form of another website: status = %d, want 403", w.Code)
	}
	for _, role := range account.Roles {
		may := account.Membership{Role: role.Role}
		w := o.get(string(role.Role), list)
		if want := may.Can(account.MayManageTemplates); (w.Code == http.StatusOK) != want {
			t.Errorf("role %s: status = %d, want 200: %v", role.Role, w.Code, want)
		}
	}
	w := o.send(o.achievementForm("owner", form, picture.Bytes(), fields))
	checkPage(t, "the list", o.followRedirect(t, "owner", w, list), http.StatusOK, "BSc Physics", "The achievement was saved")
	all, err := o.Issuer.Achievements(t.Context(), o.inst.ID)
	if err != nil || len(all) != 1 || all[0].Picture == "" {
		t.Fatalf("achievements = %v, error %v, want one with a picture", all, err)
	}
	own, foreign := list+"/"+all[0].UUID, "/panel/"+o.other.Slug+"/achievements/"+all[0].UUID
	checkPage(t, "the form", o.get("owner", own), http.StatusOK, "BSc Physics", "Remove the picture")
	checkPage(t, "the same title", o.send(o.achievementForm("owner", form, picture.Bytes(), fields)), http.StatusUnprocessableEntity, "Another achievement has this title.")
	for _, path := range []string{foreign, foreign + "/delete"} {
		checkPage(t, "another institution", o.get("outsider", path), http.StatusNotFound)
	}
	if w := o.send(o.achievementForm("outsider", foreign, nil, fields)); w.Code != http.StatusNotFound {
		t.Errorf("a change by another institution: status = %d, want 404", w.Code)
	}
	if w := o.post("outsider", foreign+"/delete", url.Values{}); w.Code != http.StatusNotFound {
		t.Errorf("a deletion by another institution: status = %d, want 404", w.Code)
	}
	o.checkTemplateOfAchievement(t, own, fields)
	checkPage(t, "the question", o.get("owner", own+"/delete"), http.StatusOK, "Delete “BSc Physics”?")
	checkPage(t, "after the deletion", o.followRedirect(t, "owner", o.post("owner", own+"/delete", url.Values{}), list), http.StatusOK, "The achievement was deleted")
	checkPage(t, "the audit log", o.get("owner", o.pathOf("audit")), http.StatusOK, "created an achievement", "deleted an achievement")
}

// checkTemplateOfAchievement checks that an achievement can have a template of its institution, but not a
// template of another institution or of another achievement.
func (o *panelTest) checkTemplateOfAchievement(t *testing.T, own string, fields map[string]string) {
	t.Helper()
	create := func(inst *account.Institution, name string) *certtemplate.Template {
		made, err := o.Templates.Create(t.Context(), certtemplate.NewTemplate{Institution: inst, Name: name, Design: bytes.NewReader(pdftest.Page("a design"))})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	mine, foreign := create(&o.inst, "Diploma <1>"), create(&o.other, "Their diploma")
	form := o.get("owner", own)
	checkPage(t, "the form with templates", form, http.StatusOK, "Diploma <1>")
	if strings.Contains(form.Body.String(), "Their diploma") {
		t.Error("the form offers a template of another institution")
	}
	fields["template"] = foreign.UUID
	checkPage(t, "a template of another institution", o.send(o.achievementForm("owner", own, nil, fields)), http.StatusUnprocessableEntity, "Choose one of the templates of the institution.")
	fields["template"] = mine.UUID
	checkPage(t, "the list with the template", o.followRedirect(t, "owner", o.send(o.achievementForm("owner", own, nil, fields)), o.pathOf("achievements")), http.StatusOK, "Diploma <1>")
	if !strings.Contains(o.get("owner", own).Body.String(), `<option value="`+mine.UUID+`" selected>`) {
		t.Error("the form does not show the chosen template")
	}
	other := maps.Clone(fields)
	other["title"] = "MSc Physics"
	checkPage(t, "the template of another achievement", o.send(o.achievementForm("owner", o.pathOf("achievements/new"), nil, other)), http.StatusUnprocessableEntity,
		"Another achievement uses this template.")
	delete(fields, "template")
	if w := o.send(o.achievementForm("owner", own, nil, fields)); w.Code != http.StatusSeeOther {
		t.Errorf("removal of the template: status = %d, want 303", w.Code)
	}
}

// Members can download the credential of one certificate, and the credentials of several as a ZIP file.
func TestCredentialsInPanel(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	first, second := o.upload(o.inst, "Ada Obi", "a.pdf"), o.upload(o.inst, "Bo Ek", "refuse.pdf")
	foreign := o.upload(o.other, "Eve Low", "e.pdf")
	o.processAll()
	path := o.pathOf("certificates/" + first.UUID)
	checkPage(t, "the certificate", o.get("auditor", path), http.StatusOK, "Download credential (JSON)", "Download badge (PNG)")
	if w := o.get("auditor", path+"/credential?format=jwt"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/vc+jwt" {
		t.Errorf("the credential: status = %d, want 200 and the type application/vc+jwt; header %v", w.Code, w.Header())
	}
	if w := o.get("owner", o.pathOf("certificates/"+foreign.UUID+"/credential")); w.Code != http.StatusNotFound {
		t.Errorf("the credential of another institution: status = %d, want 404", w.Code)
	}
	// The menu of all certificates and the bar of the selected certificates each have the button.
	if n := strings.Count(o.get("owner", o.pathOf("certificates")).Body.String(), "certificates/credentials"); n != 2 {
		t.Errorf("the list has %d buttons to download credentials, want 2", n)
	}
	w := o.post("owner", o.pathOf("certificates/credentials"), url.Values{"selected": {first.UUID, second.UUID, foreign.UUID}})
	z, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
	if err != nil {
		t.Fatalf("status = %d, header %v: the archive cannot be opened: %v", w.Code, w.Header(), err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, "; "); got != "Ada Obi, BSc Physics, "+first.ReferenceID+".json; credentials.csv" {
		t.Errorf("the archive contains %s, want one credential and credentials.csv", got)
	}
	checkPage(t, "no credential", o.post("owner", o.pathOf("certificates/credentials"), url.Values{"selected": {second.UUID}}), http.StatusUnprocessableEntity, "None of these certificates has a credential.")
}
