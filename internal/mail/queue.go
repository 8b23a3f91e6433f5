package mail

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	// QueueName is the queue of messages.
	QueueName = "mail"
	// SweepInterval is the interval at which Sweep should run.
	SweepInterval = 30 * time.Second
	// maxAttempts is the maximum number of attempts to send a message. With the delays of the
	// queue, the last attempt is about a day after the first.
	maxAttempts = 56
	// jobWait is the time for which a message must be unchanged before Sweep inserts a new job.
	jobWait = 30 * time.Second
	// retention is the time after which the record of a message that is no longer queued is deleted.
	retention  = 30 * 24 * time.Hour
	sweepBatch = 500
)

// Status is the state of a message.
type Status string

const (
	// Queued messages wait to be sent.
	Queued Status = "queued"
	// Sent messages were accepted by the mail server.
	Sent Status = "sent"
	// Failed messages were refused, could not be sent for about a day, or were reported as not
	// delivered.
	Failed Status = "failed"
	// Unsent messages were written to the outbox, because there is no mail server.
	Unsent Status = "unsent"
	// Cancelled messages were withdrawn before they were sent.
	Cancelled Status = "cancelled"
)

// Config configures a Mailer.
type Config struct {
	DB     *db.DB
	Queue  *job.Queue
	Sender Sender
	// NoServer means that there is no mail server. Sender is then an Outbox.
	NoServer bool
	// From is the sender of all messages.
	From Address
	// Keyring encrypts stored messages, because messages contain secret links, and signs the
	// addresses for reports. If Keyring is nil, messages are stored as plain text, and Bounces must
	// be empty.
	Keyring *keyring.Ring
	// Bounces is the domain of the addresses for reports of failed deliveries. If it is empty,
	// reports go to From.
	Bounces string
	// Picture loads a picture by its source. The error is ErrNoPicture if there is no such picture.
	// If Picture is nil, messages have no pictures.
	Picture func(ctx context.Context, source string) (*Image, error)
	// Finished is called when a message was sent, was written to the outbox or has failed, in the
	// transaction that stores this result. It may be nil.
	Finished func(ctx context.Context, tx *db.Tx, e Result) error
	// Metrics may be nil.
	Metrics *Metrics
	Now     func() time.Time
	Log     *slog.Logger
}

// Result is the final state of a message.
type Result struct {
	// UUID identifies the message.
	UUID   string
	Status Status
	// Reason is the reason for a failure, without addresses.
	Reason string
}

// Mailer stores messages until they are sent. If the job of a stored message is missing, the message
// gets a new job.
type Mailer struct {
	db       *db.DB
	queue    *job.Queue
	sender   Sender
	noServer bool
	from     Address
	picture  func(ctx context.Context, source string) (*Image, error)
	ring     *keyring.Ring
	bounces  string
	finished func(ctx context.Context, tx *db.Tx, e Result) error
	metrics  *Metrics
	now      func() time.Time
	log      *slog.Logger
}

// New returns a Mailer and registers its worker with the queue. It returns an error if Bounces is
// set without Keyring, because Keyring signs the addresses for reports.
func New(c Config) (*Mailer, error) {
	if c.Bounces != "" && c.Keyring == nil {
		return nil, errors.New("mail.Config has Bounces but no Keyring")
	}
	m := &Mailer{
		db: c.DB, queue: c.Queue, sender: c.Sender, noServer: c.NoServer, from: c.From, picture: c.Picture, ring: c.Keyring, bounces: c.Bounces,
		finished: c.Finished, metrics: c.Metrics, now: c.Now, log: c.Log,
	}
	job.Add(c.Queue, &worker{mailer: m})
	return m, nil
}

// jobArgs has the arguments of the job that sends a message.
type jobArgs struct {
	UUID string `json:"uuid"`
}

// Kind returns the name of the job.
func (jobArgs) Kind() string { return "mail" }

var jobOptions = &river.InsertOpts{Queue: QueueName, MaxAttempts: maxAttempts}

