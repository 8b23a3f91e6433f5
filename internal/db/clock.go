package db

import (
	"context"
	"fmt"
	"time"
)

// reading is a time of the database server, and the time of this process at the same moment.
type reading struct{ server, local time.Time }

// Now returns the time for leases and schedules, which all processes on a database compare. On
// PostgreSQL, the result is the server's time at the last call of SyncClock plus the time that has
// passed since then on the monotonic clock, so that a wrong or changed clock of this host has no
// effect. On SQLite, the result is this host's time.
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
	r := reading{server: Time(micros), local: before.Add(took / 2)}
	d.clock.Store(&r)
	// Without Round, Sub would use the monotonic clock, which the server's time does not have.
	ahead = r.local.Round(0).Sub(r.server)
	switch uncertain := took / 2; {
	case ahead > uncertain:
		return ahead - uncertain, nil
	case ahead < -uncertain:
		return ahead + uncertain, nil
	default:
		return 0, nil
	}
}
