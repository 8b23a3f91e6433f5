package cert

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// SealQueue holds the making of verified PDFs, one upload each.
	SealQueue = "seal"
	// BulkQueue holds the making of verified PDFs of batches. It has workers of
	// its own, one less than SealQueue, so that however much there is in it, a
	// single upload finds one that is free.
	BulkQueue = "seal_bulk"
	// RecipientQueue holds the finding of recipients.
	RecipientQueue = "recipient"
	// SealTimeout ends one attempt to make a verified PDF.
	SealTimeout = time.Minute
	// maxCrashes is how often a certificate may die with its process before it
	// is taken for the cause.
	maxCrashes = 3
)

// Sealer makes verified PDFs and pictures of them; seal.Sealer does.
type Sealer interface {
	Seal(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error)
	PNG(ctx context.Context, pdf io.ReaderAt, size int64) ([]byte, error)
}

// sealArgs is the job that makes a certificate's verified PDF.
type sealArgs struct {
	UUID string `json:"uuid"`
}

// Kind names the job.
func (sealArgs) Kind() string { return "seal" }

func (s *Service) sealOptions(queue string) *river.InsertOpts {
	return &river.InsertOpts{Queue: queue, MaxAttempts: s.attempts}
}

// RecipientArgs is the job that finds the recipient of an approved
// certificate, and assigns it or mails a link. Its worker is above.
type RecipientArgs struct {
	UUID string `json:"uuid"`
}

// Kind names the job.
func (RecipientArgs) Kind() string { return "recipient" }

var recipientOptions = &river.InsertOpts{Queue: RecipientQueue}

type sealWorker struct {
	river.WorkerDefaults[sealArgs]

	service *Service
}

// Work makes a verified PDF. It may run more than once for one certificate, and
// at the same time as another: whoever moves the row first has made it.
func (w *sealWorker) Work(ctx context.Context, j *river.Job[sealArgs]) error {
	s := w.service
	c, err := byUUID(ctx, s.db, j.Args.UUID)
	if err != nil {
		return err
	}
	if c.Status != Processing {
		return nil
	}
	err = s.process(ctx, c)
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		// This process is stopping: the next one goes on, no attempt counted.
		return river.JobSnooze(0)
	}
	if r, ok := errors.AsType[*seal.Refusal](err); ok {
		return s.fail(context.WithoutCancel(ctx), c, Failure{Code: r.Code, Message: r.Reason})
	}
	log := s.log.With(slog.String("certificate", c.UUID), slog.Int("attempt", j.Attempt), slog.Any("error", err))
	if j.Attempt < j.MaxAttempts {
		log.WarnContext(ctx, "making a verified PDF failed and will be tried again")
		return errors.Join(err, s.feedBehind(context.WithoutCancel(ctx), c))
	}
	log.ErrorContext(ctx, "making a verified PDF failed for good")
	return s.fail(context.WithoutCancel(ctx), c, failureOf(err))
}

// errNoOriginal is an upload whose file is gone.
var errNoOriginal = errors.New("the original is missing")

// failureOf puts a fault of ours in words for the institution.
func failureOf(err error) Failure {
	if f, ok := signingFailure(err); ok {
		return f
	}
	switch {
	case errors.Is(err, errNoOriginal):
		return Failure{Code: "original_missing", Message: "The uploaded file is missing from the vault's storage. Restore it from a backup, then retry."}
	case errors.Is(err, blob.ErrFull):
		return Failure{Code: "storage_full", Message: "The vault's storage had no room for the verified PDF. Make room, then retry."}
	case errors.Is(err, context.DeadlineExceeded):
		return Failure{Code: "timeout", Message: "Making the verified PDF took too long."}
	default:
		return Failure{Code: "processing_error", Message: "The verified PDF could not be made because of a fault in the vault. Its log says more. Retry when it is mended."}
	}
}

