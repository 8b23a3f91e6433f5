package bulkimport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// fullStore is a store that is full if full is true.
type fullStore struct {
	blob.Store

	full bool
}

func (s *fullStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if s.full {
		return 0, blob.ErrFull
	}
	return s.Store.Put(ctx, key, r)
}

// If the store is full, the job that unpacks a ZIP file is snoozed, and does not fail.
func TestFullStoreDelaysUnpacking(t *testing.T) {
	t.Parallel()
	store := &fullStore{}
	k := &fixture{t: t, sealer: &sealer{}}
	k.Vault = vaulttest.New(t, dbtest.SQLite(t), func(d *vault.Deps) { store.Store, d.Blobs = d.Blobs, store })
	k.Service = k.BulkImports
	k.inst = k.institution("NWU")
	draft := k.create()
	a, err := k.AddArchive(t.Context(), k.inst, draft, "files.zip", bytes.NewReader(zipOf(t, entry("a.pdf", vaulttest.PDF))))
	k.ok(err)
	store.full = true
	err = k.RunUnpack(t.Context(), a.ID)
	if wait, ok := errors.AsType[*river.JobSnoozeError](err); !ok || wait.Duration != blob.FullWait {
		t.Errorf("the job while the store is full: error = %v, want river.JobSnoozeError with blob.FullWait", err)
	}
	store.full = false
	k.ok(k.RunUnpack(t.Context(), a.ID))
	list, err := k.Archives(t.Context(), draft)
	if err != nil || len(list) != 1 || !list[0].Done || len(k.review(draft).Files) != 1 {
		t.Errorf("archives = %+v, want one unpacked archive with one file; error %v", list, err)
	}
}
