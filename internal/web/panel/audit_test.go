package panel

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// recordAuditEntry records an entry. Its actor is a person with the name, and its subject is a token.
func (o *panelTest) recordAuditEntry(t *testing.T, institution int64, at time.Time, name string, action audit.Action, detail audit.Detail) {
	t.Helper()
	ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: "u-" + name, Name: name})
	if err := o.DB.Tx(ctx, func(tx *db.Tx) error {
		return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: institution, At: at, Action: action, Subject: audit.Subject{Type: "token", ID: "7", Name: "CI"}, Detail: detail})
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAuditPage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "an empty log", o.get("auditor", "/panel/nwu/audit"), http.StatusOK, "No entries yet")
		day := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
		for i := range 60 {
			o.recordAuditEntry(t, o.inst.ID, day.Add(time.Duration(i)*time.Hour), fmt.Sprint("Person ", i%2), audit.TokenCreated, nil)
		}
		o.recordAuditEntry(t, o.inst.ID, day.AddDate(0, 0, 9), "=cmd()", audit.MemberChanged, audit.Detail{"role": map[string]string{"from": "issuer", "to": "admin"}})
		o.recordAuditEntry(t, o.other.ID, day, "Foreigner", audit.TokenCreated, nil)
		o.recordAuditEntry(t, 0, day, "Root", audit.KeyProtected, nil)

		w := o.get("auditor", "/panel/nwu/audit")
		checkPage(t, "the first page", w, http.StatusOK, "=cmd() (user) changed a member: CI Role: Issuer → Admin", "Person 1 (user) created an API token", "Older")
		if text := visibleText(t, w); strings.Contains(text, "Foreigner") || strings.Contains(text, "Root") {
			t.Errorf("the log contains entries of another institution or of the installation: %s", text)
		}
		_, rest, _ := strings.Cut(w.Body.String(), `<a class="button quiet" href="`)
		older, _, _ := strings.Cut(rest, `"`)
		w = o.get("auditor", strings.ReplaceAll(older, "&amp;", "&"))
		checkPage(t, "the second page", w, http.StatusOK, "Newest")
		if n := strings.Count(w.Body.String(), "created an API token:"); n != 11 {
			t.Errorf("got %d entries on the second page, want 11", n)
		}
		w = o.get("auditor", o.linkTo(w, "Newer"))
		checkPage(t, "back on the first page", w, http.StatusOK, "=cmd()", "Older")
		if strings.Contains(visibleText(t, w), "Newest") {
			t.Error("the first page has a link to the newest entries, want none")
		}
		checkPage(t, "a filter", o.get("auditor", "/panel/nwu/audit?actor=person+0&from=2026-03-01&to=2026-03-01"), http.StatusOK, "Person 0", "Export the filtered entries", "Clear")
		checkPage(t, "a part of a name", o.get("auditor", "/panel/nwu/audit?actor=SON+1"), http.StatusOK, "Person 1 (user) created an API token", "Export the filtered entries", "searched in the newest 20,000 entries")
		checkPage(t, "a character of a pattern", o.get("auditor", "/panel/nwu/audit?actor=Pers%25"), http.StatusOK, "No entries found")
		checkPage(t, "a filter without matches", o.get("auditor", "/panel/nwu/audit?action=webhook"), http.StatusOK, "No entries found")
		checkPage(t, "an invalid date", o.get("auditor", "/panel/nwu/audit?from=2026-02-30"), http.StatusUnprocessableEntity, "Enter a date that exists")
		checkPage(t, "an invalid cursor", o.get("auditor", "/panel/nwu/audit?after=x"), http.StatusUnprocessableEntity, "not known")

		w = o.post("auditor", "/panel/nwu/audit", url.Values{"format": {"csv"}, "action": {"member"}})
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\ufeff"))).ReadAll()
		if err != nil || len(rows) != 2 || rows[1][4] != "'=cmd()" || !strings.HasPrefix(w.Header().Get("Content-Disposition"), `attachment; filename="audit-nwu-`) ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
			t.Errorf("the CSV export: rows %v, error %v, header %v; want the heading and one row with an escaped name, in an attachment of type text/csv", rows, err, w.Header())
		}
		w = o.post("auditor", "/panel/nwu/audit", url.Values{"format": {"jsonl"}})
		// The export contains the 61 entries of the institution and the records of both exports.
		if n := strings.Count(w.Body.String(), "\n"); n != 63 || !strings.Contains(w.Body.String(), `"name":"Auditor Person"`) {
			t.Errorf("the JSON Lines export has %d lines, want 63 lines and an entry of Auditor Person", n)
		}
		checkPage(t, "an unknown format", o.post("auditor", "/panel/nwu/audit", url.Values{"format": {"xls"}}), http.StatusUnprocessableEntity, "Choose CSV or JSON Lines")

		o.person("operator")
		o.makeOperator("operator")
		w = o.get("operator", "/operator/audit")
		checkPage(t, "the log of the installation", w, http.StatusOK, "Root (user) protected the signing keys")
		if strings.Contains(visibleText(t, w), "Person 1") {
			t.Error("the log of the installation contains entries of an institution")
		}
	})
}

