package search

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxSavedViews is the maximum number of saved views of a member.
	maxSavedViews = 30
	// maxSavedName is the maximum number of characters of the name of a saved view. maxSavedQuery
	// is the maximum number of bytes of its query.
	maxSavedName, maxSavedQuery = 60, 4096
)

// SavedView is a view of the list that a member has saved.
type SavedView struct {
	UUID, Name string
	// Query is the query string of the list's address.
	Query string
}

// SavedViews returns the saved views of a member, by name.
func (s *Service) SavedViews(ctx context.Context, institutionID, userID int64) ([]SavedView, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT uuid, name, query FROM saved_views WHERE institution_id = $1 AND user_id = $2 ORDER BY name, uuid`, institutionID, userID)
	if err != nil {
		return nil, fmt.Errorf("reading saved views: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (v SavedView, err error) {
		err = rows.Scan(&v.UUID, &v.Name, &v.Query)
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading saved views: %w", err)
	}
	return list, nil
}

// SaveView saves a view of a member. A view with the same name is replaced. SaveView returns a fault
// of kind Invalid if the name or the query is not valid, or if the member has too many views.
func (s *Service) SaveView(ctx context.Context, institutionID, userID int64, name, query string) error {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n < 1 || n > maxSavedName || !account.CleanText(name) {
		return fault.OfField("name", fmt.Sprintf("The name must have 1 to %d characters.", maxSavedName))
	}
	if len(query) > maxSavedQuery {
		return fault.OfField("name", "The filters of this view are too long to be saved.")
	}
	if !account.CleanText(query) {
		return fault.OfField("name", fmt.Sprintf("The filters must be text in UTF-8 without NUL characters, of at most %d bytes.", maxSavedQuery))
	}
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var others int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM saved_views WHERE institution_id = $1 AND user_id = $2 AND name <> $3`,
			institutionID, userID, name).Scan(&others); err != nil {
			return err
		}
		if others >= maxSavedViews {
			return fault.OfField("name", fmt.Sprintf("You can save up to %d views. Delete one first.", maxSavedViews))
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO saved_views (uuid, institution_id, user_id, name, query, created_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (institution_id, user_id, name) DO UPDATE SET query = excluded.query`,
			uuid.Must(uuid.NewV7()).String(), institutionID, userID, name, query, db.Micros(s.now()))
		return err
	})
	if err != nil {
		return fmt.Errorf("saving a view: %w", err)
	}
	return nil
}

// DeleteView deletes a saved view of a member. If the member has no such view, it returns a fault of
// kind NotFound.
func (s *Service) DeleteView(ctx context.Context, institutionID, userID int64, id string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		result, err := tx.ExecContext(ctx, `DELETE FROM saved_views WHERE institution_id = $1 AND user_id = $2 AND uuid = $3`, institutionID, userID, id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return fault.New(fault.NotFound, "You have no such view.")
	})
	if err != nil {
		return fmt.Errorf("deleting a saved view: %w", err)
	}
	return nil
}
