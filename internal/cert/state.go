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

//go:generate go run ../application/gen ../../docs/states.md

// Status is the status of a certificate.
type Status string

const (
	// none is the state before the record exists.
	none Status = ""
	// Pending is the status of applications that wait for a reviewer, and of certificates that wait for
	// their signatories.
	Pending Status = "pending"
	// InReview is the status of applications that a reviewer has claimed.
	InReview Status = "in_review"
	// Processing is the status of certificates that wait for their verified PDF.
	Processing Status = "processing"
	// Approved is the status of certificates with a valid verified PDF.
	Approved Status = "approved"
	// Failed is the status of certificates whose processing failed or that a signatory declined. A failed
	// certificate can be retried.
	Failed Status = "failed"
	// Revoked is the status of certificates that the institution revoked or replaced. This status is final.
	Revoked Status = "revoked"

	// Rejected is the final status of applications that a reviewer rejected.
	Rejected Status = "rejected"
	// Withdrawn is the final status of applications that were withdrawn.
	Withdrawn Status = "withdrawn"
	// Lapsed is the final status of applications whose applicant did not answer in time.
	Lapsed Status = "expired"
)

// Statuses are all statuses except Rejected, Withdrawn and Lapsed, with which an application ends without a
// certificate.
var Statuses = []Status{Pending, InReview, Processing, Approved, Failed, Revoked}

// VaultStatuses are the statuses of a certificate with the source Vault.
var VaultStatuses = []Status{Processing, Approved, Failed, Revoked}

// trigger is the cause of a change of status.
type trigger string

const (
	// triggerUpload is an accepted upload, or a new certificate from a template without signatories.
	triggerUpload trigger = "upload"
	// triggerSealed is the success of processing.
	triggerSealed trigger = "sealed"
	// triggerError is the failure of processing.
	triggerError trigger = "error"
	// triggerRetry is a retry by the institution.
	triggerRetry trigger = "retry"
	// triggerRevoke is a revocation by the institution.
	triggerRevoke trigger = "revoke"
	// triggerCancel is the revocation of a certificate that waits for its signatories.
	triggerCancel trigger = "cancel"
	// triggerReplaced is the approval of a replacement, for the certificate that is replaced.
	triggerReplaced trigger = "replaced"
	// triggerSubmit is a new application, or a new certificate from a template that has signatories.
	triggerSubmit trigger = "submit"
	// triggerClaim is the decision of a reviewer to review an application.
	triggerClaim trigger = "claim"
	// triggerAccept is the approval of an application by a reviewer, or by the last signatory if its
	// template has signatories.
	triggerAccept trigger = "accept"
	// triggerAsk is the approval, by a reviewer, of an application whose template has signatories.
	triggerAsk trigger = "ask signatories"
	// triggerSigned is the approval of a certificate without an application by its last signatory.
	triggerSigned trigger = "signed"
	// triggerDecline is the refusal of a certificate by a signatory.
	triggerDecline trigger = "decline"
	// triggerAskAgain is a retry of a certificate that a signatory declined.
	triggerAskAgain trigger = "ask again"
	// triggerReject, triggerWithdraw and triggerExpire end an application without a certificate.
	triggerReject   trigger = "reject"
	triggerWithdraw trigger = "withdraw"
	triggerExpire   trigger = "expire"
)

// transition is one row of the state machine.
type transition struct {
	Trigger trigger
	From    []Status
	To      Status
	// Event is the webhook event, or "" for a transition without an event.
	Event webhook.Name
	// Source limits the transition to the certificates of one source. It is "" for no limit.
	Source Source
	// Seals reports whether the transition enqueues the job that makes the verified PDF.
	Seals bool
}

