// Package task owns work on many certificates at once: retrying and revoking
// them step by step in the queue, what became of each, and exports as CSV and
// ZIP. Which certificates those are is said by package search; what retrying and
// revoking one means, by package cert.
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

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
)

// DeedKind is what is done to many certificates.
type DeedKind string

const (
	// RetryMany starts the processing of failed certificates again.
	RetryMany DeedKind = "retry"
	// RevokeMany takes certificates back, for good.
	RevokeMany DeedKind = "revoke"
)

const (
	// MaxSelected is how many certificates can be selected one by one.
	MaxSelected = 1000
	// deedStep is how many certificates one transaction does: long enough to be
	// worth its commit, short enough that nobody waits for it.
	deedStep = 25
	// deedTime is how long a job works before it goes to the end of the queue.
	deedTime = 15 * time.Second
	// sweepBatch bounds how many get a new job in one round.
	sweepBatch = 500
	// DeedQueue holds the jobs that do them.
	DeedQueue = "deed"
)

// Config is what a Service is made from.
type Config struct {
	DB     *db.DB
	Queue  *job.Queue
	Certs  *cert.Service
	Search *search.Service
	// VerifyURL gives the address that the QR code of a reference id leads to.
	VerifyURL func(referenceID string) string
	Now       func() time.Time
	Log       *slog.Logger
}

// Service works on many certificates.
type Service struct {
	db        *db.DB
	queue     *job.Queue
	certs     *cert.Service
	search    *search.Service
	verifyURL func(string) string
	now       func() time.Time
	log       *slog.Logger
}

// New makes a service and registers its worker with the queue.
func New(c Config) *Service {
	s := &Service{db: c.DB, queue: c.Queue, certs: c.Certs, search: c.Search, verifyURL: c.VerifyURL, now: c.Now, log: c.Log}
	job.Add(c.Queue, &deedWorker{service: s})
	return s
}

// Choice is many certificates: those selected, or where none is, all that a filter
// lets through.
type Choice struct {
	Selected []string      `json:"selected,omitempty"`
	Filter   search.Filter `json:"filter"`
}

// NewDeed is what is to be done to many certificates.
type NewDeed struct {
	Choice

	Kind DeedKind
	// Reason and Note are those of a Revocation.
	Reason, Note string
	// Then, which may be nil, is done in the transaction that begins it.
	Then func(ctx context.Context, tx *db.Tx) error
}

// Deed is what is being done to many certificates, step by step. It goes on after a
// crash, and does nothing twice.
type Deed struct {
	UUID string
	Kind DeedKind
	// Done were changed; PassedOver were not, since there was nothing to do to them;
	// Failed could not be.
	Done, PassedOver, Failed int
	CreatedAt                time.Time
	FinishedAt               *time.Time

	id, institutionID int64
	about             Choice
	reason, note      string
	place             string
	actor             audit.Actor
}

// checkSelected gives what is selected in the form in which it is kept.
func checkSelected(bad *fault.Fields, selected []string) []string {
	if len(selected) > MaxSelected {
		bad.Add("selected", fmt.Sprintf("At most %d certificates can be selected one by one.", MaxSelected))
		return nil
	}
	kept := make([]string, len(selected))
	for i, id := range selected {
		u, err := uuid.Parse(id)
		if err != nil {
			bad.Add("selected", "What is selected is no certificate.")
			return nil
		}
		kept[i] = u.String()
	}
	return kept
}

// deedStatuses are the statuses in which a deed changes something.
var deedStatuses = map[DeedKind][]cert.Status{RetryMany: {cert.Failed}, RevokeMany: {cert.Processing, cert.Approved, cert.Failed}}

