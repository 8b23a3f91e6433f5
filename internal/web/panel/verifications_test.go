package panel

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestVerifications(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("verifications")
		checkPage(t, "an institution without verifications", o.get("auditor", page), http.StatusOK, "No certificate was verified in the last 30 days.")
		many, few := o.upload(o.inst, `Ada "=Obi"`, "ada.pdf"), o.upload(o.inst, "Eve Obi", "eve.pdf")
		foreign := o.upload(o.other, "Zoe Obi", "zoe.pdf")
		o.processAll()
		count := func(id int64, n int) {
			for range n {
				o.Verifications.Count(id)
			}
			if err := o.Verifications.Fold(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		count(many.ID, 1234)
		count(few.ID, 2)
		count(foreign.ID, 50)
		w := o.get("auditor", page+"?days=90")
		checkPage(t, "the numbers", w, http.StatusOK, "1,236", "Ada", "1,234", "Eve Obi", "Verifications in the last 90 days: 1,236.")
		if body := w.Body.String(); strings.Contains(body, "Zoe") || !strings.Contains(body, `<svg class="bars"`) || strings.Contains(body, "chart.js") {
			t.Error("the page has a certificate of another institution, no chart, or a script for the chart")
		}
		csv := o.get("auditor", page+"/certificates.csv").Body.String()
		if !strings.Contains(csv, many.ReferenceID) || !strings.Contains(csv, `"1234","1234"`) || !strings.Contains(csv, `"2","2"`) || strings.Contains(csv, foreign.ReferenceID) {
			t.Errorf("the CSV file by certificate is %q, want only the certificates of the institution, with 1234 and 2", csv)
		}
		days := o.get("auditor", page+"/days.csv").Body.String()
		if lines := strings.Split(strings.TrimSpace(days), "\n"); len(lines) != 367 || !strings.Contains(lines[366], `,"1236"`) {
			t.Errorf("the CSV file by day has %d lines and ends with %q, want a header line and 366 days, the last with 1236", len(lines), lines[len(lines)-1])
		}
		w = o.get("auditor", o.pathOf("certificates/"+few.UUID))
		checkPage(t, "a certificate", w, http.StatusOK, "2 in the last 30 days", `<a href="https://vault.example/verify/`+few.ReferenceID+`"><img src="https://vault.example/verify/`+few.ReferenceID+`/badge.svg?lang=en"`)
		if !strings.Contains(w.Body.String(), `src="/verify/`+few.ReferenceID+`/badge.svg?lang=en"`) {
			t.Error("the page of a certificate has no preview of the badge")
		}
		if err := o.panel.Accounts.SetPublic(t.Context(), o.inst.ID, account.Public{HideName: true}); err != nil {
			t.Fatal(err)
		}
		checkPage(t, "a certificate with a hidden name", o.get("auditor", o.pathOf("certificates/"+few.UUID)), http.StatusOK, "fewer than 3", "fewer than 3 in the last 30 days")
		w = o.get("auditor", page)
		checkPage(t, "the numbers with hidden names", w, http.StatusOK, "1,234", "Numbers below 3")
		if strings.Contains(w.Body.String(), "Eve Obi") {
			t.Error("the page lists a certificate with two verifications although names are hidden")
		}
		if csv := o.get("auditor", page+"/certificates.csv").Body.String(); strings.Contains(csv, few.ReferenceID) || !strings.Contains(csv, many.ReferenceID) {
			t.Errorf("the CSV file is %q, want only the certificate with at least three verifications", csv)
		}
	})
}