// The page of the audit log escapes names, details and filters.
func TestAuditPageEscapes(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.recordAuditEntry(t, o.inst.ID, o.Now(), `<script>alert(1)</script>`, audit.TokenCreated, audit.Detail{"<img src=x>": "\"><b>"})
	w := o.get("auditor", "/panel/nwu/audit?actor=%22%3E%3Cscript%3E")
	w2 := o.get("auditor", "/panel/nwu/audit")
	for _, body := range []string{w.Body.String(), w2.Body.String()} {
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") || strings.Contains(body, `"><script>`) || strings.Contains(body, "<b>") {
			t.Errorf("the page contains unescaped input: %s", body)
		}
	}
}

func TestOperatorPages(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.person("operator")
	o.makeOperator("operator")
	checkPage(t, "the page of the installation", o.get("operator", "/operator"), http.StatusOK, "1 check needs attention", "disk Needs attention 3% free", "database OK", "Certificates stay private to each institution.", "3% free", "seal 4 0 0 0", "Institutions",
		"Waiting 1 Sent in the last 30 days 2 Saved but not sent in the last 30 days 5 Failed in the last 30 days 3", "The mail server rejected the address.")
	checkPage(t, "the list of institutions", o.get("operator", "/operator/institutions"), http.StatusOK, "Northern & Western University", "South East College", "15", "1.5 GB", "still being counted")
	found := o.get("operator", "/operator/institutions?q=SOUTH")
	checkPage(t, "a search", found, http.StatusOK, "South East College")
	if strings.Contains(found.Body.String(), "Northern") {
		t.Error("the search shows Northern & Western University, want only institutions that match")
	}
	checkPage(t, "a search without a match", o.get("operator", "/operator/institutions?q=nobody"), http.StatusOK, "No institution matches")
	checkPage(t, "the servers", o.get("operator", "/operator/servers"), http.StatusOK, "one Running", "two Not responding", "sweep of jobs one", "Not yet")
	form := url.Values{"name": {"Third"}, "prefix": {"THD"}, "owner_name": {"Their Owner"}, "owner_email": {"third@example.org"}, "language": {"de"}}
	w := o.followRedirect(t, "operator", o.post("operator", "/operator/institutions/new", form), "/operator/institutions")
	checkPage(t, "after creating an institution", w, http.StatusOK, "The institution was created", "Third", "THD")
	if len(o.sent) != 1 || o.sent[0].To.Email != "third@example.org" || !strings.Contains(o.sent[0].Text, "https://vault.example/sign-in") || !strings.Contains(o.sent[0].Text, "Operator Person") {
		t.Errorf("messages = %+v, want one to the owner, with the link to the sign-in and the name of the operator", o.sent)
	}
	form.Set("name", "Fourth")
	checkPage(t, "a used prefix", o.post("operator", "/operator/institutions/new", form), http.StatusUnprocessableEntity, "belongs to another institution")
	form.Set("name", "THIRD")
	form.Set("prefix", "THE")
	w = o.post("operator", "/operator/institutions/new", form)
	checkPage(t, "a name in use", w, http.StatusUnprocessableEntity, "looks the same as the name of another institution of this vault, with the prefix THD", "Allow this name")
	if len(o.sent) != 1 {
		t.Error("a message was sent for a rejected name, want none")
	}
	if err := o.DB.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := account.AddAddressTx(t.Context(), tx, o.people.persons["guest"].ID, account.Email{Text: "dean@nwu.example", Folded: "dean@nwu.example"}, o.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	checkPage(t, "a further address of an account", o.post("operator", "/operator/institutions/new", url.Values{
		"name": {"Fifth"}, "prefix": {"FTH"}, "owner_name": {"New Dean"}, "owner_email": {"dean@nwu.example"}, "language": {"de"},
	}), http.StatusUnprocessableEntity, "This address is a further address of an account")
	checkPage(t, "an empty form", o.post("operator", "/operator/institutions/new", nil), http.StatusUnprocessableEntity, "The name must have")
	if len(o.sent) != 1 {
		t.Error("a message was sent for a rejected form, want none")
	}
	form.Set("allow_same_name", "1")
	w = o.followRedirect(t, "operator", o.post("operator", "/operator/institutions/new", form), "/operator/institutions")
	checkPage(t, "after allowing the name", w, http.StatusOK, "The institution was created", "THD", "THE")

	at := "/operator/institutions/" + o.other.Slug + "/name"
	checkPage(t, "the page of a name", o.get("operator", at), http.StatusOK, "Change the name of “ South East College ”", "SEC", "Allow a name that looks the same")
	checkPage(t, "the name of an unknown institution", o.get("operator", "/operator/institutions/unknown/name"), http.StatusNotFound)
	form = url.Values{"name": {"Northern & Western University"}}
	checkPage(t, "a name in use", o.post("operator", at, form), http.StatusUnprocessableEntity, "with the prefix NWU")
	form.Set("allow_same_name", "1")
	w = o.followRedirect(t, "operator", o.post("operator", at, form), "/operator/institutions/"+o.other.Slug)
	checkPage(t, "after allowing the name", w, http.StatusOK, "The name was saved.")
	if i, err := o.panel.Accounts.InstitutionBySlug(t.Context(), o.other.Slug); err != nil || i.Name != "Northern & Western University" {
		t.Errorf("the institution is %+v (error %v), want the name Northern & Western University", i, err)
	}
}
