package cert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/trace"
)

const (
	// SealQueue has the jobs that make verified PDFs of certificates without a batch.
	SealQueue = "seal"
	// BulkQueue has the jobs that make verified PDFs of certificates of batches.
	BulkQueue = "seal_bulk"
	// SealTimeout is the limit of one attempt at sealing.
	SealTimeout = time.Minute
)

// Sealer makes verified PDFs and pictures of verified PDFs. seal.Sealer implements it.
type Sealer interface {
	Seal(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error)
	PNG(ctx context.Context, pdf io.ReaderAt, size int64) ([]byte, error)
}

// sealArgs are the arguments of the job that makes a certificate's verified PDF.
type sealArgs struct {
	UUID string `json:"uuid"`
}

// Kind returns the kind of the job.
func (sealArgs) Kind() string { return "seal" }

func (s *Service) sealOptions(queue string) *river.InsertOpts {
	return &river.InsertOpts{Queue: queue, MaxAttempts: s.attempts}
}

type sealWorker struct {
	river.WorkerDefaults[sealArgs]

	service *Service
}

// Work makes a verified PDF. It may run twice for one certificate, even concurrently. Only the first run
// that finishes changes the status.
func (w *sealWorker) Work(ctx context.Context, j *river.Job[sealArgs]) error {
	s := w.service
	c, err := byUUID(ctx, s.db, j.Args.UUID)
	if fault.Is(err, fault.NotFound) {
		// The transaction that enqueued the job found a duplicate and continued, or the certificate was deleted.
		return nil
	}
	if err != nil {
		return err
	}
	if c.Status != Processing {
		return nil
	}
	trace.Text(ctx, "certvault.certificate", c.UUID)
	leave, err := s.enter(ctx, c)
	switch {
	case errors.Is(err, errTrial):
		return river.JobSnooze(trialPause)
	case err != nil:
		return err
	}
	begin := time.Now()
	err = s.process(ctx, c)
	if after := errors.Join(leave(), s.survived(context.WithoutCancel(ctx), c, begin)); after != nil {
		err = errors.Join(err, after)
	}
	switch {
	case err == nil:
		s.metrics.ended(ctx, sealedOutcome)
		return nil
	case context.Cause(ctx) != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		s.metrics.ended(ctx, postponedOutcome)
		// This process is stopping. The interrupted attempt does not count.
		return river.JobSnooze(0)
	}
	if wait, ok := waitOf(err); ok {
		s.metrics.ended(ctx, postponedOutcome)
		return s.waitForStore(ctx, err, wait)
	}
	if r, ok := errors.AsType[*seal.Refusal](err); ok {
		s.metrics.ended(ctx, refusedOutcome)
		return s.fail(context.WithoutCancel(ctx), c, Failure{Code: r.Code, Message: r.Reason})
	}
	log := s.log.With(slog.String("certificate", c.UUID), slog.Int("attempt", j.Attempt), slog.Any("error", err))
	// Another attempt cannot succeed with an expired key, because a person must replace the key.
	if f, ok := errors.AsType[*authority.Fault](err); j.Attempt < j.MaxAttempts && (!ok || f.Code != authority.CodeExpired) {
		s.metrics.ended(ctx, retriedOutcome)
		log.WarnContext(ctx, "making a verified PDF failed; it will be retried")
		return errors.Join(err, s.feedNext(context.WithoutCancel(ctx), c))
	}
	s.metrics.ended(ctx, failedOutcome)
	log.ErrorContext(ctx, "making a verified PDF failed permanently")
	return s.fail(context.WithoutCancel(ctx), c, failureOf(err))
}

// waitOf returns how long a job waits before it runs again, and reports whether err means that the storage
// is full or not available.
func waitOf(err error) (wait time.Duration, ok bool) {
	if db.Full(err) {
		return blob.FullWait, true
	}
	return blob.Wait(err)
}

// waitForStore returns an error that makes the queue run the job again after wait. The attempt does not
// count. waitForStore logs the reason at most once per blob.FullWait.
func (s *Service) waitForStore(ctx context.Context, err error, wait time.Duration) error {
	now := db.Micros(s.now())
	if last := s.waitLogged.Load(); now-last >= blob.FullWait.Microseconds() && s.waitLogged.CompareAndSwap(last, now) {
		if errors.Is(err, blob.ErrUnavailable) {
			s.log.ErrorContext(ctx, "ALARM: the file store is not available; sealing waits until it is", slog.Any("error", err))
		} else {
			s.log.ErrorContext(ctx, "ALARM: the storage is full; sealing waits until there is room", slog.Any("error", err))
		}
	}
	return river.JobSnooze(wait)
}

