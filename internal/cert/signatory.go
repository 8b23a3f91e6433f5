package cert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/seal"
)

// MaxSignatories is the maximum number of signatories of a certificate.
const MaxSignatories = 8

// Signatories are the members who must approve a certificate before it is processed. The zero value
// requires no approval.
type Signatories struct {
	// Members are the signatories in the order of their index. The first has the index 1.
	Members []Signatory
	// InOrder means that each signatory is asked after the approval of the previous signatory.
	InOrder bool
}

// Signatory is a member who must approve a certificate.
type Signatory struct {
	UserID      int64
	Designation string
}

// SignatureStatus is the state of a signature.
type SignatureStatus string

const (
	// SignaturePending is the state of a signature until the signatory decides.
	SignaturePending SignatureStatus = "pending"
	// SignatureApproved is the state of a signature after the approval.
	SignatureApproved SignatureStatus = "approved"
	// SignatureDeclined is the state of the signature of the signatory who declined the certificate.
	SignatureDeclined SignatureStatus = "declined"
)

// CodeDeclined is the code of the failure of a certificate that a signatory declined.
const CodeDeclined = "declined"

// Signature is the approval of a certificate that is required from one signatory.
type Signature struct {
	ID            int64
	CertificateID int64
	// Index is the position of the signatory, from 1.
	Index  int
	UserID int64
	// Name is the name at the approval. Before the approval, it is the current name of the member, or "" if
	// the person no longer exists. Designation does not change.
	Name, Designation string
	Status            SignatureStatus
	// Asked reports whether the signatory can decide now. If the signatories approve in order, at most one
	// signatory can.
	Asked bool
	// Left reports whether a signatory who has not approved can no longer approve. The person is then no
	// longer a member, or has a role without account.MaySign.
	Left       bool
	ApprovedAt *time.Time

	digest, picture []byte
}

// Picture returns the SHA-256 digest of the picture of an approved signature, or nil if there is none.
func (s *Signature) Picture() []byte { return s.picture }

// insertSignaturesTx stores the pending signatures of a new certificate or of an accepted application.
func (s *Service) insertSignaturesTx(ctx context.Context, tx *db.Tx, c *Certificate, who Signatories) error {
	digest, now := c.signedDigest(), db.Micros(s.now())
	for i, m := range who.Members {
		asked := sql.NullInt64{Int64: now, Valid: i == 0 || !who.InOrder}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO certificate_signatures (certificate_id, institution_id, batch_id, signatory_index, user_id, designation, in_order, digest, status, asked_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', $9)`,
			c.ID, c.InstitutionID, optional(c.BatchID), i+1, m.UserID, m.Designation, who.InOrder, digest, asked); err != nil {
			return fmt.Errorf("storing a signature: %w", err)
		}
	}
	return nil
}

// signedDigest returns the digest of the data that signatories approve: the version of the template, the
// reference id and the values of the certificate.
func (c *Certificate) signedDigest() []byte {
	h := sha256.New()
	var version, values string
	if t := c.Template; t != nil {
		version, values = strconv.FormatInt(t.VersionID, 10), string(t.Values)
	}
	texts := []string{version, c.FullName, c.Title, c.IssueDate, c.Details, c.ReferenceID, values}
	// Digests that were stored before the field ExpiresOn existed must remain correct.
	if c.ExpiresOn != "" {
		texts = append(texts, c.ExpiresOn)
	}
	for _, text := range texts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	return h.Sum(nil)
}

const signatureColumns = `id, certificate_id, signatory_index, user_id, designation, status, asked_at, display_name, picture_sha256, approved_at, digest`

func scanSignature(rows *sql.Rows) (*Signature, error) {
	var s Signature
	var name sql.NullString
	var asked, approved sql.NullInt64
	if err := rows.Scan(&s.ID, &s.CertificateID, &s.Index, &s.UserID, &s.Designation, &s.Status, &asked, &name, &s.picture, &approved, &s.digest); err != nil {
		return nil, err
	}
	s.Name, s.Asked, s.ApprovedAt = name.String, asked.Valid, db.OptionalTime(approved)
	return &s, nil
}

// Signatures maps the ids of certificates of an institution to their signatures, in the order of their index.
// A certificate without signatories is not in the result.
func (s *Service) Signatures(ctx context.Context, institutionID int64, ids ...int64) (map[int64][]*Signature, error) {
	return Signatures(ctx, s.db, institutionID, ids...)
}

// Signatures is Service.Signatures for a database or a transaction.
func Signatures(ctx context.Context, q db.Queryer, institutionID int64, ids ...int64) (map[int64][]*Signature, error) {
	found := map[int64][]*Signature{}
	if _, err := db.ByID(ctx, q, institutionID, ids, func(list string) string {
		return `SELECT ` + signatureColumns + ` FROM certificate_signatures WHERE institution_id = $1 AND certificate_id IN (` + list + `)`
	}, func(rows *sql.Rows) (int64, struct{}, error) {
		one, err := scanSignature(rows)
		if err == nil {
			found[one.CertificateID] = append(found[one.CertificateID], one)
		}
		return 0, struct{}{}, err
	}); err != nil {
		return nil, fmt.Errorf("reading signatures: %w", err)
	}
	// The statement has no ORDER BY, so that PostgreSQL keeps its plan; see ADR 0062.
	for _, list := range found {
		slices.SortFunc(list, func(a, b *Signature) int { return cmp.Compare(a.Index, b.Index) })
	}
	return found, nameSignatories(ctx, q, institutionID, found)
}

// SignatureCount has the number of signatures of a certificate, and the number of approved signatures.
type SignatureCount struct{ Total, Approved int }

