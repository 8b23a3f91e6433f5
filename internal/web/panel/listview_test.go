package panel

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
)

// The chosen columns and number of rows are stored in a cookie. The address of the list has only the
// filters and the order.
func TestColumnsOfTheList(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for i := range 30 {
		o.upload(o.inst, fmt.Sprintf("Person Number %d", i), "a.pdf")
	}
	page := o.pathOf("certificates")
	if body := o.get("issuer", page).Body.String(); !strings.Contains(body, `class="c-mail"`) || strings.Contains(body, `<td class="c-email"`) {
		t.Error("the default list lacks the mail column, or has the e-mail column")
	}
	w := o.get("issuer", page+"?q=person&sort=name&layout=1&rows=50&columns=email&columns=unknown")
	w = o.followRedirect(t, "issuer", w, page+"?q=person&sort=name")
	body := w.Body.String()
	if !strings.Contains(body, `<td class="c-email"`) || strings.Contains(body, `<td class="c-mail"`) || strings.Contains(body, "Next page") {
		t.Error("the list lacks the e-mail column, or has the mail column or a second page")
	}
	r := o.request("issuer", http.MethodGet, page, nil)
	r.AddCookie(&http.Cookie{Name: listCookie, Value: "9999.<script>"})
	if w := o.send(r); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "<script>") || strings.Count(w.Body.String(), `name="selected"`) != certificatesPerPage {
		t.Errorf("an invalid cookie: status = %d, want 200 and %d rows", w.Code, certificatesPerPage)
	}
}

// The list shows the state of the latest mail of each certificate.
func TestMailInTheList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		c := o.upload(o.inst, "Ada Obi", "a.pdf")
		mail := func() string {
			_, text, _ := strings.Cut(visibleText(t, o.get("issuer", o.pathOf("certificates"))), c.ReferenceID)
			return text
		}
		if text := mail(); !strings.HasPrefix(text, " Processing Not sent ") {
			t.Errorf("before the approval: text after the reference id = %q, want Processing Not sent", text)
		}
		o.processAll()
		for _, step := range []struct {
			statement string
			status    recipient.Status
			want      string
		}{
			{`UPDATE notices SET status = $1`, recipient.Queued, "Waiting"},
			{`UPDATE notices SET status = $1`, recipient.Failed, "Not delivered"},
			{`UPDATE notices SET status = $1`, recipient.Unsubscribed, "Unsubscribed"},
			{`UPDATE notices SET status = $1`, recipient.Unsent, "Not sent"},
			{`UPDATE notices SET status = $1`, recipient.Sent, "Sent"},
		} {
			o.Exec(step.statement, string(step.status))
			if text := mail(); !strings.HasPrefix(text, " Approved "+step.want+" ") {
				t.Errorf("mail %s: text after the reference id = %q, want Approved %s", step.status, text, step.want)
			}
		}
		o.Exec(`UPDATE mail_links SET opened_at = 1`)
		if text := mail(); !strings.HasPrefix(text, " Approved Link opened ") {
			t.Errorf("an opened link: text after the reference id = %q, want Approved Link opened", text)
		}
	})
}

