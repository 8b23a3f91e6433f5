package recipient

import "context"

const (
	EndBatch  = endBatch
	LostAfter = lostAfter
)

// The numbers of operations that a holder is allowed in a day.
var (
	AllowedShares      = allowed[sharing]
	AllowedCorrections = allowed[correcting]
	AllowedExports     = allowed[exporting]
	AllowedResends     = allowed[resending]
)

// Exported is the document in an export.
type Exported = exported

// About returns the document in an export.
func (e *Export) About() *Exported { return &e.about }

// Notify runs the job of an approved certificate.
func (s *Service) Notify(ctx context.Context, uuid string) error { return s.notify(ctx, uuid) }

// SetShows sets the number of certificates that a link shows.
func (s *Service) SetShows(n int) { s.shows = n }
