package bulkimport

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Status is the state of a draft.
type Status string

const (
	// Open drafts are in preparation.
	Open Status = "open"
	// Submitting drafts were submitted, but not all their batches exist. They no longer change.
	Submitting Status = "submitting"
	// Submitted drafts have all their batches, except those that were refused.
	Submitted Status = "submitted"
)

// Draft is a bulk upload, before and after its submission.
type Draft struct {
	ID            int64
	UUID          string
	InstitutionID int64
	Creator       cert.Actor
	Status        Status
	// ListName is the file name of the list, or "" if there is no list. Header has the names of the
	// list's columns, and Notices has the notices from reading the list.
	ListName string
	Header   []string
	Notices  []string
	Mapping  Mapping
	// Mapped reports whether a person has confirmed the meanings of the columns.
	Mapped bool
	// Wanted is the placement for all rows without a placement of their own; nil means the institution's
	// default.
	Wanted *cert.RequestedPlacement
	// Placed reports whether a person has chosen the placement for all rows, even if it is the
	// default.
	Placed bool
	// Template is the template of the certificates, or nil if the rows have files. In the result of
	// List, it has only the ids and the name of the template, and the number of the version.
	Template *Template
	// Total is the number of rows of the list.
	Total int
	// Done reports whether all submitted rows are finished. Only List sets it.
	Done        bool
	CreatedAt   time.Time
	ExpiresAt   time.Time
	SubmittedAt *time.Time
	// Notify is the time of the mail about the certificates. It is set before the submission.
	Notify cert.Notify

	// actor is the person who submitted the draft, with the remote address.
	actor audit.Actor
	// versionID is the id of the version of the template, or 0 without a template.
	versionID int64
}

const draftColumns = `id, uuid, institution_id, creator_id, creator_name, status, list_name, header, notices, mapping, mapped, wanted, placed, total,
	actor, created_at, expires_at, submitted_at, coalesce(template_version_id, 0), notify`

func scanDraft(row interface{ Scan(dest ...any) error }) (*Draft, error) {
	d := &Draft{Creator: cert.Actor{Type: "user"}}
	var header, notices, mapping, actor, notify string
	var created, expires int64
	var submitted sql.NullInt64
	var wanted sql.NullString
	if err := row.Scan(&d.ID, &d.UUID, &d.InstitutionID, &d.Creator.ID, &d.Creator.Name, &d.Status, &d.ListName, &header, &notices, &mapping,
		&d.Mapped, &wanted, &d.Placed, &d.Total, &actor, &created, &expires, &submitted, &d.versionID, &notify); err != nil {
		return nil, err
	}
	d.Notify = cert.ReadNotify(notify)
	d.CreatedAt, d.ExpiresAt, d.SubmittedAt = db.Time(created), db.Time(expires), db.OptionalTime(submitted)
	return d, errors.Join(decode(header, &d.Header), decode(notices, &d.Notices), decode(mapping, &d.Mapping), decode(actor, &d.actor), decodePlacement(wanted, &d.Wanted))
}

// Create creates a draft for a person.
func (s *Service) Create(ctx context.Context, inst *account.Institution, creator cert.Actor) (*Draft, error) {
	return s.create(ctx, inst, creator, 0)
}

func (s *Service) create(ctx context.Context, inst *account.Institution, creator cert.Actor, versionID int64) (*Draft, error) {
	var d *Draft
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		d, err = s.createTx(ctx, tx, inst.ID, creator, versionID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating a bulk upload: %w", err)
	}
	return d, nil
}

func (s *Service) createTx(ctx context.Context, tx *db.Tx, institutionID int64, creator cert.Actor, versionID int64) (*Draft, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	var n int
	if err := tx.QueryRowContext(ctx, `
		SELECT count(*) FROM bulk_import_drafts WHERE institution_id = $1 AND creator_id = $2 AND status = $3 AND expires_at > $4`,
		institutionID, creator.ID, string(Open), db.Micros(now)).Scan(&n); err != nil {
		return nil, err
	}
	if n >= maxDrafts {
		return nil, fault.New(fault.BadRequest, fmt.Sprintf("You have %d bulk uploads that are not submitted. Submit or discard one of them first.", n))
	}
	return scanDraft(tx.QueryRowContext(ctx, `
		INSERT INTO bulk_import_drafts (uuid, institution_id, creator_id, creator_name, status, created_at, expires_at, template_version_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING `+draftColumns,
		uuid.Must(uuid.NewV7()).String(), institutionID, creator.ID, creator.Name, string(Open), db.Micros(now), db.Micros(now.Add(Life)),
		sql.NullInt64{Int64: versionID, Valid: versionID != 0}))
}

