package cert

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
)

// corruptingStore changes one bit of a tail when the tail is read.
type corruptingStore struct{ blob.Store }

func (s corruptingStore) Open(ctx context.Context, key string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, key)
	if err != nil || !strings.HasSuffix(key, ".verified") {
		return o, err
	}
	return corruptedObject{o}, nil
}

type corruptedObject struct{ blob.Object }

func (o corruptedObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	if off == 0 && n > 0 {
		p[0] ^= 1
	}
	return n, err
}

// truncatingStore stores tails without their last byte.
type truncatingStore struct{ blob.Store }

func (s truncatingStore) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	if strings.HasSuffix(key, ".verified") {
		all, err := io.ReadAll(r)
		if err != nil {
			return 0, err
		}
		r = bytes.NewReader(all[:len(all)-1])
	}
	return s.Store.PutReserved(ctx, key, r)
}

func TestCorruptedFileIsNotApproved(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(blob.Store) blob.Store{
		"a changed bit":  func(s blob.Store) blob.Store { return corruptingStore{s} },
		"a missing byte": func(s blob.Store) blob.Store { return truncatingStore{s} },
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, whole file %v", name, whole), func(t *testing.T) {
				t.Parallel()
				v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Blobs = wrap(c.Blobs) })
				v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
					return sealed(o, []byte(tailText), whole)
				}
				c := v.upload(nil)
				before := v.snapshot(c.UUID)
				if err := v.work(t.Context(), c, 1); err == nil || !strings.Contains(err.Error(), "different size or digest") {
					t.Errorf("sealing into a store that corrupts the file: err = %v, want a different size or digest", err)
				}
				if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
					t.Errorf("the record, events and jobs are now %+v, want no change", after)
				}
				if keys := v.keys(); len(keys) != 1 {
					t.Errorf("stored files = %v, want only the original", keys)
				}
			})
		}
	}
}

// A certificate is not approved if the sealer returns a wrong digest or size.
func TestWrongDigestIsNotApproved(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	for name, spoil := range map[string]func(*seal.Verified){
		"digest": func(m *seal.Verified) { m.SHA256[0] ^= 1 },
		"size":   func(m *seal.Verified) { m.Size++ },
	} {
		v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			made, err := sealed(o, []byte(tailText), false)
			spoil(made)
			return made, err
		}
		c := v.upload(titled(name))
		if err := v.work(t.Context(), c, 1); err == nil || v.get(c.UUID).Status != Processing {
			t.Errorf("wrong %s: err = %v, status = %s, want an error and processing", name, err, v.get(c.UUID).Status)
		}
	}
}
