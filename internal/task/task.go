// Package task runs tasks: bulk actions that retry, revoke or renew many certificates, or decide many
// applications. A job of the queue runs a task in steps, and stores a result for each certificate or
// application. The package also exports certificates as CSV and ZIP.
//
// Package search selects the certificates, package cert performs the operation on each certificate,
// and package application decides each application.
package task

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
)

// Kind is the operation of a task.
type Kind string

const (
	// Retry restarts the processing of failed certificates.
	Retry Kind = "retry"
	// Revoke revokes certificates.
	Revoke Kind = "revoke"
	// Renew replaces certificates from templates by renewals.
	Renew Kind = "renew"
)

const (
	// maxSelected is the maximum number of certificates that can be selected by their ids.
	maxSelected = 1000
	// stepSize is the maximum number of certificates that one transaction changes. A smaller number
	// would need more commits, and a larger number would delay other writers.
	stepSize = 25
	// workTime is the time after which a job starts no more steps and moves to the end of the queue.
	workTime = 15 * time.Second
	// sweepBatch is the maximum number of tasks that one sweep enqueues.
	sweepBatch = 500
	// Queue is the queue of the jobs of tasks.
	Queue = "task"
)

// Config has the dependencies of a Service.
type Config struct {
	DB     *db.DB
	Queue  *job.Queue
	Certs  *cert.Service
	Search *search.Service
	// Applications may be nil if no task decides applications.
	Applications *application.Service
	// Issuer provides the credentials of certificates. It may be nil if no credentials are exported.
	Issuer *issuer.Service
	// VerifyURL returns the address in the QR code of the certificate with the given reference id.
	VerifyURL func(referenceID string) string
	// Renewal returns the input for the renewal of the certificate with the given UUID.
	Renewal func(ctx context.Context, inst *account.Institution, creator cert.Actor, uuid string) (cert.Upload, error)
	Now     func() time.Time
	Log     *slog.Logger
}

// Service runs tasks and exports.
type Service struct {
	db        *db.DB
	queue     *job.Queue
	certs     *cert.Service
	search    *search.Service
	verifyURL func(string) string
	renewal   func(context.Context, *account.Institution, cert.Actor, string) (cert.Upload, error)
	now       func() time.Time
	log       *slog.Logger

	applications *application.Service
	issuer       *issuer.Service
}

// New returns a service and registers its worker with the queue.
func New(c Config) *Service {
	s := &Service{
		db: c.DB, queue: c.Queue, certs: c.Certs, search: c.Search, verifyURL: c.VerifyURL, now: c.Now, log: c.Log, applications: c.Applications,
		renewal: c.Renewal, issuer: c.Issuer,
	}
	job.Add(c.Queue, &worker{service: s})
	return s
}

// Selection is a set of certificates: those with the UUIDs in Selected or, if Selected is empty, those
// that Filter selects.
type Selection struct {
	Selected []string      `json:"selected,omitempty"`
	Filter   search.Filter `json:"filter"`
	// Before is the time at which the person saw what Filter selects. A task that revokes or renews
	// certificates omits those that were created at this time or later. The zero time, or a later time than
	// the start of the task, means the start of the task.
	Before time.Time `json:"before,omitzero"`
}

// Request is the data of a task to start.
type Request struct {
	Selection

	Kind Kind
	// Reason and Note are the reason and the note of a revocation. For a task that decides applications,
	// Reason is the text of the decision.
	Reason, Note string
	// Notify means that the recipients of revoked certificates get mail with the reason.
	Notify bool
	// Then runs in the transaction that starts the task. It may be nil.
	Then func(ctx context.Context, tx *db.Tx) error
}

// Task is a bulk action on many certificates or applications. It continues after a crash, and changes no
// certificate or application twice.
type Task struct {
	UUID string
	Kind Kind
	// Succeeded, Skipped and Failed are the numbers of certificates or applications with each Outcome.
	Succeeded, Skipped, Failed int
	CreatedAt                  time.Time
	FinishedAt                 *time.Time

	id, institutionID int64
	selection         Selection
	decisions         decisions
	reason, note      string
	notify            bool
	position          string
	actor             audit.Actor
	// renewals maps the UUIDs of the certificates of the current step to the inputs for their renewals. A
	// certificate that cannot be renewed has none.
	renewals map[string]cert.Upload
}

