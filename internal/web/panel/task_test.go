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

// After a bulk revocation, the page of the task and a CSV file list the results. The list of tasks shows
// the number of certificates with each outcome.
func TestProgressAndResultsOfATask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "no tasks", o.get("auditor", o.pathOf("tasks")), http.StatusOK, "No tasks")
		form := url.Values{"sure": {"1"}, "reason": {"Withdrawn"}}
		var list []*cert.Certificate
		for i := range resultsPerPage + 10 {
			c := o.upload(o.inst, fmt.Sprintf("Person Number %d", i), "a.pdf")
			list = append(list, c)
			form.Add("selected", c.UUID)
		}
		if _, err := o.panel.Certs.Revoke(t.Context(), o.inst.ID, list[3].UUID, cert.Revocation{Reason: "Before"}); err != nil {
			t.Fatal(err)
		}
		checkPage(t, "a revocation without the number", o.post("owner", o.pathOf("certificates/revoke"), form), http.StatusUnprocessableEntity, "This is not the number that is shown here.")
		form.Set("number", "60")
		task := o.post("owner", o.pathOf("certificates/revoke"), form).Header().Get("Location")
		checkPage(t, "a running task", o.get("owner", task), http.StatusOK, "Revoking certificates", "In progress", "Started by Owner Person",
			"Revoked: 0 , skipped: 0 , failed: 0")
		o.Until("all are revoked", func() bool {
			return strings.Contains(visibleText(t, o.get("owner", task)), "Done 59 certificates revoked, 1 skipped.")
		})

		w := o.get("auditor", task+"/events")
		if got := w.Body.String(); w.Header().Get("Content-Type") != "text/event-stream" || got != `data: {"done":59,"skipped":1,"failed":0,"finished":true}`+"\n\n" {
			t.Errorf("event stream: header %v, body %s, want the type text/event-stream and one event with the final counts", w.Header(), got)
		}
		w = o.get("auditor", task)
		checkPage(t, "the first page", w, http.StatusOK, "All 60", "Revoked 59", "Skipped 1", "Failed 0", "Next page", "Person Number 3 ")
		w = o.get("auditor", o.linkTo(w, "Next page"))
		checkPage(t, "the second page", w, http.StatusOK, "Person Number", "Previous page")
		if n := strings.Count(w.Body.String(), "<tr>"); n != 11 {
			t.Errorf("rows on the second page = %d, want 11 with the header row", n)
		}
		w = o.get("auditor", o.linkTo(w, "Previous page"))
		if n := strings.Count(w.Body.String(), "<tr>"); n != resultsPerPage+1 || strings.Contains(visibleText(t, w), "Previous page") {
			t.Errorf("rows on the first page = %d, want 51 with the header row, and no link to a previous page", n)
		}
		w = o.get("auditor", task+"?show=skipped")
		checkPage(t, "the skipped certificates", w, http.StatusOK, "Person Number 3", "It was already revoked.")
		if strings.Contains(visibleText(t, w), "Person Number 4") {
			t.Error("the list of skipped certificates contains a certificate that the task revoked")
		}
		checkPage(t, "the failed certificates", o.get("auditor", task+"?show=failed"), http.StatusOK, "No certificate of this task has this result")
		checkPage(t, "an unknown outcome", o.get("auditor", task+"?show=x&after=y"), http.StatusOK, "Person Number 0")
		w = o.get("auditor", task+"/results.csv")
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 61 || !strings.Contains(w.Header().Get("Content-Disposition"), "results.csv") {
			t.Errorf("results.csv: rows = %d, want 61; error %v, header %v", len(rows), err, w.Header())
		}
		checkPage(t, "the list of tasks", o.get("auditor", o.pathOf("tasks")), http.StatusOK, "Revoke", "By Owner Person", "59 1 0")
		for _, path := range []string{"", "/results.csv"} {
			if w := o.get("owner", strings.Replace(task, o.inst.Slug, o.other.Slug, 1)+path); w.Code != http.StatusNotFound {
				t.Errorf("the task under the path of another institution: status = %d, want 404", w.Code)
			}
		}
	})
}