// Only the member who saved a view sees it.
func TestSavedViews(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		views, page := o.pathOf("certificates/views"), o.pathOf("certificates")
		form := url.Values{"status": {"failed"}, "q": {"physics & law"}, "sort": {"name"}, "name": {" Failed physics "}, "cursor": {"x"}}
		w := o.followRedirect(t, "issuer", o.post("issuer", views, form), page+"?q=physics+%26+law&sort=name&status=failed")
		checkPage(t, "the saved view", w, http.StatusOK, "The view was saved.", "Failed physics")
		if !strings.Contains(html.UnescapeString(o.get("issuer", page).Body.String()), `href="`+page+`?q=physics+%26+law&sort=name&status=failed"`) {
			t.Error("the list has no link to the saved view")
		}
		if text := visibleText(t, o.get("owner", page)); strings.Contains(text, "Failed physics") {
			t.Error("the list of another member contains the saved view")
		}
		for name, want := range map[string]string{"": "The name must have 1 to 60 characters.", strings.Repeat("x", 61): "The name must have 1 to 60 characters."} {
			form.Set("name", name)
			checkPage(t, "an invalid name", o.post("issuer", views, form), http.StatusUnprocessableEntity, want)
		}
		// A view with the same name replaces the first view.
		form.Set("name", "Failed physics")
		form.Set("status", "approved")
		o.post("issuer", views, form)
		saved, err := o.panel.Search.SavedViews(t.Context(), o.inst.ID, o.people.persons["issuer"].ID)
		if err != nil || len(saved) != 1 || !strings.Contains(saved[0].Query, "status=approved") {
			t.Fatalf("saved views = %+v, error %v; want one view of approved certificates", saved, err)
		}
		remove := views + "/" + saved[0].UUID + "/delete"
		if w := o.post("owner", remove, nil); w.Code != http.StatusNotFound {
			t.Errorf("deleting the view of another member: status = %d, want 404", w.Code)
		}
		checkPage(t, "the deleted view", o.followRedirect(t, "issuer", o.post("issuer", remove, nil), page), http.StatusOK, "The view was deleted.", "You have no saved views.")

		// The saved views are deleted with the membership.
		o.post("issuer", views, form)
		o.Exec(`DELETE FROM members WHERE user_id = $1`, o.people.persons["issuer"].ID)
		if saved, err := o.panel.Search.SavedViews(t.Context(), o.inst.ID, o.people.persons["issuer"].ID); err != nil || len(saved) != 0 {
			t.Errorf("saved views of a removed member = %+v, error %v; want none", saved, err)
		}
	})
}

// A bulk action that cannot change any certificate starts no task. The menu for all certificates does not
// contain such an action.
func TestActionsThatCannotApply(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.approvedCertificate(o.inst)
	page := o.pathOf("certificates")
	if body := o.get("owner", page).Body.String(); strings.Count(body, "Retry failed") != 1 || strings.Count(body, "Revoke…") != 2 {
		t.Error("the page does not contain Retry failed once and Revoke… twice: the menu for all certificates must contain Revoke…, but not Retry failed")
	}
	for name, form := range map[string]url.Values{"all": {"which": {"all"}}, "selected": {"selected": {c.UUID}}} {
		w := o.followRedirect(t, "owner", o.post("owner", page+"/retry", form), page)
		checkPage(t, name+", retry", w, http.StatusOK, "Nothing was changed. None of these certificates has failed.")
	}
	o.Exec(`UPDATE certificates SET status = 'revoked'`)
	for name, form := range map[string]url.Values{"all": {"which": {"all"}}, "selected": {"selected": {c.UUID}}} {
		w := o.followRedirect(t, "owner", o.post("owner", page+"/revoke", form), page)
		checkPage(t, name+", revoke", w, http.StatusOK, "Nothing was changed. None of these certificates can be revoked.")
		w = o.followRedirect(t, "owner", o.post("owner", page+"/renew", form), page)
		checkPage(t, name+", renew", w, http.StatusOK, "Nothing was changed. None of these certificates can be renewed.")
	}
	if tasks, err := o.panel.Tasks.Tasks(t.Context(), o.inst.ID); err != nil || len(tasks) != 0 {
		t.Errorf("got %d tasks, error %v; want none", len(tasks), err)
	}
}

