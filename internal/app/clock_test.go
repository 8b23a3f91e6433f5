package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestClockThatDiffersFromTheDatabaseIsRejected checks a host whose clock is years behind.
func TestClockThatDiffersFromTheDatabaseIsRejected(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.PostgresURL(t))
	if err := checkClock(t.Context(), d); err != nil {
		t.Errorf("equal clocks: error = %v", err)
	}
	database := dbtest.PostgresURL(t)
	synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
		d, err := db.Open(t.Context(), "", database)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkClock(t.Context(), d); !errors.Is(err, errClock) || !strings.Contains(err.Error(), "behind") {
			t.Errorf("a clock that is behind: error = %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkOfAClockThatWasAheadIsPulledBackAndLogged checks that the start of the vault pulls back a
// job that is due in a year, and logs it.
func TestWorkOfAClockThatWasAheadIsPulledBackAndLogged(t *testing.T) {
	t.Parallel()
	d := newDirect(t)
	if err := d.app.DB.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('dead', $1, $1)`, db.Micros(time.Now().AddDate(1, 0, 0)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d.app.log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		if err := d.app.pullBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "were pulled back"); n != 1 || !strings.Contains(log.String(), `of="jobs and nodes" rows=1`) {
		t.Errorf("the log contains %d lines about it, want 1: %s", n, &log)
	}
}
