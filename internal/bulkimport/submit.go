package bulkimport

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/sheet"
)

func (s *Service) enqueueTx(ctx context.Context, tx *db.Tx, args river.JobArgs) error {
	_, err := s.queue.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: Queue})
	return err
}

// Submit submits a draft. A job then creates the batches of the draft, and the draft can no longer be
// changed. d.Notify is the time of the mail to the recipients. The parameter then is nil or a function that
// runs in the transaction of the submission. Submit has no effect if the draft was submitted before.
//
// The error is fault.BadRequest if the draft is not ready, fault.Conflict if the stored draft uses another
// version of its template than d, fault.Forbidden if a limit of the institution would be exceeded,
// fault.Invalid if the time of the mail is not valid, and fault.NotFound if the draft was deleted or has
// expired.
func (s *Service) Submit(ctx context.Context, d *Draft, then func(ctx context.Context, tx *db.Tx) error) error {
	if d.Status != Open {
		return nil
	}
	if p := d.Notify.Check(s.now()); p != nil {
		return cert.Problems{*p}.Err()
	}
	actor, err := encode(audit.ActorOf(ctx))
	if err != nil {
		return err
	}
	free, err := acquire(ctx, s.reviews)
	if err != nil {
		return err
	}
	defer free()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		now := s.now()
		var id int64
		err := tx.QueryRowContext(ctx, `
			UPDATE bulk_import_drafts SET status = $1, submitted_at = $2, expires_at = $3, actor = $6, notify = $7 WHERE id = $4 AND status = $5 AND expires_at > $2 RETURNING id`,
			string(Submitting), db.Micros(now), db.Micros(now.Add(ResultLifetime)), d.ID, string(Open), actor, d.Notify.String()).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return s.submittedTx(ctx, tx, d)
		}
		if err != nil {
			return err
		}
		if err := s.readyTx(ctx, tx, d); err != nil {
			return err
		}
		if err := s.enqueueTx(ctx, tx, submitArgs{Draft: d.ID}); err != nil || then == nil {
			return err
		}
		return then(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("submitting a bulk upload: %w", err)
	}
	return nil
}

// submittedTx returns nil if the draft was submitted before, and fault.NotFound otherwise.
func (s *Service) submittedTx(ctx context.Context, tx *db.Tx, d *Draft) error {
	var status Status
	err := tx.QueryRowContext(ctx, `SELECT status FROM bulk_import_drafts WHERE id = $1`, d.ID).Scan(&status)
	if errors.Is(err, sql.ErrNoRows) || err == nil && status == Open {
		return errNotFound
	}
	return err
}

