package db_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestTimesOfLeasesComeFromTheDatabase checks that a host whose clock is years behind uses the time
// of the database server for leases and schedules.
func TestTimesOfLeasesComeFromTheDatabase(t *testing.T) {
	t.Parallel()
	database := dbtest.PostgresURL(t)
	today := time.Now()
	synctest.Test(t, func(t *testing.T) { // the clock in synctest begins in the year 2000
		d, err := db.Open(t.Context(), "", database)
		if err != nil {
			t.Fatal(err)
		}
		ahead, err := d.SyncClock(t.Context())
		if now := d.Now(); err != nil || ahead > -26*365*24*time.Hour || now.Sub(today).Abs() > time.Minute {
			t.Errorf("SyncClock = %s, %v, and Now = %s, want a clock that is at least 26 years behind, and the current time", ahead, err, now)
		}
		before := d.Now()
		time.Sleep(time.Hour)
		if passed := d.Now().Sub(before); passed != time.Hour {
			t.Errorf("after an hour, Now is %s later, want 1h", passed)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
