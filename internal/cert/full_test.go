package cert

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
)

// roomStore is a store whose free space the test sets.
type roomStore struct {
	blob.Store

	room, reserve bool
}

func (s *roomStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if !s.room {
		return 0, blob.ErrFull
	}
	return s.Store.Put(ctx, key, r)
}

func (s *roomStore) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	if !s.reserve {
		return 0, blob.ErrFull
	}
	return s.Store.PutReserved(ctx, key, r)
}

func (s *roomStore) CheckReserve(ctx context.Context) error {
	if !s.reserve {
		return blob.ErrFull
	}
	return s.Store.CheckReserve(ctx)
}

// If the store has no room for uploads, verified PDFs are stored in its reserve. Pictures are not stored.
func TestAcceptedCertificateIsSealedInTheReserve(t *testing.T) {
	t.Parallel()
	store := &roomStore{room: true, reserve: true}
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { store.Store, c.Blobs = c.Blobs, store })
	c := v.upload(nil)
	store.room = false
	c = v.approved(c)
	v.checkImage(c)
	if keys := v.keys(); len(keys) != 2 {
		t.Errorf("files = %v, want the original and the tail", keys)
	}
}

// While the store is full, a job waits without counting an attempt. The certificate is sealed after the
// store has room again.
func TestFullStoreCountsNoAttempt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var log bytes.Buffer
		store := &roomStore{room: true, reserve: true}
		v := newVault(t, d, func(c *Config) {
			store.Store, c.Blobs = c.Blobs, store
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		c := v.upload(nil)
		before := v.snapshot(c.UUID)
		ok, sealings := v.sealer.seal, 0
		v.sealer.seal = func(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
			sealings++
			return ok(ctx, o, stamp)
		}
		waits := func(name string) {
			t.Helper()
			err := v.work(t.Context(), c, v.attempts)
			if wait, isWait := errors.AsType[*river.JobSnoozeError](err); !isWait || wait.Duration != blob.FullWait {
				t.Errorf("%s: err = %v, want a snooze of blob.FullWait, which counts no attempt", name, err)
			}
			if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
				t.Errorf("%s: the record, events and jobs are now %+v, want no change", name, after)
			}
		}
		store.reserve = false
		for range 20 {
			waits("no room")
		}
		if n := strings.Count(log.String(), "ALARM"); n != 1 || sealings != 0 {
			t.Errorf("%d alarms and %d sealings, want 1 alarm and no sealing: %s", n, sealings, &log)
		}
		store.reserve = true
		// The disk becomes full after the check and before the file is stored.
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) { return nil, blob.ErrFull }
		waits("no room for the file")
		v.clock.Advance(blob.FullWait)
		waits("no room after a while")
		if n := strings.Count(log.String(), "ALARM"); n != 2 {
			t.Errorf("%d alarms after blob.FullWait, want 2: %s", n, &log)
		}
		v.sealer.seal = ok
		v.approved(c)
	})
}

// Feed enqueues no certificates of batches while the store is full.
func TestFullStoreFeedsNoJobs(t *testing.T) {
	t.Parallel()
	store := &roomStore{room: true, reserve: true}
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { store.Store, c.Blobs = c.Blobs, store })
	c := v.upload(nil)
	v.exec(`DELETE FROM river_job`)
	v.exec(`UPDATE certificates SET batch_id = 'a batch', job_id = NULL WHERE id = $1`, c.ID)
	store.reserve = false
	if err := v.Feed(t.Context()); err != nil || len(v.jobs()) != 0 {
		t.Errorf("Feed with a full store: jobs = %v, err = %v, want no jobs", v.jobs(), err)
	}
	store.reserve = true
	if err := v.Feed(t.Context()); err != nil || len(v.jobs()) != 1 {
		t.Errorf("Feed with room in the store: jobs = %v, err = %v, want one job", v.jobs(), err)
	}
}

// awayStore is a store that is unavailable while away is true.
type awayStore struct {
	blob.Store

	away bool
}

func (s *awayStore) Open(ctx context.Context, key string) (blob.Object, error) {
	if s.away {
		return nil, blob.ErrUnavailable
	}
	return s.Store.Open(ctx, key)
}

func (s *awayStore) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	if s.away {
		return 0, blob.ErrUnavailable
	}
	return s.Store.PutReserved(ctx, key, r)
}

// While the store is unavailable, a job waits without counting an attempt, and reports no missing or
// damaged file.
func TestUnavailableStoreCountsNoAttempt(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := &awayStore{}
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) {
		store.Store, c.Blobs = c.Blobs, store
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	c := v.upload(nil)
	before := v.snapshot(c.UUID)
	ok := v.sealer.seal
	for name, prepare := range map[string]func(){
		"opening the original": func() { store.away = true },
		"storing the verified PDF": func() {
			store.away = false
			v.sealer.seal = func(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
				store.away = true
				return ok(ctx, o, stamp)
			}
		},
	} {
		prepare()
		for range 10 {
			err := v.work(t.Context(), c, v.attempts)
			if wait, isWait := errors.AsType[*river.JobSnoozeError](err); !isWait || wait.Duration != blob.UnavailableWait {
				t.Errorf("%s: err = %v, want a snooze of blob.UnavailableWait, which counts no attempt", name, err)
			}
		}
		v.sealer.seal = ok
		if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the record, events and jobs are now %+v, want no change", name, after)
		}
	}
	if n := strings.Count(log.String(), "ALARM: the file store is not available"); n != 1 || strings.Count(log.String(), "ALARM") != 1 {
		t.Errorf("%d alarms about the store, want 1 and no other: %s", n, &log)
	}
	store.away = false
	v.approved(c)
}