// The form that revokes many certificates shows the first ten. For 21 or more certificates, the person
// must type their number.
func TestRevokeManyAsksForTheNumber(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	form := url.Values{}
	for i := range 21 {
		c := o.upload(o.inst, fmt.Sprintf("Person Number %d", i), "a.pdf")
		form.Add("selected", c.UUID)
	}
	page := o.pathOf("certificates/revoke")
	for name, form := range map[string]url.Values{"selected": form, "all": {"which": {"all"}}} {
		w := o.post("owner", page, form)
		checkPage(t, name, w, http.StatusOK, "Revoke 21 certificates?", "and 11 more", "Type 21 to confirm")
		if n := strings.Count(visibleText(t, w), "Person Number"); n != shownNames {
			t.Errorf("%s: the form has %d names, want %d", name, n, shownNames)
		}
	}
	checkPage(t, "all with a status", o.post("owner", page, url.Values{"which": {"all"}, "status": {"processing"}}), http.StatusOK,
		"This revokes all certificates of Northern & Western University with the status “ Processing ”")
	form["selected"] = form["selected"][:20]
	if text := visibleText(t, o.post("owner", page, form)); strings.Contains(text, "to confirm") {
		t.Error("the form asks for the number of 20 certificates")
	}
	form = url.Values{"which": {"all"}, "sure": {"1"}, "reason": {"Withdrawn"}, "number": {"20"}}
	checkPage(t, "another number", o.post("owner", page, form), http.StatusUnprocessableEntity, "This is not the number that is shown here.")
	form.Set("number", "21")
	if w := o.post("owner", page, form); w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Location"), "/tasks/") {
		t.Errorf("the number: status = %d, Location = %q; want a redirect to the task", w.Code, w.Header().Get("Location"))
	}
}

// The form that revokes or renews everything that matches contains the time at which it was shown. The task
// does not revoke a certificate that was created since then.
func TestRevokeManyThatWereShown(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	shown, page, all := o.upload(o.inst, "Ada Obi", "a.pdf"), o.pathOf("certificates/revoke"), url.Values{"which": {"all"}}
	o.Exec(`UPDATE certificates SET status = 'approved'`)
	o.Advance(time.Second)
	if at := hiddenValues(o.post("owner", o.pathOf("certificates/renew"), all), "shown_at"); len(at) != 1 || at[0] != strconv.FormatInt(db.Micros(o.Now()), 10) {
		t.Errorf("the form to renew certificates has the times %v, want the current time", at)
	}
	all["shown_at"] = hiddenValues(o.post("owner", page, all), "shown_at")
	o.Advance(time.Second)
	unseen := o.upload(o.inst, "Zoë Unseen", "b.pdf")
	o.Advance(time.Second)
	all.Set("sure", "1")
	again := o.post("owner", page, all)
	checkPage(t, "a form without a reason", again, http.StatusUnprocessableEntity, "Revoke 2 certificates?", "Zoë Unseen")
	if at := hiddenValues(again, "shown_at"); len(at) != 1 || at[0] != strconv.FormatInt(db.Micros(o.Now()), 10) {
		t.Errorf("the form that is shown again has the times %v, want the current time", at)
	}
	all.Set("reason", "Wrong grade")
	task := o.post("owner", page, all).Header().Get("Location")
	o.Until("the task is finished", func() bool { return strings.Contains(visibleText(t, o.get("owner", task)), "Done") })
	checkPage(t, "the task", o.get("owner", task), http.StatusOK, "1 certificate revoked", "Ada Obi")
	if c := o.record(shown.UUID); c.Status != cert.Revoked {
		t.Errorf("the certificate that was shown is %s, want revoked", c.Status)
	}
	if c := o.record(unseen.UUID); c.Status != cert.Processing {
		t.Errorf("the certificate that was not shown is %s, want processing", c.Status)
	}
}

// The search field in the header opens the certificate with a reference id or UUID, or the list with a
// search.
func TestFind(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	mine, foreign := o.upload(o.inst, "Ada Obi", "a.pdf"), o.upload(o.other, "Foreign Person", "a.pdf")
	o.panel.Find = o.Certs
	list := o.pathOf("certificates")
	for text, want := range map[string]string{
		mine.ReferenceID: list + "/" + mine.UUID, strings.ToLower(mine.ReferenceID): list + "/" + mine.UUID, mine.UUID: list + "/" + mine.UUID,
		foreign.ReferenceID: list + "?q=" + foreign.ReferenceID, foreign.UUID: list + "?q=" + foreign.UUID, "Ada & Bo": list + "?q=Ada+%26+Bo", "": list,
	} {
		if w := o.get("auditor", list+"/find?text="+url.QueryEscape(text)); w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
			t.Errorf("finding %q: status = %d, Location = %q; want 303 and %s", text, w.Code, w.Header().Get("Location"), want)
		}
	}
}

