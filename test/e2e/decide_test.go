//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/certvault/certvault/client"
)

// applyMany opens an offer with a template, and submits n applications for it.
func (f *fixture) applyMany(t *testing.T, n int) {
	t.Helper()
	id := f.template(t, "heritage")
	f.certvault(t, "", "offer", "create", "--institution", f.institution.Slug, "--name", "Summer school", "--slug", "summer-school", "--template", id, "--open")
	website := f.program(t, f.token(t, "", "certificate-application:create", "certificate-application:view"))
	for i := range n {
		if _, err := website.Apply(t.Context(), client.NewApplication{
			Offer: "summer-school", FullName: fmt.Sprintf("Student Number %d", i), ApplicantEmail: fmt.Sprintf("student%d@example.org", i),
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// keys presses keys in the control that has the focus.
func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do("pressing "+keys, chromedp.KeyEvent(keys))
}

// next waits until the tab shows a page with another path than the given one, and returns the new path.
func (b *tab) next(before string) string {
	b.t.Helper()
	b.until("the next page did not open", fmt.Sprintf(`document.readyState == "complete" && location.pathname != %q && document.querySelector("main h1") != null`, before))
	return evaluate[string](b, "location.pathname")
}

// TestDecideByKeyboard decides 50 applications with the keyboard, or 10 with -short. It rejects every
// fifth application with a reason. It logs the mean time of a decision.
func TestDecideByKeyboard(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		const rejectEvery = 5
		applications := 50
		if testing.Short() {
			applications = 10
		}
		f := start(t, database)
		f.applyMany(t, applications)
		b := f.signInOwner(t)
		queue := "/panel/" + f.institution.Slug + "/applications"
		b.open(queue + "?tab=new")
		b.see("Student Number 0")
		b.keys("j")
		b.keys("\r")
		at := b.next(queue)
		began := time.Now()
		for i := range applications {
			if i%rejectEvery == 0 {
				b.keys("r")
				b.until("the reason has no focus", `document.activeElement.id == "reason"`)
				b.keys("The proof of attendance is missing.")
				b.do("sending the reason", chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
			} else {
				b.keys("a")
				b.until("the approval has no focus", `document.activeElement.id == "issue"`)
				b.keys("\r")
			}
			at = b.next(at)
		}
		took := time.Since(began)
		t.Logf("%d decisions in %v, %v each", applications, took.Round(time.Millisecond), (took / time.Duration(applications)).Round(time.Millisecond))
		b.see("No other application is waiting in this list.")
		d := f.database(t)
		for status, want := range map[string]int{"rejected": applications / rejectEvery, "accepted": applications - applications/rejectEvery} {
			if n := count(t, d, `SELECT count(*) FROM applications WHERE status = '`+status+`'`); n != want {
				t.Errorf("number of applications that are %s = %d, want %d", status, n, want)
			}
		}
	})
}

// TestKillDuringDecisions starts a task that approves all applications, in a browser without scripts. It
// kills the vault during the task. After the restart, the task continues, and each application is
// approved once.
func TestKillDuringDecisions(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		const applications = 300
		f := start(t, database)
		f.applyMany(t, applications)
		b := f.signInOwner(t)
		b.scriptless()
		b.open("/panel/" + f.institution.Slug + "/applications")
		b.press(fmt.Sprintf("All %d in this list", applications))
		b.press("Approve…")
		b.see(fmt.Sprintf("%d applications", applications), fmt.Sprintf("and %d more", applications-10), fmt.Sprintf("Type %d to confirm", applications))
		b.fill("number", strconv.Itoa(applications))
		b.press("Approve applications")
		b.see("Approve applications", "Started by")
		path := evaluate[string](b, "location.pathname")
		d := f.database(t)
		decided := func() int {
			return count(t, d, `SELECT count(*) FROM applications WHERE status = 'accepted'`)
		}
		eventually(t, batchTime, "some applications are decided", func() bool { return decided() > applications/10 })
		f.Kill()
		f.restart(t)
		b.base = f.URL
		d = f.database(t)
		t.Logf("killed after %d decisions", decided())
		eventually(t, batchTime, "all applications are decided", func() bool { return decided() == applications })
		for what, query := range map[string]string{
			"approvals in the timelines": `SELECT count(*) FROM application_events WHERE action = 'approved'`,
			"events processing":          `SELECT count(*) FROM webhook_events WHERE name = 'certificate_application.processing'`,
			"results":                    `SELECT count(DISTINCT uuid) FROM certificate_task_results WHERE outcome = 'succeeded'`,
			"entries of the person":      `SELECT count(*) FROM audit_entries WHERE action = 'application.approved' AND actor_type = 'user'`,
		} {
			if n := count(t, d, query); n != applications {
				t.Errorf("number of %s = %d, want %d", what, n, applications)
			}
		}
		// Without scripts, the page refreshes itself. After a refresh while the vault was down, the tab
		// shows an error page of the browser.
		b.open(path)
		b.untilReloaded("the page does not show the result", fmt.Sprintf(`document.body?.innerText.includes("%d applications were approved.")`, applications))
		b.see(fmt.Sprintf("All %d", applications), "Next page")
		b.screenshot("results")
		b.press("Student Number")
		b.see("Student Number", "Open certificate")
	})
}
