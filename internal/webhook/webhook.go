// Package webhook manages the endpoints of institutions, and the outbox of events and deliveries. It
// sends, signs and logs the deliveries, and records the health of endpoints. Events and deliveries
// are written in the transaction of the change that they report.
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
	// Created means that a certificate record was created.
	Created Name = "certificate_application.created"
	// Processing means that an institution approved a customer's application and that processing
	// begins.
	Processing Name = "certificate_application.processing"
	// Updated means that an application changed without a decision: it was put on hold, answered,
	// released or withdrawn, or it expired.
	Updated Name = "certificate_application.updated"
	// Approved means that a certificate was processed and approved.
	Approved Name = "certificate_application.approved"
	// Rejected means that an institution rejected a customer's application.
	Rejected Name = "certificate_application.rejected"
	// Failed means that processing ended with an error, or that a signatory declined the certificate.
	Failed Name = "certificate_application.failed"
	// Retried means that a failed certificate is processed again, or that its signatories are asked
	// again.
	Retried Name = "certificate_application.retried"
	// Revoked means that a certificate was revoked or replaced.
	Revoked Name = "certificate_application.revoked"
	// Expiring means that a certificate expires soon.
	Expiring Name = "certificate_application.expiring"
	// Expired means that a certificate has expired.
	Expired Name = "certificate_application.expired"
)

// Names lists all events, in the order of a certificate's life cycle.
var Names = []Name{Created, Updated, Processing, Approved, Rejected, Failed, Retried, Revoked, Expiring, Expired}

// Service manages endpoints and the outbox.
type Service struct {
	db   *db.DB
	ring *keyring.Ring
	now  func() time.Time
	// wake receives a value when a commit of this process may make a delivery due. generation
	// counts these commits.
	wake       chan struct{}
	generation atomic.Int64
	// logTime is the time limit of a search of the log.
	logTime time.Duration
}

// New returns a Service; now is its clock.
func New(d *db.DB, ring *keyring.Ring, now func() time.Time) *Service {
	return &Service{db: d, ring: ring, now: now, wake: make(chan struct{}, 1), logTime: logTime}
}

// wakeTx wakes this process's deliverer after the commit of the transaction.
func (s *Service) wakeTx(tx *db.Tx) {
	tx.AfterCommit(func() {
		s.generation.Add(1)
		s.wakeUp()
	})
}

func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