// checkSelected returns the selected UUIDs as they are stored. If there are more than maxSelected, or one
// is not a UUID, it adds the problem to bad and returns nil.
func checkSelected(bad *cert.Problems, selected []string) []string {
	if len(selected) > maxSelected {
		*bad = append(*bad, cert.Problem{Field: cert.FieldSelected, Code: cert.CodeTooMany, Limit: maxSelected})
		return nil
	}
	ids := make([]string, len(selected))
	for i, id := range selected {
		u, err := uuid.Parse(id)
		if err != nil {
			*bad = append(*bad, cert.Problem{Field: cert.FieldSelected, Code: cert.CodeNotCertificate})
			return nil
		}
		ids[i] = u.String()
	}
	return ids
}

// changeable has the statuses that allow each operation.
var changeable = map[Kind][]cert.Status{Retry: {cert.Failed}, Revoke: {cert.Processing, cert.Approved, cert.Failed}, Renew: {cert.Approved}}

// Changeable returns the statuses of the certificates that a task of a kind changes.
func Changeable(kind Kind) []cert.Status { return slices.Clone(changeable[kind]) }

// Start starts a task. If no ids are selected, each step of the task applies the filter again, so that
// a retry includes certificates that are created while it runs. For the other kinds, see Selection.Before.
// Start returns a fault of kind Invalid if the selection, the reason or the note is not valid. It returns a
// fault of kind BadRequest for an unknown kind of task, and if the filter excludes all statuses that allow
// the operation.
func (s *Service) Start(ctx context.Context, institutionID int64, n Request) (*Task, error) {
	var bad cert.Problems
	statuses, ok := changeable[n.Kind]
	if !ok {
		return nil, fault.New(fault.BadRequest, "Invalid operation")
	}
	if n.Kind == Revoke {
		r := cert.Revocation{Reason: n.Reason, Note: n.Note}
		r.Check(&bad)
		n.Reason, n.Note = r.Reason, r.Note
	}
	n.Selected = checkSelected(&bad, n.Selected)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	slices.Sort(n.Selected)
	f := n.Filter
	f.Sort, f.Ascending, f.Range = search.ByCreated, true, listing.Range{PerPage: stepSize, Cursor: new(string)}
	if len(f.Statuses) > 0 {
		f.Statuses = slices.DeleteFunc(slices.Clone(f.Statuses), func(st cert.Status) bool { return !slices.Contains(statuses, st) })
	} else {
		f.Statuses = statuses
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	if len(f.Statuses) == 0 {
		return nil, fault.New(fault.BadRequest, "None of these certificates is in a status that allows this.")
	}
	return s.start(ctx, institutionID, n, Selection{Selected: slices.Compact(n.Selected), Filter: f, Before: n.Before})
}

// start stores a task and its job. content is the Selection of the task, or its decisions.
func (s *Service) start(ctx context.Context, institutionID int64, n Request, content any) (*Task, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding a task: %w", err)
	}
	actor, err := json.Marshal(audit.ActorOf(ctx)) //nolint:musttag // the same type decodes it
	if err != nil {
		return nil, fmt.Errorf("encoding a task: %w", err)
	}
	var d *Task
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if d, err = scan(tx.QueryRowContext(ctx, `
			INSERT INTO certificate_tasks (uuid, institution_id, kind, filter, reason, note, actor, created_at, notify)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING `+columns,
			uuid.Must(uuid.NewV7()).String(), institutionID, string(n.Kind), string(text), n.Reason, n.Note, string(actor), db.Micros(s.now()),
			n.Notify)); err != nil {
			return err
		}
		if err := s.enqueueTx(ctx, tx, d.id); err != nil || n.Then == nil {
			return err
		}
		return n.Then(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("starting a task: %w", err)
	}
	return d, nil
}

const columns = `id, uuid, institution_id, kind, filter, reason, note, actor, position, succeeded, skipped, failed, created_at, finished_at, notify`

