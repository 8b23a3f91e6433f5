package vault_test

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestQueueUsesTheClockOfTheVault checks that the queue uses Deps.Now if Deps.LeaseNow is not set.
func TestQueueUsesTheClockOfTheVault(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := vaulttest.New(t, d)
		v.Advance(365 * 24 * time.Hour)
		v.Exec(`INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('node', $1, $1)`, db.Micros(v.Now()))
		if n, err := v.Queue.PullBack(t.Context()); err != nil || n != 0 {
			t.Errorf("pulled back %d rows, %v, want 0: the heartbeat is the current time of the vault", n, err)
		}
	})
}
