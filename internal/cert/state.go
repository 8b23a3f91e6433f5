package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/webhook"
)

//go:generate go run ./gen ../../docs/states.md

// Status is where a certificate stands.
type Status string

const (
	// none is before the record exists.
	none Status = ""
	// Processing certificates are waiting for their verified PDF.
	Processing Status = "processing"
	// Approved certificates have it.
	Approved Status = "approved"
	// Failed certificates ended in an error and can be retried.
	Failed Status = "failed"
	// Revoked certificates were taken back by the institution, for good.
	Revoked Status = "revoked"
)

// Statuses are all that a vault certificate can have.
var Statuses = []Status{Processing, Approved, Failed, Revoked}

// trigger is what moves a certificate from one status to another.
type trigger string

const (
	// triggerUpload is the acceptance of an upload.
	triggerUpload trigger = "upload"
	// triggerSealed is the end of processing in success.
	triggerSealed trigger = "sealed"
	// triggerError is the end of processing in an error.
	triggerError trigger = "error"
	// triggerRetry is the institution's wish to try again.
	triggerRetry trigger = "retry"
	// triggerRevoke is the institution's wish to take it back.
	triggerRevoke trigger = "revoke"
)

// transition is one row of the state machine.
type transition struct {
	Trigger trigger
	From    []Status
	To      Status
	// Event is told to the institution's servers.
	Event webhook.Name
	// Seals says that a job which makes the verified PDF is enqueued, Recipient
	// that one which finds the recipient is.
	Seals, Recipient bool
}

// transitions is the state machine of a vault certificate; nothing changes a
// status but through one of its rows.
var transitions = []transition{
	{Trigger: triggerUpload, From: []Status{none}, To: Processing, Event: webhook.Created, Seals: true},
	{Trigger: triggerSealed, From: []Status{Processing}, To: Approved, Event: webhook.Approved, Recipient: true},
	{Trigger: triggerError, From: []Status{Processing}, To: Failed, Event: webhook.Failed},
	{Trigger: triggerRetry, From: []Status{Failed}, To: Processing, Event: webhook.Retried, Seals: true},
	{Trigger: triggerRevoke, From: []Status{Processing, Approved, Failed}, To: Revoked, Event: webhook.Revoked},
}

func transitionOf(t trigger) transition {
	i := slices.IndexFunc(transitions, func(row transition) bool { return row.Trigger == t })
	return transitions[i]
}

// ErrMoved says that a certificate is in no status from which the trigger
// leads on: somebody else was first, or it never was.
var ErrMoved = errors.New("the certificate is not in a state that allows this")

// column is a column to set along with a move.
type column struct {
	name  string
	value any
}

// moveTx is the one place where a status changes: a compare-and-set on the
// row, the event, and the job, in the caller's transaction. What appends to a
// log of all certificates belongs here too.
func (s *Service) moveTx(ctx context.Context, tx *db.Tx, by trigger, uuid string, set ...column) (*Certificate, error) {
	row := transitionOf(by)
	set = append([]column{{"status", string(row.To)}, {"updated_at", db.Micros(s.now())}}, set...)
	if row.Seals {
		set = append(set, column{"job_id", nil})
	}
	var query strings.Builder
	query.WriteString("UPDATE certificates SET ")
	args := make([]any, 0, len(set)+1+len(row.From))
	for i, c := range set {
		if i > 0 {
			query.WriteString(", ")
		}
		args = append(args, c.value)
		fmt.Fprintf(&query, "%s = $%d", c.name, len(args))
	}
	args = append(args, uuid)
	fmt.Fprintf(&query, " WHERE uuid = $%d AND status IN (", len(args))
	for i, from := range row.From {
		if i > 0 {
			query.WriteString(", ")
		}
		args = append(args, string(from))
		fmt.Fprintf(&query, "$%d", len(args))
	}
	query.WriteString(") RETURNING " + Columns)
	c, err := Scan(tx.QueryRowContext(ctx, query.String(), args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrMoved
	}
	if err != nil {
		return nil, fmt.Errorf("moving a certificate by %s: %w", by, err)
	}
	if err := s.movedTx(ctx, tx, row, c); err != nil {
		return nil, err
	}
	switch {
	case c.BatchID != "" && (row.Seals || slices.Contains(row.From, Processing)):
		// It waits for its turn, or has left the place of another.
		err = s.FeedTx(ctx, tx, c.InstitutionID)
	case row.Seals:
		c.jobID, err = s.enqueueTx(ctx, tx, c.UUID, SealQueue)
	}
	return c, err
}

// movedTx writes what follows from a move.
func (s *Service) movedTx(ctx context.Context, tx *db.Tx, row transition, c *Certificate) error {
	if err := s.moved.runTx(ctx, tx, c); err != nil {
		return err
	}
	if row.Recipient {
		if _, err := s.queue.InsertTx(ctx, tx, RecipientArgs{UUID: c.UUID}, recipientOptions); err != nil {
			return err
		}
	}
	e := webhook.Event{
		Name: row.Event, InstitutionID: c.InstitutionID, CertificateID: c.ID, OccurredAt: c.UpdatedAt, UUID: c.UUID, Title: c.Title,
		ApplicantEmail: c.Email, Source: string(c.Source), TriggerContext: string(c.EventContext), ReferenceID: c.ReferenceID,
		Status: string(c.Status), FullName: c.FullName, IssueDate: c.IssueDate, Reason: c.RevocationReason,
	}
	if c.Failure != nil {
		e.FailureCode, e.FailureMessage = c.Failure.Code, c.Failure.Message
	}
	return s.hooks.EmitTx(ctx, tx, e)
}