// readyTx returns an error if the draft cannot be submitted.
func (s *Service) readyTx(ctx context.Context, tx *db.Tx, d *Draft) error {
	var busy bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM bulk_import_archives WHERE draft_id = $1 AND status = $2)`, d.ID, string(unpacking)).
		Scan(&busy); err != nil {
		return err
	}
	// d may be out of date.
	now, err := scanDraft(tx.QueryRowContext(ctx, `SELECT `+draftColumns+` FROM bulk_import_drafts WHERE id = $1`, d.ID))
	if err != nil {
		return err
	}
	if now.versionID != d.versionID {
		return fault.New(fault.Conflict, "The bulk upload was changed to another version of the template in the meantime. Check the rows again.")
	}
	if now.Template = d.Template; now.Template != nil && now.Template.Archived {
		return errArchived
	}
	review, err := s.review(ctx, tx, now)
	if err != nil {
		return err
	}
	switch {
	case busy:
		return fault.New(fault.BadRequest, "A ZIP file is still being unpacked. Submit the list after that.")
	case len(review.Rows) == 0:
		return fault.New(fault.BadRequest, "There is no list yet. Upload a list first.")
	case !now.Mapped:
		return fault.New(fault.BadRequest, "Confirm the columns first.")
	case review.Invalid == 1:
		return fault.New(fault.BadRequest, "1 row has errors. Correct or skip it first.")
	case review.Invalid > 0:
		return fault.New(fault.BadRequest, fmt.Sprintf("%d rows have errors. Correct or skip them first.", review.Invalid))
	case review.Valid == 0:
		return fault.New(fault.BadRequest, "All rows are skipped, so there is nothing to submit.")
	}
	inst, err := account.InstitutionByID(ctx, tx, d.InstitutionID)
	if err != nil {
		return err
	}
	return quota.CheckTx(ctx, tx, inst, s.now(), review.Valid, 0)
}

// submitArgs are the arguments of the job that creates the batches of a draft.
type submitArgs struct {
	Draft int64 `json:"draft"`
}

// Kind returns the kind of the job.
func (submitArgs) Kind() string { return "bulk_import_submit" }

type submitWorker struct {
	river.WorkerDefaults[submitArgs]

	service *Service
}

// Work creates the missing batches. A batch and its record in the draft are created in one
// transaction, so that no batch is created twice after a restart or by concurrent workers.
func (w *submitWorker) Work(ctx context.Context, j *river.Job[submitArgs]) error {
	err := w.service.submit(ctx, j.Args.Draft)
	if ctx.Err() != nil {
		return river.JobSnooze(0)
	}
	return err
}

func (s *Service) submit(ctx context.Context, id int64) error {
	d, inst, err := s.draftOf(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil || d.Status != Submitting {
		return err
	}
	// The actor of the batches is the person who submitted the draft.
	ctx = audit.WithActor(ctx, d.actor)
	review, err := s.Review(ctx, d)
	if err != nil {
		return err
	}
	rows := slices.DeleteFunc(review.Rows, func(r *Row) bool { return r.Skipped })
	parts := (len(rows) + s.partSize - 1) / s.partSize
	for part, some := range slices.Collect(slices.Chunk(rows, s.partSize)) {
		if err := s.part(ctx, inst, d, part+1, parts, some); err != nil {
			return fmt.Errorf("submitting part %d of bulk upload %s: %w", part+1, d.UUID, err)
		}
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE bulk_import_drafts SET status = $1 WHERE id = $2 AND status = $3`, string(Submitted), d.ID, string(Submitting))
		return err
	}); err != nil {
		return fmt.Errorf("finishing a bulk upload: %w", err)
	}
	return nil
}

