package recipient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

const applyPath = "/account/apply/nwu/diploma"

// openOffer creates an open offer with a field of each type.
func (h *harness) openOffer() *application.Offer {
	h.t.Helper()
	o, err := h.Applications.CreateOffer(h.t.Context(), h.inst, application.OfferInput{
		Slug: "diploma", Name: "Diploma <i>Obi</i>", Description: "A diploma", MaxFiles: 3,
		Fields: []application.Field{
			{Key: "number", Label: "Student number", Type: application.Line, Required: true, Help: "On your card"},
			{Key: "about", Label: "About you", Type: application.Area},
			{Key: "born", Label: "Date of birth", Type: application.Date},
			{Key: "points", Label: "Points", Type: application.Number},
			{Key: "course", Label: "Course", Type: application.Choice, Choices: []string{"Law", "Physics"}},
			{Key: "agree", Label: "I agree", Type: application.Check, Required: true},
			{Key: "proof", Label: "Proof", Type: application.Upload, Required: true},
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if o, err = h.Applications.SetOfferStatus(h.t.Context(), h.inst.ID, o.UUID, application.Open); err != nil {
		h.t.Fatal(err)
	}
	return o
}

// postFiles sends a multipart form. fields are the names of the fields, each followed by its value. If the
// name of a field begins with @, the field is a file, and the value is the name of the file.
func (h *harness) postFiles(target string, script bool, fields ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		name, isFile := strings.CutPrefix(fields[i], "@")
		if !isFile {
			if err := form.WriteField(name, fields[i+1]); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		part, err := form.CreateFormFile(name, fields[i+1])
		if err != nil {
			h.t.Fatal(err)
		}
		content := vaulttest.PDF
		switch fields[i+1] {
		case "list.txt", "passport.txt":
			content = []byte("only text")
		case "large.pdf":
			content = append(slices.Clone(content), make([]byte, cert.MaxFile)...)
		}
		if _, err := part.Write(content); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		h.t.Fatal(err)
	}
	header := []string{"Sec-Fetch-Site", "same-origin", "Content-Type", form.FormDataContentType()}
	if script {
		header = append(header, web.ScriptHeader, "1")
	}
	return h.send(http.MethodPost, target, b.String(), header...)
}

// checkRedirect checks that a response redirects to a path.
func (h *harness) checkRedirect(name string, w *httptest.ResponseRecorder, to string) {
	h.t.Helper()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
		h.t.Fatalf("%s: status = %d, Location = %q, want 303 and %q: %s", name, w.Code, w.Header().Get("Location"), to, w.Body)
	}
}

// reviewer returns the reviewer who performs the steps of the institution.
func (h *harness) reviewer() application.Reviewer {
	return application.Reviewer{Institution: h.inst, Person: application.Person{ID: 7, Type: "token", Name: "Hidden Reviewer"}}
}

// step fails the test if err is not nil.
func (h *harness) step(_ *application.Application, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// rows returns the number of rows of drafts, applications and files.
func (h *harness) rows() (n int) {
	h.t.Helper()
	if err := h.DB.QueryRowContext(h.t.Context(), `
		SELECT (SELECT count(*) FROM application_drafts) + (SELECT count(*) FROM applications) + (SELECT count(*) FROM application_files)`).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestNothingIsStoredBeforeVerification checks that a person without a verified address cannot save or send
// an application, and is asked to verify an address.
func TestNothingIsStoredBeforeVerification(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.openOffer()
	for _, person := range []*identity.Session{nil, {Person: identity.Person{ID: 1, Name: "Eve", Email: "eve@example.org"}}} {
		h.person = person
		action := `action="/sign-up"`
		if person != nil {
			action = `action="/sign-in/link"`
		}
		w := h.get(applyPath)
		h.checkPage("the first page", w, http.StatusOK, "Confirm your address", action, `name="next" value="`+applyPath+`"`)
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Error("the first page does not have Cache-Control: no-store")
		}
		to := "/sign-in"
		if person != nil {
			to = applyPath
		}
		h.checkRedirect("saving", h.postFiles(applyPath, false, "full_name", "Eve", "@field_proof", "proof.pdf"), to)
		h.checkRedirect("sending", h.post(applyPath+"/send"), to)
	}
	if n := h.rows(); n != 0 {
		t.Errorf("%d rows are stored before the address is verified, want 0", n)
	}
}

var removeButton = regexp.MustCompile(`name="remove" value="([^"]+)"`)

// TestPersonAppliesAndGetsCertificate checks each step of an application, from the form to the certificate.
func TestPersonAppliesAndGetsCertificate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.openOffer()
	h.signInToNewAccount()
	h.checkPage("an empty form", h.get(applyPath), http.StatusOK, `value="Ada"`, "ada@example.org", "About you</bdi> (optional)", `<option>Physics</option>`)
	h.checkRedirect("saving a part", h.postFiles(applyPath, false, "full_name", "Ada <i>Obi</i>", "field_about", "Two\nlines", "field_proof", "", "step", "save"), applyPath)
	w := h.postFiles(applyPath, false, "@field_proof", "large.pdf", "step", "save")
	h.checkPage("a large file", w, http.StatusUnprocessableEntity, "Proof: the file is larger than 20 MB.")
	w = h.postFiles(applyPath, false, "full_name", "Ada <i>Obi</i>", "field_points", "1,5", "step", "review")
	h.checkPage("an incomplete form", w, http.StatusUnprocessableEntity, "Student number: enter an answer.", `href="#field_agree"`, "Proof: add a file.", "Ada &lt;i&gt;Obi")
	w = h.postFiles(applyPath, true, "full_name", "Ada <i>Obi</i>", "field_number", "N 1", "field_agree", "yes", "field_course", "Law", "field_born", "2001-02-03",
		"field_about", "Two\nlines", "@field_proof", "first.pdf", "@field_proof", "list.txt", "@field_proof", "second.pdf")
	h.checkPage("the response to the script", w, http.StatusUnprocessableEntity, "first.pdf", "second.pdf", "Proof: this file cannot be used.")
	if strings.Contains(w.Body.String(), "list.txt") {
		t.Error("the form lists a refused file")
	}
	form := []string{"full_name", "Ada <i>Obi</i>", "field_number", "N 1", "field_agree", "yes", "field_course", "Law", "field_born", "2001-02-03", "field_about", "Two\nlines"}
	id := removeButton.FindStringSubmatch(w.Body.String())[1]
	h.checkRedirect("removing a file", h.postFiles(applyPath, false, append(form, "remove", id)...), applyPath)
	h.checkRedirect("reviewing", h.postFiles(applyPath, false, append(form, "step", "review")...), applyPath+"/review")
	review := h.get(applyPath + "/review")
	h.checkPage("the review", review, http.StatusOK, "N 1", "second.pdf", "3 February 2001", "Law", "Yes", "Two\nlines", `action="`+applyPath+`/send"`)
	if strings.Contains(review.Body.String(), "first.pdf") {
		t.Error("the review has a removed file")
	}
	h.checkPage("the list with a draft", h.get("/account/applications"), http.StatusOK, "Drafts", `href="`+applyPath+`"`)
	w = h.post(applyPath+"/send", "draft", hidden(h, review, "draft"))
	path, isSent := strings.CutSuffix(w.Header().Get("Location"), "/sent")
	if !isSent {
		t.Fatalf("sending: status = %d, Location = %q, want a path that ends with /sent: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	uuid := strings.TrimPrefix(path, "/account/applications/")
	h.checkPage("the confirmation", h.get(path+"/sent"), http.StatusOK, "Your application was sent", "NWU-", `href="`+path+`"`)
	// A second click redirects to the form, and the form redirects to the application.
	h.checkRedirect("sending again", h.post(applyPath+"/send"), applyPath)
	h.checkRedirect("the form of an open application", h.get(applyPath), path)
	h.checkPage("the list", h.get("/account/applications"), http.StatusOK, `href="`+path+`"`, "Received", "Diploma &lt;i&gt;")

	h.step(h.Applications.Claim(t.Context(), h.reviewer(), uuid))
	h.step(h.Applications.Hold(t.Context(), h.reviewer(), uuid, application.Identity, "Please send <i>Obi</i> your passport."))
	h.step(h.Applications.SetNote(t.Context(), h.reviewer(), uuid, "secret note"))
	held := h.get(path)
	h.checkPage("a question", held, http.StatusOK, "Answer needed", "needs proof of your identity", "your passport.", `action="`+path+`/answer"`, "You sent the application.")
	hold := hidden(h, held, "hold")
	h.checkPage("an empty answer", h.postFiles(path+"/answer", false, "hold", hold, "answer", " "), http.StatusUnprocessableEntity, "Your answer: enter an answer.")
	h.checkPage("a refused file", h.postFiles(path+"/answer", false, "hold", hold, "answer", "Here", "@files", "passport.txt"), http.StatusUnprocessableEntity, "Files: this file cannot be used", ">Here</textarea>")
	h.checkPage("a large file of an answer", h.postFiles(path+"/answer", false, "hold", hold, "answer", "Here", "@files", "large.pdf"), http.StatusUnprocessableEntity,
		"Files: the file is larger than 20 MB.")
	answered := h.postFiles(path+"/answer", true, "hold", hold, "answer", "Here <i>Obi</i>", "@files", "passport.pdf", "@files", "back.pdf")
	if answered.Code != http.StatusOK || answered.Header().Get("Location") != path {
		t.Fatalf("answering by script: status = %d, Location = %q, want 200 and %q: %s", answered.Code, answered.Header().Get("Location"), path, answered.Body)
	}
	shown := h.get(path)
	h.checkPage("an answered question", shown, http.StatusOK, "Answer sent", "passport.pdf", "back.pdf", "Here &lt;i&gt;", "Withdraw application")
	file := regexp.MustCompile(path + `/files/[0-9a-f-]+`).FindString(shown.Body.String())
	got := h.get(file)
	if got.Code != http.StatusOK || got.Body.String() != string(vaulttest.PDF) || got.Header().Get("Content-Security-Policy") != web.StyledFilePolicy ||
		!strings.HasPrefix(got.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("a file: status = %d, header %v, want 200 and the file as an attachment with the policy for files", got.Code, got.Header())
	}
	for _, page := range []*httptest.ResponseRecorder{held, shown} {
		for _, hidden := range []string{"secret note", "Hidden Reviewer"} {
			if strings.Contains(page.Body.String(), hidden) {
				t.Errorf("the applicant sees %q", hidden)
			}
		}
	}
	owner := h.person
	h.person = &identity.Session{Person: identity.Person{ID: owner.Person.ID + 1, Name: "Eve", Email: "eve@example.org", Verified: true}}
	for _, target := range []string{path, path + "/sent", path + "/withdraw", file} {
		if w := h.get(target); w.Code != http.StatusNotFound {
			t.Errorf("another person: GET %s = %d, want 404", target, w.Code)
		}
	}
	for _, target := range []string{"/answer", "/withdraw"} {
		if w := h.post(path+target, "answer", "x"); w.Code != http.StatusNotFound {
			t.Errorf("another person: POST %s = %d, want 404", target, w.Code)
		}
	}
	h.person = owner

	h.approve(uuid)
	h.checkPage("an approved application", h.get(path), http.StatusOK, "Certificate in preparation")
	h.finishWork()
	h.checkPage("a finished application", h.get(path), http.StatusOK, "Approved", `href="/account/certificates/`+uuid+`"`, "The certificate was issued.")
	h.checkPage("the certificate", h.get("/account/certificates/"+uuid), http.StatusOK, "This certificate is valid")
	if log := h.log.String(); strings.Contains(log, "example.org") || strings.Contains(log, "passport") {
		t.Errorf("the log contains an address or the name of a file: %s", log)
	}
}

// hidden returns the value of a hidden control of a page.
func hidden(h *harness, w *httptest.ResponseRecorder, name string) string {
	h.t.Helper()
	found := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]+)"`).FindStringSubmatch(w.Body.String())
	if found == nil {
		h.t.Fatalf("the page has no hidden control %s: %s", name, w.Body)
	}
	return found[1]
}

// TestAnswerToReplacedQuestion checks that an answer is not stored for a question that the applicant has not
// seen, and that the text is kept.
func TestAnswerToReplacedQuestion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.signInToNewAccount()
	path := h.sendSimple("one")
	uuid := strings.TrimPrefix(path, "/account/applications/")
	h.step(h.Applications.Hold(t.Context(), h.reviewer(), uuid, application.Information, "Which group?"))
	old := hidden(h, h.get(path), "hold")
	h.Advance(time.Minute)
	h.step(h.Applications.Hold(t.Context(), h.reviewer(), uuid, application.Payment, "Please pay 40 EUR."))
	const changed = "The institution has changed its question"
	w := h.post(path+"/answer", "hold", old, "answer", "Group B")
	h.checkPage("an answer to the old question", w, http.StatusConflict, changed, "Please pay 40 EUR.", ">Group B</textarea>")
	// The new page has the new question, even if the form has another problem.
	h.checkPage("a refused file", h.postFiles(path+"/answer", false, "hold", old, "answer", "Group B", "@files", "passport.txt"), http.StatusConflict, changed)
	h.checkPage("an answer without a question", h.post(path+"/answer", "answer", "Group B"), http.StatusConflict, changed)
	h.checkRedirect("an answer to the new question", h.post(path+"/answer", "hold", hidden(h, w, "hold"), "answer", "Paid."), path)
	h.checkPage("the application", h.get(path), http.StatusOK, "Answer sent", "Paid.")
}

// TestSendingWhatWasReviewed checks that an application is sent only if the review shows it, and that an old
// form does not replace a newer draft.
func TestSendingWhatWasReviewed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.openOffer()
	h.signInToNewAccount()
	form := func(draft, number string, more ...string) []string {
		return append([]string{"draft", draft, "full_name", "Ada Obi", "field_number", number, "field_agree", "yes"}, more...)
	}
	empty := hidden(h, h.get(applyPath), "draft")
	// The script replaces the hidden control with that of the response, so that it can save again.
	w := h.postFiles(applyPath, true, form(empty, "N 1", "@field_proof", "proof.pdf")...)
	h.checkPage("an upload by the script", w, http.StatusOK, "proof.pdf")
	w = h.postFiles(applyPath, true, form(hidden(h, w, "draft"), "N 2", "@field_proof", "list.txt")...)
	h.checkPage("a refused file", w, http.StatusUnprocessableEntity, "Proof: this file cannot be used")
	h.checkRedirect("reviewing", h.postFiles(applyPath, false, form(hidden(h, w, "draft"), "N 3", "step", "review")...), applyPath+"/review")
	review := h.get(applyPath + "/review")
	newer := hidden(h, h.get(applyPath), "draft")

	const changed = "Your draft or the questions have changed"
	w = h.postFiles(applyPath, true, form(empty, "N 4", "@field_proof", "more.pdf")...)
	h.checkPage("an upload in an old form", w, http.StatusConflict, changed, "more.pdf")
	if got := hidden(h, w, "draft"); got != empty {
		t.Errorf("after the upload in an old form, its draft is %s, want the old one", got)
	}
	w = h.postFiles(applyPath, false, form(empty, "N 4", "step", "review")...)
	h.checkPage("saving an old form", w, http.StatusConflict, changed, `value="N 4"`)
	if got := hidden(h, w, "draft"); got != newer {
		t.Errorf("in the form with the message, the draft is %s, want the newer one", got)
	}
	w = h.post(applyPath+"/send", "draft", hidden(h, review, "draft"))
	h.checkPage("sending after an upload", w, http.StatusConflict, changed, "the application was not sent", "N 3", "more.pdf")
	if sent := h.post(applyPath+"/send", "draft", hidden(h, w, "draft")); !strings.HasSuffix(sent.Header().Get("Location"), "/sent") {
		t.Errorf("sending the second review: status = %d, Location = %q, want a path that ends with /sent", sent.Code, sent.Header().Get("Location"))
	}
}

