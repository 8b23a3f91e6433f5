package identity

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// BenchmarkUnknownAddress signs in with a wrong password, in turn to an address with an account, to
// an account without a password, and to an unknown address. It reports the durations of the latter
// two as a share of the first: at 1 the duration reveals nothing.
func BenchmarkUnknownAddress(b *testing.B) {
	t := open(b, dbtest.SQLite(b))
	t.PasswordCost, t.dummyHash = account.DefaultCost, account.DefaultCost.NoPassword()
	t.join(address)
	if _, err := t.SignUp(b.Context(), t.link(ToSignUp, "bare@example.org"), NewPerson{Name: "Ada"}, home); err != nil {
		b.Fatal(err)
	}
	addresses := []string{address, "bare@example.org", "nobody@example.org"}
	times := make([][]float64, len(addresses))
	for b.Loop() {
		for i, email := range addresses {
			// This resets the counted tries.
			t.Advance(25 * time.Hour)
			begun := time.Now()
			if _, err := t.SignIn(b.Context(), email, "wrong horse", home); !errors.Is(err, ErrWrong) {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(begun).Seconds())
		}
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	known := median(times[0])
	b.ReportMetric(0, "ns/op") // of three
	b.ReportMetric(known*1000, "known-ms")
	b.ReportMetric(median(times[1])/known, "bare/known")
	b.ReportMetric(median(times[2])/known, "unknown/known")
}