func scan(row interface{ Scan(dest ...any) error }) (*Task, error) {
	d := &Task{}
	var text, actor string
	var created int64
	var finished sql.NullInt64
	if err := row.Scan(&d.id, &d.UUID, &d.institutionID, &d.Kind, &text, &d.reason, &d.note, &actor, &d.position,
		&d.Succeeded, &d.Skipped, &d.Failed, &created, &finished, &d.notify); err != nil {
		return nil, err
	}
	d.CreatedAt, d.FinishedAt = db.Time(created), db.OptionalTime(finished)
	var content any = &d.selection
	if d.Kind.Decides() {
		content = &d.decisions
	}
	if err := errors.Join(json.Unmarshal([]byte(text), content), json.Unmarshal([]byte(actor), &d.actor)); err != nil { //nolint:musttag // the same types encode them
		return nil, fmt.Errorf("reading a task: %w", err)
	}
	return d, nil
}

// By returns the name of the actor who started the task.
func (d *Task) By() string { return d.actor.Name }

// before returns the time before which the certificates of a task with a filter were created.
func (d *Task) before() time.Time {
	if b := d.selection.Before; !b.IsZero() && b.Before(d.CreatedAt) {
		return b
	}
	return d.CreatedAt
}

// Total returns the number of certificates or applications that have a result.
func (d *Task) Total() int { return d.Succeeded + d.Skipped + d.Failed }

// Task returns a task of an institution, or a fault of kind NotFound.
func (s *Service) Task(ctx context.Context, institutionID int64, id string) (*Task, error) {
	d, err := scan(s.db.QueryRowContext(ctx, `SELECT `+columns+` FROM certificate_tasks WHERE uuid = $1 AND institution_id = $2`, id, institutionID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "There is no such task.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a task: %w", err)
	}
	return d, nil
}

// taskArgs are the arguments of the job that continues a task.
type taskArgs struct {
	ID int64 `json:"id"`
}

// Kind returns the kind of the job.
func (taskArgs) Kind() string { return "task" }

func (s *Service) enqueueTx(ctx context.Context, tx *db.Tx, id int64) error {
	_, err := s.queue.InsertTx(ctx, tx, taskArgs{ID: id}, &river.InsertOpts{Queue: Queue})
	return err
}

type worker struct {
	river.WorkerDefaults[taskArgs]

	service *Service
}

// Work runs steps until the task is finished or workTime has passed. Each step is one transaction,
// which also stores the position after the step. If a step that changes certificates fails, Work
// changes these certificates one at a time.
func (w *worker) Work(ctx context.Context, j *river.Job[taskArgs]) error {
	s := w.service
	d, left, err := s.unfinished(ctx, j.Args.ID)
	if err == nil && left && d.Kind.Decides() {
		finished, err := s.decideAll(ctx, d)
		return worked(ctx, finished, err)
	}
	for began := s.now(); s.now().Sub(began) < workTime; {
		finished, err := s.step(ctx, j.Args.ID, stepSize)
		if err != nil && ctx.Err() == nil && !errors.Is(err, cert.ErrInvalidState) {
			s.log.WarnContext(ctx, "a step of a task failed; its certificates are changed one at a time", slog.Int64("task", j.Args.ID), slog.Any("error", err))
			finished, err = s.oneByOne(ctx, j.Args.ID)
		}
		if finished || err != nil {
			return worked(ctx, finished, err)
		}
	}
	return river.JobSnooze(0)
}

// worked returns the result of Work. The job runs again unless the task is finished.
func worked(ctx context.Context, finished bool, err error) error {
	switch {
	case ctx.Err() != nil:
		return river.JobSnooze(0)
	case err != nil:
		return fmt.Errorf("running a task: %w", err)
	case finished:
		return nil
	}
	return river.JobSnooze(0)
}

