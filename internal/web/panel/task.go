package panel

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/task"
)

// resultsOnAPage is how many results of a task a page shows.
const resultsOnAPage = 50

// taskView is something that is done to many certificates, as pages show it.
type taskView struct {
	*task.Deed

	Visit *Visit
	// Outcome limits the results to one; empty is all.
	Outcome task.DeedOutcome
	Results []*task.DeedResult
	Tabs    []tab
	// Prev and Next lead to the pages around this one, empty where there is none.
	Prev, Next string
}

// Retries says that certificates are retried, and not revoked.
func (t *taskView) Retries() bool { return t.Kind == task.RetryMany }

// Path is the address of the task.
func (t *taskView) Path() string { return t.Visit.Path("tasks/" + t.UUID) }

// at is the address of the results before or after one.
func (t *taskView) at(outcome task.DeedOutcome, side string, number int64) string {
	q := url.Values{}
	if outcome != "" {
		q.Set("show", string(outcome))
	}
	if side != "" {
		q.Set(side, strconv.FormatInt(number, 10))
	}
	if len(q) == 0 {
		return t.Path()
	}
	return t.Path() + "?" + q.Encode()
}

// tasks lists what was done to many certificates of late.
func (p *Panel) tasks(w http.ResponseWriter, r *http.Request, v *Visit) error {
	deeds, err := p.Tasks.Deeds(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	list := make([]*taskView, len(deeds))
	for i, d := range deeds {
		list[i] = &taskView{Deed: d, Visit: v}
	}
	return p.draw(w, r, "tasks.html", struct {
		Visit *Visit
		List  []*taskView
	}{v, list})
}

// task shows how far something is that is done to many certificates, and what became
// of each.
func (p *Panel) task(w http.ResponseWriter, r *http.Request, v *Visit) error {
	deed, err := p.Tasks.Deed(r.Context(), v.Institution().ID, r.PathValue("task"))
	if err != nil {
		return err
	}
	asked := r.URL.Query()
	t := &taskView{Deed: deed, Visit: v, Outcome: task.DeedOutcome(asked.Get("show"))}
	if !slices.Contains(task.DeedOutcomes, t.Outcome) {
		t.Outcome = ""
	}
	done := "Revoked"
	if t.Retries() {
		done = "Retried"
	}
	for _, one := range []struct {
		outcome task.DeedOutcome
		label   string
		n       int
	}{{"", "All", deed.Came()}, {task.DeedDone, done, deed.Done}, {task.DeedPassedOver, "Passed over", deed.PassedOver}, {task.DeedFailed, "Failed", deed.Failed}} {
		t.Tabs = append(t.Tabs, tab{Label: one.label, Path: t.at(one.outcome, "", 0), Count: strconv.Itoa(one.n), Current: one.outcome == t.Outcome})
	}
	if err := p.fillTask(r, t, asked); err != nil {
		return err
	}
	return p.draw(w, r, "task.html", t)
}

// taskEvents tells how far it is as it goes.
func (p *Panel) taskEvents(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if _, err := p.Tasks.Deed(r.Context(), v.Institution().ID, r.PathValue("task")); err != nil {
		return err
	}
	return p.events(w, r, func(ctx context.Context) (any, bool, error) {
		now, err := p.Tasks.Deed(ctx, v.Institution().ID, r.PathValue("task"))
		if err != nil {
			return nil, false, err
		}
		finished := now.FinishedAt != nil
		return struct {
			Done     int  `json:"done"`
			Passed   int  `json:"passed"`
			Failed   int  `json:"failed"`
			Finished bool `json:"finished"`
		}{now.Done, now.PassedOver, now.Failed, finished}, finished, nil
	})
}

// fillTask reads the results that the address means.
func (p *Panel) fillTask(r *http.Request, t *taskView, asked url.Values) error {
	q := task.ResultQuery{Outcome: t.Outcome, Limit: resultsOnAPage + 1}
	q.After, _ = strconv.ParseInt(asked.Get("after"), 10, 64) // what is none begins with the first
	q.Before, _ = strconv.ParseInt(asked.Get("before"), 10, 64)
	list, err := p.Tasks.Results(r.Context(), t.Deed, q)
	if err == nil && q.Before > 0 && len(list) <= resultsOnAPage {
		// Not enough stands before it to be a page of its own, so it is the first.
		q.Before, q.After = 0, 0
		list, err = p.Tasks.Results(r.Context(), t.Deed, q)
	}
	if err != nil {
		return err
	}
	more := len(list) > resultsOnAPage
	switch {
	case more && q.Before > 0:
		list = list[1:]
	case more:
		list = list[:resultsOnAPage]
	}
	if t.Results = list; len(list) == 0 {
		return nil
	}
	if more || q.Before > 0 {
		t.Next = t.at(t.Outcome, "after", list[len(list)-1].Number)
	}
	if q.Before > 0 || q.After > 0 {
		t.Prev = t.at(t.Outcome, "before", list[0].Number)
	}
	return nil
}

// taskCSV gives what became of each certificate as CSV.
func (p *Panel) taskCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	deed, err := p.Tasks.Deed(r.Context(), v.Institution().ID, r.PathValue("task"))
	if err != nil {
		return err
	}
	if err := download(w, "text/csv; charset=utf-8", "results.csv"); err != nil {
		return err
	}
	return p.whole(r, p.Tasks.WriteResults(r.Context(), deed, w))
}