// process seals, stores, looks at what was stored, and only then approves.
func (s *Service) process(ctx context.Context, c *Certificate) (err error) {
	var inst struct{ uuid, name string }
	if err := s.db.QueryRowContext(ctx, `SELECT uuid, name FROM institutions WHERE id = $1`, c.InstitutionID).Scan(&inst.uuid, &inst.name); err != nil {
		return fmt.Errorf("reading the institution: %w", err)
	}
	placement, err := s.placementOf(ctx, c)
	if err != nil {
		return err
	}
	signature, err := s.signature(ctx, inst.uuid)
	if err != nil {
		return err
	}
	o, err := s.blobs.Open(ctx, c.File.Key)
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoOriginal, err)
	}
	if err != nil {
		return fmt.Errorf("opening the original: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	v, err := s.sealer.Seal(ctx, original(&c.File, o), seal.Stamp{
		ReferenceID: c.ReferenceID, VerifyURL: s.verifyURL(c.ReferenceID), Institution: inst.name, Placement: placement,
		Signature: signature,
	})
	if err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	// The name is new at each attempt: of two that work at once, neither may
	// overwrite what the other's row refers to.
	key := blobKey(inst.uuid, uuid.Must(uuid.NewV7()).String(), "verified")
	if _, err := s.blobs.Put(ctx, key, v.Body); err != nil {
		return fmt.Errorf("storing the verified PDF: %w", err)
	}
	discard := func() error { return s.blobs.Delete(context.WithoutCancel(ctx), key) }
	verified := Verified{TailKey: key, Whole: v.Whole, SHA256: v.SHA256, Size: v.Size}
	if err := s.reread(ctx, c, &verified); err != nil {
		return errors.Join(err, discard())
	}
	signed, err := s.checkSigned(ctx, c, &verified, inst.uuid)
	if err != nil {
		return errors.Join(err, discard())
	}
	if err := s.approve(ctx, c, &verified, v, signed); err != nil {
		if errors.Is(err, ErrMoved) {
			// Revoked, or finished by another worker, in the meantime.
			return discard()
		}
		// A commit whose answer was lost may have been made: the row may name the
		// file. Where it does not, the sweep takes it.
		return err
	}
	return nil
}

func (s *Service) approve(ctx context.Context, c *Certificate, verified *Verified, v *seal.Verified, signed Result) error {
	box, err := json.Marshal(v.Box)
	if err != nil {
		return fmt.Errorf("writing the place of the stamp: %w", err)
	}
	notices, err := json.Marshal(merge(c.Notices, v.Notices))
	if err != nil {
		return fmt.Errorf("writing notices: %w", err)
	}
	now := db.Micros(s.now())
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		moved, err := s.moveTx(ctx, tx, triggerSealed, c.UUID,
			column{"tail_key", verified.TailKey}, column{"whole", verified.Whole},
			column{"verified_sha256", verified.SHA256[:]}, column{"verified_size", verified.Size},
			column{"placement", string(v.Placement)}, column{"placement_page", v.Page}, column{"placement_box", string(box)},
			column{"notices", string(notices)}, column{"approved_at", now})
		if err != nil {
			return err
		}
		if err := rememberTx(ctx, tx, moved.InstitutionID, v.Layout, now); err != nil {
			return err
		}
		return errors.Join(
			recordCheckTx(ctx, tx, moved.ID, Check{Name: CheckFile, Result: Passed}, now),
			recordCheckTx(ctx, tx, moved.ID, Check{Name: CheckSignature, Result: signed}, now),
		)
	})
}

// merge adds notices without saying one twice.
func merge(a, b []seal.Notice) []seal.Notice {
	list := append([]seal.Notice{}, a...)
	have := map[string]bool{}
	for _, n := range a {
		have[n.Code] = true
	}
	for _, n := range b {
		if !have[n.Code] {
			list = append(list, n)
		}
	}
	return list
}

// fail ends processing in an error.
func (s *Service) fail(ctx context.Context, c *Certificate, f Failure) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.failTx(ctx, tx, c.UUID, f) })
	if errors.Is(err, ErrMoved) {
		return nil
	}
	return err
}

func (s *Service) failTx(ctx context.Context, tx *db.Tx, uuid string, f Failure) error {
	_, err := s.moveTx(ctx, tx, triggerError, uuid, column{"failure_code", f.Code}, column{"failure_message", f.Message})
	return err
}

// Rescued is told of each job that died with its process: a certificate that
// did so again and again is the likely cause, and fails.
func (s *Service) Rescued(ctx context.Context, tx *db.Tx, r job.Rescued) error {
	if r.Kind != (sealArgs{}).Kind() {
		return nil
	}
	var args sealArgs
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return fmt.Errorf("reading job %d: %w", r.ID, err)
	}
	var crashes int
	err := tx.QueryRowContext(ctx, `
		UPDATE certificates SET crashes = crashes + 1 WHERE uuid = $1 AND status = 'processing' RETURNING crashes`, args.UUID).Scan(&crashes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("counting a crash: %w", err)
	}
	if crashes < maxCrashes {
		return nil
	}
	s.log.ErrorContext(ctx, "a certificate died with the process too often and failed", slog.String("certificate", args.UUID), slog.Int("crashes", crashes))
	return s.failTx(ctx, tx, args.UUID, Failure{
		Code:    "crashed",
		Message: fmt.Sprintf("Processing was interrupted %d times by a crash of the vault.", crashes),
	})
}

// Waiting counts the certificates of all institutions that are in processing.
func (s *Service) Waiting(ctx context.Context) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM certificates WHERE status = 'processing'`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting certificates in processing: %w", err)
	}
	return n, nil
}
