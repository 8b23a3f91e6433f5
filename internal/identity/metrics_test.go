package identity

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestRefusedSignInsAreCounted(t *testing.T) {
	t.Parallel()
	b := open(t, dbtest.Open(t, t.TempDir(), ""))
	b.Metrics = NewMetrics(prometheus.NewRegistry())
	tries := 0
	for ; ; tries++ {
		_, err := b.SignIn(t.Context(), "ada@example.org", "wrong", home)
		if fault.Is(err, fault.TooMany) {
			break
		}
		if tries > 1000 {
			t.Fatal("the tries are not limited")
		}
	}
	if _, err := b.SignInByLink(t.Context(), "no link", home); err == nil {
		t.Fatal("a link that does not exist was accepted")
	}
	for reason, want := range map[refusal]float64{wrongPassword: float64(tries), throttled: 1, wrongLink: 1, wrongCode: 0, wrongPasskey: 0, busy: 0} {
		if n := testutil.ToFloat64(b.Metrics.refusals.WithLabelValues(string(reason))); n != want {
			t.Errorf("%v sign-ins were refused with the reason %s, want %v", n, reason, want)
		}
	}
}
