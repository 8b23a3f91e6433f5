package panel

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/sheet"
)

// batchesPerPage is the number of batches per page.
const batchesPerPage = 25

// dryRun shows which certificates the submission of a bulk upload would create. If the meanings of
// the columns are not saved yet, dryRun redirects to the page of the columns.
func (p *Panel) dryRun(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.dryRunView(r, v)
	if err != nil {
		return err
	}
	if !view.Mapped {
		return p.redirect(w, r, v, "bulk/"+view.UUID+"/columns", "")
	}
	view.reload()
	return p.draw(w, r, "bulk_submit.html", view)
}

type dryRunView struct {
	*draftPage

	Run *bulkimport.DryRun
	// Default is the mode of the institution's default placement.
	Default seal.Mode
	// form is the submitted form, or nil.
	form url.Values
}

// Rejected returns the number of valid rows that the submission would reject.
func (d *dryRunView) Rejected() int { return d.Valid - d.Run.Certificates }

// Nothing reports whether the bulk upload has valid rows and no rows with problems, but the
// submission would create no certificate.
func (d *dryRunView) Nothing() bool { return d.Invalid == 0 && d.Valid > 0 && d.Run.Certificates == 0 }

// Limit returns the message about the limit of the institution that the submission would exceed, or "".
func (d *dryRunView) Limit() string {
	if d.Run.Limit == "" {
		return ""
	}
	return d.texts.domain(d.Run.Limit)
}

// NameAbsent returns the valid rows whose file does not contain the name of the recipient, except accepted
// rows.
func (d *dryRunView) NameAbsent() []*bulkimport.Row {
	return slices.DeleteFunc(d.Of(bulkimport.ShowValid), func(row *bulkimport.Row) bool { return !row.Has(bulkimport.DoubtName) })
}

// Misspelt returns the valid rows whose e-mail address is probably misspelt, except accepted rows.
func (d *dryRunView) Misspelt() []*bulkimport.Row {
	return slices.DeleteFunc(slices.Clone(d.Run.Misspelt), func(row *bulkimport.Row) bool { return !row.Has(bulkimport.DoubtAddress) })
}

// SharedOpen returns the files that several certificates would use, except files whose rows are all
// accepted.
func (d *dryRunView) SharedOpen() []*bulkimport.Shared {
	return slices.DeleteFunc(slices.Clone(d.Shared), func(f *bulkimport.Shared) bool {
		return !slices.ContainsFunc(f.Rows, func(row *bulkimport.Row) bool { return row.Has(bulkimport.DoubtDuplicate) })
	})
}

// FirstReady returns the first valid row, or nil.
func (d *dryRunView) FirstReady() *bulkimport.Row {
	if rows := d.Of(bulkimport.ShowValid); len(rows) > 0 {
		return rows[0]
	}
	return nil
}

// OnlyToday reports whether there are valid rows, and none of them has a date of issue.
func (d *dryRunView) OnlyToday() bool {
	o := d.DateOrigins()
	return o.Today > 0 && o.Today == d.Valid
}

// DateColumn returns the name of the column with the date of issue, or "".
func (d *dryRunView) DateColumn() string {
	if at, ok := d.Mapping.Columns[sheet.IssueDate]; ok && at < len(d.Header) {
		return sample(d.Header[at])
	}
	return ""
}

// SameDate returns the date of issue that was entered for all rows without a date, or "".
func (d *dryRunView) SameDate() string { return d.Mapping.Defaults[sheet.IssueDate] }