// EnqueueTx stores a message for sending in the caller's transaction, and returns the UUID of the
// message. If the transaction is rolled back, nothing is sent.
func (m *Mailer) EnqueueTx(ctx context.Context, tx *db.Tx, msg Message) (string, error) {
	if err := msg.check(); err != nil {
		return "", fmt.Errorf("queueing a message: %w", err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	text, err := m.encode(id, msg)
	if err != nil {
		return "", fmt.Errorf("queueing a message: %w", err)
	}
	jobID, err := m.queue.InsertTx(ctx, tx, jobArgs{UUID: id}, jobOptions)
	if err != nil {
		return "", fmt.Errorf("queueing a message: %w", err)
	}
	now := db.Micros(m.now())
	if _, err := tx.ExecContext(ctx, `INSERT INTO mails (uuid, message, status, job_id, created_at, updated_at) VALUES ($1, $2, 'queued', $3, $4, $4)`,
		id, text, jobID, now); err != nil {
		return "", fmt.Errorf("queueing a message: %w", err)
	}
	return id, nil
}

// sealed is the prefix of a stored message that is encrypted. A message in plain text is JSON and
// cannot have this prefix.
const sealed = "sealed:"

// encode returns the stored form of a message.
func (m *Mailer) encode(id string, msg Message) (string, error) {
	text, err := json.Marshal(msg)
	if err != nil || m.ring == nil {
		return string(text), err
	}
	box, err := m.ring.Seal(keyring.MailMessage, text, []byte(id))
	return sealed + base64.StdEncoding.EncodeToString(box), err
}

// decode is the inverse of encode.
func (m *Mailer) decode(id, stored string) (msg Message, err error) {
	text := []byte(stored)
	if box, ok := strings.CutPrefix(stored, sealed); ok {
		if text, err = base64.StdEncoding.DecodeString(box); err != nil {
			return msg, err
		}
		if text, err = m.ring.Open(keyring.MailMessage, text, []byte(id)); err != nil {
			return msg, err
		}
	}
	err = json.Unmarshal(text, &msg)
	return msg, err
}

// CancelTx cancels a queued message in the caller's transaction. It reports whether the message was
// cancelled. A message that is being sent at the same time may still arrive.
func CancelTx(ctx context.Context, tx *db.Tx, id string, now time.Time) (bool, error) {
	free := `SELECT uuid FROM mails WHERE uuid = $1 AND status = 'queued'`
	if tx.Dialect() == db.PostgreSQL {
		free += ` FOR UPDATE SKIP LOCKED`
	}
	r, err := tx.ExecContext(ctx, `UPDATE mails SET status = $2, message = '', updated_at = $3 WHERE uuid IN (`+free+`)`,
		id, string(Cancelled), db.Micros(now))
	if err != nil {
		return false, fmt.Errorf("cancelling a message: %w", err)
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

type worker struct {
	river.WorkerDefaults[jobArgs]

	mailer *Mailer
}

// Work sends a message. It may run more than once for one message. It skips a message that is no longer
// queued. If a message is sent twice after a crash, both copies have the same Message-ID.
func (w *worker) Work(ctx context.Context, j *river.Job[jobArgs]) error {
	m := w.mailer
	e, err := m.queued(ctx, j.Args.UUID)
	if errors.Is(err, errNotQueued) {
		return nil
	}
	if err != nil {
		return err
	}
	err = m.sender.Send(ctx, e)
	switch {
	case err == nil:
		return m.finish(ctx, e.ID, m.sentStatus(), "")
	case context.Cause(ctx) != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		// This process is stopping. JobSnooze returns the job to the queue and does not count the attempt.
		return river.JobSnooze(0)
	}
	log := m.log.With(slog.String("message", e.ID), slog.Int("attempt", j.Attempt), slog.Any("error", err))
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok && j.Attempt < j.MaxAttempts {
		log.WarnContext(ctx, "a message could not be sent and will be retried")
		return err
	}
	log.ErrorContext(ctx, "a message could not be sent and will not be retried")
	reason := "The message could not be sent within a day."
	if ok {
		reason = refused.Error()
	}
	return m.finish(ctx, e.ID, Failed, reason)
}

// sentStatus returns the status of a message that the sender has accepted.
func (m *Mailer) sentStatus() Status {
	if m.noServer {
		return Unsent
	}
	return Sent
}

// NoServer reports whether there is no mail server. Messages are then only written to the outbox.
func (m *Mailer) NoServer() bool { return m.noServer }

// errNotQueued means that the message was already sent, has failed, was cancelled or does not
// exist.
var errNotQueued = errors.New("the message is no longer queued")

// queued returns a message that has the status Queued. The error is errNotQueued if the message has
// another status or does not exist.
func (m *Mailer) queued(ctx context.Context, id string) (*Envelope, error) {
	e := &Envelope{ID: id, From: m.from}
	var text string
	var created int64
	err := m.db.QueryRowContext(ctx, `SELECT message, created_at FROM mails WHERE uuid = $1 AND status = 'queued'`, id).Scan(&text, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotQueued
	}
	if err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	if e.Message, err = m.decode(id, text); err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	if e.ReturnPath, err = m.returnPath(id); err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	e.CreatedAt = db.Time(created)
	e.Images = func(ctx context.Context) map[string]*Image { return m.images(ctx, e.Pictures) }
	return e, nil
}

// finish stores the final status of a message and deletes its text, even if ctx is cancelled.
func (m *Mailer) finish(ctx context.Context, id string, status Status, reason string) error {
	ctx = context.WithoutCancel(ctx)
	err := m.db.Tx(ctx, func(tx *db.Tx) error {
		return m.finishTx(ctx, tx, Result{UUID: id, Status: status, Reason: reason}, Queued)
	})
	if err != nil {
		return fmt.Errorf("recording the result of a message: %w", err)
	}
	return nil
}

// finishTx stores the final status of a message, deletes its text and calls the function finished. If the
// message does not have the status in the parameter from, finishTx does nothing.
func (m *Mailer) finishTx(ctx context.Context, tx *db.Tx, e Result, from Status) error {
	r, err := tx.ExecContext(ctx, `UPDATE mails SET status = $2, error = $3, message = '', updated_at = $4 WHERE uuid = $1 AND status = $5`,
		e.UUID, string(e.Status), e.Reason, db.Micros(m.now()), string(from))
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err != nil || n == 0 {
		return err
	}
	tx.AfterCommit(func() { m.metrics.finished(e.Status) })
	if m.finished == nil {
		return nil
	}
	return m.finished(ctx, tx, e)
}

// Sweep inserts jobs for messages whose job is missing, and deletes the records of messages that
// were sent, written to the outbox, failed or cancelled more than 30 days ago.
func (m *Mailer) Sweep(ctx context.Context) error {
	err := m.db.Tx(ctx, func(tx *db.Tx) error {
		withoutJob, err := withoutJobTx(ctx, tx, db.Micros(m.now().Add(-jobWait)))
		if err != nil {
			return err
		}
		for _, id := range withoutJob {
			jobID, err := m.queue.InsertTx(ctx, tx, jobArgs{UUID: id}, jobOptions)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE mails SET job_id = $2, updated_at = $3 WHERE uuid = $1`, id, jobID, db.Micros(m.now())); err != nil {
				return err
			}
			m.log.WarnContext(ctx, "a message had no job; a new job was enqueued", slog.String("message", id))
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM mails WHERE status IN ('sent', 'unsent', 'failed', 'cancelled') AND updated_at < $1`, db.Micros(m.now().Add(-retention)))
		return err
	})
	if err != nil {
		return fmt.Errorf("sweeping mail: %w", err)
	}
	return nil
}

func withoutJobTx(ctx context.Context, tx *db.Tx, before int64) ([]string, error) {
	return db.Column[string](tx.QueryContext(ctx, `
		SELECT m.uuid FROM mails m WHERE m.status = 'queued' AND m.updated_at < $1 AND NOT `+job.Unfinished(`m.job_id`)+`
		ORDER BY m.updated_at LIMIT $2`, before, sweepBatch))
}
