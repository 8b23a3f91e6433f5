package app

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestDoctorChecksTheReplica checks that doctor reports a replica of another installation.
func TestDoctorChecksTheReplica(t *testing.T) {
	t.Parallel()
	url := dbtest.MigratedURL(t)
	d := dbtest.Open(t, "", url)
	set := func(id string) {
		t.Helper()
		if _, err := d.Writer().ExecContext(t.Context(), `INSERT INTO installations (id, uuid) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET uuid = excluded.uuid`, id); err != nil {
			t.Fatal(err)
		}
	}
	set("one")
	if f := examineReplica(t.Context(), d, url); !f.Good {
		t.Errorf("finding about a replica of the same installation = %+v, want a good one", f)
	}
	other := dbtest.MigratedURL(t)
	list := withRemedies([]Finding{examineReplica(t.Context(), d, other)})
	if f := list[0]; f.Good || !strings.Contains(f.Detail, "another installation") || f.Remedy == "" {
		t.Errorf("finding about a replica of another installation = %+v, want a problem with a remedy", f)
	}
}
