// Package webhook owns the endpoints to which an institution wants its events
// sent, the outbox of events and deliveries, written in the transaction of the
// change they tell of, and the sending: leases, signing, attempts and their log,
// the health of endpoints. It does not know what a certificate is beyond the
// payload it is handed, nor who owns an institution.
package webhook

import (
	"sync/atomic"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// Name is the name of an event.
type Name string

const (
	// Created tells that a certificate record was made.
	Created Name = "certificate_application.created"
	// Processing tells that an institution approved a customer's application
	// and processing begins.
	Processing Name = "certificate_application.processing"
	// Approved tells that a certificate was processed and approved.
	Approved Name = "certificate_application.approved"
	// Rejected tells that an institution refused a customer's application.
	Rejected Name = "certificate_application.rejected"
	// Failed tells that processing ended in an error.
	Failed Name = "certificate_application.failed"
	// Retried tells that the processing of a failed certificate began again.
	Retried Name = "certificate_application.retried"
	// Revoked tells that an institution revoked a certificate.
	Revoked Name = "certificate_application.revoked"
)

// Names are all events, in the order of a certificate's life.
var Names = []Name{Created, Processing, Approved, Rejected, Failed, Retried, Revoked}

// Service works on endpoints and the outbox.
type Service struct {
	db   *db.DB
	ring *keyring.Ring
	now  func() time.Time
	// wake is told when a commit of this process made something due, and tidings
	// counts those commits.
	wake    chan struct{}
	tidings atomic.Int64
}

// New makes a service; now is the clock.
func New(d *db.DB, ring *keyring.Ring, now func() time.Time) *Service {
	return &Service{db: d, ring: ring, now: now, wake: make(chan struct{}, 1)}
}

// tellTx wakes this process's deliverer when the transaction is committed.
func (s *Service) tellTx(tx *db.Tx) {
	tx.AfterCommit(func() {
		s.tidings.Add(1)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	})
}
