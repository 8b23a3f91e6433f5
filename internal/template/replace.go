package template

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
)

// ReplaceDesign replaces the design of the draft of a template. If the template has no draft,
// ReplaceDesign creates the next draft. It moves or shrinks only the fields that are not completely on
// their pages of the new design; moved has their ids. n has a design or the name of a built-in one, and
// n.Name is ignored. The errors are those of Create and Save.
func (s *Service) ReplaceDesign(ctx context.Context, uuid string, revision int64, n NewTemplate) (_ *Template, moved []string, err error) {
	inst := n.Institution
	t, err := s.ByUUID(ctx, inst.ID, uuid)
	if err != nil {
		return nil, nil, err
	}
	if err := t.basedOn(revision); err != nil {
		return nil, nil, err
	}
	d, fresh, err := s.newDesign(ctx, &n)
	if err != nil {
		return nil, nil, err
	}
	key := cert.NewKey(inst.UUID, cert.DesignKind)
	err = s.store(ctx, key, d.PDF, func(tx *db.Tx) error {
		t, err := s.lockTx(ctx, tx, inst.ID, uuid)
		if err != nil {
			return err
		}
		if err := t.basedOn(revision); err != nil {
			return err
		}
		next := *t.Latest()
		next.Layout, moved = next.Layout.Place(d.Pages)
		next.Layout.Alt = fresh.Alt // Alt describes the design
		next.designKey, next.Pages, next.Warnings = key, d.Pages, d.Warnings
		return s.storeDraftTx(ctx, tx, t, &next)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("replacing the design of a template: %w", err)
	}
	t, err = s.ByUUID(ctx, inst.ID, uuid)
	return t, moved, err
}

// basedOn returns the error for a change that is based on a revision, or nil if the change can be made.
func (t *Template) basedOn(revision int64) error {
	switch latest := t.Latest(); {
	case t.ArchivedAt != nil:
		return errArchived
	case latest == nil || latest.Revision != revision:
		return errRevision
	}
	return nil
}

// storeDraftTx stores a changed version as the draft of a template. next.Revision is the revision on which
// the change is based.
func (s *Service) storeDraftTx(ctx context.Context, tx *db.Tx, t *Template, next *Version) error {
	now := s.moment()
	next.Revision++
	if _, err := tx.ExecContext(ctx, `UPDATE templates SET updated_at = $1 WHERE id = $2`, db.Micros(now), t.ID); err != nil {
		return err
	}
	if t.Draft == nil {
		next.Number++
		return s.insertDraftTx(ctx, tx, next, now)
	}
	stored, err := next.encode()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE template_versions SET revision = $1, design_key = $2, pages = $3, layout = $4, warnings = $5, updated_at = $6 WHERE id = $7`,
		next.Revision, next.designKey, stored.pages, stored.layout, stored.warnings, db.Micros(now), t.Draft.ID)
	return err
}

// encodedVersion has the values of a version that are stored as JSON.
type encodedVersion struct{ pages, layout, warnings string }

// encode returns the JSON of the version. The errors are those of the function encode.
func (v *Version) encode() (e encodedVersion, err error) {
	if v.Layout.Fields == nil {
		v.Layout.Fields = []design.Field{}
	}
	if e.layout, err = encode(&v.Layout); err != nil {
		return e, err
	}
	pages, err := json.Marshal(append([]design.Page{}, v.Pages...)) // [] instead of null
	if err != nil {
		return e, fmt.Errorf("encoding pages: %w", err)
	}
	warnings, err := json.Marshal(append([]design.Warning{}, v.Warnings...))
	if err != nil {
		return e, fmt.Errorf("encoding warnings: %w", err)
	}
	e.pages, e.warnings = string(pages), string(warnings)
	return e, nil
}
