package cert

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// Waiting is a group of certificates that wait for the approval of one signatory: the certificates of one
// batch, or all certificates without a batch.
type Waiting struct {
	// BatchID is the UUID of the batch, or "" for certificates without a batch.
	BatchID string
	Count   int
	// Since is the earliest time at which the signatory was asked to approve one of the certificates.
	Since time.Time
}

// WaitingFor returns the groups of certificates that wait for the approval of a member, sorted by Since.
func (s *Service) WaitingFor(ctx context.Context, institutionID, userID int64) ([]Waiting, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT coalesce(batch_id, ''), count(*), min(asked_at) FROM certificate_signatures
		WHERE institution_id = $1 AND user_id = $2 AND asked_at IS NOT NULL GROUP BY batch_id ORDER BY 3, 1`, institutionID, userID)
	if err != nil {
		return nil, fmt.Errorf("listing what waits for a signatory: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (w Waiting, err error) {
		var since int64
		err = rows.Scan(&w.BatchID, &w.Count, &since)
		w.Since = db.Time(since)
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing what waits for a signatory: %w", err)
	}
	return list, nil
}

// CountWaiting returns the number of certificates that wait for the approval of a member.
func (s *Service) CountWaiting(ctx context.Context, institutionID, userID int64) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM certificate_signatures WHERE institution_id = $1 AND user_id = $2 AND asked_at IS NOT NULL`, institutionID, userID).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting what waits for a signatory: %w", err)
	}
	return n, nil
}

// WaitingIDs returns the ids of the certificates of a batch that wait for the approval of a member. If
// batchID is "", WaitingIDs returns the ids of the waiting certificates without a batch.
func (s *Service) WaitingIDs(ctx context.Context, institutionID, userID int64, batchID string) ([]int64, error) {
	where, args := ` AND batch_id IS NULL`, []any{institutionID, userID}
	if batchID != "" {
		where, args = ` AND batch_id = $3`, append(args, batchID)
	}
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT certificate_id FROM certificate_signatures WHERE institution_id = $1 AND user_id = $2 AND asked_at IS NOT NULL`+where+` ORDER BY certificate_id`, args...))
	if err != nil {
		return nil, fmt.Errorf("listing what waits for a signatory: %w", err)
	}
	return ids, nil
}

// Asked is a signatory who is asked to approve at least one certificate.
type Asked struct {
	InstitutionID, UserID int64
	// Last is the latest time at which the signatory was asked to approve one of these certificates.
	Last time.Time
}

// AllAsked returns the signatories of all institutions who are asked to approve certificates.
func (s *Service) AllAsked(ctx context.Context) ([]Asked, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT institution_id, user_id, max(asked_at) FROM certificate_signatures WHERE asked_at IS NOT NULL GROUP BY institution_id, user_id ORDER BY 1, 2`)
	if err != nil {
		return nil, fmt.Errorf("listing the signatories who are asked: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (a Asked, err error) {
		var last int64
		err = rows.Scan(&a.InstitutionID, &a.UserID, &last)
		a.Last = db.Time(last)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the signatories who are asked: %w", err)
	}
	return list, nil
}

// Approval is the input of ApproveTx. If BatchID is set, the approval is for all certificates of the batch
// that wait for the signatory. Otherwise it is for the certificates in UUIDs.
type Approval struct {
	InstitutionID, UserID int64
	// Name is the name of the signatory. Picture is the SHA-256 of the picture of the signature, or nil if
	// there is no picture. Both are stored with the approval, so that later changes of the member do not
	// change them.
	Name    string
	Picture []byte
	BatchID string
	UUIDs   []string
	// Seen is the SetDigest of the certificates that the signatory saw, or "" if it is not known.
	Seen string
}

// ErrNotSeen is the error if other certificates wait for a signatory than those that the signatory saw.
var ErrNotSeen = errors.New("other certificates wait for the signatory than those that were shown")

// SetDigest returns the SHA-256 digest, in hexadecimal, of a set of UUIDs of certificates. The values of a
// certificate that waits for signatories do not change, so its UUID identifies what a signatory approves.
func SetDigest(uuids []string) string {
	set := slices.Compact(slices.Sorted(slices.Values(uuids)))
	digest := sha256.Sum256([]byte(strings.Join(set, "\n")))
	return hex.EncodeToString(digest[:])
}

