package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// Outcome is the outcome of a task for one certificate or application.
type Outcome string

const (
	// Succeeded is the outcome of a certificate that was changed or an application that was decided.
	Succeeded Outcome = "succeeded"
	// Skipped is the outcome of a certificate or an application that does not exist in the institution, or
	// for which the operation was refused, for example because of its status.
	Skipped Outcome = "skipped"
	// Failed is the outcome of a certificate that could not be changed, or an application that could not be
	// decided, because of an internal error.
	Failed Outcome = "failed"
)

// Outcomes are all outcomes.
var Outcomes = []Outcome{Succeeded, Skipped, Failed}

// Result is the result of a task for one certificate or application.
type Result struct {
	// Number counts the results of a task from 1.
	Number  int64
	UUID    string
	Outcome Outcome
	// PreviousStatus is the status of a skipped certificate. It is "" for the other outcomes, and
	// if the institution has no such certificate.
	PreviousStatus cert.Status
	At             time.Time
	// Certificate is the current state of the certificate. It is nil if the institution has no such
	// certificate, and for a task that decides applications.
	Certificate *cert.Certificate
	// Refusal is the reason why an application was skipped, and Application is its current state.
	// Application is nil if the institution has no such application.
	Refusal     *application.Refusal
	Application *application.Application
}

// Reason explains why a certificate was not changed. It returns "" for a changed certificate.
func (r *Result) Reason(kind Kind) string {
	switch {
	case r.Outcome == Succeeded:
		return ""
	case r.Outcome == Failed:
		return "A fault of the vault prevented the change. Try again. If it fails again, inform the operator of this vault: the vault's log has the details."
	case kind == Renew && r.PreviousStatus == cert.Approved:
		return "It was not made from a template, its values were deleted or do not fit the template, its template cannot be used anymore, " +
			"it is being replaced, or a limit of the institution is reached."
	case kind == Renew && r.PreviousStatus != "":
		return "Only approved certificates can be renewed."
	case slices.Contains(changeable[kind], r.PreviousStatus):
		return "Another person or task changed it at the same time."
	case r.PreviousStatus == cert.Revoked && kind == Revoke:
		return "It was already revoked."
	case r.PreviousStatus == cert.Revoked:
		return "It is revoked, and only failed certificates can be retried."
	case r.PreviousStatus == cert.Approved:
		return "It is approved, and only failed certificates can be retried."
	case r.PreviousStatus == cert.Processing:
		return "It was already being processed."
	case r.PreviousStatus != "":
		return "Its status does not allow this."
	default:
		return "There is no such certificate."
	}
}

// maxResults is the maximum number of results of a page. exportBatch is the number of results that an
// export reads at a time.
const maxResults, exportBatch = 100, 500

// ResultQuery selects results of a task.
type ResultQuery struct {
	// Outcome limits the results to one outcome if it is not empty.
	Outcome Outcome
	// After selects the results after the result with this number. If Before is not 0, After is ignored,
	// and Before selects the results directly before the result with this number.
	After, Before int64
	// Limit is 1 to 100.
	Limit int
}

// Results returns results of a task in the order of their numbers. It returns a fault of kind
// Invalid for a query that is not valid.
func (s *Service) Results(ctx context.Context, d *Task, q ResultQuery) ([]*Result, error) {
	if q.Limit < 1 || q.Limit > maxResults {
		return nil, fault.OfField("limit", fmt.Sprintf("The limit must be 1 to %d.", maxResults))
	}
	if q.Outcome != "" && !slices.Contains(Outcomes, q.Outcome) {
		return nil, fault.OfField("outcome", "There is no such outcome.")
	}
	return s.results(ctx, d, q)
}

