package db

import (
	"context"
	"fmt"
	"time"
)

// ClockTolerance is the assumed maximum of the difference between the results of Now in two processes on the
// same database. It allows for calls of SyncClock in which the response takes up to two seconds.
const ClockTolerance = 2 * time.Second

// maxDrift is an upper limit of the drift between the clocks of two hosts, as a fraction of the elapsed
// time.
const maxDrift = 0.001

// reading is a time of the database server, and the time of this process at the same moment, with an
// error of at most uncertain.
type reading struct {
	server, local time.Time
	uncertain     time.Duration
}

// replaces reports whether r replaces the earlier reading last. It does if r is at least as exact as last is
// now, or if r shows that one of the clocks was changed. Otherwise, Now continues to use
// last, because r is less exact after a slow response.
func (r *reading) replaces(last *reading) bool {
	age := r.local.Sub(last.local)
	uncertain := last.uncertain + time.Duration(float64(age)*maxDrift)
	return r.uncertain <= uncertain || r.server.Sub(last.server.Add(age)).Abs() > r.uncertain+uncertain
}

// Now returns the time for leases and schedules, which all processes on a database compare. On
// PostgreSQL, the result is the server's time at a call of SyncClock plus the time that has passed
// since then on the monotonic clock, so that a wrong or changed clock of this host has no
// effect. On SQLite, and before the first call of SyncClock, the result is this host's time.
func (d *DB) Now() time.Time {
	if r := d.clock.Load(); r != nil {
		return r.server.Add(time.Since(r.local))
	}
	return time.Now()
}

// SyncClock reads the time of the database server for Now. It returns how far this host's clock is
// ahead, which is negative if the clock is behind. The result may be closer to zero than the real
// difference, by at most the time that the response took. On SQLite, SyncClock reads nothing and
// the result is zero.
func (d *DB) SyncClock(ctx context.Context) (ahead time.Duration, err error) {
	if d.Dialect == SQLite {
		return 0, nil
	}
	var micros int64
	before := time.Now()
	if err := d.read.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros); err != nil {
		return 0, fmt.Errorf("reading the time of the database server: %w", err)
	}
	took := time.Since(before)
	// The server read its clock between the request and the response.
	r := &reading{server: Time(micros), local: before.Add(took / 2), uncertain: took / 2}
	if last := d.clock.Load(); last == nil || r.replaces(last) {
		d.clock.Store(r)
	}
	ahead = r.local.Sub(r.server)
	switch {
	case ahead > r.uncertain:
		return ahead - r.uncertain, nil
	case ahead < -r.uncertain:
		return ahead + r.uncertain, nil
	default:
		return 0, nil
	}
}
