package batch

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// Queue is the queue of the jobs that create certificates from entries.
	Queue = "batch"
	// slice is the maximum number of entries per transaction. It is large enough that commits are rare,
	// and small enough that other writers do not wait long.
	slice = 50
	// slicesOfJob is the maximum number of slices that a job processes before it returns to the end of
	// the queue.
	slicesOfJob = 20
	// ahead is the number of certificates that must wait for a job before the expansion pauses. With
	// fewer, the workers that seal would wait for the expansion.
	ahead = 2 * slice
)

// expandArgs is the job that creates certificates from the queued entries of all batches.
type expandArgs struct{}

// Kind returns the kind of the job.
func (expandArgs) Kind() string { return "batch_expand" }

func (s *Service) enqueueTx(ctx context.Context, tx *db.Tx) error {
	_, err := s.queue.InsertTx(ctx, tx, expandArgs{}, &river.InsertOpts{Queue: Queue})
	return err
}

type expandWorker struct {
	river.WorkerDefaults[expandArgs]

	service *Service
}

// Work creates certificates from entries. The institutions take turns, with one slice for each turn.
// Work may run repeatedly and concurrently: a slice is one transaction, which locks the institution's
// turn.
func (w *expandWorker) Work(ctx context.Context, _ *river.Job[expandArgs]) error {
	s := w.service
	var failed error
	var skip []int64
	for range slicesOfJob {
		began := s.now()
		institution, err := s.expand(ctx, skip)
		switch {
		case ctx.Err() != nil:
			// This process is stopping, or the time of the job has ended. The job runs again later.
			return river.JobSnooze(0)
		case err != nil && institution == 0:
			return errors.Join(failed, err)
		case err != nil:
			// An error in one institution's slice does not delay the other institutions.
			s.log.WarnContext(ctx, "creating certificates from entries failed and will be retried",
				slog.Int64("institution", institution), slog.Any("error", err))
			skip, failed = append(skip, institution), errors.Join(failed, err)
		case institution == 0:
			return failed
		}
		waiting, err := s.certs.Waiting(ctx, ahead)
		if err != nil {
			return errors.Join(failed, err)
		}
		if waiting >= ahead {
			// Pause for as long as the slice took, so that sealing and uploads can use the database.
			pause(ctx, s.now().Sub(began))
		}
	}
	if failed != nil {
		return failed
	}
	return river.JobSnooze(0)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// expand creates the certificates of one slice of entries, for the institution that turnTx returns. It
// returns the institution's id, or 0 if turnTx returns no institution.
func (s *Service) expand(ctx context.Context, skip []int64) (institution int64, err error) {
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if institution, err = s.turnTx(ctx, tx, skip); err != nil || institution == 0 {
			return err
		}
		if err := s.expandTx(ctx, tx, institution); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE batch_turns SET served_at = $1 WHERE institution_id = $2`, db.Micros(s.now()), institution)
		return err
	})
	if err != nil {
		return institution, fmt.Errorf("creating certificates from entries: %w", err)
	}
	return institution, nil
}

// turnTx returns the institution that has waited longest of the institutions that have queued
// entries and are not in skip. It returns 0 if there is none. No other transaction can take the
// institution's turn until tx ends.
func (s *Service) turnTx(ctx context.Context, tx *db.Tx, skip []int64) (institution int64, err error) {
	query := `SELECT t.institution_id FROM batch_turns t
		WHERE EXISTS (SELECT 1 FROM batches b WHERE b.institution_id = t.institution_id AND NOT b.expanded)`
	args := make([]any, 0, len(skip))
	for _, id := range skip {
		args = append(args, id)
	}
	if len(skip) > 0 {
		query += ` AND t.institution_id NOT IN (` + db.Placeholders(1, len(skip)) + `)`
	}
	query += ` ORDER BY t.served_at, t.institution_id LIMIT 1`
	if tx.Dialect() == db.PostgreSQL {
		query += ` FOR UPDATE OF t`
	}
	err = tx.QueryRowContext(ctx, query, args...).Scan(&institution)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return institution, err
}

// open is a batch with queued entries. upload has the fields that all its certificates have in
// common.
type open struct {
	id       int64
	upload   cert.Upload
	accepted time.Time
	// rejected is the number of entries of this slice that were rejected.
	rejected int
}

func (s *Service) expandTx(ctx context.Context, tx *db.Tx, institution int64) error {
	var b open
	u := &b.upload
	var version sql.NullInt64
	var base sql.NullString
	var accepted int64
	err := tx.QueryRowContext(ctx, `
		SELECT id, uuid, trigger_context, creator_type, creator_id, creator_name, template_version_id, base_key, created_at FROM batches
		WHERE institution_id = $1 AND NOT expanded ORDER BY id LIMIT 1`, institution).
		Scan(&b.id, &u.BatchID, &u.Context, &u.Creator.Type, &u.Creator.ID, &u.Creator.Name, &version, &base, &accepted)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // another node finished the batch while this one waited for the lock
	}
	if err != nil {
		return err
	}
	b.accepted = db.Time(accepted)
	if version.Valid {
		u.Template, u.BaseKey = &cert.TemplateUse{VersionID: version.Int64}, base.String
		if s.signatories != nil {
			if u.Signatories, err = s.signatories(ctx, tx, institution, version.Int64); err != nil {
				return err
			}
		}
	}
	if u.Institution, err = account.InstitutionByID(ctx, tx, institution); err != nil {
		return err
	}
	waiting, err := waitingTx(ctx, tx, b.id)
	if err != nil {
		return err
	}
	for _, w := range waiting[:min(len(waiting), slice)] {
		if err := s.makeTx(ctx, tx, &b, w); err != nil {
			return err
		}
	}
	if b.rejected > 0 {
		if err := quota.AddTx(ctx, tx, institution, b.accepted, -b.rejected); err != nil {
			return err
		}
	}
	if len(waiting) <= slice {
		if _, err := tx.ExecContext(ctx, `UPDATE batches SET expanded = true WHERE id = $1`, b.id); err != nil {
			return err
		}
	}
	return s.certs.FeedTx(ctx, tx, institution)
}

// waitingEntry is a queued entry with its file.
type waitingEntry struct {
	index int
	input string
	// file is nil for a certificate from a template, or if the record of the file is missing. The
	// latter should never happen.
	file *cert.File
}

// waitingTx returns the next queued entries of a batch, in order. It returns up to one more than a
// slice, so that the caller can see whether there are more.
func waitingTx(ctx context.Context, tx *db.Tx, batchID int64) (list []waitingEntry, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT e.entry_index, e.input, f.file_name, f.mime_type, f.size, f.sha256, f.sha256_state, f.original_key, f.notices
		FROM batch_entries e LEFT JOIN staged_files f ON f.id = e.staged_id
		WHERE e.batch_id = $1 AND e.status = 'queued' AND e.status <> 'made' ORDER BY e.entry_index LIMIT $2 + 0`, batchID, slice+1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var w waitingEntry
		var name, mediaType, key, notices sql.NullString
		var size sql.NullInt64
		var digest, state []byte
		if err := rows.Scan(&w.index, &w.input, &name, &mediaType, &size, &digest, &state, &key, &notices); err != nil {
			return nil, err
		}
		if key.Valid {
			w.file = &cert.File{Name: name.String, Type: seal.MediaType(mediaType.String), Size: size.Int64, State: state, Key: key.String}
			copy(w.file.SHA256[:], digest)
			if err := json.Unmarshal([]byte(notices.String), &w.file.Notices); err != nil {
				return nil, fmt.Errorf("reading notices: %w", err)
			}
		}
		list = append(list, w)
	}
	return list, rows.Err()
}

