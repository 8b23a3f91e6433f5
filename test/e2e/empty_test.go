//go:build e2e

package e2e

import (
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestEmptyStorage checks the first start on an empty folder and an empty database, which the binary
// migrates itself. Other tests start with a migrated database.
func TestEmptyStorage(t *testing.T) {
	t.Parallel()
	eachOf(t, dbtest.PostgresURL, func(t *testing.T, database string) {
		f := startIn(t, empty(t), database)
		f.uploadApproved(t, "Ada Obi")
	})
}