func (s *Service) results(ctx context.Context, d *Task, q ResultQuery) (list []*Result, err error) {
	where, args := `task_id = $1`, []any{d.id}
	if q.Outcome != "" {
		where, args = where+` AND outcome = $2`, append(args, string(q.Outcome))
	}
	beyond, from, direction := ` > `, q.After, ` ASC`
	if q.Before > 0 {
		beyond, from, direction = ` < `, q.Before, ` DESC`
	}
	args = append(args, from, q.Limit)
	rows, err := s.db.QueryContext(ctx, fmt.Sprintf(`SELECT number, uuid, outcome, status, refusal, at FROM certificate_task_results
		WHERE `+where+` AND number`+beyond+`$%d ORDER BY number`+direction+` LIMIT $%d`, len(args)-1, len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("reading the results of a task: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r := &Result{}
		var at int64
		var refusal string
		if err := rows.Scan(&r.Number, &r.UUID, &r.Outcome, &r.PreviousStatus, &refusal, &at); err != nil {
			return nil, fmt.Errorf("reading the results of a task: %w", err)
		}
		if r.Refusal, err = decodeRefusal(refusal); err != nil {
			return nil, err
		}
		r.At = db.Time(at)
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the results of a task: %w", err)
	}
	if q.Before > 0 {
		slices.Reverse(list)
	}
	if d.Kind.Decides() {
		return list, s.readApplications(ctx, d, list)
	}
	return list, s.readCertificates(ctx, d, list)
}

// readCertificates sets the certificates of results.
func (s *Service) readCertificates(ctx context.Context, d *Task, list []*Result) (err error) {
	if len(list) == 0 {
		return nil
	}
	byUUID := make(map[string]*Result, len(list))
	args := []any{d.institutionID}
	for _, r := range list {
		byUUID[r.UUID], args = r, append(args, r.UUID)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+cert.Columns+` FROM certificates WHERE institution_id = $1 AND uuid IN (`+db.Placeholders(2, len(list))+`)`, args...)
	if err != nil {
		return fmt.Errorf("reading the certificates of a task: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		c, err := cert.Scan(rows)
		if err != nil {
			return fmt.Errorf("reading the certificates of a task: %w", err)
		}
		byUUID[c.UUID].Certificate = c
	}
	return rows.Err()
}

// WriteResults writes all results of a task as CSV. refused returns the text of the refusal of an
// application. It may be nil for a task that changes certificates.
func (s *Service) WriteResults(ctx context.Context, d *Task, refused func(*Result) string, out io.Writer) error {
	w := sheet.NewWriter(out)
	if err := w.Write("Number", "Result", "Why", "Reference id", "Certificate title", "Full name", "E-mail", "Status now", "Certificate", "At"); err != nil {
		return err
	}
	for q := (ResultQuery{Limit: exportBatch}); ; {
		list, err := s.results(ctx, d, q)
		if err != nil {
			return err
		}
		for _, r := range list {
			var c cert.Certificate
			switch a := r.Application; {
			case r.Certificate != nil:
				c = *r.Certificate
			case a != nil:
				c = cert.Certificate{ReferenceID: a.ReferenceID, Title: a.Title, FullName: a.FullName, Email: a.Email, Status: a.Status}
			}
			why := r.Reason(d.Kind)
			if r.Refusal != nil {
				why = refused(r)
			}
			if err := w.Write(fmt.Sprint(r.Number), string(r.Outcome), why, c.ReferenceID, c.Title, c.FullName, c.Email, string(c.Status), r.UUID,
				r.At.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
			q.After = r.Number
		}
		if len(list) < q.Limit {
			return w.Flush()
		}
	}
}

// storeResultsTx stores the results of a step.
func (s *Service) storeResultsTx(ctx context.Context, tx *db.Tx, d *Task, list []Result) error {
	if len(list) == 0 {
		return nil
	}
	const perRow = 5
	args := []any{d.id, db.Micros(s.now())}
	rows := make([]string, len(list))
	for i, r := range list {
		refusal, err := encodeRefusal(r.Refusal)
		if err != nil {
			return err
		}
		rows[i] = "($1, " + db.Placeholders(len(args)+1, perRow) + ", $2)"
		args = append(args, int64(d.Total()+i+1), r.UUID, string(r.Outcome), string(r.PreviousStatus), refusal)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO certificate_task_results (task_id, number, uuid, outcome, status, refusal, at) VALUES `+strings.Join(rows, ", "), args...)
	return err
}

const (
	// retention is the time after which a finished task is deleted.
	retention = 30 * 24 * time.Hour
	// maxListed is the maximum number of tasks in a list.
	maxListed = 100
	// purgeBatch is the maximum number of results that one transaction deletes.
	purgeBatch = 5000
)

// listed are the columns of a task in a list, without its selection or its decisions, which can be long.
var listed = strings.Replace(columns, "filter", "'{}'", 1)

// Tasks returns the newest tasks of an institution.
func (s *Service) Tasks(ctx context.Context, institutionID int64) (list []*Task, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+listed+` FROM certificate_tasks WHERE institution_id = $1 ORDER BY id DESC LIMIT $2`, institutionID, maxListed)
	if err != nil {
		return nil, fmt.Errorf("listing tasks: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		d, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("listing tasks: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// purge deletes tasks whose retention has ended, with their results.
func (s *Service) purge(ctx context.Context) error {
	for {
		ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id FROM certificate_tasks WHERE finished_at IS NOT NULL AND finished_at < $1 ORDER BY finished_at LIMIT 1`,
			db.Micros(s.now().Add(-retention))))
		if err != nil {
			return fmt.Errorf("finding expired tasks: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		if err := s.purgeTask(ctx, ids[0]); err != nil {
			return fmt.Errorf("deleting a task: %w", err)
		}
		s.log.DebugContext(ctx, "deleted an expired task", slog.Int64("task", ids[0]))
	}
}

func (s *Service) purgeTask(ctx context.Context, id int64) error {
	for {
		var n int64
		err := s.db.Tx(ctx, func(tx *db.Tx) error {
			res, err := tx.ExecContext(ctx, `DELETE FROM certificate_task_results WHERE task_id = $1 AND number IN (
				SELECT number FROM certificate_task_results WHERE task_id = $1 ORDER BY number LIMIT $2)`, id, purgeBatch)
			if err != nil {
				return err
			}
			if n, err = res.RowsAffected(); err != nil || n == purgeBatch {
				return err
			}
			_, err = tx.ExecContext(ctx, `DELETE FROM certificate_tasks WHERE id = $1`, id)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
