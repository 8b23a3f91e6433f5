package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
)

// InstitutionColumns are the columns of InstitutionRow. The table institutions has the alias i.
const InstitutionColumns = `i.id, i.uuid, i.slug, i.name, i.prefix, i.created_at, i.disabled_at, i.disabled_reason,
	i.limit_storage, i.limit_certificates, i.limit_requests`

// InstitutionRow reads the InstitutionColumns of a row.
type InstitutionRow struct {
	institution Institution
	created     int64
	disabled    sql.NullInt64
}

// Dest returns the destinations for scanning the InstitutionColumns.
func (r *InstitutionRow) Dest() []any {
	i := &r.institution
	return []any{
		&i.ID, &i.UUID, &i.Slug, &i.Name, &i.Prefix, &r.created, &r.disabled, &i.DisabledReason,
		&i.Limits.Storage, &i.Limits.Certificates, &i.Limits.Requests,
	}
}

// Institution returns the institution of the row. The row must have been scanned into Dest before.
func (r *InstitutionRow) Institution() *Institution {
	r.institution.CreatedAt, r.institution.DisabledAt = db.Time(r.created), db.OptionalTime(r.disabled)
	return &r.institution
}

func scanInstitution(row interface{ Scan(dest ...any) error }) (*Institution, error) {
	var r InstitutionRow
	err := row.Scan(r.Dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInstitution
	}
	if err != nil {
		return nil, fmt.Errorf("reading an institution: %w", err)
	}
	return r.Institution(), nil
}

func institutions(rows *sql.Rows, err error) ([]*Institution, error) {
	if err != nil {
		return nil, fmt.Errorf("reading institutions: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Institution, error) { return scanInstitution(rows) })
	if err != nil {
		return nil, fmt.Errorf("reading institutions: %w", err)
	}
	return list, nil
}

// Institution returns the institution with an id, or fault.NotFound.
func (s *Service) Institution(ctx context.Context, id int64) (*Institution, error) {
	return InstitutionByID(ctx, s.db, id)
}

// InstitutionByID returns the institution with an id, or fault.NotFound.
func InstitutionByID(ctx context.Context, q db.Queryer, id int64) (*Institution, error) {
	return scanInstitution(q.QueryRowContext(ctx, `SELECT `+InstitutionColumns+` FROM institutions i WHERE i.id = $1`, id))
}

// InstitutionsOf returns the ids of the institutions that a user belongs to.
func InstitutionsOf(ctx context.Context, q db.Queryer, userID int64) ([]int64, error) {
	list, err := db.Column[int64](q.QueryContext(ctx, `SELECT institution_id FROM members WHERE user_id = $1 ORDER BY institution_id`, userID))
	if err != nil {
		return nil, fmt.Errorf("reading a user's institutions: %w", err)
	}
	return list, nil
}

// Summary is an institution as shown to the recipients of its certificates.
type Summary struct {
	ID         int64
	Slug, Name string
	// Colour is the institution's colour as "#rrggbb", or "" for the vault's colour.
	Colour string
}

// Brand returns the colours of the institution's pages, or nil if the institution has no colour.
func (i *Summary) Brand() *colour.Brand { return BrandOf(i.Colour) }

// Summaries returns the institutions with the ids, sorted by name.
func Summaries(ctx context.Context, q db.Queryer, ids []int64) ([]Summary, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	rows, err := q.QueryContext(ctx, `SELECT id, slug, name, colour FROM institutions WHERE id IN (`+db.Placeholders(1, len(args))+`) ORDER BY name, id`, args...)
	if err != nil {
		return nil, fmt.Errorf("reading institutions: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (i Summary, err error) {
		err = rows.Scan(&i.ID, &i.Slug, &i.Name, &i.Colour)
		return i, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading institutions: %w", err)
	}
	return list, nil
}

// RefusesActive reports whether the institution with a UUID refuses files with JavaScript or other
// actions.
func RefusesActive(ctx context.Context, q db.Queryer, uuid string) (refuses bool, err error) {
	if err := q.QueryRowContext(ctx, `SELECT refuse_active FROM institutions WHERE uuid = $1`, uuid).Scan(&refuses); err != nil {
		return false, fmt.Errorf("checking whether an institution refuses active files: %w", err)
	}
	return refuses, nil
}

// WithKey returns the institutions that have or had a signing key, oldest first.
func WithKey(ctx context.Context, q db.Queryer) ([]*Institution, error) {
	return institutions(q.QueryContext(ctx, `SELECT `+InstitutionColumns+` FROM institutions i WHERE i.key_made_at IS NOT NULL ORDER BY i.id`))
}

// WithoutKey returns the institutions that have never had a signing key, oldest first.
func WithoutKey(ctx context.Context, q db.Queryer) ([]*Institution, error) {
	return institutions(q.QueryContext(ctx, `SELECT `+InstitutionColumns+` FROM institutions i WHERE i.key_made_at IS NULL ORDER BY i.id`))
}

// RecordKeyTx records that an institution has a signing key, and records the creation of the key in
// the audit log.
func RecordKeyTx(ctx context.Context, tx *db.Tx, i *Institution, at time.Time) error {
	if _, err := tx.ExecContext(ctx, `UPDATE institutions SET key_made_at = $1 WHERE id = $2 AND key_made_at IS NULL`, db.Micros(at), i.ID); err != nil {
		return fmt.Errorf("recording the signing key of %s: %w", i.UUID, err)
	}
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: i.ID, At: at, Action: audit.KeyCreated, Subject: audit.Subject{Type: "institution", ID: i.UUID, Name: i.Name},
	})
}

// Purge is a kind of record whose personal data is deleted after an institution's retention period.
// Its value is the name of the column with the id of the last record that was purged.
type Purge string

const (
	// PurgedNotice is the kind of notices to recipients.
	PurgedNotice Purge = "ended_notice"
	// PurgedEvent is the kind of webhook events.
	PurgedEvent Purge = "ended_event"
)

// LastPurged returns the id of the last record of a kind that was purged, or 0.
func LastPurged(ctx context.Context, q db.Queryer, institutionID int64, kind Purge) (id int64, err error) {
	if err := q.QueryRowContext(ctx, `SELECT `+string(kind)+` FROM institutions WHERE id = $1`, institutionID).Scan(&id); err != nil {
		return 0, fmt.Errorf("reading the last purged id: %w", err)
	}
	return id, nil
}

// SetLastPurgedTx records that the records of a kind are purged up to an id.
func SetLastPurgedTx(ctx context.Context, tx *db.Tx, institutionID int64, kind Purge, id int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE institutions SET `+string(kind)+` = $1 WHERE id = $2 AND `+string(kind)+` < $1`, id, institutionID); err != nil {
		return fmt.Errorf("recording the last purged id: %w", err)
	}
	return nil
}

// InstitutionByUUID returns the institution with a UUID, or fault.NotFound.
func InstitutionByUUID(ctx context.Context, q db.Queryer, uuid string) (*Institution, error) {
	return scanInstitution(q.QueryRowContext(ctx, `SELECT `+InstitutionColumns+` FROM institutions i WHERE i.uuid = $1`, uuid))
}
