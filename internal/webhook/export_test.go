package webhook

import (
	"context"
	"time"
)

// SetLogTime sets the time limit of searches of the log.
func (s *Service) SetLogTime(d time.Duration) { s.logTime = d }

// CountDue returns the number of endpoints with due deliveries, without leasing them. It counts at most
// as many healthy and as many unhealthy endpoints as there are lanes.
func (d *Deliverer) CountDue(ctx context.Context) (int, error) {
	n := 0
	for _, unhealthy := range []bool{true, false} {
		found, err := d.due(ctx, unhealthy, d.lanes)
		if err != nil {
			return 0, err
		}
		n += len(found)
	}
	return n, nil
}

// Stopping returns a channel that is closed when no new attempt may begin.
func (d *Deliverer) Stopping() <-chan struct{} { return d.soft.Done() }
