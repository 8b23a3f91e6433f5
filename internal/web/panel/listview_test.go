package panel

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
)

// A person chooses columns and rows. The choice is stored in a cookie, and the address of the list
// keeps only the filters and the order.
func TestColumnsOfTheList(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for i := range 30 {
		o.upload(o.inst, fmt.Sprintf("Person Number %d", i), "a.pdf")
	}
	page := o.pathOf("certificates")
	if body := o.get("issuer", page).Body.String(); !strings.Contains(body, `class="c-mail"`) || strings.Contains(body, `<td class="c-email"`) {
		t.Error("the list without a choice lacks the column of mail, or has a column of addresses")
	}
	w := o.get("issuer", page+"?q=person&sort=name&layout=1&rows=50&columns=email&columns=unknown")
	w = o.followRedirect(t, "issuer", w, page+"?q=person&sort=name")
	body := w.Body.String()
	if !strings.Contains(body, `<td class="c-email"`) || strings.Contains(body, `<td class="c-mail"`) || strings.Contains(body, "Next page") {
		t.Error("the list does not have the chosen column alone, or not all rows on one page")
	}
	r := o.request("issuer", http.MethodGet, page, nil)
	r.AddCookie(&http.Cookie{Name: listCookie, Value: "9999.<script>"})
	if w := o.send(r); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "<script>") || strings.Count(w.Body.String(), `name="selected"`) != certificatesPerPage {
		t.Errorf("a cookie that is not valid: status = %d, want 200 and %d rows", w.Code, certificatesPerPage)
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
			t.Errorf("before the approval the row ends with %s", text)
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
				t.Errorf("the row with mail in the state %s ends with %s, want %s", step.status, text, step.want)
			}
		}
		o.Exec(`UPDATE mail_links SET opened_at = 1`)
		if text := mail(); !strings.HasPrefix(text, " Approved Link opened ") {
			t.Errorf("the row of an opened link ends with %s", text)
		}
	})
}

// Members save views of the list for themselves.
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
			t.Error("another member sees the view")
		}
		for name, want := range map[string]string{"": "The name must have 1 to 60 characters.", strings.Repeat("x", 61): "The name must have 1 to 60 characters."} {
			form.Set("name", name)
			checkPage(t, "an invalid name", o.post("issuer", views, form), http.StatusUnprocessableEntity, want)
		}
		// A second view with the name replaces the first.
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

		// The views of a member end with the membership.
		o.post("issuer", views, form)
		o.Exec(`DELETE FROM members WHERE user_id = $1`, o.people.persons["issuer"].ID)
		if saved, err := o.panel.Search.SavedViews(t.Context(), o.inst.ID, o.people.persons["issuer"].ID); err != nil || len(saved) != 0 {
			t.Errorf("saved views of a removed member = %+v, error %v; want none", saved, err)
		}
	})
}

// A bulk action that cannot change any certificate starts no task, and its button is not shown.
func TestActionsThatCannotApply(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c := o.approvedCertificate(o.inst)
	page := o.pathOf("certificates")
	if body := o.get("owner", page).Body.String(); strings.Count(body, "Retry failed") != 1 || strings.Count(body, "Revoke…") != 2 {
		t.Error("the menu for all certificates offers to retry certificates although none has failed, or not to revoke them")
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

// The form that revokes many certificates names the first ten. From 21 certificates, the person must
// type their number.
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
	form["selected"] = form["selected"][:20]
	if text := visibleText(t, o.post("owner", page, form)); strings.Contains(text, "to confirm") {
		t.Error("the form asks for the number of 20 certificates")
	}
	form = url.Values{"which": {"all"}, "sure": {"1"}, "reason": {"Withdrawn"}, "number": {"20"}}
	checkPage(t, "another number", o.post("owner", page, form), http.StatusUnprocessableEntity, "This is not the number of certificates.")
	form.Set("number", "21")
	if w := o.post("owner", page, form); w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Location"), "/tasks/") {
		t.Errorf("the number: status = %d, Location = %q; want a redirect to the task", w.Code, w.Header().Get("Location"))
	}
}

// The field in the header opens the certificate with a reference id, or else searches.
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

// A member of one institution is redirected to it, even if the person is also an operator. An operator
// without an institution is redirected to the installation.
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

// The filter by batch offers the newest batches of the institution, and the column shows their names.
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

// A chart of a year has all its days: the first week has the days that are left over.
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
			t.Errorf("chart of %d days: sum %d, %d rows from %v; want all days in %d rows", n, c.Sum.Created, len(c.Rows), c.First(), rows)
		}
		if last := c.Rows[len(c.Rows)-1]; n > weekly && last.Created != 7 {
			t.Errorf("the last week of %d days has %d, want 7", n, last.Created)
		}
	}
}

// The timeline has events and mail in one order, the latest first.
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
			t.Errorf("%s is not after the entries before it: %s", entry, text)
		}
		last = i
	}
}
