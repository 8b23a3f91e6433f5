package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Links to an institution contain its slug. Links with a former slug continue to work, so no other
// institution can get this slug. Certificates and credentials contain no slug.

var (
	slugRule     = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)
	errSlugTaken = fault.OfField("slug", "Another institution has or had this name in web addresses. Choose another one.")
)

// InstitutionBySlug returns the institution that has a slug, or had it earlier. The error is
// fault.NotFound if there is none. Pages redirect requests with a former slug to the current slug.
func (s *Service) InstitutionBySlug(ctx context.Context, slug string) (*Institution, error) {
	i, err := scanInstitution(s.db.QueryRowContext(ctx, `SELECT `+InstitutionColumns+` FROM institutions i WHERE i.slug = $1`, slug))
	if !errors.Is(err, errNoInstitution) {
		return i, err
	}
	return scanInstitution(s.db.QueryRowContext(ctx, `
		SELECT `+InstitutionColumns+` FROM former_slugs f JOIN institutions i ON i.id = f.institution_id WHERE f.slug = $1`, slug))
}

// SetSlug changes the slug of an institution. The error is fault.Invalid if the slug is not valid, or if
// another institution has or had it, and fault.NotFound if there is no such institution.
func (s *Service) SetSlug(ctx context.Context, id int64, slug string) error {
	if len(slug) < minPrefix || len(slug) > maxSlug || !slugRule.MatchString(slug) {
		return fault.OfField("slug", fmt.Sprintf("The name in web addresses must have %d to %d letters a to z, digits and single hyphens between them.", minPrefix, maxSlug))
	}
	err := s.operate(ctx, id, "changing the slug of an institution", func(tx *db.Tx, i *Institution) (*audit.Entry, error) {
		if i.Slug == slug {
			return nil, nil //nolint:nilnil // nothing changes
		}
		// The institution can return to one of its own former slugs.
		if _, err := tx.ExecContext(ctx, `DELETE FROM former_slugs WHERE slug = $1 AND institution_id = $2`, slug, id); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE institutions SET slug = $2 WHERE id = $1`, id, slug); err != nil {
			return nil, err
		}
		if err := checkSlugTx(ctx, tx, slug); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO former_slugs (slug, institution_id, given_up_at) VALUES ($1, $2, $3)`, i.Slug, id, db.Micros(s.now())); err != nil {
			return nil, err
		}
		return &audit.Entry{Action: audit.InstitutionMoved, Detail: audit.Detail{"slug": map[string]string{"from": i.Slug, "to": slug}}}, nil
	})
	if db.UniqueOn(err, "institutions", "slug") {
		return errSlugTaken
	}
	return err
}

// checkSlugTx returns errSlugTaken if a slug is a former slug. The caller must store the slug in
// institutions first: because of the unique index, that statement waits for a concurrent transaction that
// replaces this slug of another institution.
func checkSlugTx(ctx context.Context, tx *db.Tx, slug string) error {
	var id int64
	err := tx.QueryRowContext(ctx, `SELECT institution_id FROM former_slugs WHERE slug = $1`, slug).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading former slugs: %w", err)
	}
	return errSlugTaken
}
