package bulkimport

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
)

// JobWait is the minimum time between the submission of a draft and the sweep that inserts a missing job.
const JobWait = jobWait

// ReferencedQuery is the query of ReferencedBlobs without the condition for the keys.
const ReferencedQuery = referencedQuery

// ErrConcurrent is the error for an archive that another process is unpacking.
var ErrConcurrent = errConcurrent

// SetPartSize sets the maximum number of rows per batch.
func (s *Service) SetPartSize(n int) { s.partSize = n }

// LastMapping returns the mapping of an institution's last list with these columns.
func (s *Service) LastMapping(ctx context.Context, institutionID int64, header []string) (Mapping, error) {
	return s.lastMapping(ctx, &Draft{InstitutionID: institutionID}, header)
}

// Unpack unpacks an archive for up to maxTime, as its job does.
func (s *Service) Unpack(ctx context.Context, id int64, maxTime time.Duration) (bool, error) {
	return s.unpack(ctx, id, maxTime)
}

// RunUnpack runs the job that unpacks an archive.
func (s *Service) RunUnpack(ctx context.Context, id int64) error {
	return (&unpackWorker{service: s}).Work(ctx, &river.Job[unpackArgs]{Args: unpackArgs{Archive: id}})
}

// Work creates the batches of a submitted draft, as its job does.
func (s *Service) Work(ctx context.Context, id int64) error { return s.submit(ctx, id) }

// Part creates one batch of a draft.
func (s *Service) Part(ctx context.Context, inst *account.Institution, d *Draft, part, parts int, rows []*Row) error {
	return s.part(ctx, inst, d, part, parts, rows)
}
