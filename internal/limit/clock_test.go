package limit_test

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/limit"
)

// TestClaimOfAClockThatWasAheadExpires checks that a claim that was made while the clock was a year
// ahead expires.
func TestClaimOfAClockThatWasAheadExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newClock()
		k := limit.NewKeys(d, "node", c.now)
		s := limit.Scope{InstitutionID: institution(t, d, "A"), TokenID: 1, Method: "POST", Path: "/", Key: "k"}
		early := s
		early.Key = "early"
		c.advance(time.Second) // another process may be a second ahead
		begin(t, k, early)
		c.advance(365*24*time.Hour - time.Second)
		begin(t, k, s)
		c.advance(-365 * 24 * time.Hour)
		for _, want := range []int64{1, 0} {
			if n, err := k.PullBack(t.Context()); err != nil || n != want {
				t.Fatalf("PullBack = %d changed keys, err = %v, want %d changed keys", n, err, want)
			}
		}
		expectConflict(t, k, s)
		c.advance(time.Hour)
		begin(t, k, s)
	})
}
