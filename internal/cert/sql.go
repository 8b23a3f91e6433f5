package cert

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// Columns are the columns that Scan reads.
const Columns = `id, uuid, institution_id, reference_id, title, full_name, email, issue_date, details, source, trigger_context, event_context,
	status, failure_code, failure_message, batch_id, customer_id, creator_type, creator_id, creator_name,
	file_name, mime_type, size, sha256, sha256_state, original_key, tail_key, whole, verified_sha256, verified_size, image_key,
	placement, placement_page, placement_box, notices, job_id, crashes,
	created_at, updated_at, approved_at, revoked_at, revocation_reason, revocation_note, files_ended_at,
	template_version_id, template_values, fields_size, replaces, replaces_reference, replaced_by, replaced_by_reference, lineage, expires_on`

// Scan reads a certificate from a row of Columns.
func Scan(row interface{ Scan(dest ...any) error }) (*Certificate, error) {
	var c Certificate
	var details, failureCode, failureMessage, batch, tailKey, imageKey, placement, box, reason, note, values, expires sql.NullString
	var customer, creatorID, verifiedSize, page, jobID, approved, revoked, filesEnded, version, fieldsSize sql.NullInt64
	var replaces, replacesReference, replacedBy, replacedByReference, lineage sql.NullString
	var digest, verifiedDigest []byte
	var whole bool
	var notices string
	var created, updated int64
	if err := row.Scan(&c.ID, &c.UUID, &c.InstitutionID, &c.ReferenceID, &c.Title, &c.FullName, &c.Email, &c.IssueDate, &details,
		&c.Source, &c.TriggerContext, &c.EventContext,
		&c.Status, &failureCode, &failureMessage, &batch, &customer, &c.Creator.Type, &creatorID, &c.Creator.Name,
		&c.File.Name, &c.File.Type, &c.File.Size, &digest, &c.File.State, &c.File.Key, &tailKey, &whole, &verifiedDigest, &verifiedSize, &imageKey,
		&placement, &page, &box, &notices, &jobID, &c.crashes,
		&created, &updated, &approved, &revoked, &reason, &note, &filesEnded,
		&version, &values, &fieldsSize, &replaces, &replacesReference, &replacedBy, &replacedByReference, &lineage, &expires); err != nil {
		return nil, err
	}
	copy(c.File.SHA256[:], digest)
	c.Details, c.BatchID, c.CustomerID, c.Creator.ID = details.String, batch.String, customer.Int64, creatorID.Int64
	if failureCode.Valid {
		c.Failure = &Failure{Code: failureCode.String, Message: failureMessage.String}
	}
	if tailKey.Valid {
		c.Verified = &Verified{TailKey: tailKey.String, Whole: whole, Size: verifiedSize.Int64}
		copy(c.Verified.SHA256[:], verifiedDigest)
	}
	if version.Valid {
		c.Template = &TemplateUse{VersionID: version.Int64, FieldsSize: fieldsSize.Int64}
		if values.Valid {
			c.Template.Values = json.RawMessage(values.String)
		}
	}
	c.imageKey, c.jobID = imageKey.String, jobID.Int64
	c.Placement, c.PlacementPage = placement.String, int(page.Int64)
	if box.Valid {
		c.PlacementBox = new(seal.Box)
		if err := json.Unmarshal([]byte(box.String), c.PlacementBox); err != nil {
			return nil, fmt.Errorf("reading the position of the stamp: %w", err)
		}
	}
	if err := json.Unmarshal([]byte(notices), &c.Notices); err != nil {
		return nil, fmt.Errorf("reading notices: %w", err)
	}
	c.CreatedAt, c.UpdatedAt = db.Time(created), db.Time(updated)
	c.ApprovedAt, c.RevokedAt = db.OptionalTime(approved), db.OptionalTime(revoked)
	c.FilesDeletedAt = db.OptionalTime(filesEnded)
	c.Replaces, c.ReplacedBy, c.lineage = linkOf(replaces, replacesReference), linkOf(replacedBy, replacedByReference), lineage.String
	c.RevocationReason, c.RevocationNote = reason.String, note.String
	c.ExpiresOn = expires.String
	return &c, nil
}

// optional returns the value for a text column: nil, which means NULL, for the empty text.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

var errNotFound = fault.New(fault.NotFound, "No such certificate.")

// ByUUID returns a certificate of an institution. It returns a fault of kind NotFound for an
// unknown certificate and for a certificate of another institution.
func (s *Service) ByUUID(ctx context.Context, institutionID int64, uuid string) (*Certificate, error) {
	return scanRow(s.db.QueryRowContext(ctx,
		`SELECT `+Columns+` FROM certificates WHERE uuid = $1 AND institution_id = $2 AND source <> 'closed'`, uuid, institutionID))
}

// byUUID returns a certificate of any institution. The caller must check permissions.
func byUUID(ctx context.Context, q db.Queryer, uuid string) (*Certificate, error) {
	return scanRow(q.QueryRowContext(ctx, `SELECT `+Columns+` FROM certificates WHERE uuid = $1`, uuid))
}

// BySignedLink returns the certificate of a signed link. The link is the permission, so the
// institution is not checked.
func (s *Service) BySignedLink(ctx context.Context, uuid string) (*Certificate, error) {
	return byUUID(ctx, s.db, uuid)
}

// ByIDs returns certificates of any institution in the order of the ids. It ignores unknown ids. The
// caller must check permissions.
func (s *Service) ByIDs(ctx context.Context, ids []int64) ([]*Certificate, error) {
	return byIDs(ctx, s.db, ids)
}

func byIDs(ctx context.Context, q db.Queryer, ids []int64) (list []*Certificate, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	rows, err := q.QueryContext(ctx, `SELECT `+Columns+` FROM certificates WHERE id IN (`+db.Placeholders(1, len(args))+`)`, args...)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	if list, err = db.Collect(rows, func(rows *sql.Rows) (*Certificate, error) { return Scan(rows) }); err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	slices.SortFunc(list, func(a, b *Certificate) int { return cmp.Compare(slices.Index(ids, a.ID), slices.Index(ids, b.ID)) })
	return list, nil
}

// ByReference returns the certificate of a typed reference id, or a fault of kind NotFound.
func (s *Service) ByReference(ctx context.Context, typed string) (*Certificate, error) {
	folded := FoldReference(typed)
	if folded == "" {
		return nil, errNotFound
	}
	return scanRow(s.db.QueryRowContext(ctx, `SELECT `+Columns+` FROM certificates WHERE reference_folded = $1 AND source <> 'closed'`, folded))
}

func scanRow(row *sql.Row) (*Certificate, error) {
	c, err := Scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	return c, nil
}
