// Package search finds certificates. It implements the lists of an institution with their filters, orders,
// pages and cursors, saved views, the counts of certificates, and the queries that find duplicates before an
// upload. It reads the certificates that package cert writes, and does not change them.
package search

import (
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/listing"
)

// Service finds certificates.
type Service struct {
	db      *db.DB
	cursors listing.Cursors
	// listTime is the time limit of the statements of one list.
	listTime time.Duration
	bounds   bounds
	now      func() time.Time
}

// New returns a service. The ring signs the cursors of lists.
func New(d *db.DB, ring *keyring.Ring, now func() time.Time) *Service {
	return &Service{db: d, cursors: listing.NewCursors(ring, "certificates"), listTime: listTime, bounds: defaultBounds, now: now}
}