// part creates a batch of a draft, unless the batch exists or was refused. If the batch is not valid or
// exceeds a limit of the institution, the method records the refusal. The parameter part is the number of the
// batch, from 1 to parts.
func (s *Service) part(ctx context.Context, inst *account.Institution, d *Draft, part, parts int, rows []*Row) error {
	var exists bool
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM bulk_import_batches WHERE draft_id = $1 AND part = $2)`, d.ID, part).Scan(&exists); err != nil || exists {
		return err
	}
	name := d.ListName
	if parts > 1 {
		name = fmt.Sprintf("%s (%d of %d)", name, part, parts)
	}
	then := func(ctx context.Context, tx *db.Tx, b *batch.Batch) error {
		return storePartTx(ctx, tx, d.ID, part, b.UUID, nil)
	}
	var err error
	if d.Template != nil {
		err = s.issuePart(ctx, inst, d, name, rows, then)
	} else {
		err = s.uploadPart(ctx, inst, d, name, rows, then)
	}
	// The rows were valid when the draft was submitted. Since then, for example, a file was deleted, a rule
	// became stricter, the template was archived, or other uploads reached a limit of the institution. Resubmit
	// copies the rows of the batch to a new draft.
	problem := refusalOf(err)
	if problem == nil {
		return err
	}
	s.log.WarnContext(ctx, "a batch of a bulk upload was refused", slog.String("draft", d.UUID), slog.Int("part", part), slog.Any("problem", problem))
	return s.db.Tx(ctx, func(tx *db.Tx) error { return storePartTx(ctx, tx, d.ID, part, "", problem) })
}

// batchFunc runs in the transaction that creates a batch.
type batchFunc = func(ctx context.Context, tx *db.Tx, b *batch.Batch) error

// uploadPart creates a batch of rows with their files.
func (s *Service) uploadPart(ctx context.Context, inst *account.Institution, d *Draft, name string, rows []*Row, then batchFunc) error {
	entries := s.batches.NewDraft()
	defer entries.Close()
	for _, row := range rows {
		if err := fill(entries, row, d.WantedOf(row)); err != nil {
			return err
		}
	}
	_, err := s.batches.Submit(ctx, batch.Submission{
		Institution: inst, Creator: d.Creator, Context: cert.PanelBulkUpload, Name: name, Draft: entries, Notify: s.notifyOf(d), Then: then,
	})
	return err
}

// notifyOf returns the time of the mail about the certificates of a submitted draft. If this time is in
// the past, notifyOf returns the zero value, which means that the mail is sent at the approval.
func (s *Service) notifyOf(d *Draft) cert.Notify {
	if d.Notify.Check(s.now()) != nil {
		return cert.Notify{}
	}
	return d.Notify
}

// fill adds a row to a draft of a batch. The index of the entry is the number of the row.
func fill(entries *batch.Draft, row *Row, wanted *cert.RequestedPlacement) error {
	if err := entries.Place(row.Number, wanted); err != nil {
		return err
	}
	for _, column := range Fields {
		value := row.Value(column)
		if column == sheet.File {
			value = ""
			if row.File != nil {
				value = row.File.StagedUUID
			}
		}
		if column != sheet.File && value == "" {
			continue
		}
		if err := entries.Set(row.Number, fieldOf[column], value); err != nil {
			return err
		}
	}
	return nil
}

func storePartTx(ctx context.Context, tx *db.Tx, draftID int64, part int, batchUUID string, problem *cert.Problem) error {
	var created, reason any
	if batchUUID != "" {
		created = batchUUID
	}
	if problem != nil {
		text, err := encode(problem)
		if err != nil {
			return err
		}
		reason = text
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO bulk_import_batches (draft_id, part, batch_uuid, reason) VALUES ($1, $2, $3, $4)`, draftID, part, created, reason)
	return err
}

// jobWait is the minimum time between the submission of a draft and the sweep that inserts a missing job.
// The job of a newer submission may have been inserted after the sweep looked for jobs.
const jobWait = time.Minute

// insertMissingJobs inserts jobs for archives that are not unpacked yet and for submitted drafts that do
// not have all their batches. It inserts no job of a kind while there is an unfinished job of this kind.
func (s *Service) insertMissingJobs(ctx context.Context) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		for _, work := range []struct {
			kind, query string
			args        []any
			job         func(id int64) river.JobArgs
		}{
			{
				unpackArgs{}.Kind(), `SELECT id FROM bulk_import_archives WHERE status = $1`, []any{string(unpacking)},
				func(id int64) river.JobArgs { return unpackArgs{Archive: id} },
			},
			{
				submitArgs{}.Kind(), `SELECT id FROM bulk_import_drafts WHERE status = $1 AND submitted_at < $2`,
				[]any{string(Submitting), db.Micros(s.now().Add(-jobWait))},
				func(id int64) river.JobArgs { return submitArgs{Draft: id} },
			},
		} {
			// The unfinished job may be the job of any of these records. A later sweep inserts the
			// missing jobs.
			alive, err := job.UnfinishedTx(ctx, tx, work.kind)
			if err != nil {
				return err
			}
			if alive {
				continue
			}
			ids, err := db.Column[int64](tx.QueryContext(ctx, work.query, work.args...))
			if err != nil {
				return err
			}
			for _, id := range ids {
				s.log.WarnContext(ctx, "a bulk upload had no job; a new job was enqueued", slog.String("kind", work.kind), slog.Int64("id", id))
				if err := s.enqueueTx(ctx, tx, work.job(id)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweeping bulk uploads: %w", err)
	}
	return nil
}
