package recipient

import "time"

// Ledger records what a change of another service means for recipients, in the
// transaction of that change: customer numbers and notices. It uses no other
// service, so that cert and mail, which Service uses, can be given its operations.
type Assignments struct {
	now func() time.Time
}

// NewLedger returns a ledger; now is the clock.
func NewAssignments(now func() time.Time) *Assignments { return &Assignments{now: now} }