// ApproveTx stores the approval of a signatory for certificates, and returns the number of stored
// approvals. ApproveTx ignores certificates that do not wait for this signatory, so that a repeated request
// changes nothing. It returns ErrNotSeen if a.Seen is known and differs from the digest of the certificates
// that wait. When all signatories have approved a certificate, its processing starts. The number of
// statements does not depend on the number of certificates in a batch.
func (s *Service) ApproveTx(ctx context.Context, tx *db.Tx, a Approval) (int, error) {
	waiting, err := s.lockWaitingTx(ctx, tx, a)
	if err != nil || len(waiting) == 0 {
		return 0, err
	}
	uuids := make([]string, len(waiting))
	for i, w := range waiting {
		uuids[i] = w.uuid
	}
	if a.Seen != "" && a.Seen != SetDigest(uuids) {
		return 0, ErrNotSeen
	}
	const first = 7
	among, list, err := s.db.OneOf("uuid", first, uuids)
	if err != nil {
		return 0, err
	}
	now := db.Micros(s.now())
	result, err := tx.ExecContext(ctx, `
		UPDATE certificate_signatures SET status = 'approved', asked_at = NULL, approved_at = $1, display_name = $2, picture_sha256 = $3
		WHERE institution_id = $4 AND user_id = $5 AND asked_at IS NOT NULL AND status = $6
			AND certificate_id IN (SELECT id FROM certificates WHERE `+among+`)`,
		now, a.Name, a.Picture, a.InstitutionID, a.UserID, string(SignaturePending), list)
	if err != nil {
		return 0, fmt.Errorf("storing approvals: %w", err)
	}
	approved, err := result.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("storing approvals: %w", err)
	}
	if err := s.askNextTx(ctx, tx, uuids, now); err != nil {
		return 0, err
	}
	if err := s.processSignedTx(ctx, tx, a.InstitutionID, waiting, uuids); err != nil {
		return 0, err
	}
	return int(approved), recordApprovalsTx(ctx, tx, a, waiting, int(approved), s.now())
}

// waitingCertificate is a certificate that waits for a signatory.
type waitingCertificate struct {
	uuid, reference, batchID string
	source                   Source
}

