package identity

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// BenchmarkUnknownAddress tries to sign in with a wrong password to an account with a password, to an account
// without a password, and with an unknown address. It reports the median duration for the account with a
// password, and the ratios of the other two medians to it. If both ratios are 1, the duration does not reveal
// whether an account exists.
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
			// After this time the counts of tries are reset.
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
	b.ReportMetric(0, "ns/op") // an iteration has three sign-ins
	b.ReportMetric(known*1000, "known-ms")
	b.ReportMetric(median(times[1])/known, "bare/known")
	b.ReportMetric(median(times[2])/known, "unknown/known")
}