// CountSignatures maps the ids of certificates of an institution to their SignatureCount. A certificate
// without signatories is not in the result.
func (s *Service) CountSignatures(ctx context.Context, institutionID int64, ids ...int64) (map[int64]SignatureCount, error) {
	found, err := db.ByID(ctx, s.db, institutionID, ids, func(list string) string {
		return `SELECT certificate_id, count(*), sum(CASE WHEN status = 'approved' THEN 1 ELSE 0 END) FROM certificate_signatures
			WHERE institution_id = $1 AND certificate_id IN (` + list + `) GROUP BY certificate_id`
	}, func(rows *sql.Rows) (id int64, n SignatureCount, err error) {
		err = rows.Scan(&id, &n.Total, &n.Approved)
		return id, n, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting signatures: %w", err)
	}
	return found, nil
}

// nameSignatories sets Name and Left of the signatures that are not approved.
func nameSignatories(ctx context.Context, q db.Queryer, institutionID int64, found map[int64][]*Signature) error {
	var users []int64
	seen := map[int64]bool{}
	for _, list := range found {
		for _, one := range list {
			if one.Status != SignatureApproved && !seen[one.UserID] {
				seen[one.UserID], users = true, append(users, one.UserID)
			}
		}
	}
	if len(users) == 0 {
		return nil
	}
	names, err := account.PersonNames(ctx, q, institutionID, users)
	if err != nil {
		return err
	}
	for _, list := range found {
		for _, one := range list {
			if one.Status == SignatureApproved {
				continue
			}
			person := names[one.UserID]
			one.Name, one.Left = person.Name, !person.Role.Can(account.MaySign)
		}
	}
	return nil
}

// codeNotApproved is the code of the failure of a certificate whose current values were not approved by all
// its signatories.
const codeNotApproved = "approval_mismatch"

// checkApproved returns a refusal unless all signatories of a certificate approved its current values.
func (s *Service) checkApproved(ctx context.Context, c *Certificate) error {
	found, err := s.Signatures(ctx, c.InstitutionID, c.ID)
	if err != nil {
		return err
	}
	digest := string(c.signedDigest())
	for _, one := range found[c.ID] {
		if one.Status != SignatureApproved || string(one.digest) != digest {
			return &seal.Refusal{
				Code: codeNotApproved, Reason: "The values of the certificate are not those that its signatories approved. Revoke it and issue it again.",
			}
		}
	}
	return nil
}

// closeSignaturesTx ends the requests to the signatories of a certificate.
func closeSignaturesTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE certificate_signatures SET asked_at = NULL WHERE certificate_id = $1 AND asked_at IS NOT NULL`, certificateID); err != nil {
		return fmt.Errorf("ending the requests to signatories: %w", err)
	}
	return nil
}

// deleteSignaturesTx deletes the signatures of a certificate that is about to be deleted.
func deleteSignaturesTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM certificate_signatures WHERE certificate_id = $1`, certificateID); err != nil {
		return fmt.Errorf("deleting signatures: %w", err)
	}
	return nil
}

// askAgainTx asks all signatories of a declined certificate again.
func (s *Service) askAgainTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `
		UPDATE certificate_signatures SET status = 'pending', display_name = NULL, picture_sha256 = NULL, approved_at = NULL,
			asked_at = CASE WHEN in_order AND signatory_index > 1 THEN NULL ELSE CAST($1 AS BIGINT) END WHERE certificate_id = $2`,
		db.Micros(s.now()), certificateID); err != nil {
		return fmt.Errorf("asking signatories again: %w", err)
	}
	return nil
}

// ReplaceSignatoryTx replaces a signatory with another member in all signatures that are not approved, and
// returns the number of changed signatures.
func (s *Service) ReplaceSignatoryTx(ctx context.Context, tx *db.Tx, institutionID, from, to int64) (n int64, err error) {
	now := db.Micros(s.now())
	result, err := tx.ExecContext(ctx, `
		UPDATE certificate_signatures SET user_id = $1, asked_at = CASE WHEN asked_at IS NULL THEN NULL ELSE CAST($2 AS BIGINT) END
		WHERE institution_id = $3 AND user_id = $4 AND status <> 'approved'`, to, now, institutionID, from)
	if err != nil {
		return 0, fmt.Errorf("replacing a signatory: %w", err)
	}
	return result.RowsAffected()
}

// AwaitedUsers returns, for each user id, the number of certificates of an institution that wait for the
// approval of this user.
func AwaitedUsers(ctx context.Context, q db.Queryer, institutionID int64) (map[int64]int, error) {
	rows, err := q.QueryContext(ctx, `SELECT user_id, count(*) FROM certificate_signatures WHERE institution_id = $1 AND asked_at IS NOT NULL GROUP BY user_id`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("counting awaited approvals: %w", err)
	}
	counts := map[int64]int{}
	_, err = db.Collect(rows, func(rows *sql.Rows) (struct{}, error) {
		id, n, err := db.ScanCount(rows)
		counts[id] = n
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting awaited approvals: %w", err)
	}
	return counts, nil
}

// UsesPicture reports whether a certificate that is not approved yet uses a picture of a user's signature.
// digest is the SHA-256 digest of the picture.
func UsesPicture(ctx context.Context, q db.Queryer, institutionID, userID int64, digest []byte) (used bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM certificate_signatures s JOIN certificates c ON c.id = s.certificate_id
			WHERE s.institution_id = $1 AND s.user_id = $2 AND s.picture_sha256 = $3 AND c.status IN ('pending', 'processing', 'failed'))`,
		institutionID, userID, digest).Scan(&used)
	if err != nil {
		return false, fmt.Errorf("looking for a picture of a signature: %w", err)
	}
	return used, nil
}
