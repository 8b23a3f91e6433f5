package mail

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.metrics = NewMetrics(prometheus.NewRegistry())
		sent, refused := b.enqueue(nil), b.enqueue(nil)
		b.at = b.at.Add(time.Hour)
		b.enqueue(nil)
		if got, err := ReadBacklog(t.Context(), d, b.at); err != nil || got.Queued != 3 || got.Oldest.Round(time.Second) != time.Hour {
			t.Errorf("ReadBacklog = %+v, error %v; want 3 messages and Oldest 1 h", got, err)
		}
		if err := b.runJob(sent, 1); err != nil {
			t.Fatal(err)
		}
		b.fake.err = &RefusedError{Err: errors.New("550")}
		if err := b.runJob(refused, 1); err != nil {
			t.Fatal(err)
		}
		for status, want := range map[Status]float64{Sent: 1, Failed: 1, Unsent: 0} {
			if got := testutil.ToFloat64(b.metrics.messages.WithLabelValues(string(status))); got != want {
				t.Errorf("%v messages with the status %s, want %v", got, status, want)
			}
		}
		if got, err := ReadBacklog(t.Context(), d, b.at); err != nil || got.Queued != 1 || got.Oldest.Round(time.Second) != 0 {
			t.Errorf("ReadBacklog = %+v, error %v; want 1 message and Oldest 0", got, err)
		}
	})
}
