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
	check := func(t *testing.T, database string) {
		t.Helper()
		f := startIn(t, empty(t), database)
		f.uploadApproved(t, "Ada Obi")
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		check(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		check(t, dbtest.PostgresURL(t))
	})
}
