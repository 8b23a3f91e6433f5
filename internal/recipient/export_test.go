package recipient

import "context"

const (
	PurgeBatch = purgeBatch
	JobWait    = jobWait
)

// The daily limits of a holder, and the daily limit of resending a certificate.
var (
	AllowedShares      = dailyLimits[sharing]
	AllowedCorrections = dailyLimits[correcting]
	AllowedExports     = dailyLimits[exporting]
	AllowedResends     = dailyLimits[resending]
)

// Exported is the content of export.json.
type Exported = exported

// About returns the content of export.json.
func (e *Export) About() *Exported { return &e.about }

// Notify runs the job of an approved certificate.
func (s *Service) Notify(ctx context.Context, uuid string) error { return s.notify(ctx, uuid) }

// SetMaxShown sets the maximum number of certificates that a link shows.
func (s *Service) SetMaxShown(n int) { s.maxShown = n }

// SetPlansAtOnce sets the maximum number of plans that one sweep handles.
func (s *Service) SetPlansAtOnce(n int) { s.plansAtOnce = n }
