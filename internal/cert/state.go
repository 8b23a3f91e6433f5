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

// Status is the status of a certificate.
type Status string

const (
	// none is the state before the record exists.
	none Status = ""
	// Processing is the status of certificates that wait for their verified PDF.
	Processing Status = "processing"
	// Approved is the status of certificates with a valid verified PDF.
	Approved Status = "approved"
	// Failed is the status of certificates whose processing failed. A failed certificate can be
	// retried.
	Failed Status = "failed"
	// Revoked is the status of certificates that the institution revoked. This status is final.
	Revoked Status = "revoked"
)

// Statuses are all statuses of a vault certificate.
var Statuses = []Status{Processing, Approved, Failed, Revoked}

// trigger is the cause of a change of status.
type trigger string

const (
	// triggerUpload is an accepted upload.
	triggerUpload trigger = "upload"
	// triggerSealed is the success of processing.
	triggerSealed trigger = "sealed"
	// triggerError is the failure of processing.
	triggerError trigger = "error"
	// triggerRetry is a retry by the institution.
	triggerRetry trigger = "retry"
	// triggerRevoke is a revocation by the institution.
	triggerRevoke trigger = "revoke"
)

// transition is one row of the state machine.
type transition struct {
	Trigger trigger
	From    []Status
	To      Status
	// Event is the webhook event.
	Event webhook.Name
	// Seals reports whether the transition enqueues the job that makes the verified PDF.
	Seals bool
}

// transitions is the state machine of a vault certificate. A status changes only according to a row
// of this table.
var transitions = []transition{
	{Trigger: triggerUpload, From: []Status{none}, To: Processing, Event: webhook.Created, Seals: true},
	{Trigger: triggerSealed, From: []Status{Processing}, To: Approved, Event: webhook.Approved},
	{Trigger: triggerError, From: []Status{Processing}, To: Failed, Event: webhook.Failed},
	{Trigger: triggerRetry, From: []Status{Failed}, To: Processing, Event: webhook.Retried, Seals: true},
	{Trigger: triggerRevoke, From: []Status{Processing, Approved, Failed}, To: Revoked, Event: webhook.Revoked},
}

func transitionOf(t trigger) transition {
	i := slices.IndexFunc(transitions, func(row transition) bool { return row.Trigger == t })
	return transitions[i]
}

// ErrInvalidState is returned if the trigger has no transition from the current status, or if the
// certificate does not exist.
var ErrInvalidState = errors.New("the certificate is not in a state that allows the operation")

// column is a column that moveTx sets.
type column struct {
	name  string
	value any
}

// moveTx changes the status of a certificate in the caller's transaction, if the current status
// allows it, and creates the event and the job of the transition. No other function changes a
// status. moveTx returns ErrInvalidState if the current status does not allow the change.
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
		return nil, ErrInvalidState
	}
	if err != nil {
		return nil, fmt.Errorf("changing the status of a certificate by %s: %w", by, err)
	}
	if err := s.movedTx(ctx, tx, row, c); err != nil {
		return nil, err
	}
	switch {
	case c.BatchID != "" && (row.Seals || slices.Contains(row.From, Processing)):
		// The certificate waits for its turn, or frees its place in the queue for another
		// certificate.
		err = s.FeedTx(ctx, tx, c.InstitutionID)
	case row.Seals:
		c.jobID, err = s.enqueueTx(ctx, tx, c.UUID, SealQueue)
	}
	return c, err
}

// movedTx calls Config.StatusChanged and creates the event of a transition.
func (s *Service) movedTx(ctx context.Context, tx *db.Tx, row transition, c *Certificate) error {
	if err := s.moved.runTx(ctx, tx, c); err != nil {
		return err
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
