package panel

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// After a bulk revocation, the page shows which certificates were revoked, which were not, and why:
// page by page and as a file. It can be found again.
func TestResultsOfATask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		says(t, "none yet", o.get("auditor", o.pathOf("tasks")), http.StatusOK, "No tasks")
		form := url.Values{"sure": {"1"}, "reason": {"Withdrawn"}}
		var list []*cert.Certificate
		for i := range resultsOnAPage + 10 {
			c := o.upload(o.mine, fmt.Sprintf("Person Number %d", i), "a.pdf")
			list = append(list, c)
			form.Add("selected", c.UUID)
		}
		if _, err := o.panel.Certs.Revoke(t.Context(), o.mine.ID, list[3].UUID, cert.Revocation{Reason: "Before"}); err != nil {
			t.Fatal(err)
		}
		task := o.post("owner", o.pathOf("certificates/revoke"), form).Header().Get("Location")
		says(t, "under way", o.get("owner", task), http.StatusOK, "Revoking certificates", "Under way", "Begun by Owner Person",
			"Revoked: 0 , skipped: 0 , failed: 0")
		o.Until("all are revoked", func() bool {
			return strings.Contains(words(t, o.get("owner", task)), "Done 59 certificates revoked, 1 skipped.")
		})

		w := o.get("auditor", task+"/events")
		if got := w.Body.String(); w.Header().Get("Content-Type") != "text/event-stream" || got != `data: {"done":59,"skipped":1,"failed":0,"finished":true}`+"\n\n" {
			t.Errorf("events: %v, %s", w.Header(), got)
		}
		w = o.get("auditor", task)
		says(t, "first page", w, http.StatusOK, "All 60", "Revoked 59", "Skipped 1", "Failed 0", "Next page", "Person Number 3 ")
		w = o.get("auditor", o.follow(w, "Next page"))
		says(t, "second page", w, http.StatusOK, "Person Number", "Previous page")
		if n := strings.Count(w.Body.String(), "<tr>"); n != 11 {
			t.Errorf("%d rows on the second page", n)
		}
		w = o.get("auditor", o.follow(w, "Previous page"))
		if n := strings.Count(w.Body.String(), "<tr>"); n != resultsOnAPage+1 || strings.Contains(words(t, w), "Previous page") {
			t.Errorf("%d rows back on the first page", n)
		}
		w = o.get("auditor", task+"?show=skipped")
		says(t, "skipped", w, http.StatusOK, "Person Number 3", "It was revoked already.")
		if strings.Contains(words(t, w), "Person Number 4") {
			t.Error("others are among the skipped ones")
		}
		says(t, "failed", o.get("auditor", task+"?show=failed"), http.StatusOK, "No certificate of this task came out so")
		says(t, "no such outcome", o.get("auditor", task+"?show=x&after=y"), http.StatusOK, "Person Number 0")
		w = o.get("auditor", task+"/results.csv")
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 61 || !strings.Contains(w.Header().Get("Content-Disposition"), "results.csv") {
			t.Errorf("%d rows, %v, %v", len(rows), err, w.Header())
		}
		says(t, "found again", o.get("auditor", o.pathOf("tasks")), http.StatusOK, "Revoke", "by Owner Person", "59 1 0")
		for _, path := range []string{"", "/results.csv"} {
			if w := o.get("owner", strings.Replace(task, o.mine.Slug, o.other.Slug, 1)+path); w.Code != http.StatusNotFound {
				t.Errorf("another institution is answered %d", w.Code)
			}
		}
	})
}