// Begin begins a deed. It concerns what is there now and what comes while it goes
// on, as far as the filter lets it through.
func (s *Service) Begin(ctx context.Context, institutionID int64, n NewDeed) (*Deed, error) {
	var bad fault.Fields
	statuses, ok := deedStatuses[n.Kind]
	if !ok {
		return nil, fault.New(fault.BadRequest, "Invalid operation")
	}
	if n.Kind == RevokeMany {
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
	f.Sort, f.Ascending, f.Range = search.ByCreated, true, listing.Range{PerPage: deedStep, Cursor: new(string)}
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
	text, err := json.Marshal(Choice{Selected: slices.Compact(n.Selected), Filter: f}) //nolint:musttag // it is read by this very type, and for as long as the deed takes
	if err != nil {
		return nil, fmt.Errorf("writing a deed: %w", err)
	}
	actor, err := json.Marshal(audit.By(ctx)) //nolint:musttag // it is read by this very type, and for as long as the deed takes
	if err != nil {
		return nil, fmt.Errorf("writing a deed: %w", err)
	}
	var d *Deed
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if d, err = scanDeed(tx.QueryRowContext(ctx, `
			INSERT INTO certificate_deeds (uuid, institution_id, kind, filter, reason, note, actor, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING `+deedColumns,
			uuid.Must(uuid.NewV7()).String(), institutionID, string(n.Kind), string(text), n.Reason, n.Note, string(actor), db.Micros(s.now()))); err != nil {
			return err
		}
		if err := s.enqueueDeedTx(ctx, tx, d.id); err != nil || n.Then == nil {
			return err
		}
		return n.Then(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("beginning what is done to many certificates: %w", err)
	}
	return d, nil
}

const deedColumns = `id, uuid, institution_id, kind, filter, reason, note, actor, place, done, passed_over, failed, created_at, finished_at`

func scanDeed(row interface{ Scan(dest ...any) error }) (*Deed, error) {
	d := &Deed{}
	var text, actor string
	var created int64
	var finished sql.NullInt64
	if err := row.Scan(&d.id, &d.UUID, &d.institutionID, &d.Kind, &text, &d.reason, &d.note, &actor, &d.place, &d.Done, &d.PassedOver, &d.Failed, &created, &finished); err != nil {
		return nil, err
	}
	d.CreatedAt, d.FinishedAt = db.Time(created), db.OptionalTime(finished)
	if err := errors.Join(json.Unmarshal([]byte(text), &d.about), json.Unmarshal([]byte(actor), &d.actor)); err != nil { //nolint:musttag // as above
		return nil, fmt.Errorf("reading a deed: %w", err)
	}
	return d, nil
}

// By names who began it.
func (d *Deed) By() string { return d.actor.Name }

// Came is how many certificates it came to.
func (d *Deed) Came() int { return d.Done + d.PassedOver + d.Failed }

// Deed gives a deed of an institution.
func (s *Service) Deed(ctx context.Context, institutionID int64, id string) (*Deed, error) {
	d, err := scanDeed(s.db.QueryRowContext(ctx, `SELECT `+deedColumns+` FROM certificate_deeds WHERE uuid = $1 AND institution_id = $2`, id, institutionID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "No such task.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is done to many certificates: %w", err)
	}
	return d, nil
}

// deedArgs is the job that goes on with a deed.
type deedArgs struct {
	Deed int64 `json:"deed"`
}

// Kind names the job.
func (deedArgs) Kind() string { return "deed" }

func (s *Service) enqueueDeedTx(ctx context.Context, tx *db.Tx, id int64) error {
	_, err := s.queue.InsertTx(ctx, tx, deedArgs{Deed: id}, &river.InsertOpts{Queue: DeedQueue})
	return err
}

type deedWorker struct {
	river.WorkerDefaults[deedArgs]

	service *Service
}

// Work does steps for a while. A step is one transaction with the place behind it.
func (w *deedWorker) Work(ctx context.Context, j *river.Job[deedArgs]) error {
	s := w.service
	for began := s.now(); s.now().Sub(began) < deedTime; {
		finished, err := s.step(ctx, j.Args.Deed, deedStep)
		if err != nil && ctx.Err() == nil && !errors.Is(err, cert.ErrMoved) {
			s.log.WarnContext(ctx, "a step of a deed on many certificates failed and is done one by one", slog.Int64("deed", j.Args.Deed), slog.Any("error", err))
			finished, err = s.oneByOne(ctx, j.Args.Deed)
		}
		switch {
		case ctx.Err() != nil:
			return river.JobSnooze(0)
		case err != nil:
			return fmt.Errorf("doing something to many certificates: %w", err)
		case finished:
			return nil
		}
	}
	return river.JobSnooze(0)
}

// underWay gives a deed that has something left to do; false says that it has not.
func (s *Service) underWay(ctx context.Context, id int64) (*Deed, bool, error) {
	d, err := scanDeed(s.db.QueryRowContext(ctx, `SELECT `+deedColumns+` FROM certificate_deeds WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return d, err == nil && d.FinishedAt == nil, err
}

// step does one step of at most a size, and tells whether it was the last.
func (s *Service) step(ctx context.Context, id int64, size int) (finished bool, err error) {
	d, left, err := s.underWay(ctx, id)
	if err != nil || !left {
		return true, err
	}
	uuids, next, err := s.nextOf(ctx, d, size)
	if err != nil {
		return false, err
	}
	return next == "", s.db.Tx(ctx, func(tx *db.Tx) error {
		results, err := s.doTx(ctx, tx, d, uuids)
		if err != nil {
			return err
		}
		return s.goOnTx(ctx, tx, d, next, results)
	})
}

// goOnTx notes what became of the certificates of a step and the place behind them.
func (s *Service) goOnTx(ctx context.Context, tx *db.Tx, d *Deed, next string, results []DeedResult) error {
	n := map[DeedOutcome]int{}
	for i := range results {
		n[results[i].Outcome]++
	}
	var end any
	if next == "" {
		end = db.Micros(s.now())
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE certificate_deeds SET place = $1, done = done + $2, passed_over = passed_over + $3, failed = failed + $4, finished_at = $5
		WHERE id = $6 AND place = $7 AND done + passed_over + failed = $8 AND finished_at IS NULL`,
		next, n[DeedDone], n[DeedPassedOver], n[DeedFailed], end, d.id, d.place, d.Came())
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, cert.ErrMoved) // it is being done elsewhere
	}
	return s.keepResultsTx(ctx, tx, d, results)
}

