package search

import (
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestCountsByStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.uploadMany(9)
		for name, tc := range map[string]struct {
			f    Filter
			want string
		}{
			"all":                 {Filter{}, "map[approved:3 failed:3 processing:3]"},
			"a status is ignored": {Filter{Statuses: []cert.Status{cert.Failed}}, "map[approved:3 failed:3 processing:3]"},
			"a search":            {Filter{Search: "music"}, "map[approved:1 failed:2 processing:1]"},
			"an address":          {Filter{Email: "P4@example.org"}, "map[failed:1]"},
			"dates":               {Filter{IssuedFrom: "2026-07-01"}, "map[]"},
		} {
			counts, ok, err := v.CountByStatus(t.Context(), v.inst.ID, tc.f)
			if err != nil || !ok || fmt.Sprint(counts) != tc.want {
				t.Errorf("%s: counts = %v, ok = %t, err = %v; want %s and ok", name, counts, ok, err, tc.want)
			}
		}
		v.bounds.count = 5
		if _, ok, err := v.CountByStatus(t.Context(), v.inst.ID, Filter{Search: "person"}); err != nil || ok {
			t.Errorf("more certificates than bounds.count: ok = %t, err = %v, want false", ok, err)
		}
		if counts, _, err := v.CountByStatus(t.Context(), v.institution("UTH").ID, Filter{}); err != nil || len(counts) != 0 {
			t.Errorf("another institution: counts = %v, err = %v, want none", counts, err)
		}
	})
}