func (p *Panel) dryRunView(r *http.Request, v *Visit) (*dryRunView, error) {
	page, err := p.draftPage(r, v, "submit")
	if err != nil {
		return nil, err
	}
	if err := p.compare(r, page); err != nil {
		return nil, err
	}
	run, err := p.BulkImports.DryRun(r.Context(), page.Draft)
	if err != nil {
		return nil, err
	}
	policy, err := p.Certs.Policy(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	return &dryRunView{page, run, policy.Placement, r.PostForm}, nil
}

// submit submits the bulk upload. If the submission would create no certificate or is rejected,
// submit shows the dry run again. A second submission has no effect.
func (p *Panel) submit(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if d.Status == bulkimport.Open {
		view, err := p.dryRunView(r, v)
		if err != nil {
			return err
		}
		if view.Nothing() {
			return p.showAgain(w, r, "bulk_submit.html", view, fault.New(fault.BadRequest, "bulk_summary.nothing"))
		}
	}
	d.Notify = notifyOf(r.PostForm)
	if err := p.BulkImports.Submit(r.Context(), d, nil); err != nil {
		view, e := p.dryRunView(r, v)
		if e != nil {
			return e
		}
		return p.showAgain(w, r, "bulk_submit.html", view, err)
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID+"/progress", "submitted")
}

// progressView is the data of the page with the progress of a bulk upload.
type progressView struct {
	*draftPage

	Progress *bulkimport.Progress
	// Plans maps the UUIDs of the batches to the plans for their mail. A plan may be nil.
	Plans map[string]*recipient.Plan
	// Rest is a text about the speed and the remaining time, or "" if all rows are finished.
	Rest string
	// NotIssued are the results of the rows that have no certificate or whose certificate failed. The
	// list is empty until all rows are finished. CorrectableRows is the number of these rows that can be
	// corrected and submitted again, or 0 if the member must not upload.
	NotIssued       []*bulkimport.Result
	CorrectableRows int
}

// Why returns the reason why a row has no certificate, or why its certificate failed.
func (l *progressView) Why(r *bulkimport.Result) string { return l.texts.resultMessage(r) }

// StatusKey returns the key of the label of a result in NotIssued.
func (*progressView) StatusKey(r *bulkimport.Result) string {
	return "bulk_progress.status_" + r.Status
}

// Refusals returns the reasons why batches were not accepted.
func (l *progressView) Refusals() []string {
	texts := make([]string, len(l.Progress.Refusals))
	for i, refusal := range l.Progress.Refusals {
		if texts[i] = refusal.Text; refusal.Problem != nil {
			texts[i] = l.texts.listMessage(bulkimport.Problem{Problem: *refusal.Problem}, "")
		}
	}
	return texts
}

// MaxBatch returns the maximum number of rows of a batch.
func (*progressView) MaxBatch() int { return batch.MaxEntries }

// Summary returns a sentence with the results of the submitted rows.
func (l *progressView) Summary() string {
	p := l.Progress
	results := []string{l.texts.of("bulk_progress.issued", "n", p.Approved+p.Revoked)}
	for _, count := range []struct {
		n   int
		key string
	}{{p.Failed, "failed"}, {p.Rejected, "rejected"}, {p.Refused, "refused"}} {
		if count.n > 0 {
			results = append(results, l.texts.of("bulk_progress."+count.key, "n", count.n))
		}
	}
	return l.texts.count("bulk_progress.all", p.Total, "results", strings.Join(results, ", "))
}

// loadNotIssued sets NotIssued and CorrectableRows if all rows are finished.
func (p *Panel) loadNotIssued(r *http.Request, view *progressView) error {
	done := view.Progress
	if !done.Finished() || done.Failed+done.Rejected+done.Refused+done.Skipped == 0 {
		return nil
	}
	results, err := p.BulkImports.Results(r.Context(), view.Draft)
	if err != nil {
		return err
	}
	view.NotIssued = bulkimport.NotIssued(results)
	if !view.Visit.Can(account.MayUpload) {
		return nil
	}
	for _, row := range view.NotIssued {
		if row.Again {
			view.CorrectableRows++
		}
	}
	return nil
}

// rest returns a text about the speed and the remaining time, or "" if all rows are finished.
func (t texts) rest(p *bulkimport.Progress) string {
	switch {
	case p.Finished():
		return ""
	case p.PerMinute == 0:
		return t.of("bulk_progress.unknown")
	case p.Remaining < time.Minute:
		return t.of("bulk_progress.pace_end", "n", t.language.Number(p.PerMinute))
	default:
		return t.of("bulk_progress.pace", "n", t.language.Number(p.PerMinute), "time", t.count("bulk.minutes", int(p.Remaining.Round(time.Minute)/time.Minute)))
	}
}

// progress shows the progress of a submitted bulk upload. For a bulk upload that was not submitted,
// progress redirects to the page of the list and the files.
func (p *Panel) progress(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if d.Status == bulkimport.Open {
		return p.redirect(w, r, v, "bulk/"+d.UUID, "")
	}
	view := &progressView{draftPage: &draftPage{Review: &bulkimport.Review{Draft: d}, Visit: v, texts: p.texts(r)}}
	if view.Progress, err = p.BulkImports.Progress(r.Context(), d); err != nil {
		return err
	}
	view.Rest = view.texts.rest(view.Progress)
	view.Plans = map[string]*recipient.Plan{}
	for _, b := range view.Progress.Batches {
		if view.Plans[b.UUID], err = p.Mail.PlanOfBatch(r.Context(), v.Institution().ID, b.UUID); err != nil {
			return err
		}
	}
	if err := p.loadNotIssued(r, view); err != nil {
		return err
	}
	return p.draw(w, r, "bulk_progress.html", view)
}

// progressEvents streams the progress of the submitted rows as server-sent events. Before the submission,
// it streams the progress of the archives.
func (p *Panel) progressEvents(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if d.Status == bulkimport.Open {
		return p.unpackEvents(w, r, v, d)
	}
	return p.events(w, r, func(ctx context.Context) (any, bool, error) {
		now, err := p.BulkImports.Progress(ctx, d)
		if err != nil {
			return nil, false, err
		}
		return struct {
			Done     int    `json:"done"`
			Approved int    `json:"approved"`
			Failed   int    `json:"failed"`
			Rejected int    `json:"rejected"`
			Finished bool   `json:"finished"`
			Rest     string `json:"rest"`
		}{now.Done(), now.Approved, now.Failed, now.Rejected, now.Finished(), p.texts(r).rest(now)}, now.Finished(), nil
	})
}

// unpackEvents streams the state of the files step until all archives are unpacked.
func (p *Panel) unpackEvents(w http.ResponseWriter, r *http.Request, v *Visit, d *bulkimport.Draft) error {
	type state struct {
		State    string `json:"state"`
		Text     string `json:"text"`
		Finished bool   `json:"finished"`
	}
	texts := p.texts(r)
	return p.events(w, r, func(ctx context.Context) (any, bool, error) {
		archives, err := p.BulkImports.Archives(ctx, d)
		if err != nil {
			return nil, false, err
		}
		for _, a := range archives {
			if !a.Done {
				return state{"open", texts.of("bulk_steps.unpacking_of", "done", a.Place, "total", a.Entries), false}, false, nil
			}
		}
		page, err := p.draftPage(r, v, "files")
		if err != nil {
			return nil, false, err
		}
		step := page.filesStep()
		return state{step.State, step.Missing, true}, true, nil
	})
}

// resultsCSV sends the result of each row as a CSV file.
func (p *Panel) resultsCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if err := download(w, "text/csv; charset=utf-8", "results.csv"); err != nil {
		return err
	}
	return p.finishStream(r, p.BulkImports.WriteResults(r.Context(), d, p.Links.Verify, p.texts(r).resultMessage, w))
}

