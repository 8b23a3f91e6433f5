package panel

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func (o *panelTest) record(t *testing.T, institution int64, at time.Time, name string, action audit.Action, detail audit.Detail) {
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
		says(t, "nothing", o.get("auditor", "/panel/nwu/audit"), http.StatusOK, "Nothing was done yet")
		day := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
		for i := range 60 {
			o.record(t, o.mine.ID, day.Add(time.Duration(i)*time.Hour), fmt.Sprint("Person ", i%2), audit.TokenCreated, nil)
		}
		o.record(t, o.mine.ID, day.AddDate(0, 0, 9), "=cmd()", audit.MemberChanged, audit.Detail{"role": map[string]string{"from": "issuer", "to": "admin"}})
		o.record(t, o.other.ID, day, "Spy", audit.TokenCreated, nil)
		o.record(t, 0, day, "Root", audit.KeyProtected, nil)

		w := o.get("auditor", "/panel/nwu/audit")
		says(t, "all", w, http.StatusOK, "=cmd() (user) changed a member: CI role: issuer → admin", "Person 1 (user) created an API token", "Older")
		if text := words(t, w); strings.Contains(text, "Spy") || strings.Contains(text, "Root") {
			t.Errorf("another's entries: %s", text)
		}
		_, rest, _ := strings.Cut(w.Body.String(), `<a class="button quiet" href="`)
		older, _, _ := strings.Cut(rest, `"`)
		w = o.get("auditor", strings.ReplaceAll(older, "&amp;", "&"))
		says(t, "older", w, http.StatusOK, "Newest")
		if n := strings.Count(w.Body.String(), "created an API token:"); n != 11 {
			t.Errorf("%d entries on the second page", n)
		}
		w = o.get("auditor", o.follow(w, "Newer"))
		says(t, "newer", w, http.StatusOK, "=cmd()", "Older")
		if strings.Contains(words(t, w), "Newest") {
			t.Error("the first page leads to one before it")
		}
		says(t, "filter", o.get("auditor", "/panel/nwu/audit?actor=person+0&from=2026-03-01&to=2026-03-01"), http.StatusOK, "Person 0", "Everything that is selected", "Clear")
		says(t, "no fit", o.get("auditor", "/panel/nwu/audit?action=webhook"), http.StatusOK, "Nothing fits")
		says(t, "no day", o.get("auditor", "/panel/nwu/audit?from=2026-02-30"), http.StatusUnprocessableEntity, "must be a date that exists")
		says(t, "no page", o.get("auditor", "/panel/nwu/audit?after=x"), http.StatusUnprocessableEntity, "not known")

		w = o.post("auditor", "/panel/nwu/audit", url.Values{"format": {"csv"}, "action": {"member"}})
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\ufeff"))).ReadAll()
		if err != nil || len(rows) != 2 || rows[1][4] != "'=cmd()" || !strings.HasPrefix(w.Header().Get("Content-Disposition"), `attachment; filename="audit-nwu-`) ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
			t.Errorf("%v, %v, %v", rows, err, w.Header())
		}
		w = o.post("auditor", "/panel/nwu/audit", url.Values{"format": {"jsonl"}})
		// All entries, and the export before.
		if n := strings.Count(w.Body.String(), "\n"); n != 63 || !strings.Contains(w.Body.String(), `"name":"Auditor Person"`) {
			t.Errorf("%d lines", n)
		}
		says(t, "no format", o.post("auditor", "/panel/nwu/audit", url.Values{"format": {"xls"}}), http.StatusUnprocessableEntity, "Choose CSV or JSON lines")

		o.person("operator")
		o.operator("operator")
		w = o.get("operator", "/operator/audit")
		says(t, "installation", w, http.StatusOK, "Root (user) protected the signing keys")
		if strings.Contains(words(t, w), "Person 1") {
			t.Error("an operator sees an institution's log")
		}
	})
}

// User input is escaped.
func TestAuditPageEscapes(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.record(t, o.mine.ID, o.Now(), `<script>alert(1)</script>`, audit.TokenCreated, audit.Detail{"<img src=x>": "\"><b>"})
	w := o.get("auditor", "/panel/nwu/audit?actor=%22%3E%3Cscript%3E")
	w2 := o.get("auditor", "/panel/nwu/audit")
	for _, body := range []string{w.Body.String(), w2.Body.String()} {
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") || strings.Contains(body, `"><script>`) || strings.Contains(body, "<b>") {
			t.Errorf("markup of somebody's choice: %s", body)
		}
	}
}

func TestOperatorPages(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.person("operator")
	o.operator("operator")
	says(t, "installation", o.get("operator", "/operator"), http.StatusOK, "1 thing needs attention", "3 % free", "seal 4 0 0 0", "Institutions")
	says(t, "institutions", o.get("operator", "/operator/institutions"), http.StatusOK, "Northern & Western University", "South East College", "15")
	form := url.Values{"name": {"Third"}, "prefix": {"THD"}, "owner_name": {"Their Owner"}, "owner_email": {"third@example.org"}, "language": {"de"}}
	w := o.redirects(t, "operator", o.post("operator", "/operator/institutions/new", form), "/operator/institutions")
	says(t, "made", w, http.StatusOK, "The institution was made", "Third", "THD")
	if len(o.sent) != 1 || o.sent[0].To.Email != "third@example.org" || !strings.Contains(o.sent[0].Text, "https://vault.example/sign-in") || !strings.Contains(o.sent[0].Text, "Operator Person") {
		t.Errorf("%+v", o.sent)
	}
	says(t, "refused", o.post("operator", "/operator/institutions/new", form), http.StatusUnprocessableEntity, "belongs to another institution")
	says(t, "empty", o.post("operator", "/operator/institutions/new", nil), http.StatusUnprocessableEntity, "The name must have")
	if len(o.sent) != 1 {
		t.Error("mail of what was refused")
	}
}
