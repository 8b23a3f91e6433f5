package application

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/seal"
)

// FilePicture draws a page of an attachment as PNG. Pages count from 1. Reviewers see pictures instead of
// files, because a browser shows no PDF in a sandbox. The errors are those of OpenFile, and fault.Invalid if
// the file cannot be drawn.
func (s *Service) FilePicture(ctx context.Context, institutionID int64, uuid, fileID string, page int) ([]byte, error) {
	f := &cert.File{}
	var kind string
	err := s.db.QueryRowContext(ctx, `
		SELECT f.name, f.type, f.size, f.file_key FROM application_files f JOIN applications a ON a.id = f.application_id
		WHERE a.institution_id = $1 AND a.uuid = $2 AND f.uuid = $3 AND f.file_key IS NOT NULL`, institutionID, uuid, fileID).Scan(&f.Name, &kind, &f.Size, &f.Key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoFile
	}
	if err != nil {
		return nil, fmt.Errorf("reading an attachment: %w", err)
	}
	f.Type = seal.MediaType(kind)
	return s.certs.Picture(ctx, f, page)
}
