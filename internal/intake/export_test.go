package intake

import (
	"context"
	"time"

	"github.com/certvault/certvault/internal/account"
)

// ReviveAfter is the time after which Sweep gives work without a job another one.
const ReviveAfter = reviveAfter

// ErrElsewhere is the error of an archive that another process unpacks.
var ErrElsewhere = errElsewhere

// SetPartSize sets the number of rows that make a batch.
func (s *Service) SetPartSize(n int) { s.partSize = n }

// Recall returns what an institution's earlier columns meant.
func (s *Service) Recall(ctx context.Context, institutionID int64, header []string) (Mapping, error) {
	return s.recall(ctx, institutionID, header)
}

// Unpack unpacks an archive, as its job does.
func (s *Service) Unpack(ctx context.Context, id int64, atMost time.Duration) (bool, error) {
	return s.unpack(ctx, id, atMost)
}

// Work makes batches of a draft that was submitted, as its job does.
func (s *Service) Work(ctx context.Context, id int64) error { return s.submit(ctx, id) }

// Part makes one batch of a draft.
func (s *Service) Part(ctx context.Context, inst *account.Institution, d *Draft, part, parts int, rows []*Row) error {
	return s.part(ctx, inst, d, part, parts, rows)
}
