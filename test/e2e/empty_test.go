//go:build e2e

package e2e

import (
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestEmptyStorage starts a vault with an empty database, which the vault migrates. Most other tests
// start with a migrated database.
func TestEmptyStorage(t *testing.T) {
	t.Parallel()
	eachOf(t, dbtest.PostgresURL, func(t *testing.T, database string) {
		f := startIn(t, empty(t), database)
		f.uploadApproved(t, "Ada Obi")
	})
}
