package panel

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/task"
)

// resultsPerPage is the maximum number of results of a task on one page.
const resultsPerPage = 50

// taskView is the data of a task on a page.
type taskView struct {
	*task.Task

	Visit *Visit
	// Outcome is the outcome of the shown results, or "" for results with any outcome.
	Outcome task.Outcome
	Results []taskResult
	Tabs    []tab
	// Prev and Next are the addresses of the previous and the next page, or "".
	Prev, Next string
}

// taskResult is a result on a page. Why is the reason why the certificate or the application was not
// changed, or "".
type taskResult struct {
	*task.Result

	Why string
}

// Decides reports whether the task decides applications.
func (t *taskView) Decides() bool { return t.Kind.Decides() }

// taskKeys are the keys of messages about the kinds of tasks that change certificates: the name of the
// task in the list, its title, and the label of a changed certificate.
var taskKeys = map[task.Kind]struct{ name, title, result string }{
	task.Retry: {"task.retry", "task.retry_title", "task.retried"}, task.Revoke: {"task.revoke", "task.revoke_title", "task.revoked"},
	task.Renew: {"task.renew", "task.renew_title", "task.renewed"},
}

// Name returns the key of the name of the task in the list.
func (t *taskView) Name() string {
	if t.Decides() {
		return t.manyKey("title")
	}
	return taskKeys[t.Kind].name
}

// Title returns the key of the title of the task.
func (t *taskView) Title() string {
	if t.Decides() {
		return t.manyKey("title")
	}
	return taskKeys[t.Kind].title
}

// Result returns the key of the label of a result whose certificate or application was changed.
func (t *taskView) Result() string {
	if t.Decides() {
		return t.manyKey("result")
	}
	return taskKeys[t.Kind].result
}

// Done returns the key of the message with the number of changed certificates or applications, without
// the ending _one or _many.
func (t *taskView) Done() string {
	if t.Decides() {
		return t.manyKey("done")
	}
	return taskKeys[t.Kind].result
}

func (t *taskView) manyKey(name string) string { return manyKey(application.Decision(t.Kind), name) }

// Unchanged returns the number of applications that the task did not change.
func (t *taskView) Unchanged() int { return t.Skipped + t.Failed }

// Path returns the address of the task.
func (t *taskView) Path() string { return t.Visit.Path("tasks/" + t.UUID) }

// at returns the address of the results with an outcome, or of all results if outcome is "". If side is
// "before" or "after", the address is of the page before or after the result with the number. If side is
// "", it is the address of the first page.
func (t *taskView) at(outcome task.Outcome, side string, number int64) string {
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

// maySee reports whether the visitor may see a task. Only members who may review applications
// may see a task that decides applications.
func maySee(v *Visit, d *task.Task) bool { return !d.Kind.Decides() || v.Can(account.MayReview) }

// taskOf returns the task in the path. The error is fault.NotFound if the visitor may not see the task.
func (p *Panel) taskOf(ctx context.Context, r *http.Request, v *Visit) (*task.Task, error) {
	d, err := p.Tasks.Task(ctx, v.Institution().ID, r.PathValue("task"))
	if err == nil && !maySee(v, d) {
		return nil, fault.New(fault.NotFound, "There is no such task.")
	}
	return d, err
}

// tasks lists the newest tasks.
func (p *Panel) tasks(w http.ResponseWriter, r *http.Request, v *Visit) error {
	tasks, err := p.Tasks.Tasks(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	var list []*taskView
	for _, d := range tasks {
		if maySee(v, d) {
			list = append(list, &taskView{Task: d, Visit: v})
		}
	}
	return p.draw(w, r, "tasks.html", struct {
		Visit *Visit
		List  []*taskView
	}{v, list})
}

// task shows the progress of a task and its results.
func (p *Panel) task(w http.ResponseWriter, r *http.Request, v *Visit) error {
	found, err := p.taskOf(r.Context(), r, v)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	t := &taskView{Task: found, Visit: v, Outcome: task.Outcome(query.Get("show"))}
	if !slices.Contains(task.Outcomes, t.Outcome) {
		t.Outcome = ""
	}
	for _, o := range []struct {
		outcome task.Outcome
		label   string
		n       int
	}{{"", "task.all", found.Total()}, {task.Succeeded, t.Result(), found.Succeeded}, {task.Skipped, "task.skipped", found.Skipped}, {task.Failed, "task.failed", found.Failed}} {
		t.Tabs = append(t.Tabs, tab{Label: o.label, Path: t.at(o.outcome, "", 0), Count: strconv.Itoa(o.n), Current: o.outcome == t.Outcome})
	}
	if err := p.fillTask(r, t, query); err != nil {
		return err
	}
	return p.draw(w, r, "task.html", t)
}

// taskEvents streams the progress of a task as server-sent events.
func (p *Panel) taskEvents(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if _, err := p.taskOf(r.Context(), r, v); err != nil {
		return err
	}
	return p.events(w, r, func(ctx context.Context) (any, bool, error) {
		now, err := p.taskOf(ctx, r, v)
		if err != nil {
			return nil, false, err
		}
		finished := now.FinishedAt != nil
		return struct {
			Done     int  `json:"done"`
			Skipped  int  `json:"skipped"`
			Failed   int  `json:"failed"`
			Finished bool `json:"finished"`
		}{now.Succeeded, now.Skipped, now.Failed, finished}, finished, nil
	})
}

// fillTask reads the results that the query selects, and sets the links to the previous and the next page.
func (p *Panel) fillTask(r *http.Request, t *taskView, query url.Values) error {
	q := task.ResultQuery{Outcome: t.Outcome, Limit: resultsPerPage + 1}
	q.After, _ = strconv.ParseInt(query.Get("after"), 10, 64) // 0, for the first page, if the text is not a number
	q.Before, _ = strconv.ParseInt(query.Get("before"), 10, 64)
	list, err := p.Tasks.Results(r.Context(), t.Task, q)
	if err == nil && q.Before > 0 && len(list) <= resultsPerPage {
		// At most one page of results precedes the result q.Before, so show the first page.
		q.Before, q.After = 0, 0
		list, err = p.Tasks.Results(r.Context(), t.Task, q)
	}
	if err != nil {
		return err
	}
	more := len(list) > resultsPerPage
	switch {
	case more && q.Before > 0:
		list = list[1:]
	case more:
		list = list[:resultsPerPage]
	}
	words := p.texts(r)
	for _, one := range list {
		t.Results = append(t.Results, taskResult{one, words.why(t.Kind, one)})
	}
	if len(list) == 0 {
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

// why returns a text with the reason why a task did not change a certificate or an application.
func (t texts) why(kind task.Kind, r *task.Result) string {
	switch {
	case !kind.Decides():
		return t.domain(r.Reason(kind))
	case r.Outcome == task.Failed:
		return t.of("applications_many.failed")
	case r.Refusal == nil:
		return ""
	}
	return t.outcome(r.Refusal.Err(), r.Application)
}

// taskCSV sends the results of a task as a CSV file.
func (p *Panel) taskCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	found, err := p.taskOf(r.Context(), r, v)
	if err != nil {
		return err
	}
	if err := download(w, "text/csv; charset=utf-8", "results.csv"); err != nil {
		return err
	}
	return p.finishStream(r, p.Tasks.WriteResults(r.Context(), found, func(one *task.Result) string { return p.texts(r).why(found.Kind, one) }, w))
}