// ByUUID returns a draft of an institution for one of its members. An open draft is visible only to
// its creator, and a submitted draft to all members. An expired draft is not visible. If the draft
// is not visible, the error is fault.NotFound.
func (s *Service) ByUUID(ctx context.Context, institutionID, userID int64, id string) (*Draft, error) {
	d, err := scanDraft(s.db.QueryRowContext(ctx, `
		SELECT `+draftColumns+` FROM bulk_import_drafts
		WHERE uuid = $1 AND institution_id = $2 AND expires_at > $3 AND (creator_id = $4 OR status <> $5)`,
		id, institutionID, db.Micros(s.now()), userID, string(Open)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a bulk upload: %w", err)
	}
	return d, s.loadTemplate(ctx, d)
}

// maxListed is the maximum number of drafts in a list.
const maxListed = 100

// List returns the newest drafts of an institution that are visible to a member, at most maxListed.
func (s *Service) List(ctx context.Context, institutionID, userID int64) (list []*Draft, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+draftColumns+` FROM bulk_import_drafts
		WHERE institution_id = $1 AND expires_at > $2 AND (creator_id = $3 OR status <> $4) ORDER BY id DESC LIMIT $5`,
		institutionID, db.Micros(s.now()), userID, string(Open), maxListed)
	if err != nil {
		return nil, fmt.Errorf("listing bulk uploads: %w", err)
	}
	if list, err = scanDrafts(rows); err != nil {
		return nil, fmt.Errorf("listing bulk uploads: %w", err)
	}
	if err := s.setDone(ctx, institutionID, list); err != nil {
		return nil, err
	}
	return list, s.nameTemplates(ctx, institutionID, list)
}

// changeTx locks an open draft until the transaction ends, so that the draft is not submitted
// during the change. The error is fault.BadRequest if the draft was submitted or deleted, or has
// expired.
func (s *Service) changeTx(ctx context.Context, tx *db.Tx, d *Draft) error {
	var id int64
	err := tx.QueryRowContext(ctx, `
		UPDATE bulk_import_drafts SET total = total WHERE id = $1 AND status = $2 AND expires_at > $3 RETURNING id`,
		d.ID, string(Open), db.Micros(s.now())).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.BadRequest, "This bulk upload was submitted or discarded or has expired, so it can no longer be changed.")
	}
	return err
}

// update runs f in a transaction that locks the draft. what describes the operation in errors.
func (s *Service) update(ctx context.Context, d *Draft, what string, f func(tx *db.Tx) error) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.changeTx(ctx, tx, d); err != nil {
			return err
		}
		return f(tx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Discard deletes a draft that was not submitted, with its files.
func (s *Service) Discard(ctx context.Context, d *Draft) error {
	return s.update(ctx, d, "discarding a bulk upload", func(tx *db.Tx) error { return s.removeTx(ctx, tx, d) })
}

// removeTx deletes a draft. If the draft was not submitted, its files expire, so that sweeps delete them
// later. Files to which batches or other drafts refer are not deleted.
func (s *Service) removeTx(ctx context.Context, tx *db.Tx, d *Draft) error {
	if d.Status == Open {
		// A draft that was created from rejected rows shares files with the earlier draft.
		staged, err := db.Column[string](tx.QueryContext(ctx, `SELECT f.staged_uuid FROM bulk_import_files f WHERE f.draft_id = $1 AND f.staged_uuid IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM bulk_import_files o WHERE o.staged_uuid = f.staged_uuid AND o.draft_id <> f.draft_id)`, d.ID))
		if err != nil {
			return err
		}
		if err := s.batches.SetExpiryTx(ctx, tx, d.InstitutionID, staged, s.now()); err != nil {
			return err
		}
	}
	for _, statement := range []string{
		`DELETE FROM bulk_import_rows WHERE draft_id = $1`, `DELETE FROM bulk_import_files WHERE draft_id = $1`, `DELETE FROM bulk_import_archives WHERE draft_id = $1`,
		`DELETE FROM bulk_import_batches WHERE draft_id = $1`, `DELETE FROM bulk_import_drafts WHERE id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, d.ID); err != nil {
			return err
		}
	}
	return nil
}

// Sweep deletes expired drafts, except those that are being submitted, and inserts missing jobs.
func (s *Service) Sweep(ctx context.Context) error {
	for {
		rows, err := s.db.QueryContext(ctx, `SELECT `+draftColumns+` FROM bulk_import_drafts WHERE expires_at <= $1 AND status <> $2 ORDER BY expires_at LIMIT 1`,
			db.Micros(s.now()), string(Submitting))
		if err != nil {
			return fmt.Errorf("finding expired bulk uploads: %w", err)
		}
		list, err := scanDrafts(rows)
		if err != nil {
			return fmt.Errorf("finding expired bulk uploads: %w", err)
		}
		if len(list) == 0 {
			return s.insertMissingJobs(ctx)
		}
		for d := range slices.Values(list) {
			if err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.removeTx(ctx, tx, d) }); err != nil {
				return fmt.Errorf("deleting an expired bulk upload: %w", err)
			}
		}
	}
}

func scanDrafts(rows *sql.Rows) ([]*Draft, error) {
	return db.Collect(rows, func(rows *sql.Rows) (*Draft, error) { return scanDraft(rows) })
}
