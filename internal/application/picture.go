package application

import (
	"context"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/seal"
)

// FilePicture draws a page of an attachment as PNG. Pages count from 1. Reviewers see pictures instead of
// files, because browsers do not show a PDF in a sandbox. The error is fault.NotFound if there is no such
// attachment or it was deleted, and fault.Invalid if it cannot be drawn.
func (s *Service) FilePicture(ctx context.Context, institutionID int64, uuid, fileID string, page int) ([]byte, error) {
	f, key, err := s.file(ctx, ofInstitution, institutionID, uuid, fileID)
	if err != nil {
		return nil, err
	}
	return s.certs.Picture(ctx, &cert.File{Name: f.Name, Type: seal.MediaType(f.Type), Size: f.Size, Key: key}, page)
}