var (
	// errNoOriginal is the error for an upload whose file is missing.
	errNoOriginal = errors.New("the original is missing")
	// errNoBase is the error for a certificate from a template of which a file is missing.
	errNoBase = errors.New("a file of the template is missing")
	// ErrDamagedTemplate is the error for a certificate from a template of which a file is damaged.
	ErrDamagedTemplate = errors.New("a file of the template is damaged")
	// errOtherOriginal is the error for an upload whose file has another size.
	errOtherOriginal = errors.New("the original has another size than at the upload")
)

const (
	// restoreFile is what to do about a missing or damaged file.
	restoreFile = "Ask the operator of this vault to restore it from a backup, then retry."
	// restoreTemplate is what to do about a missing or damaged file of a template.
	restoreTemplate = restoreFile + " The command certvault doctor --files names the file."
)

// failureOf returns the failure that the institution sees for an error other than a refusal.
func failureOf(err error) Failure {
	if errors.Is(err, ErrDamagedTemplate) { // checked first, because err may also wrap errNotValid
		return Failure{Code: "template_damaged", Message: "A file of the template is damaged in the vault's storage. " + restoreTemplate}
	}
	if f, ok := signingFailure(err); ok {
		return f
	}
	switch {
	case errors.Is(err, errNoOriginal):
		return Failure{Code: "original_missing", Message: "The uploaded file is missing from the vault's storage. " + restoreFile}
	case errors.Is(err, errNoBase):
		return Failure{Code: "template_missing", Message: "A file of the template is missing from the vault's storage. " + restoreTemplate}
	case errors.Is(err, errOtherOriginal):
		return Failure{Code: "original_damaged", Message: "The uploaded file is damaged in the vault's storage. " + restoreFile}
	case errors.Is(err, context.DeadlineExceeded):
		return Failure{Code: "timeout", Message: "Creating the verified PDF took too long. Retry."}
	default:
		return Failure{
			Code: "processing_error",
			Message: "The verified PDF could not be created because of a fault in the vault. Inform the operator of this vault: the vault's log has the details. " +
				"Retry when the fault is fixed.",
		}
	}
}

// process seals and stores a file, reads the stored file back, and then approves the certificate.
func (s *Service) process(ctx context.Context, c *Certificate) (err error) {
	if err := s.blobs.CheckReserve(ctx); err != nil {
		return fmt.Errorf("storing the verified PDF: %w", err)
	}
	inst, err := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if err != nil {
		return err
	}
	step, end := s.metrics.step(ctx, readStep)
	in, err := s.input(step, c, inst)
	end(err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	step, end = s.metrics.step(ctx, signerStep)
	signature, anchors, err := s.signature(step, inst.UUID)
	end(err)
	if err != nil {
		return err
	}
	in.stamp.Signature = signature
	// Each attempt uses a new key, so that concurrent attempts do not overwrite each other's files.
	key := blobKey(inst.UUID, uuid.Must(uuid.NewV7()).String(), "verified")
	v, err := s.sealAndStore(ctx, c, in, key)
	if err != nil {
		return err
	}
	discard := func() error { return s.blobs.Delete(context.WithoutCancel(ctx), key) }
	verified := Verified{TailKey: key, Whole: v.Whole, SHA256: v.SHA256, Size: v.Size}
	step, end = s.metrics.step(ctx, checkStep)
	if err := s.reread(step, in, &verified); err != nil {
		end(err)
		return errors.Join(err, discard())
	}
	signed, err := s.checkSigned(step, c, &verified, anchors)
	end(err)
	if err != nil {
		return errors.Join(err, s.checkBase(ctx, c, in), discard())
	}
	step, end = s.metrics.step(ctx, approveStep)
	err = s.approve(step, c, in, &verified, v, signed)
	end(err)
	if err != nil {
		if errors.Is(err, ErrInvalidState) {
			// Another run finished the certificate in the meantime, or the certificate was revoked.
			return discard()
		}
		// If the response to the commit was lost, the row may refer to the file. If no row refers
		// to the file, the sweep deletes it.
		return err
	}
	return nil
}

// input is the original and the stamp of one attempt at sealing.
type input struct {
	seal.Original

	stamp seal.Stamp
	// fields is the fields tail of a certificate from a template. It is the end of the original, and
	// it is stored with the tail of the verified PDF.
	fields []byte
	closer io.Closer // may be nil
}

// Close closes the stored file of the original.
func (in *input) Close() error {
	if in.closer == nil {
		return nil
	}
	return in.closer.Close()
}

// input returns the input for sealing a certificate. The caller must close it.
func (s *Service) input(ctx context.Context, c *Certificate, inst *account.Institution) (*input, error) {
	if c.Template != nil {
		return s.drawnInput(ctx, c, inst)
	}
	wanted, err := s.requestedPlacement(ctx, c)
	if err != nil {
		return nil, err
	}
	stamp, err := s.stamp(ctx, c, wanted)
	if err != nil {
		return nil, err
	}
	o, err := s.blobs.Open(ctx, c.File.Key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", errNoOriginal, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the original: %w", err)
	}
	if o.Size() != c.File.Size {
		return nil, errors.Join(errOtherOriginal, o.Close())
	}
	in := &input{Original: original(&c.File, o), stamp: stamp, closer: o}
	in.Recipient = c.FullName
	return in, nil
}

