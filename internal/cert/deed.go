package cert

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
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/listing"
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
	// DeedQueue holds the jobs that do them.
	DeedQueue = "deed"
)

// Choice is many certificates: those selected, or where none is, all that a filter
// lets through.
type Choice struct {
	Selected []string `json:"selected,omitempty"`
	Filter   Filter   `json:"filter"`
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
	// Done were changed; PassedOver were not, since they had changed meanwhile.
	Done, PassedOver int
	CreatedAt        time.Time
	FinishedAt       *time.Time

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
var deedStatuses = map[DeedKind][]Status{RetryMany: {Failed}, RevokeMany: {Processing, Approved, Failed}}

// Begin begins a deed. It concerns what is there now and what comes while it goes
// on, as far as the filter lets it through.
func (s *Service) Begin(ctx context.Context, institutionID int64, n NewDeed) (*Deed, error) {
	var bad fault.Fields
	statuses, ok := deedStatuses[n.Kind]
	if !ok {
		return nil, fault.New(fault.BadRequest, "Invalid operation")
	}
	if n.Kind == RevokeMany {
		n.Reason, n.Note = reasonField.read(&bad, n.Reason), noteField.read(&bad, n.Note)
	}
	n.Selected = checkSelected(&bad, n.Selected)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	slices.Sort(n.Selected)
	f := n.Filter
	f.Sort, f.Ascending, f.Range = ByCreated, true, listing.Range{PerPage: deedStep, Cursor: new(string)}
	if len(f.Statuses) > 0 {
		f.Statuses = slices.DeleteFunc(slices.Clone(f.Statuses), func(st Status) bool { return !slices.Contains(statuses, st) })
	} else {
		f.Statuses = statuses
	}
	if _, err := f.read(institutionID); err != nil {
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

const deedColumns = `id, uuid, institution_id, kind, filter, reason, note, actor, place, done, passed_over, created_at, finished_at`

func scanDeed(row interface{ Scan(dest ...any) error }) (*Deed, error) {
	d := &Deed{}
	var text, actor string
	var created int64
	var finished sql.NullInt64
	if err := row.Scan(&d.id, &d.UUID, &d.institutionID, &d.Kind, &text, &d.reason, &d.note, &actor, &d.place, &d.Done, &d.PassedOver, &created, &finished); err != nil {
		return nil, err
	}
	d.CreatedAt, d.FinishedAt = db.Time(created), db.OptionalTime(finished)
	if err := errors.Join(json.Unmarshal([]byte(text), &d.about), json.Unmarshal([]byte(actor), &d.actor)); err != nil { //nolint:musttag // as above
		return nil, fmt.Errorf("reading a deed: %w", err)
	}
	return d, nil
}

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
		finished, err := s.step(ctx, j.Args.Deed)
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

// step does one step, and tells whether it was the last.
func (s *Service) step(ctx context.Context, id int64) (finished bool, err error) {
	d, err := scanDeed(s.db.QueryRowContext(ctx, `SELECT `+deedColumns+` FROM certificate_deeds WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil || d.FinishedAt != nil {
		return true, err
	}
	uuids, next, err := s.nextOf(ctx, d)
	if err != nil {
		return false, err
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		done, passed, err := s.doTx(ctx, tx, d, uuids)
		if err != nil {
			return err
		}
		var end any
		if next == "" {
			end = db.Micros(s.now())
		}
		res, err := tx.ExecContext(ctx, `
			UPDATE certificate_deeds SET place = $1, done = done + $2, passed_over = passed_over + $3, finished_at = $4 WHERE id = $5 AND place = $6 AND finished_at IS NULL`,
			next, done, passed, end, d.id, d.place)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return errMoved // it is being done elsewhere
	})
	return next == "", err
}

// nextOf gives the certificates of the next step, and the place behind them; ""
// behind the last.
func (s *Service) nextOf(ctx context.Context, d *Deed) (uuids []string, next string, err error) {
	if list := d.about.Selected; len(list) > 0 {
		at, _ := slices.BinarySearch(list, d.place)
		if d.place != "" {
			at++
		}
		uuids = list[at:min(len(list), at+deedStep)]
		if at+deedStep < len(list) {
			next = uuids[len(uuids)-1]
		}
		return uuids, next, nil
	}
	f := d.about.Filter
	f.Cursor = &d.place
	list, err := s.List(ctx, d.institutionID, f)
	if err != nil {
		return nil, "", err
	}
	for _, c := range list.Items {
		uuids = append(uuids, c.UUID)
	}
	return uuids, list.Next, nil
}

// doTx does one step.
func (s *Service) doTx(ctx context.Context, tx *db.Tx, d *Deed, uuids []string) (done, passed int, err error) {
	statuses := deedStatuses[d.Kind]
	// What is done is their deed who began it.
	ctx = audit.With(ctx, d.actor)
	for _, id := range uuids {
		c, err := byUUID(ctx, tx, id)
		if errors.Is(err, errNotFound) || err == nil && (c.InstitutionID != d.institutionID || !slices.Contains(statuses, c.Status)) {
			passed++
			continue
		}
		if err != nil {
			return done, passed, err
		}
		err = s.doOneTx(ctx, tx, d, id)
		switch {
		case errors.Is(err, errMoved):
			passed++
		case err != nil:
			return done, passed, err
		default:
			done++
		}
	}
	return done, passed, nil
}

func (s *Service) doOneTx(ctx context.Context, tx *db.Tx, d *Deed, id string) error {
	if d.Kind == RetryMany {
		c, err := s.retryTx(ctx, tx, id)
		if err != nil {
			return err
		}
		return recordTx(ctx, tx, audit.CertificateRetried, c, nil)
	}
	c, err := s.revokeTx(ctx, tx, id, d.reason, d.note)
	if err != nil {
		return err
	}
	return recordTx(ctx, tx, audit.CertificateRevoked, c, audit.Detail{"reason": d.reason})
}

// SweepDeeds gives deeds that lost their job another.
func (s *Service) SweepDeeds(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var alive bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE kind = $1 AND state IN `+job.Alive+`)`, deedArgs{}.Kind()).
			Scan(&alive); err != nil || alive {
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
	return nil
}