// approve approves an application and uploads the file of its certificate.
func (h *harness) approve(uuid string) {
	h.t.Helper()
	err := h.Certs.Receive(h.t.Context(), h.inst.UUID, cert.NewIncoming("diploma.pdf", bytes.NewReader(vaulttest.PDF)), func(f *cert.File) error {
		_, err := h.Applications.Approve(context.WithoutCancel(h.t.Context()), h.reviewer(), uuid, application.Approval{Title: "Diploma", IssueDate: "2026-06-30", File: f})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// sendSimple creates an open offer without fields, sends an application for it, and returns the path of the
// application.
func (h *harness) sendSimple(slug string) string {
	h.t.Helper()
	o, err := h.Applications.CreateOffer(h.t.Context(), h.inst, application.OfferInput{Slug: slug, Name: "Attendance " + slug})
	if err == nil {
		_, err = h.Applications.SetOfferStatus(h.t.Context(), h.inst.ID, o.UUID, application.Open)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.checkRedirect("reviewing", h.post("/account/apply/nwu/"+slug, "full_name", "Ada Obi", "step", "review"), "/account/apply/nwu/"+slug+"/review")
	w := h.post("/account/apply/nwu/"+slug+"/send", "draft", hidden(h, h.get("/account/apply/nwu/"+slug+"/review"), "draft"))
	return strings.TrimSuffix(w.Header().Get("Location"), "/sent")
}

func TestApplicationsThatEnd(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.signInToNewAccount()
	h.checkPage("an empty list", h.get("/account/applications"), http.StatusOK, "No applications yet")
	rejected := h.sendSimple("one")
	h.step(h.Applications.Reject(t.Context(), h.reviewer(), strings.TrimPrefix(rejected, "/account/applications/"), "No record <i>Obi</i>", "secret note"))
	w := h.get(rejected)
	h.checkPage("a rejected application", w, http.StatusOK, "Rejected", "No record &lt;i&gt;", "NWU-")
	if strings.Contains(w.Body.String(), "secret note") || strings.Contains(w.Body.String(), "Withdraw") {
		t.Error("the page of a rejected application contains the note, or a link to withdraw the application")
	}
	withdrawn := h.sendSimple("two")
	h.checkPage("the confirmation", h.get(withdrawn+"/withdraw"), http.StatusOK, "Withdraw your application?", "Attendance two")
	h.checkRedirect("withdrawing", h.post(withdrawn+"/withdraw"), withdrawn)
	h.checkPage("a withdrawn application", h.get(withdrawn), http.StatusOK, "You have withdrawn this application.")
	h.checkPage("withdrawing again", h.post(withdrawn+"/withdraw"), http.StatusBadRequest, "has changed in the meantime")
	closed := h.sendSimple("three")
	h.step(h.Applications.Withdraw(t.Context(), h.reviewer(), strings.TrimPrefix(closed, "/account/applications/")))
	h.checkPage("an application that a reviewer withdrew", h.get(closed), http.StatusOK, "This application was withdrawn.")
	for _, l := range []string{"es", "fr", "de", "pt", "ar", "hi", "zh"} {
		h.checkPage(l, h.get(rejected+"?lang="+l), http.StatusOK, `lang="`+l+`"`)
	}
}

// TestClosedOffers checks the pages of a closed offer and of unknown offers.
func TestClosedOffers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	o := h.openOffer()
	h.signInToNewAccount()
	if _, err := h.Applications.SetOfferStatus(t.Context(), h.inst.ID, o.UUID, application.Closed); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{applyPath, applyPath + "/review", "/account/apply/nwu/unknown"} {
		h.checkPage(target, h.get(target), http.StatusNotFound, "You cannot apply here at the moment", `href="/apply/nwu"`)
	}
	h.checkPage("saving", h.postFiles(applyPath, false, "full_name", "Ada"), http.StatusNotFound, "You cannot apply here at the moment")
	if w := h.get("/account/apply/unknown/diploma"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown institution: status = %d, want 404", w.Code)
	}
}

// TestLimitsOfApplications checks the limits for the number of open applications and of files, and for the
// size of a form.
func TestLimitsOfApplications(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.signInToNewAccount()
	for _, slug := range []string{"a", "b", "c", "d", "e"} {
		h.sendSimple(slug)
	}
	h.openOffer()
	form := []string{"full_name", "Ada", "field_number", "1", "field_agree", "yes", "@field_proof", "1.pdf", "@field_proof", "2.pdf", "@field_proof", "3.pdf"}
	h.checkPage("four files", h.postFiles(applyPath, false, append(form, "@field_proof", "4.pdf")...), http.StatusUnprocessableEntity, "Proof: there are too many files.", "Files: 3 of 3")
	h.checkPage("a sixth application", h.postFiles(applyPath, false, append(form[:6:6], "step", "review")...), http.StatusUnprocessableEntity, "the maximum number of open applications")
	w := h.send(http.MethodPost, applyPath, "full_name="+strings.Repeat("a", maxForm), "Sec-Fetch-Site", "same-origin")
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: status = %d, want 413", w.Code)
	}
}

// The errors for a full quota of drafts and for too many requests have the same kind, but different messages.
func TestMessagesAboutTooMany(t *testing.T) {
	t.Parallel()
	l := texts{newHarness(t, 0).Languages.Languages()[0]}
	for err, want := range map[error]string{
		fmt.Errorf("adding a file: %w", application.ErrFull): "my_application.problem_full", fault.New(fault.TooMany, "Too many"): "my_application.problem_too_often",
	} {
		got, ok := errors.AsType[*fault.Error](l.applicationError(err, nil))
		if !ok || got.Kind != fault.TooMany || got.Message != want || !l.language.Has(want) {
			t.Errorf("the message of %v is %+v, want %s", err, got, want)
		}
	}
}

// TestCatalogHasMessagesOfApplications checks the messages whose keys are chosen at run time.
func TestCatalogHasMessagesOfApplications(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	language := h.Languages.Languages()[0]
	check := func(key string) {
		if !language.Has(key) {
			t.Errorf("the catalog has no message %s", key)
		}
	}
	for state := range states {
		check("my_application.state_" + state)
		check("my_application.state_" + state + "_text")
	}
	for _, kind := range []application.HoldKind{application.Information, application.Payment, application.Identity} {
		check("my_application.hold_" + string(kind))
	}
	for _, key := range happenings {
		check(key)
	}
	for _, key := range notices {
		check(key)
	}
	l := texts{language}
	fields := []application.Field{{Key: "a", Label: "A", Type: application.Check}, {Key: "b", Label: "B", Type: application.Upload}, {Key: "c", Label: "C", Type: application.Line}}
	for _, code := range []cert.Code{
		cert.CodeRequired, cert.CodeTooLong, cert.CodeNotText, cert.CodeNotDate, cert.CodeRefusedFile, application.CodeNumber, application.CodeChoice, application.CodeFiles,
		application.CodeField, application.CodeOpen, application.CodeTooManyOpen, "no_room",
	} {
		for _, field := range []cert.Field{cert.FieldName, application.FieldOf("a"), application.FileOf("b"), application.FieldOf("c"), "answer", "files", answerFiles} {
			for _, limit := range []int{0, cert.MaxFile} {
				if _, text := l.problem(cert.Problem{Field: field, Code: code, Limit: limit}, fields); !strings.Contains(text, " ") {
					t.Errorf("the message about %s of %s with the limit %d is %q, want a sentence", code, field, limit, text)
				}
			}
		}
	}
}
