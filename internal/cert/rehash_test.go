package cert

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// fastRate is a rate, in bytes a second, at which Rehash does not wait after the check of a file.
const fastRate = 1 << 50

// A call of Rehash checks its share of the files, oldest check first. The next call continues with the next
// files.
func TestRehashContinues(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		registry := prometheus.NewRegistry()
		metrics := NewMetrics(registry)
		v := newVault(t, d, func(c *Config) { c.Metrics = metrics })
		var list []*Certificate
		for _, title := range []string{"first", "second", "third", "fourth", "fifth"} {
			list = append(list, v.approved(v.upload(titled(title))))
			v.clock.Advance(time.Minute)
		}
		v.clock.Advance(RehashAge)
		oldest, err := OldestCheck(t.Context(), d)
		if want := v.fileCheck(list[0]).CheckedAt; err != nil || !oldest.Equal(*want) {
			t.Errorf("OldestCheck = %v, err = %v, want %v", oldest, err, want)
		}
		rechecked := func() (titles []string) {
			for _, c := range list {
				if v.fileCheck(c).CheckedAt.Equal(db.Time(db.Micros(v.clock.Now()))) {
					titles = append(titles, c.Title)
				}
			}
			return titles
		}
		for i, all := range []int64{0, rehashTurns, 0} { // the calls check one, two and one certificate
			if err := v.Rehash(t.Context(), all, fastRate); err != nil {
				t.Fatal(err)
			}
			if got, want := rechecked(), [][]string{{"first"}, {"first", "second", "third"}, {"first", "second", "third", "fourth"}}[i]; !slices.Equal(got, want) {
				t.Errorf("after call %d, %q were checked, want %q", i+1, got, want)
			}
		}
		var size int64
		for _, c := range list[:4] {
			size += c.Verified.Size
		}
		if n := counterOf(t, registry, "certvault_file_checks_total", "passed"); n != 4 {
			t.Errorf("%v checks passed according to the metrics, want 4", n)
		}
		if n := counterOf(t, registry, "certvault_file_checks_total", "failed"); n != 0 {
			t.Errorf("%v checks failed according to the metrics, want 0", n)
		}
		if n := counterOf(t, registry, "certvault_file_check_bytes_total", ""); n != float64(size) {
			t.Errorf("%v bytes were checked according to the metrics, want %d", n, size)
		}
	})
}

// counterOf returns the value of a counter. label is the value of its label, or "" for a counter without
// labels.
func counterOf(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s %s", name, label)
	return 0
}

// Rehash does not read faster than its rate.
func TestRehashPaces(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	size := v.approved(v.upload(titled("first"))).Verified.Size
	v.approved(v.upload(titled("second")))
	v.clock.Advance(RehashAge + time.Minute)
	began := time.Now()
	if err := v.Rehash(t.Context(), rehashTurns, 5*size); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 390*time.Millisecond {
		t.Errorf("two files took %s, want at least 0.4 s at five files a second", took)
	}
	v.clock.Advance(RehashAge + time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := v.Rehash(ctx, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Rehash at one byte a second: err = %v, want context.DeadlineExceeded", err)
	}
}

// unavailable is a store that cannot open files.
type unavailable struct{ blob.Store }

func (unavailable) Open(context.Context, string) (blob.Object, error) {
	return nil, blob.ErrUnavailable
}

// An outage of the file store changes no result. The files are checked after the outage.
func TestRehashDuringAnOutage(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	before := v.fileCheck(c)
	v.clock.Advance(RehashAge + time.Minute)
	v.blobs = unavailable{v.folder}
	if err := v.Rehash(t.Context(), 0, fastRate); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Rehash during an outage: err = %v, want blob.ErrUnavailable", err)
	}
	if k := v.fileCheck(c); k.Result != Passed || !k.CheckedAt.Equal(*before.CheckedAt) {
		t.Errorf("check during the outage = %+v, want %+v", k, before)
	}
	v.blobs = v.folder
	if err := v.Rehash(t.Context(), 0, fastRate); err != nil {
		t.Fatal(err)
	}
	if k := v.fileCheck(c); k.Result != Passed || !k.CheckedAt.After(*before.CheckedAt) {
		t.Errorf("check after the outage = %+v, want passed at a later time", k)
	}
}