// unfinished returns a task, and reports whether the task exists and is unfinished.
func (s *Service) unfinished(ctx context.Context, id int64) (*Task, bool, error) {
	d, err := scan(s.db.QueryRowContext(ctx, `SELECT `+columns+` FROM certificate_tasks WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return d, err == nil && d.FinishedAt == nil, err
}

// step runs one step of at most size certificates, and reports whether the task is finished.
func (s *Service) step(ctx context.Context, id int64, size int) (finished bool, err error) {
	d, left, err := s.unfinished(ctx, id)
	if err != nil || !left {
		return true, err
	}
	uuids, next, err := s.nextCertificates(ctx, d, size)
	if err != nil {
		return false, err
	}
	if d.Kind == Renew {
		// The check whether the renewals can be drawn is slow, so it must not be part of the transaction.
		if d.renewals, err = s.renewals(ctx, d, uuids); err != nil {
			return false, err
		}
	}
	return next == "", s.db.Tx(ctx, func(tx *db.Tx) error {
		results, err := s.changeTx(ctx, tx, d, uuids)
		if err != nil {
			return err
		}
		return s.advanceTx(ctx, tx, d, next, results)
	})
}

// advanceTx stores the results of a step and the position after it.
func (s *Service) advanceTx(ctx context.Context, tx *db.Tx, d *Task, next string, results []Result) error {
	n := map[Outcome]int{}
	for i := range results {
		n[results[i].Outcome]++
	}
	var end any
	reason := d.reason
	if next == "" {
		if end = db.Micros(s.now()); d.Kind.Decides() {
			reason = "" // the applications have the reason, and no copy may remain when they are erased
		}
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE certificate_tasks SET position = $1, succeeded = succeeded + $2, skipped = skipped + $3, failed = failed + $4, finished_at = $5, reason = $9
		WHERE id = $6 AND position = $7 AND succeeded + skipped + failed = $8 AND finished_at IS NULL`,
		next, n[Succeeded], n[Skipped], n[Failed], end, d.id, d.position, d.Total(), reason)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, cert.ErrInvalidState) // another worker ran this step
	}
	return s.storeResultsTx(ctx, tx, d, results)
}

// oneByOne changes each certificate of a failed step in its own transaction, so that a certificate
// that cannot be changed does not stop the task.
func (s *Service) oneByOne(ctx context.Context, id int64) (finished bool, err error) {
	for range stepSize {
		if finished, err = s.step(ctx, id, 1); err != nil && ctx.Err() == nil && !errors.Is(err, cert.ErrInvalidState) {
			s.log.ErrorContext(ctx, "a certificate of a task could not be changed", slog.Int64("task", id), slog.Any("error", err))
			finished, err = s.recordFailure(ctx, id)
		}
		if finished || err != nil {
			return finished, err
		}
	}
	return false, nil
}

// recordFailure stores the outcome Failed for the next certificate of a task.
func (s *Service) recordFailure(ctx context.Context, id int64) (finished bool, err error) {
	d, left, err := s.unfinished(ctx, id)
	if err != nil || !left {
		return true, err
	}
	uuids, next, err := s.nextCertificates(ctx, d, 1)
	if err != nil {
		return false, err
	}
	var results []Result
	for _, id := range uuids {
		results = append(results, Result{UUID: id, Outcome: Failed})
	}
	return next == "", s.db.Tx(ctx, func(tx *db.Tx) error { return s.advanceTx(ctx, tx, d, next, results) })
}

// nextCertificates returns the UUIDs of the certificates of the next step and the position after the
// step. The position is empty if the step is the last one.
func (s *Service) nextCertificates(ctx context.Context, d *Task, size int) (uuids []string, next string, err error) {
	if list := d.selection.Selected; len(list) > 0 {
		at, _ := slices.BinarySearch(list, d.position)
		if d.position != "" {
			at++
		}
		uuids = list[at:min(len(list), at+size)]
		if at+size < len(list) {
			next = uuids[len(uuids)-1]
		}
		return uuids, next, nil
	}
	f := d.selection.Filter
	f.Cursor, f.PerPage = &d.position, size
	list, err := s.search.List(ctx, d.institutionID, f)
	if err != nil {
		return nil, "", err
	}
	for _, c := range list.Items {
		if d.Kind != Retry && !c.CreatedAt.Before(d.before()) {
			return uuids, "", nil // the list is in the order of creation
		}
		uuids = append(uuids, c.UUID)
	}
	return uuids, list.Next, nil
}

// Sweep enqueues unfinished tasks if the queue has no unfinished job of any task. It also deletes
// the tasks whose retention has ended.
func (s *Service) Sweep(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if alive, err := job.UnfinishedTx(ctx, tx, taskArgs{}.Kind()); err != nil || alive {
			return err
		}
		ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT id FROM certificate_tasks WHERE finished_at IS NULL ORDER BY id LIMIT $1`, sweepBatch))
		if err != nil {
			return err
		}
		for _, id := range ids {
			s.log.WarnContext(ctx, "a task had no queue job and was requeued", slog.Int64("task", id))
			if err := s.enqueueTx(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweeping tasks: %w", err)
	}
	return s.purge(ctx)
}
