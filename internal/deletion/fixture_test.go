package deletion_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
)

const (
	day  = 24 * time.Hour
	keep = 14 * day
)

// memory is a store that has only the keys and the times of files.
type memory struct {
	blob.Store

	mu    sync.Mutex
	files map[string]time.Time
	// deleted counts the successful calls of Delete.
	deleted int
	// broken is a key that Delete refuses.
	broken string
	// visited is called for each file that Walk visits. It may be nil.
	visited func(key string) error
}

func (m *memory) put(at time.Time, keys ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		m.files[key] = at
	}
}

func (m *memory) keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.files))
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key == m.broken {
		return blob.ErrKey
	}
	m.deleted++
	delete(m.files, key)
	return nil
}

func (m *memory) Walk(_ context.Context, after string, visit func(blob.Info) error) error {
	keys := m.keys()
	i, found := slices.BinarySearch(keys, after)
	if found {
		i++
	}
	for _, key := range keys[i:] {
		m.mu.Lock()
		at, exists := m.files[key]
		m.mu.Unlock()
		if !exists {
			continue
		}
		if m.visited != nil {
			if err := m.visited(key); err != nil {
				return err
			}
		}
		if err := visit(blob.Info{Key: key, Size: 1, Modified: at}); err != nil {
			return err
		}
	}
	return nil
}

func (*memory) Clean(context.Context, time.Time) error { return nil }

// rows are the keys to which rows refer.
type rows struct {
	mu   sync.Mutex
	keys map[string]bool
	// looked is the number of look-ups, and most is the largest number of keys of a look-up.
	looked, most int
}

func (r *rows) set(key string, refers bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = refers
}

func (r *rows) references(_ context.Context, _ *db.DB, keys []string) (found []string, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked++
	r.most = max(r.most, len(keys))
	for _, key := range keys {
		if r.keys[key] {
			found = append(found, key)
		}
	}
	return found, nil
}

// fixture is a service with a store in memory.
type fixture struct {
	*deletion.Service
	*clocktest.Clock

	t     testing.TB
	d     *db.DB
	store *memory
	rows  *rows
}

func newFixture(t testing.TB, d *db.DB) *fixture {
	t.Helper()
	f := &fixture{
		t: t, d: d, Clock: clocktest.At(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)),
		store: &memory{files: map[string]time.Time{}}, rows: &rows{keys: map[string]bool{}},
	}
	f.Service = f.node(keep)
	return f
}

// node returns a service on the same database and store.
func (f *fixture) node(keep time.Duration) *deletion.Service {
	return deletion.New(deletion.Config{
		DB: f.d, Blobs: f.store, References: []deletion.References{f.rows.references}, Keep: keep, Now: f.Now, Log: slog.New(slog.DiscardHandler),
	})
}

// sweep advances the clock and runs the sweep.
func (f *fixture) sweep(after time.Duration) {
	f.t.Helper()
	f.Advance(after)
	if err := f.Sweep(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// want fails the test unless the store has exactly these files.
func (f *fixture) want(when string, keys ...string) {
	f.t.Helper()
	if got := f.store.keys(); !slices.Equal(got, keys) {
		f.t.Errorf("%s: the store has %v, want %v", when, got, keys)
	}
}

// recorded returns the keys of the recorded deletions.
func (f *fixture) recorded() []string {
	f.t.Helper()
	keys, err := db.Column[string](f.d.QueryContext(f.t.Context(), `SELECT key FROM blob_deletions ORDER BY key`))
	if err != nil {
		f.t.Fatal(err)
	}
	return keys
}

func (f *fixture) tx(run func(tx *db.Tx) error) {
	f.t.Helper()
	if err := f.d.Tx(f.t.Context(), run); err != nil {
		f.t.Fatal(err)
	}
}

// number returns the key of file i.
func number(i int) string { return fmt.Sprintf("inst/%02x/%08d.original", i/4000, i) }

var errStopped = errors.New("the node stopped")