// transitions is the state machine of a certificate. A status changes only according to a row of this
// table. Package application has another table for the steps before an application is approved.
var transitions = []transition{
	{Trigger: triggerUpload, From: []Status{none}, To: Processing, Event: webhook.Created, Seals: true},
	{Trigger: triggerSealed, From: []Status{Processing}, To: Approved, Event: webhook.Approved},
	{Trigger: triggerError, From: []Status{Processing}, To: Failed, Event: webhook.Failed},
	{Trigger: triggerRetry, From: []Status{Failed}, To: Processing, Event: webhook.Retried, Seals: true},
	{Trigger: triggerRevoke, From: []Status{Processing, Approved, Failed}, To: Revoked, Event: webhook.Revoked},
	{Trigger: triggerCancel, From: []Status{Pending}, To: Revoked, Event: webhook.Revoked, Source: Template},
	{Trigger: triggerReplaced, From: []Status{Pending, Processing, Approved, Failed}, To: Revoked, Event: webhook.Revoked},
	{Trigger: triggerSubmit, From: []Status{none}, To: Pending, Event: webhook.Created},
	{Trigger: triggerClaim, From: []Status{Pending}, To: InReview, Source: Customer},
	{Trigger: triggerAccept, From: []Status{Pending, InReview}, To: Processing, Event: webhook.Processing, Source: Customer, Seals: true},
	{Trigger: triggerAsk, From: []Status{Pending, InReview}, To: Pending, Source: Customer},
	{Trigger: triggerSigned, From: []Status{Pending}, To: Processing, Source: Template, Seals: true},
	{Trigger: triggerDecline, From: []Status{Pending}, To: Failed, Event: webhook.Failed},
	{Trigger: triggerAskAgain, From: []Status{Failed}, To: Pending, Event: webhook.Retried},
	{Trigger: triggerReject, From: []Status{Pending, InReview}, To: Rejected, Event: webhook.Rejected, Source: Customer},
	{Trigger: triggerWithdraw, From: []Status{Pending, InReview}, To: Withdrawn, Event: webhook.Updated, Source: Customer},
	{Trigger: triggerExpire, From: []Status{Pending, InReview}, To: Lapsed, Event: webhook.Updated, Source: Customer},
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

// moveTx changes the status of a certificate in the caller's transaction, if the current status allows
// it, and creates the event and the job of the transition. moveAllTx is the only other function that
// changes a status. moveTx returns ErrInvalidState if the current status does not allow the change.
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
	query.WriteString(")")
	if row.Source != "" {
		args = append(args, string(row.Source))
		fmt.Fprintf(&query, " AND source = $%d", len(args))
	}
	query.WriteString(" RETURNING " + Columns)
	c, err := Scan(tx.QueryRowContext(ctx, query.String(), args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrInvalidState
	}
	if err != nil {
		return nil, fmt.Errorf("changing the status of a certificate by %s: %w", by, err)
	}
	if row.To != Pending && slices.Contains(row.From, Pending) {
		if err := closeSignaturesTx(ctx, tx, c.ID); err != nil {
			return nil, err
		}
	}
	if row.To == Approved && c.Replaces != nil {
		// The replaced certificate is revoked first, which withdraws its unsent mail. The mail about c
		// depends on the mail that was sent about the replaced certificate.
		if err := s.endReplacedTx(ctx, tx, c); err != nil {
			return nil, err
		}
	}
	// On PostgreSQL, trackExpiryTx waits for a sweep that is reporting the expiry of the certificate.
	// Therefore trackExpiryTx is called before movedTx, which withdraws the notices of a revoked
	// certificate.
	if err := trackExpiryTx(ctx, tx, c, s.now()); err != nil {
		return nil, err
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

// moveAllTx is like moveTx for many certificates. It changes only the certificates for which condition, an
// SQL condition, holds. The transition must have no event and must seal. moveAllTx does not call
// Config.StatusChanged, because other packages do not depend on the start of processing of these
// certificates.
func (s *Service) moveAllTx(ctx context.Context, tx *db.Tx, by trigger, institutionID int64, uuids []string, condition string) error {
	row := transitionOf(by)
	if row.Event != "" || !row.Seals || row.To != Processing || len(row.From) != 1 || row.Source == "" {
		return fmt.Errorf("the transition %s is not for many certificates", by)
	}
	const list = 6
	among, arg, err := s.db.OneOf("uuid", list, uuids)
	if err != nil {
		return err
	}
	single, err := db.Column[string](tx.QueryContext(ctx, `
		UPDATE certificates SET status = $1, updated_at = $2, job_id = NULL
		WHERE institution_id = $3 AND status = $4 AND source = $5 AND `+among+` AND `+condition+`
		RETURNING CASE WHEN batch_id IS NULL THEN uuid ELSE '' END`,
		string(row.To), db.Micros(s.now()), institutionID, string(row.From[0]), string(row.Source), arg))
	if err != nil {
		return fmt.Errorf("changing the status of certificates by %s: %w", by, err)
	}
	for _, uuid := range single {
		if uuid == "" {
			continue // a certificate of a batch waits for its turn
		}
		if _, err := s.enqueueTx(ctx, tx, uuid, SealQueue); err != nil {
			return err
		}
	}
	return s.FeedTx(ctx, tx, institutionID)
}

// movedTx calls Config.StatusChanged and creates the event of a transition.
func (s *Service) movedTx(ctx context.Context, tx *db.Tx, row transition, c *Certificate) error {
	if err := s.moved.runTx(ctx, tx, c); err != nil {
		return err
	}
	if row.Event == "" {
		return nil
	}
	return s.EmitTx(ctx, tx, c, row.Event)
}

// EmitTx creates an event of a certificate.
func (s *Service) EmitTx(ctx context.Context, tx *db.Tx, c *Certificate, name webhook.Name) error {
	return s.hooks.EmitTx(ctx, tx, eventOf(c, name))
}

func eventOf(c *Certificate, name webhook.Name) webhook.Event {
	e := webhook.Event{
		Name: name, InstitutionID: c.InstitutionID, CertificateID: c.ID, OccurredAt: c.UpdatedAt, UUID: c.UUID, Title: c.Title,
		ApplicantEmail: c.Email, Source: string(c.Source), TriggerContext: string(c.EventContext), ReferenceID: c.ReferenceID,
		Status: string(c.Status), FullName: c.FullName, IssueDate: c.IssueDate, Reason: c.RevocationReason, ExpiresOn: c.ExpiresOn,
	}
	if c.Source == closed {
		e.Source = string(Customer)
	}
	if c.Replaces != nil {
		e.Replaces = &webhook.Link{UUID: c.Replaces.UUID, ReferenceID: c.Replaces.ReferenceID}
	}
	if c.ReplacedBy != nil {
		e.ReplacedBy = &webhook.Link{UUID: c.ReplacedBy.UUID, ReferenceID: c.ReplacedBy.ReferenceID}
		if e.Reason == "" && name == webhook.Revoked {
			// Receivers may show the reason, so each event of a revocation has one.
			e.Reason = "Replaced by " + c.ReplacedBy.ReferenceID
		}
	}
	if c.Failure != nil {
		e.FailureCode, e.FailureMessage = c.Failure.Code, c.Failure.Message
	}
	return e
}
