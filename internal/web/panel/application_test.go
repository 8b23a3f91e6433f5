package panel

import (
	"bytes"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

// openOffer creates an open offer of an institution, without a template. Each offer has a different name.
func (o *panelTest) openOffer(inst account.Institution, changes ...func(*application.OfferInput)) *application.Offer {
	o.tb.Helper()
	o.peopleCount++
	in := application.OfferInput{
		Slug: fmt.Sprintf("summer-school-%d", o.peopleCount), Name: fmt.Sprintf("Summer school %d", o.peopleCount), Criteria: "Three days of attendance.",
		Fields: []application.Field{
			{Key: "number", Label: "Student number", Type: application.Line, Required: true},
			{Key: "proof", Label: "Proof of attendance", Type: application.Upload},
		},
		HoldTexts: map[application.HoldKind]string{application.Payment: "Please pay the fee."},
	}
	for _, change := range changes {
		change(&in)
	}
	offer, err := o.Applications.CreateOffer(o.tb.Context(), &inst, in)
	if err == nil {
		offer, err = o.Applications.SetOfferStatus(o.tb.Context(), inst.ID, offer.UUID, application.Open)
	}
	if err != nil {
		o.tb.Fatal(err)
	}
	return offer
}

// apply submits an application for a new offer, with an attachment unless file is nil.
func (o *panelTest) apply(inst account.Institution, name string, file []byte) *application.Application {
	o.tb.Helper()
	return o.applyFor(o.openOffer(inst), inst, name, file)
}

// applyFor submits an application. Each application has a different e-mail address.
func (o *panelTest) applyFor(offer *application.Offer, inst account.Institution, name string, file []byte) (a *application.Application) {
	o.tb.Helper()
	o.peopleCount++
	in := application.Submission{
		Institution: &inst, Offer: offer, Creator: cert.Actor{Type: "token", ID: 1, Name: "Student system"}, FullName: name,
		Email: fmt.Sprintf("applicant%d@example.org", o.peopleCount), Values: map[string]string{"number": "M-1001"},
	}
	submit := func() (err error) {
		a, err = o.Applications.Submit(o.tb.Context(), in)
		return err
	}
	var err error
	if file == nil {
		err = submit()
	} else {
		err = o.Applications.Receive(o.tb.Context(), inst.UUID, cert.NewIncoming("attendance.pdf", bytes.NewReader(file)), func(f *cert.File) error {
			in.Files = map[string][]*cert.File{"proof": {f}}
			return submit()
		})
	}
	if err != nil {
		o.tb.Fatal(err)
	}
	return a
}

// applicationNow reads an application again.
func (o *panelTest) applicationNow(a *application.Application) *application.Application {
	o.tb.Helper()
	now, err := o.Applications.ByUUID(o.tb.Context(), o.inst.ID, a.UUID)
	if err != nil {
		o.tb.Fatal(err)
	}
	return now
}

// multi sends a multipart form. A value that begins with "@" is the content of a file.
func (o *panelTest) multi(person, target string, fields ...[2]string) *httptest.ResponseRecorder {
	o.tb.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		content, isFile := strings.CutPrefix(f[1], "@")
		if !isFile {
			if err := w.WriteField(f[0], f[1]); err != nil {
				o.tb.Fatal(err)
			}
			continue
		}
		part, err := w.CreateFormFile(f[0], f[0]+map[bool]string{true: ".pdf", false: ".csv"}[strings.HasPrefix(content, "%PDF")])
		if err == nil {
			_, err = part.Write([]byte(content))
		}
		if err != nil {
			o.tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		o.tb.Fatal(err)
	}
	r := o.request(person, http.MethodPost, target, nil)
	r = r.Clone(r.Context())
	body := httptest.NewRequestWithContext(r.Context(), http.MethodPost, "https://vault.example"+target, &b)
	body.TLS, body.RemoteAddr, body.Header = r.TLS, r.RemoteAddr, r.Header
	body.Header.Set("Content-Type", w.FormDataContentType())
	return o.send(body)
}

// After a reviewer decides an application or puts it on hold, the next application of the same view of the
// queue is shown.
func TestReviewersDecideApplications(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	offer := o.openOffer(o.inst)
	var list []*application.Application
	for _, name := range []string{"Ada Obi", "Ben Cole", "Chi Eze", "Dora Maar"} {
		list = append(list, o.applyFor(offer, o.inst, name, vaulttest.PDF))
	}
	path := func(a *application.Application) string { return o.pathOf("applications/" + a.UUID) }
	w := o.get("reviewer", o.pathOf("applications"))
	checkPage(t, "the queue", w, http.StatusOK, "Ada Obi", "Dora Maar", "New 4", "All open 4", "Applications 4 waiting")
	w = o.get("reviewer", path(list[0])+"?tab=new")
	checkPage(t, "an application", w, http.StatusOK, "Ada Obi", "M-1001", "attendance.pdf", "Three days of attendance.", "Next application")
	if total := o.weight(t, w.Body.Bytes()); total > maxWeight {
		t.Errorf("the page of an application and its assets have %d bytes, want at most %d", total, maxWeight)
	}
	if !strings.Contains(w.Body.String(), `data-text="Please pay the fee."`) {
		t.Error("the page does not contain the suggested text about a payment")
	}
	if o.linkTo(w, `Next application <kbd aria-hidden="true">n</kbd>`) != path(list[1])+"?tab=new" {
		t.Errorf("the link to the next application does not lead to Ben Cole: %s", w.Body)
	}

	w = o.multi("reviewer", path(list[0])+"/approve", [2]string{"tab", "new"}, [2]string{"certificate_title", "Summer school"}, [2]string{"revision", "1"}, [2]string{"file", "@" + string(vaulttest.PDF)})
	checkPage(t, "the next application", o.followRedirect(t, "reviewer", w, path(list[1])+"?tab=new"), http.StatusOK, "Ben Cole", "was approved. This is the next one.")
	if now := o.applicationNow(list[0]); now.Status != cert.Processing || now.Title != "Summer school" || now.DecidedBy.Name != "Reviewer Person" {
		t.Errorf("approved application = %s, %q by %q, want processing, \"Summer school\" by \"Reviewer Person\"", now.Status, now.Title, now.DecidedBy.Name)
	}
	w = o.post("reviewer", path(list[1])+"/hold", url.Values{"tab": {"new"}, "hold": {"information"}, "text": {"Which course?"}})
	o.followRedirect(t, "reviewer", w, path(list[2])+"?tab=new")
	if now := o.applicationNow(list[1]); now.Hold == nil || now.Hold.Text != "Which course?" {
		t.Errorf("hold = %+v, want the question \"Which course?\"", now.Hold)
	}
	w = o.post("reviewer", path(list[2])+"/reject", url.Values{"tab": {"new"}, "reason": {"You did not attend."}, "note": {"Absent"}})
	o.followRedirect(t, "reviewer", w, path(list[3])+"?tab=new")
	if now := o.applicationNow(list[2]); now.Status != cert.Rejected || now.Reason != "You did not attend." || now.Note != "Absent" {
		t.Errorf("rejected application = %s, reason %q, note %q, want rejected with the submitted reason and note", now.Status, now.Reason, now.Note)
	}
	w = o.post("reviewer", path(list[3])+"/withdraw", url.Values{"tab": {"new"}})
	checkPage(t, "the end of the queue", o.followRedirect(t, "reviewer", w, o.pathOf("applications?tab=new")), http.StatusOK, "No other application is waiting", "No applications here")
	checkPage(t, "a rejection without a reason", o.post("reviewer", path(list[1])+"/reject", url.Values{}), http.StatusUnprocessableEntity, "Ben Cole", "reason")
	if now := o.applicationNow(list[1]); now.Status != cert.Pending {
		t.Errorf("status after a rejection without a reason = %s, want pending", now.Status)
	}
	checkPage(t, "the tab of held applications", o.get("reviewer", o.pathOf("applications?tab=hold")), http.StatusOK, "Ben Cole", "On hold: question")
	checkPage(t, "the tab of decided applications", o.get("reviewer", o.pathOf("applications?tab=ended")), http.StatusOK, "Ada Obi", "Rejected", "Withdrawn")
}

// The tab of ended applications also contains approved applications that wait for signatories, although the
// status of their certificates is still pending. The order of the tab can be reversed.
func TestEndedApplications(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	a := o.apply(o.inst, "Ada Obi", nil)
	o.Exec(`UPDATE applications SET status = 'accepted', decided_at = 1 WHERE uuid = $1`, a.UUID)
	for target, want := range map[string][]string{
		"applications?tab=ended":             {"Ada Obi", "Waiting for signatories", `aria-sort="descending"`, "sort=oldest"},
		"applications?tab=ended&sort=oldest": {"Ada Obi", `aria-sort="ascending"`, `applications?tab=ended"`},
		"applications":                       {"No applications here"},
	} {
		body := o.get("reviewer", o.pathOf(target)).Body.String()
		for _, part := range want {
			if !strings.Contains(body, part) {
				t.Errorf("%s: the page has no %s", target, part)
			}
		}
	}
}

// A reviewer whose step fails sees which other reviewer claimed or rejected the application.
func TestSecondReviewerLearnsOfTheFirst(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	a := o.apply(o.inst, "Ada Obi", nil)
	path := o.pathOf("applications/" + a.UUID)
	w := o.post("admin", path+"/claim", url.Values{"revision": {"1"}})
	checkPage(t, "a claim", o.followRedirect(t, "admin", w, path), http.StatusOK, "You claimed this application.")
	checkPage(t, "a second claim", o.post("reviewer", path+"/claim", url.Values{"revision": {"1"}}), http.StatusConflict, "Admin Person is reviewing it.")
	o.post("admin", path+"/reject", url.Values{"revision": {"2"}, "reason": {"Not attended."}})
	checkPage(t, "a late approval", o.multi("reviewer", path+"/approve", [2]string{"revision", "2"}, [2]string{"file", "@" + string(vaulttest.PDF)}), http.StatusConflict,
		"Admin Person rejected this application.")
	if now := o.applicationNow(a); now.Status != cert.Rejected || now.DecidedBy.Name != "Admin Person" {
		t.Errorf("the application is %s, decided by %q, want the decision of the first reviewer", now.Status, now.DecidedBy.Name)
	}
}

// An offer can require a second reviewer for an approval, and can name its reviewers.
func TestRulesOfOffers(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	two := o.openOffer(o.inst, func(in *application.OfferInput) { in.FourEyes = true })
	a := o.applyFor(two, o.inst, "Ada Obi", nil)
	path := o.pathOf("applications/" + a.UUID)
	approve := func(person string) *httptest.ResponseRecorder {
		return o.multi(person, path+"/approve", [2]string{"certificate_title", "Diploma"}, [2]string{"file", "@" + string(vaulttest.PDF)})
	}
	checkPage(t, "an approval without a claim", approve("reviewer"), http.StatusBadRequest, "This offer requires two people")
	o.post("reviewer", path+"/claim", url.Values{})
	checkPage(t, "an approval of one's own claim", approve("reviewer"), http.StatusConflict, "Another reviewer must approve it.")
	if w := approve("admin"); w.Code != http.StatusSeeOther || o.applicationNow(a).Status != cert.Processing {
		t.Errorf("approval by a second person: status = %d, want 303 and the application in processing: %s", w.Code, visibleText(t, w))
	}
	named := o.openOffer(o.inst, func(in *application.OfferInput) { in.Reviewers = []int64{o.people.persons["admin"].ID} })
	b := o.applyFor(named, o.inst, "Ben Cole", nil)
	if text := visibleText(t, o.get("reviewer", o.pathOf("applications"))); strings.Contains(text, "Ben Cole") {
		t.Errorf("the queue of another reviewer contains the application: %s", text)
	}
	w := o.get("reviewer", o.pathOf("applications/"+b.UUID))
	checkPage(t, "the page for another reviewer", w, http.StatusOK, "Only the reviewers of this offer can decide.")
	if strings.Contains(w.Body.String(), "data-approve") {
		t.Error("the page for another reviewer contains the approval form")
	}
	if w := o.post("reviewer", o.pathOf("applications/"+b.UUID)+"/reject", url.Values{"reason": {"No."}}); w.Code != http.StatusForbidden {
		t.Errorf("a rejection by another reviewer: status = %d, want 403", w.Code)
	}
}

// selected returns the value of the field that selects an application in the queue.
func selected(a *application.Application) string { return selectedValue(a.UUID, a.Revision) }

// decided submits a decision about many applications as a reviewer, and waits until its task is finished.
// It returns the path and the page of the task.
func (o *panelTest) decided(t *testing.T, form url.Values) (path string, w *httptest.ResponseRecorder) {
	t.Helper()
	w = o.post("reviewer", o.pathOf("applications/decide"), form)
	if path = w.Header().Get("Location"); w.Code != http.StatusSeeOther || !strings.Contains(path, "/tasks/") {
		t.Fatalf("the decision: status = %d, location = %q, want 303 and the page of a task", w.Code, path)
	}
	o.Until("the task is finished", func() bool {
		w = o.get("reviewer", path)
		return !strings.Contains(visibleText(t, w), "In progress")
	})
	return path, w
}

// A decision about many applications starts a task. The page of the task shows the result for each
// application, and links to the applications of the institution.
func TestManyApplicationsAreDecided(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	offer := o.openOffer(o.inst)
	a, b, c := o.applyFor(offer, o.inst, "Ada Obi", nil), o.applyFor(offer, o.inst, "Ben Cole", nil), o.applyFor(offer, o.inst, "Chi Eze", nil)
	foreign := o.apply(o.other, "Eve Else", nil)
	checkPage(t, "the queue", o.get("reviewer", o.pathOf("applications")), http.StatusOK, "All 3 in this list", "at most 5,000")
	decide := o.pathOf("applications/decide")
	form := url.Values{"decision": {"reject"}, "selected": {selected(a), selected(b), selected(c), selected(foreign)}}
	checkPage(t, "the question", o.post("reviewer", decide, form), http.StatusOK, "4 applications", "Ada Obi", "Ben Cole", "cannot be undone", "and 1 more")
	// The limit of the text is the same as for a single application.
	for decision, want := range map[string]string{"reject": `maxlength="1000"`, "hold": `maxlength="2000"`} {
		if w := o.post("reviewer", decide, url.Values{"decision": {decision}, "selected": {selected(a)}}); !strings.Contains(w.Body.String(), `name="text" `+want) {
			t.Errorf("the field for the text of the decision %s lacks %s", decision, want)
		}
	}
	form.Set("sure", "1")
	checkPage(t, "no reason", o.post("reviewer", decide, form), http.StatusUnprocessableEntity, "Enter the text for the applicant.")
	o.post("admin", o.pathOf("applications/"+b.UUID)+"/withdraw", url.Values{})
	if _, err := o.panel.Applications.Hold(t.Context(), application.Reviewer{Institution: &o.inst, Person: application.Person{ID: 1, Type: "user", Name: "Other Person"}},
		c.UUID, application.Information, "Which group?"); err != nil {
		t.Fatal(err)
	}
	form.Set("text", "The course was canceled.")
	path, w := o.decided(t, form)
	checkPage(t, "the results", w, http.StatusOK, "Reject applications", "1 application was rejected. 3 applications were not changed.",
		"Ada Obi", "This application was withdrawn.", "the application has changed in the meantime", "The application no longer exists.")
	if got := o.applicationNow(a); got.Reason != "The course was canceled." || got.DecidedBy.Name != "Reviewer Person" {
		t.Errorf("application: decided by %q with the reason %q, want \"Reviewer Person\" and the submitted reason", got.DecidedBy.Name, got.Reason)
	}
	if got := o.applicationNow(c); got.Hold == nil || got.Status != cert.Pending {
		t.Errorf("application that another person put on hold after the selection = %s, want pending and on hold", got.Status)
	}
	if !strings.Contains(w.Body.String(), `href="`+o.pathOf("applications/"+b.UUID)+`"`) || strings.Contains(visibleText(t, w), "Eve Else") {
		t.Error("the results have no link to the application of Ben Cole, or contain the applicant of another institution")
	}
	checkPage(t, "the skipped applications", o.get("reviewer", path+"?show=skipped"), http.StatusOK, "Ben Cole", "Skipped")
	checkPage(t, "an outcome without results", o.get("reviewer", path+"?show=failed"), http.StatusOK, "No application of this task has this result.")
	csv := o.get("reviewer", path+"/results.csv").Body.String()
	if !strings.Contains(csv, "Ada Obi") || !strings.Contains(csv, "This application was withdrawn.") {
		t.Errorf("results.csv = %s, want the names and the reasons", csv)
	}
	checkPage(t, "the list of tasks", o.get("reviewer", o.pathOf("tasks")), http.StatusOK, "Reject applications", "By Reviewer Person", "1 3 0")
	// Only reviewers see who was rejected.
	if text := visibleText(t, o.get("auditor", o.pathOf("tasks"))); !strings.Contains(text, "No tasks") {
		t.Errorf("list of tasks for an auditor = %s, want no tasks", text)
	}
	for _, page := range []string{"", "/events", "/results.csv"} {
		if w := o.get("auditor", path+page); w.Code != http.StatusNotFound {
			t.Errorf("%s for an auditor: status = %d, want 404", page, w.Code)
		}
	}

	_, w = o.decided(t, url.Values{"decision": {"approve"}, "selected": {selected(o.applicationNow(c))}, "sure": {"1"}})
	checkPage(t, "an approval without a template", w, http.StatusOK, "0 applications were approved. 1 application was not changed.", "Open the application and attach the file of the certificate.")
	w = o.post("reviewer", decide, url.Values{"decision": {"claim"}, "tab": {"new"}})
	checkPage(t, "nothing selected", o.followRedirect(t, "reviewer", w, o.pathOf("applications?tab=new")), http.StatusOK, "Select at least one application first.")
	if w := o.post("reviewer", decide, url.Values{"decision": {"claim"}, "selected": {a.UUID}}); w.Code != http.StatusBadRequest {
		t.Errorf("a selection without a revision: status = %d, want 400", w.Code)
	}
}

// One task can decide all applications of a view of the queue. The reviewer types their number to confirm.
// Applications that are submitted after the confirmation page was shown are not decided.
func TestWholeQueueIsDecided(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	offer := o.openOffer(o.inst)
	for i := range applicationsPerPage + 5 {
		o.applyFor(offer, o.inst, fmt.Sprintf("Student %d", i), nil)
	}
	other := o.apply(o.inst, "Ada Obi", nil)
	decide := o.pathOf("applications/decide")
	form := url.Values{"decision": {"reject"}, "which": {"all"}, "q": {"Student"}}
	w := o.post("reviewer", decide, form)
	checkPage(t, "the question", w, http.StatusOK, "55 applications", "and 45 more", "Type 55 to confirm")
	late := o.applyFor(offer, o.inst, "Student Late", nil)
	form = url.Values{"decision": {"reject"}, "q": {"Student"}, "sure": {"1"}, "text": {"Closed."}, "selected": hiddenValues(w, "selected")}
	checkPage(t, "no number", o.post("reviewer", decide, form), http.StatusUnprocessableEntity, "This is not the number of applications.")
	form.Set("number", "55")
	_, w = o.decided(t, form)
	checkPage(t, "the results", w, http.StatusOK, "55 applications were rejected.", "All 55", "Next page")
	for _, a := range []*application.Application{late, other} {
		if got := o.applicationNow(a); got.Status != cert.Pending {
			t.Errorf("%s is %s, want pending", got.FullName, got.Status)
		}
	}
	checkPage(t, "claiming all", o.post("reviewer", decide, url.Values{"decision": {"claim"}, "which": {"all"}}), http.StatusOK, "2 applications", "Other reviewers can see")
	if w := o.post("auditor", decide, form); w.Code != http.StatusForbidden {
		t.Errorf("a decision by an auditor: status = %d, want 403", w.Code)
	}
}

// hiddenValues returns the values of the hidden fields with the given name.
func hiddenValues(w *httptest.ResponseRecorder, name string) (list []string) {
	for _, m := range regexp.MustCompile(`type="hidden" name="`+name+`" value="([^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		list = append(list, m[1])
	}
	return list
}

// Only reviewers can download attachments, and a browser does not run scripts in them.
func TestAttachmentsAreForReviewers(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	a := o.apply(o.inst, "Ada Obi", vaulttest.PDF)
	file := o.pathOf("applications/" + a.UUID + "/files/" + a.Files[0].ID)
	w := o.get("reviewer", file)
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), vaulttest.PDF) || w.Header().Get("Content-Security-Policy") != web.FilePolicy ||
		!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("attachment: status = %d, header = %v, want 200, the uploaded file and headers for a download", w.Code, w.Header())
	}
	if w := o.get("reviewer", file+"/page.png?page=2"); w.Code != http.StatusOK || o.Sealer.Pictured.Load() != 2 {
		t.Errorf("the picture of page 2: status = %d, drawn page = %d, want 200 and 2", w.Code, o.Sealer.Pictured.Load())
	}
	if w := o.get("auditor", file); w.Code != http.StatusForbidden {
		t.Errorf("attachment for an auditor: status = %d, want 403", w.Code)
	}
	other := o.apply(o.inst, "Ben Cole", vaulttest.PDF)
	if w := o.get("reviewer", o.pathOf("applications/"+other.UUID+"/files/"+a.Files[0].ID)); w.Code != http.StatusNotFound {
		t.Errorf("attachment of another application: status = %d, want 404", w.Code)
	}
}

// The list of certificates links to the page of an open application.
func TestListLeadsToApplication(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	a := o.apply(o.inst, "Ada Obi", nil)
	list := o.get("reviewer", o.pathOf("certificates"))
	if !strings.Contains(list.Body.String(), `href="`+o.pathOf("applications/"+a.UUID)+`"`) {
		t.Errorf("the list does not link to the application: %s", visibleText(t, list))
	}
	o.followRedirect(t, "reviewer", o.get("reviewer", o.pathOf("certificates/"+a.UUID)), o.pathOf("applications/"+a.UUID))
	checkPage(t, "the record for an auditor", o.get("auditor", o.pathOf("certificates/"+a.UUID)), http.StatusOK, "Ada Obi")
	checkPage(t, "the dashboard", o.get("reviewer", "/panel/nwu"), http.StatusOK, "oldest open application", "1 New")
}

// The form of an offer works without a script: buttons add and move questions.
func TestOfferForm(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	form := url.Values{"name": {"Summer school"}, "hold_days": {"14"}, "retention_days": {"90"}, "max_files": {"3"}, "questions": {"0"}, "do": {"add"}}
	checkPage(t, "a new question", o.post("admin", o.pathOf("offers"), form), http.StatusOK, "Question 1", "Text of the question")
	form = url.Values{
		"name": {"Summer school"}, "hold_days": {"14"}, "retention_days": {"90"}, "max_files": {"3"}, "questions": {"2"}, "do": {"up 1"},
		"fields.0.label": {"Student number"}, "fields.0.type": {"text"}, "fields.0.required": {"1"}, "fields.1.label": {"Course"}, "fields.1.type": {"choice"}, "fields.1.choices": {"Physics\nHistory\n"},
	}
	w := o.post("admin", o.pathOf("offers"), form)
	if body := w.Body.String(); w.Code != http.StatusOK || strings.Index(body, `value="Course"`) > strings.Index(body, `value="Student number"`) {
		t.Errorf("want 200 and the question Course first: %s", visibleText(t, w))
	}
	form.Del("do")
	form.Set("fields.1.choices", "Physics")
	checkPage(t, "one choice", o.post("admin", o.pathOf("offers"), form), http.StatusUnprocessableEntity, "Question 2: Enter 2 to 100 different choices")
	form.Set("fields.1.choices", "Physics\nHistory")
	if w = o.post("admin", o.pathOf("offers"), form); w.Code != http.StatusSeeOther {
		t.Fatalf("creating an offer: status = %d, want 303: %s", w.Code, visibleText(t, w))
	}
	list, err := o.Applications.Offers(t.Context(), o.inst.ID, "")
	if err != nil || len(list) != 1 {
		t.Fatalf("offers = %v, error %v, want one offer", list, err)
	}
	made, path := list[0], o.pathOf("offers/"+list[0].UUID)
	if f := made.Fields; made.Slug != "summer-school" || len(f) != 2 || f[0].Key != "student_number" || !f[0].Required || f[1].Type != application.Choice || len(f[1].Choices) != 2 {
		t.Errorf("offer = %+v, want the address summer-school and the two questions", made)
	}
	checkPage(t, "the offer", o.get("admin", path), http.StatusOK, "Summer school Draft", "Only members see a draft.", "The offer has no register.")
	w = o.post("admin", path+"/status", url.Values{"status": {"open"}})
	checkPage(t, "the open offer", o.followRedirect(t, "admin", w, path), http.StatusOK, "The offer is open. People can apply.")
	if body := o.get("admin", path).Body.String(); !strings.Contains(body, `href="https://vault.example/apply/nwu/summer-school"`) {
		t.Errorf("the page does not contain the public address: %s", body)
	}
	checkPage(t, "an old revision", o.post("admin", path, with(form, "revision", "1")), http.StatusConflict, "The offer has changed in the meantime")
	checkPage(t, "an address that is taken", o.post("admin", o.pathOf("offers"), form), http.StatusUnprocessableEntity, "Another offer has this address.")

	// A register may have more rows than a list of certificates.
	w = o.multi("admin", path+"/register", [2]string{"list", "@Matrikelnummer,Name,Geburtsdatum\nM-1,Ada Obi,30.06.1999\n" + strings.Repeat("M-2,Ben Cole,\n", sheet.MaxRows)})
	if now, err := o.Applications.Offer(t.Context(), o.inst.ID, made.UUID); err != nil || w.Header().Get("Location") != path+"#register" || now.RegisterRows != sheet.MaxRows+1 {
		t.Fatalf("upload of a register: status = %d, %d rows, error %v, want a redirect to the register and one row more than sheet.MaxRows: %s", w.Code, now.RegisterRows, err, visibleText(t, w))
	}
	checkPage(t, "unknown columns", o.multi("admin", path+"/register", [2]string{"list", "@Foo,Bar\n1,2\n"}), http.StatusUnprocessableEntity, "Its columns are: Foo, Bar.")
	checkPage(t, "a wrong date", o.multi("admin", path+"/register", [2]string{"column_birth", "Bar"}, [2]string{"column_number", "Foo"}, [2]string{"list", "@Foo,Bar\n1,soon\n"}),
		http.StatusUnprocessableEntity, "Row 2: “soon” is not a date")
	o.post("admin", path+"/register/delete", url.Values{})
	if now, err := o.Applications.Offer(t.Context(), o.inst.ID, made.UUID); err != nil || now.RegisterRows != 0 {
		t.Errorf("register after its deletion: %d rows, error %v, want 0 rows", now.RegisterRows, err)
	}

	o.applyFor(o.openOffer(o.inst), o.inst, "Ada Obi", nil)
	o.followRedirect(t, "admin", o.post("admin", path+"/delete", url.Values{}), o.pathOf("offers"))
	if _, err := o.Applications.Offer(t.Context(), o.inst.ID, made.UUID); !fault.Is(err, fault.NotFound) {
		t.Errorf("the deleted offer: error = %v, want NotFound", err)
	}
}

// with returns a copy of form in which the field name has the given value.
func with(form url.Values, name, value string) url.Values {
	changed := maps.Clone(form)
	changed.Set(name, value)
	return changed
}
