package recipient

import "time"

// Assignments records the effects of other services' changes on recipients, in the transaction of
// the change: customer numbers and notices. Assignments uses no other service, so that its
// operations can be passed to cert and mail, which Service uses.
type Assignments struct {
	now func() time.Time
}

// NewAssignments returns an Assignments; now is the clock.
func NewAssignments(now func() time.Time) *Assignments { return &Assignments{now: now} }