// lockWaitingTx returns the certificates of an approval that wait for the signatory. On PostgreSQL, it
// locks their rows. Without the locks, if the last two signatories of a certificate approved it at the same
// time, neither transaction would see both approvals, and the certificate would never be processed.
func (s *Service) lockWaitingTx(ctx context.Context, tx *db.Tx, a Approval) ([]waitingCertificate, error) {
	args := []any{a.InstitutionID, a.UserID}
	where := ` AND s.batch_id = $3`
	if a.BatchID != "" {
		args = append(args, a.BatchID)
	} else {
		among, list, err := s.db.OneOf("c.uuid", len(args)+1, append([]string{}, a.UUIDs...))
		if err != nil {
			return nil, err
		}
		where, args = ` AND `+among, append(args, list)
	}
	query := `SELECT c.uuid, c.reference_id, coalesce(c.batch_id, ''), c.source FROM certificate_signatures s JOIN certificates c ON c.id = s.certificate_id
		WHERE s.institution_id = $1 AND s.user_id = $2 AND s.asked_at IS NOT NULL AND c.status = 'pending'` + where + ` ORDER BY c.id`
	if tx.Dialect() == db.PostgreSQL {
		query += ` FOR UPDATE OF c`
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("locking certificates that wait for a signatory: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (w waitingCertificate, err error) {
		err = rows.Scan(&w.uuid, &w.reference, &w.batchID, &w.source)
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("locking certificates that wait for a signatory: %w", err)
	}
	return list, nil
}

// askNextTx asks the next signatory of each certificate whose signatories approve in an order. Signatories
// without an order were all asked at the start.
func (s *Service) askNextTx(ctx context.Context, tx *db.Tx, uuids []string, now int64) error {
	among, list, err := s.db.OneOf("uuid", 2, uuids)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE certificate_signatures SET asked_at = $1
		WHERE in_order AND status = 'pending' AND asked_at IS NULL AND certificate_id IN (SELECT id FROM certificates WHERE `+among+`)
			AND NOT EXISTS (SELECT 1 FROM certificate_signatures earlier WHERE earlier.certificate_id = certificate_signatures.certificate_id
				AND earlier.signatory_index < certificate_signatures.signatory_index AND earlier.status <> 'approved')`, now, list)
	if err != nil {
		return fmt.Errorf("asking the next signatories: %w", err)
	}
	return nil
}

// unsigned is the SQL condition that at least one signatory has not approved the certificate.
const unsigned = `EXISTS (SELECT 1 FROM certificate_signatures s WHERE s.certificate_id = certificates.id AND s.status <> 'approved')`

// processSignedTx starts the processing of the certificates that all their signatories have approved.
func (s *Service) processSignedTx(ctx context.Context, tx *db.Tx, institutionID int64, list []waitingCertificate, uuids []string) error {
	if err := s.moveAllTx(ctx, tx, triggerSigned, institutionID, uuids, `NOT `+unsigned); err != nil {
		return err
	}
	for _, w := range list {
		if w.source != Customer {
			continue
		}
		// An application needs moveTx, because its transition to processing creates an event.
		var open bool
		if err := tx.QueryRowContext(ctx, `SELECT `+unsigned+` FROM certificates WHERE uuid = $1`, w.uuid).Scan(&open); err != nil {
			return fmt.Errorf("reading the signatures of an application: %w", err)
		}
		if open {
			continue
		}
		if _, err := s.moveTx(ctx, tx, triggerAccept, w.uuid); err != nil {
			return err
		}
	}
	return nil
}

// recordApprovalsTx adds approvals to the audit log: one entry if a.BatchID is set, and otherwise one entry
// for each certificate.
func recordApprovalsTx(ctx context.Context, tx *db.Tx, a Approval, list []waitingCertificate, approved int, now time.Time) error {
	if a.BatchID != "" {
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: a.InstitutionID, At: now, Action: audit.BatchSigned, Detail: audit.Detail{"certificates": approved},
			Subject: audit.Subject{Type: "batch", ID: a.BatchID},
		})
	}
	for _, w := range list {
		if err := audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: a.InstitutionID, At: now, Action: audit.CertificateSigned,
			Subject: audit.Subject{Type: "certificate", ID: w.uuid, Name: w.reference},
		}); err != nil {
			return err
		}
	}
	return nil
}

// Refusal is the input of DeclineTx.
type Refusal struct {
	InstitutionID, UserID int64
	// Name is the name of the signatory. Reason is shown to the institution.
	Name, Reason string
}

// Check trims the reason, and adds a problem to bad if the reason is not valid.
func (r *Refusal) Check(bad *Problems) { r.Reason = FieldReason.read(bad, r.Reason) }

// DeclineTx stores that a signatory declines a certificate, and changes its status to failed. DeclineTx
// returns ErrInvalidState if the certificate does not wait for this signatory.
func (s *Service) DeclineTx(ctx context.Context, tx *db.Tx, uuid string, r Refusal) (*Certificate, error) {
	waiting, err := s.lockWaitingTx(ctx, tx, Approval{InstitutionID: r.InstitutionID, UserID: r.UserID, UUIDs: []string{uuid}})
	if err != nil {
		return nil, err
	}
	if len(waiting) == 0 {
		return nil, ErrInvalidState
	}
	designations, err := db.Column[string](tx.QueryContext(ctx, `
		UPDATE certificate_signatures SET status = 'declined', asked_at = NULL
		WHERE institution_id = $1 AND user_id = $2 AND asked_at IS NOT NULL AND certificate_id = (SELECT id FROM certificates WHERE uuid = $3) RETURNING designation`,
		r.InstitutionID, r.UserID, uuid))
	if err != nil {
		return nil, fmt.Errorf("storing a refusal: %w", err)
	}
	if len(designations) == 0 {
		return nil, ErrInvalidState
	}
	by := r.Name
	if title := strings.Join(slices.Compact(designations), ", "); title != "" {
		by += " (" + title + ")"
	}
	c, err := s.moveTx(ctx, tx, triggerDecline, uuid,
		column{"failure_code", CodeDeclined}, column{"failure_message", "Declined by " + by + ": " + r.Reason})
	if err != nil {
		return nil, err
	}
	return c, recordTx(ctx, tx, audit.CertificateDeclined, c, audit.Detail{"reason": r.Reason})
}
