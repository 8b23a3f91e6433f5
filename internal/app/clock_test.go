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

// TestClockThatDiffersFromTheDatabaseIsRejected checks that checkClock accepts equal clocks, and rejects
// a clock of the host that is years behind.
func TestClockThatDiffersFromTheDatabaseIsRejected(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	if err := checkClock(t.Context(), d); err != nil {
		t.Errorf("equal clocks: error = %v, want nil", err)
	}
	database := dbtest.MigratedURL(t)
	synctest.Test(t, func(t *testing.T) { // the clock in synctest begins in the year 2000
		d, err := db.Open(t.Context(), "", database)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkClock(t.Context(), d); !errors.Is(err, errClock) || !strings.Contains(err.Error(), "behind") {
			t.Errorf("a clock that is behind: error = %v, want errClock with the word behind", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkOfAClockThatWasAheadIsPulledBackAndLogged checks that pullBack corrects the heartbeat of a node
// that is a year in the future, and logs the correction once.
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
	if n := strings.Count(log.String(), "allows were corrected"); n != 1 || !strings.Contains(log.String(), `of="jobs and nodes" rows=1`) {
		t.Errorf("the log contains %d lines about rows that were corrected, want 1 about 1 row of jobs and nodes: %s", n, &log)
	}
}