// sealAndStore seals an original when a processor is free, and stores the result.
func (s *Service) sealAndStore(ctx context.Context, c *Certificate, in *input, key string) (*seal.Verified, error) {
	step, end := s.metrics.step(ctx, waitStep)
	release, err := s.processors.seal(step, c.BatchID != "")
	end(err)
	if err != nil {
		return nil, fmt.Errorf("waiting for a processor: %w", err)
	}
	release = sync.OnceFunc(release)
	defer release()
	step, end = s.metrics.step(ctx, sealStep)
	v, err := s.sealer.Seal(step, in.Original, in.stamp)
	end(err)
	if err != nil {
		return nil, fmt.Errorf("sealing the original: %w", err)
	}
	if v.Whole && in.fields != nil {
		return nil, errors.New("the verified PDF of a certificate from a template does not begin with its original")
	}
	if !v.Whole {
		release() // a whole file is in memory, so its processor is released after the file is stored
	}
	step, end = s.metrics.step(ctx, storeStep)
	body := io.MultiReader(bytes.NewReader(in.fields), v.Body)
	_, err = s.blobs.PutReserved(step, key, body)
	end(err)
	if err != nil {
		return nil, fmt.Errorf("storing the verified PDF: %w", err)
	}
	return v, nil
}

func (s *Service) approve(ctx context.Context, c *Certificate, in *input, verified *Verified, v *seal.Verified, signed Result) error {
	box, err := json.Marshal(v.Box)
	if err != nil {
		return fmt.Errorf("encoding the position of the stamp: %w", err)
	}
	notices, err := json.Marshal(merge(c.Notices, v.Notices))
	if err != nil {
		return fmt.Errorf("encoding notices: %w", err)
	}
	now := db.Micros(s.now())
	set := []column{
		{"tail_key", verified.TailKey}, {"whole", verified.Whole},
		{"verified_sha256", verified.SHA256[:]}, {"verified_size", verified.Size},
		{"placement", string(v.Placement)}, {"placement_page", v.Page}, {"placement_box", string(box)},
		{"notices", string(notices)}, {"approved_at", now},
	}
	if c.Template != nil {
		set = append(set, column{"size", in.Size}, column{"sha256", in.SHA256[:]}, column{"sha256_state", in.State}, column{"fields_size", len(in.fields)})
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		moved, err := s.moveTx(ctx, tx, triggerSealed, c.UUID, set...)
		if err != nil {
			return err
		}
		if err := storeLayoutTx(ctx, tx, moved.InstitutionID, v.Layout, now); err != nil {
			return err
		}
		return recordApprovalTx(ctx, tx, moved.ID, signed, now)
	})
}

// merge returns the notices of a, followed by the notices of b whose codes are not in a.
func merge(a, b []seal.Notice) []seal.Notice {
	list := append([]seal.Notice{}, a...)
	seen := map[string]bool{}
	for _, n := range a {
		seen[n.Code] = true
	}
	for _, n := range b {
		if !seen[n.Code] {
			list = append(list, n)
		}
	}
	return list
}

// fail changes the status of a certificate to failed. It does nothing if the certificate is no
// longer in processing.
func (s *Service) fail(ctx context.Context, c *Certificate, f Failure) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.failTx(ctx, tx, c.UUID, f) })
	if errors.Is(err, ErrInvalidState) {
		return nil
	}
	return err
}

func (s *Service) failTx(ctx context.Context, tx *db.Tx, uuid string, f Failure) error {
	_, err := s.moveTx(ctx, tx, triggerError, uuid, column{"failure_code", f.Code}, column{"failure_message", f.Message})
	return err
}