// oneByOne does what a step could not do at once: the certificate that cannot be
// changed is noted, and keeps no other from it.
func (s *Service) oneByOne(ctx context.Context, id int64) (finished bool, err error) {
	for range deedStep {
		if finished, err = s.step(ctx, id, 1); err != nil && ctx.Err() == nil && !errors.Is(err, cert.ErrMoved) {
			s.log.ErrorContext(ctx, "a certificate of a deed on many could not be changed", slog.Int64("deed", id), slog.Any("error", err))
			finished, err = s.giveUp(ctx, id)
		}
		if finished || err != nil {
			return finished, err
		}
	}
	return false, nil
}

// giveUp notes that the next certificate of a deed could not be changed.
func (s *Service) giveUp(ctx context.Context, id int64) (finished bool, err error) {
	d, left, err := s.underWay(ctx, id)
	if err != nil || !left {
		return true, err
	}
	uuids, next, err := s.nextOf(ctx, d, 1)
	if err != nil {
		return false, err
	}
	var results []DeedResult
	for _, one := range uuids {
		results = append(results, DeedResult{UUID: one, Outcome: DeedFailed})
	}
	return next == "", s.db.Tx(ctx, func(tx *db.Tx) error { return s.goOnTx(ctx, tx, d, next, results) })
}

// nextOf gives the certificates of the next step, and the place behind them; ""
// behind the last.
func (s *Service) nextOf(ctx context.Context, d *Deed, size int) (uuids []string, next string, err error) {
	if list := d.about.Selected; len(list) > 0 {
		at, _ := slices.BinarySearch(list, d.place)
		if d.place != "" {
			at++
		}
		uuids = list[at:min(len(list), at+size)]
		if at+size < len(list) {
			next = uuids[len(uuids)-1]
		}
		return uuids, next, nil
	}
	f := d.about.Filter
	f.Cursor, f.PerPage = &d.place, size
	list, err := s.search.List(ctx, d.institutionID, f)
	if err != nil {
		return nil, "", err
	}
	for _, c := range list.Items {
		uuids = append(uuids, c.UUID)
	}
	return uuids, list.Next, nil
}

// doTx does one step.
func (s *Service) doTx(ctx context.Context, tx *db.Tx, d *Deed, uuids []string) (results []DeedResult, err error) {
	statuses := deedStatuses[d.Kind]
	// What is done is their deed who began it.
	ctx = audit.With(ctx, d.actor)
	for _, id := range uuids {
		r := DeedResult{UUID: id, Outcome: DeedPassedOver}
		err := tx.QueryRowContext(ctx, `SELECT status FROM certificates WHERE uuid = $1 AND institution_id = $2`, id, d.institutionID).Scan(&r.Was)
		if err == nil && slices.Contains(statuses, r.Was) {
			if err = s.doOneTx(ctx, tx, d, id); err == nil {
				r.Outcome, r.Was = DeedDone, ""
			}
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) && !errors.Is(err, cert.ErrMoved) {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (s *Service) doOneTx(ctx context.Context, tx *db.Tx, d *Deed, id string) error {
	if d.Kind == RetryMany {
		_, err := s.certs.RetryTx(ctx, tx, id)
		return err
	}
	_, err := s.certs.RevokeTx(ctx, tx, id, cert.Revocation{Reason: d.reason, Note: d.note})
	return err
}

// SweepDeeds gives deeds that lost their job another, and forgets those whose time
// is over.
func (s *Service) SweepDeeds(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if alive, err := job.AliveTx(ctx, tx, deedArgs{}.Kind()); err != nil || alive {
			return err
		}
		ids, err := db.Column[int64](tx.QueryContext(ctx, `SELECT id FROM certificate_deeds WHERE finished_at IS NULL ORDER BY id LIMIT $1`, sweepBatch))
		if err != nil {
			return err
		}
		for _, id := range ids {
			s.log.WarnContext(ctx, "what is done to many certificates had lost its job and gets a new one", slog.Int64("deed", id))
			if err := s.enqueueDeedTx(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweeping what is done to many certificates: %w", err)
	}
	return s.forgetDeeds(ctx)
}
