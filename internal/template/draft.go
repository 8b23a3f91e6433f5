package template

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// lockTx returns a template of an institution with its draft and its published version. No other
// transaction can change the template until tx ends.
func (s *Service) lockTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string) (*Template, error) {
	t, err := scanTemplate(tx.QueryRowContext(ctx, `
		UPDATE templates SET updated_at = updated_at WHERE institution_id = $1 AND uuid = $2 RETURNING `+templateColumns, institutionID, uuid))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, err
	}
	list, err := versions(ctx, tx, `institution_id = $1 AND template_id = $2 AND state IN ('draft', 'published')`, institutionID, t.ID)
	for _, v := range list {
		if v.State == StateDraft {
			t.Draft = v
		} else {
			t.Published = v
		}
	}
	return t, err
}

// change runs f in a transaction that locks a template, and returns the changed template. what is the
// prefix of errors.
func (s *Service) change(ctx context.Context, inst *account.Institution, uuid, what string, f func(tx *db.Tx, t *Template, now time.Time) error) (*Template, error) {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		t, err := s.lockTx(ctx, tx, inst.ID, uuid)
		if err != nil {
			return err
		}
		return f(tx, t, s.moment())
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return s.ByUUID(ctx, inst.ID, uuid)
}

// Save changes the name and the draft of a template. If the template has no draft and the layout differs
// from that of the published version, Save creates the next draft. The layout may have problems, which
// prevent only its publication. The error is fault.Conflict if the revision is not the current one,
// fault.BadRequest if the template is archived, and fault.Invalid if the name or the layout cannot be
// stored.
func (s *Service) Save(ctx context.Context, inst *account.Institution, uuid string, d Draft) (*Template, error) {
	return s.change(ctx, inst, uuid, "saving a template", func(tx *db.Tx, t *Template, now time.Time) error {
		if err := t.basedOn(d.Revision); err != nil {
			return err
		}
		if err := renameTx(ctx, tx, t, d.Name, now); err != nil {
			return err
		}
		next := *t.Latest()
		if reflect.DeepEqual(next.Layout, d.Layout) {
			return nil
		}
		next.Layout = d.Layout
		return s.storeDraftTx(ctx, tx, t, &next)
	})
}

// renameTx changes the name of a template, unless the new name is empty, and the time of its last change.
func renameTx(ctx context.Context, tx *db.Tx, t *Template, name string, now time.Time) error {
	if name == "" {
		name = t.Name
	}
	name, err := checkName(name)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE templates SET name = $1, name_folded = $2, updated_at = $3 WHERE id = $4`, name, cert.FoldText(name), db.Micros(now), t.ID)
	return err
}

// Archive archives a template. No more certificates are issued from it, and its certificates do not
// change.
func (s *Service) Archive(ctx context.Context, inst *account.Institution, uuid string) error {
	return s.setArchived(ctx, inst, uuid, "archiving a template", true, audit.TemplateArchived)
}

// Unarchive makes an archived template available again.
func (s *Service) Unarchive(ctx context.Context, inst *account.Institution, uuid string) error {
	return s.setArchived(ctx, inst, uuid, "unarchiving a template", false, audit.TemplateUnarchived)
}

func (s *Service) setArchived(ctx context.Context, inst *account.Institution, uuid, what string, archived bool, action audit.Action) error {
	_, err := s.change(ctx, inst, uuid, what, func(tx *db.Tx, t *Template, now time.Time) error {
		if archived == (t.ArchivedAt != nil) {
			return nil
		}
		at := sql.NullInt64{Int64: db.Micros(now), Valid: archived}
		if _, err := tx.ExecContext(ctx, `UPDATE templates SET archived_at = $1, updated_at = $2 WHERE id = $3`, at, db.Micros(now), t.ID); err != nil {
			return err
		}
		return recordTx(ctx, tx, action, inst.ID, uuid, t.Name, now, nil)
	})
	return err
}

// Duplicate creates a template with a copy of the draft, or of the published version if there is no
// draft. If name is empty, the copy has the name of the template followed by "(copy)".
func (s *Service) Duplicate(ctx context.Context, inst *account.Institution, uuid, name string) (*Template, error) {
	var id string
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		t, err := s.lockTx(ctx, tx, inst.ID, uuid)
		if err != nil {
			return err
		}
		if name == "" {
			const suffix = " (copy)"
			runes := []rune(t.Name)
			name = string(runes[:min(len(runes), maxName-len(suffix))]) + suffix
		}
		if name, err = checkName(name); err != nil {
			return err
		}
		id, err = s.insertTx(ctx, tx, inst, name, audit.TemplateDuplicated, func(id int64) *Version {
			copied := *t.Latest()
			copied.Number, copied.Revision, copied.templateID = 1, 1, id
			return &copied
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("duplicating a template: %w", err)
	}
	return s.ByUUID(ctx, inst.ID, id)
}

// DeleteDraft deletes the draft of a template. If the template was never published, DeleteDraft deletes
// the template too, and returns nil. The error is fault.BadRequest if there is no draft.
func (s *Service) DeleteDraft(ctx context.Context, inst *account.Institution, uuid string) (*Template, error) {
	deleted := false
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		t, err := s.lockTx(ctx, tx, inst.ID, uuid)
		switch {
		case err != nil:
			return err
		case t.Draft == nil:
			return errNoDraft
		}
		if err := deleteSignatoriesTx(ctx, tx, t.Draft.ID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM template_versions WHERE id = $1`, t.Draft.ID); err != nil {
			return err
		}
		now := s.moment()
		if t.Published != nil {
			_, err := tx.ExecContext(ctx, `UPDATE templates SET updated_at = $1 WHERE id = $2`, db.Micros(now), t.ID)
			return err
		}
		deleted = true
		if _, err := tx.ExecContext(ctx, `DELETE FROM templates WHERE id = $1`, t.ID); err != nil {
			return err
		}
		return recordTx(ctx, tx, audit.TemplateDeleted, inst.ID, uuid, t.Name, now, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("deleting a draft: %w", err)
	}
	if deleted {
		return nil, nil //nolint:nilnil // nil means that the template is deleted
	}
	return s.ByUUID(ctx, inst.ID, uuid)
}
