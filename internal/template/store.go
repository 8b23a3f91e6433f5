package template

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

const (
	templateColumns = `id, uuid, institution_id, name, archived_at, created_at, updated_at`
	versionColumns  = `id, template_id, institution_id, number, state, revision, design_key, pages, layout, warnings, fonts, base_key, published_at,
		published_by, in_order, created_at, updated_at`
)

type scanner interface{ Scan(dest ...any) error }

func scanTemplate(row scanner) (*Template, error) {
	t := &Template{}
	var archived sql.NullInt64
	var created, updated int64
	if err := row.Scan(&t.ID, &t.UUID, &t.InstitutionID, &t.Name, &archived, &created, &updated); err != nil {
		return nil, err
	}
	t.ArchivedAt, t.CreatedAt, t.UpdatedAt = db.OptionalTime(archived), db.Time(created), db.Time(updated)
	return t, nil
}

func scanVersion(row scanner) (*Version, error) {
	v := &Version{}
	var pages, layout, warnings, fonts string
	var base, by sql.NullString
	var published sql.NullInt64
	var created, updated int64
	if err := row.Scan(&v.ID, &v.templateID, &v.institutionID, &v.Number, &v.State, &v.Revision, &v.designKey, &pages, &layout, &warnings, &fonts, &base,
		&published, &by, &v.InOrder, &created, &updated); err != nil {
		return nil, err
	}
	v.baseKey, v.PublishedBy = base.String, by.String
	v.PublishedAt, v.CreatedAt, v.UpdatedAt = db.OptionalTime(published), db.Time(created), db.Time(updated)
	if err := errors.Join(json.Unmarshal([]byte(pages), &v.Pages), json.Unmarshal([]byte(layout), &v.Layout),
		json.Unmarshal([]byte(warnings), &v.Warnings), json.Unmarshal([]byte(fonts), &v.fonts)); err != nil {
		return nil, fmt.Errorf("reading a version: %w", err)
	}
	return v, nil
}

// List returns the templates of an institution, newest first, with their draft and published versions.
func (s *Service) List(ctx context.Context, institutionID int64, f Filter) ([]*Template, error) {
	query := `SELECT ` + templateColumns + ` FROM templates WHERE institution_id = $1 AND (archived_at IS NOT NULL) = $2`
	args := []any{institutionID, f.Archived}
	if text := cert.FoldText(f.Search); text != "" {
		query += ` AND name_folded LIKE $3 ESCAPE '\'`
		args = append(args, "%"+db.EscapeLike(text)+"%")
	}
	rows, err := s.db.QueryContext(ctx, query+` ORDER BY id DESC`, args...)
	if err != nil {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Template, error) { return scanTemplate(rows) })
	if err != nil {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	return list, s.addVersions(ctx, institutionID, list)
}

// ByUUID returns a template of an institution. The error is fault.NotFound if there is none.
func (s *Service) ByUUID(ctx context.Context, institutionID int64, uuid string) (*Template, error) {
	t, err := scanTemplate(s.db.QueryRowContext(ctx, `SELECT `+templateColumns+` FROM templates WHERE institution_id = $1 AND uuid = $2`, institutionID, uuid))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a template: %w", err)
	}
	return t, s.addVersions(ctx, institutionID, []*Template{t})
}

// addVersions sets Draft and Published of templates.
func (s *Service) addVersions(ctx context.Context, institutionID int64, list []*Template) error {
	if len(list) == 0 {
		return nil
	}
	byID := map[int64]*Template{}
	for _, t := range list {
		byID[t.ID] = t
	}
	where, args := `institution_id = $1 AND state IN ('draft', 'published')`, []any{institutionID}
	if len(list) == 1 {
		where, args = where+` AND template_id = $2`, append(args, list[0].ID)
	}
	versions, err := versions(ctx, s.db, where, args...)
	if err != nil {
		return err
	}
	for _, v := range versions {
		switch t := byID[v.templateID]; {
		case t == nil:
		case v.State == StateDraft:
			t.Draft = v
		default:
			t.Published = v
		}
	}
	return nil
}

// CountIssued sets the field Issued of templates of an institution.
func (s *Service) CountIssued(ctx context.Context, institutionID int64, list ...*Template) error {
	byID := map[int64]*Template{}
	for _, t := range list {
		byID[t.ID], t.Issued = t, 0
	}
	rows, err := s.db.QueryContext(ctx, `SELECT id, template_id FROM template_versions WHERE institution_id = $1 AND state <> 'draft'`, institutionID)
	if err != nil {
		return fmt.Errorf("listing versions: %w", err)
	}
	templates := map[int64]*Template{}
	if _, err := db.Collect(rows, func(rows *sql.Rows) (_ struct{}, err error) {
		var id, template int64
		if err = rows.Scan(&id, &template); err == nil && byID[template] != nil {
			templates[id] = byID[template]
		}
		return struct{}{}, err
	}); err != nil {
		return fmt.Errorf("listing versions: %w", err)
	}
	counts, err := s.batches.Issued(ctx, institutionID, slices.Sorted(maps.Keys(templates)))
	if err != nil {
		return err
	}
	single, err := cert.SingleOfTemplates(ctx, s.db, institutionID, slices.Sorted(maps.Keys(templates)))
	if err != nil {
		return err
	}
	for id, t := range templates {
		t.Issued += counts[id] + single[id]
	}
	return nil
}

// Versions returns all versions of a template, the newest first. The error is fault.NotFound if there
// is no such template.
func (s *Service) Versions(ctx context.Context, institutionID int64, uuid string) ([]*Version, error) {
	t, err := s.ByUUID(ctx, institutionID, uuid)
	if err != nil {
		return nil, err
	}
	return versions(ctx, s.db, `institution_id = $1 AND template_id = $2`, institutionID, t.ID)
}

func versions(ctx context.Context, q db.Queryer, where string, args ...any) ([]*Version, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+versionColumns+` FROM template_versions WHERE `+where+` ORDER BY number DESC`, args...)
	if err != nil {
		return nil, fmt.Errorf("listing versions: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Version, error) { return scanVersion(rows) })
	if err != nil {
		return nil, fmt.Errorf("listing versions: %w", err)
	}
	return list, addSignatories(ctx, q, list)
}

// Names maps the ids of versions of an institution to their names. It is used as batch.Config.Templates.
func (s *Service) Names(ctx context.Context, institutionID int64, versionIDs []int64) (map[int64]batch.TemplateName, error) {
	names, err := db.ByID(ctx, s.db, institutionID, versionIDs, func(list string) string {
		return `SELECT v.id, t.uuid, t.name, v.number FROM template_versions v JOIN templates t ON t.id = v.template_id
			WHERE v.institution_id = $1 AND v.id IN (` + list + `)`
	}, func(rows *sql.Rows) (id int64, n batch.TemplateName, err error) {
		err = rows.Scan(&id, &n.ID, &n.Name, &n.Version)
		return id, n, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the names of templates: %w", err)
	}
	return names, nil
}