// retryDraft retries the failed certificates of a bulk upload.
func (p *Panel) retryDraft(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if _, err := p.BulkImports.RetryFailed(r.Context(), v.Institution(), d, nil); err != nil {
		return err
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID+"/progress", "retried")
}

// draftAgain creates another bulk upload with the rows that did not become certificates and can be
// corrected.
func (p *Panel) draftAgain(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	again, err := p.BulkImports.Resubmit(r.Context(), d, v.actor())
	if err != nil {
		return err
	}
	return p.redirect(w, r, v, "bulk/"+again.UUID+"/rows", "begun_again")
}

// batchList is one page of the list of an institution's batches from all sources.
type batchList struct {
	Visit *Visit
	List  *batch.List
}

// Newest returns the address of the first page.
func (l *batchList) Newest() string { return l.Visit.Path("batches") }

// Newer returns the address of the page with newer batches, or "" on the first page.
func (l *batchList) Newer() string {
	if l.List.Prev == "" {
		return ""
	}
	return l.Newest() + "?before=" + l.List.Prev
}

// Older returns the address of the page with older batches, or "" on the last page.
func (l *batchList) Older() string {
	if l.List.Next == "" {
		return ""
	}
	return l.Newest() + "?cursor=" + l.List.Next
}

// batches shows one page of the batches with their progress. If a page other than the first is
// empty, batches redirects to the first page.
func (p *Panel) batches(w http.ResponseWriter, r *http.Request, v *Visit) error {
	l := &batchList{Visit: v}
	f := batch.Filter{Range: rangeOf(r.URL.Query())}
	f.PerPage = batchesPerPage
	var err error
	if l.List, err = p.Batches.List(r.Context(), v.Institution().ID, f); err != nil {
		return err
	}
	if len(l.List.Items) == 0 && f.HasPosition() {
		return p.redirect(w, r, v, "batches", "")
	}
	return p.draw(w, r, "batches.html", l)
}