// makeTx creates the certificate of an entry, or rejects the entry. If entries of one batch are
// duplicates, the entry with the lowest index becomes a certificate.
func (s *Service) makeTx(ctx context.Context, tx *db.Tx, b *open, w waitingEntry) error {
	u := b.upload
	u.File = w.file
	if err := new(storedInput).read(w.input, &u); err != nil {
		return err
	}
	c, err := s.certs.CreateTx(ctx, tx, u)
	done := `UPDATE batch_entries SET input = NULL, staged_id = NULL, done_at = $1, `
	now := db.Micros(s.now())
	switch refusal, ok := errors.AsType[*fault.Error](err); {
	case err == nil:
		_, err = tx.ExecContext(ctx, done+`status = $2, certificate_id = $3 WHERE batch_id = $4 AND entry_index = $5`,
			now, string(made), c.ID, b.id, w.index)
	case ok && refusal.Kind == fault.Invalid:
		b.rejected++
		var r rejection
		if r, err = reject(refusal); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, done+`status = $2, error_code = $3, error = $4, problem = $5, existing_uuid = $6 WHERE batch_id = $7 AND entry_index = $8`,
			now, string(rejected), r.code, r.message, r.problem, r.existing, b.id, w.index)
	}
	return err
}

// rejection is the stored reason why an entry was rejected.
type rejection struct {
	code string
	// problem is a cert.Problem in JSON. Some errors have no cert.Problem, such as the error for an
	// impossible placement. For these, message has the text of the error instead.
	problem, message sql.NullString
	// existing is the UUID of the existing certificate if the entry is a duplicate.
	existing sql.NullString
}

func reject(refusal *fault.Error) (rejection, error) {
	// Apart from duplicates, an entry is rejected if a rule became stricter after the batch was
	// accepted, or if its file is missing.
	r := rejection{code: "invalid"}
	problems := cert.ProblemsOf(refusal)
	if len(problems) == 0 {
		r.message = sql.NullString{String: refusal.Message, Valid: true}
		if len(refusal.Fields) > 0 {
			r.message.String = refusal.Fields[0].Messages[0]
		}
		return r, nil
	}
	if p := problems[0]; p.Code == cert.CodeDuplicate {
		r.code, r.existing = string(p.Code), sql.NullString{String: p.Detail, Valid: true}
	}
	text, err := json.Marshal(problems[0])
	if err != nil {
		return r, fmt.Errorf("writing a problem: %w", err)
	}
	r.problem = sql.NullString{String: string(text), Valid: true}
	return r, nil
}

// Sweep inserts a job if entries are queued and there is no job for them, as after a crash. It also
// calls SweepStaged.
func (s *Service) Sweep(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var waiting bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM batches WHERE NOT expanded)`).Scan(&waiting); err != nil || !waiting {
			return err
		}
		if alive, err := job.UnfinishedTx(ctx, tx, expandArgs{}.Kind()); err != nil || alive {
			return err
		}
		s.log.WarnContext(ctx, "queued entries had no job; a new job was enqueued")
		return s.enqueueTx(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("sweeping batches: %w", err)
	}
	return s.SweepStaged(ctx)
}
