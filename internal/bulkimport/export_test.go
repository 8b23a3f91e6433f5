package bulkimport

import (
	"context"
	"time"

	"github.com/certvault/certvault/internal/account"
)

// LostAfter is the age from which Sweep adds a job for work without one.
const LostAfter = lostAfter

// ErrElsewhere is the error of an archive that another process is unpacking.
var ErrElsewhere = errElsewhere

// SetPartSize sets the number of rows per batch.
func (s *Service) SetPartSize(n int) { s.partSize = n }

// Recall returns the meanings of an institution's earlier columns.
func (s *Service) Recall(ctx context.Context, institutionID int64, header []string) (Mapping, error) {
	return s.recall(ctx, institutionID, header)
}

// Unpack unpacks an archive, as its job does.
func (s *Service) Unpack(ctx context.Context, id int64, atMost time.Duration) (bool, error) {
	return s.unpack(ctx, id, atMost)
}

// Work creates the batches of a submitted draft, as its job does.
func (s *Service) Work(ctx context.Context, id int64) error { return s.submit(ctx, id) }

// Part creates one batch of a draft.
func (s *Service) Part(ctx context.Context, inst *account.Institution, d *Draft, part, parts int, rows []*Row) error {
	return s.part(ctx, inst, d, part, parts, rows)
}