// A member of one institution is redirected to its first page, even if the person is also an operator.
// An operator without an institution is redirected to the pages for operators.
func TestOperatorLandsOnTheInstitution(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.makeOperator("owner")
	o.person("operator")
	o.makeOperator("operator")
	for person, want := range map[string]string{"owner": "/panel/nwu", "operator": "/operator"} {
		if w := o.get(person, "/panel"); w.Header().Get("Location") != want {
			t.Errorf("%s is redirected to %q, want %s", person, w.Header().Get("Location"), want)
		}
	}
	if body := o.get("owner", "/panel/nwu").Body.String(); !strings.Contains(body, `href="/operator"`) {
		t.Error("the institution's page has no link to the installation for an operator")
	}
	o.addMember("owner", o.other, account.Auditor)
	checkPage(t, "an operator with two institutions", o.get("owner", "/panel"), http.StatusOK, "Your institutions", "South East College", "Installation")
}

// The filter by batch and the column of batches show the names of the institution's batches.
func TestBatchesInTheList(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	id := uuid.NewString()
	o.Exec(`INSERT INTO batches (uuid, institution_id, name, source, trigger_context, creator_type, creator_name, total, created_at) VALUES ($1, $2, 'Spring graduates', 'panel', 'bulk', 'user', 'Sample', 1, 1)`, id, o.inst.ID)
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	o.Exec(`UPDATE certificates SET batch_id = $1 WHERE uuid = $2`, id, c.UUID)
	page := o.pathOf("certificates")
	w := o.followRedirect(t, "issuer", o.get("issuer", page+"?layout=1&columns=batch"), page)
	if body := w.Body.String(); !strings.Contains(body, `<td class="c-batch"><bdi>Spring graduates</bdi>`) || !strings.Contains(body, `<option value="`+id+`">Spring graduates`) {
		t.Error("the list lacks the name of the batch in its column or in the filter")
	}
	checkPage(t, "the filter", o.get("issuer", page+"?batch="+id), http.StatusOK, "Batch: Spring graduates", "remove this filter", "Ada Obi")
	if body := o.get("outsider", "/panel/sec/certificates").Body.String(); strings.Contains(body, "Spring") {
		t.Error("another institution sees the batch")
	}
}

// A chart contains all its days. In a chart of weeks, only the first week may have fewer than seven days.
func TestChartHasAllDays(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, n := range []int{30, 90, 365, 371} {
		days := make([]search.Day, n)
		for i := range days {
			days[i] = search.Day{Date: first.AddDate(0, 0, i), Created: 1, Approved: 1}
		}
		c := newChart(days)
		rows := n
		if n > weekly {
			rows = (n + 6) / 7
		}
		if c.Sum.Created != n || len(c.Rows) != rows || !c.First().Equal(first) || c.Days != n {
			t.Errorf("chart of %d days: sum = %d, %d rows from %v, want all days in %d rows", n, c.Sum.Created, len(c.Rows), c.First(), rows)
		}
		if last := c.Rows[len(c.Rows)-1]; n > weekly && last.Created != 7 {
			t.Errorf("chart of %d days: last week has %d certificates, want 7", n, last.Created)
		}
	}
}

// The timeline of a certificate contains its events and its mail, newest first.
func TestActivityOfACertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.upload(o.inst, "Ada Obi", "a.pdf")
	o.processAll()
	o.Exec(`UPDATE notices SET status = 'sent', updated_at = updated_at + 60000000`)
	o.Advance(time.Hour)
	at := o.pathOf("certificates/" + c.UUID)
	o.post("issuer", at+"/revoke", url.Values{"reason": {"Withdrawn"}})
	_, text, _ := strings.Cut(visibleText(t, o.get("issuer", at)), "Activity")
	last := -1
	for _, entry := range []string{"Revoked", "Sent", "Approved:", "Uploaded,"} {
		i := strings.Index(text, entry)
		if i <= last {
			t.Errorf("%s is missing or in the wrong order: %s", entry, text)
		}
		last = i
	}
}
