package vault_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestS3Requests counts the requests to S3 from the upload of a certificate to its approval, except those for
// pictures. There are two PUT and two GET, or three GET if the disk has no copies, as on another node. The
// test also reads the verified PDF, which is stored as two files.
func TestS3Requests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gone bool
		gets int64
	}{"same node": {false, 2}, "without copies": {true, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var puts, gets atomic.Int64
			faults := &blobtest.Faults{Next: &blobtest.Memory{}}
			faults.Set(func(r *http.Request) blobtest.Fault {
				switch {
				case strings.HasSuffix(r.URL.Path, ".image"): // not counted
				case r.Method == http.MethodPut:
					puts.Add(1)
				case r.Method == http.MethodGet:
					gets.Add(1)
				default:
					t.Errorf("%s %s, want only PUT and GET", r.Method, r.URL)
				}
				return blobtest.None
			})
			scratch := t.TempDir()
			store, err := blob.OpenS3(blobtest.NewS3(t, faults).Location(), blob.S3Options{Scratch: scratch, Cache: 1 << 20})
			ok(t, err)
			v := vaulttest.New(t, dbtest.SQLite(t), func(d *vault.Deps) { d.Blobs = store })
			inst := v.Institution("NWU", "Northern & Western University")
			c := v.Upload(inst, "Ada Obi", "diploma.pdf")
			if tc.gone {
				ok(t, os.RemoveAll(scratch))
			}
			v.Settle()
			if puts.Load() != 2 || gets.Load() != tc.gets {
				t.Errorf("requests = %d PUT and %d GET, want 2 and %d", puts.Load(), gets.Load(), tc.gets)
			}
			if c, err = v.Certs.ByUUID(t.Context(), inst.ID, c.UUID); err != nil || c.Status != cert.Approved {
				t.Fatalf("certificate = %+v, %v, want an approved certificate", c, err)
			}
			ok(t, os.RemoveAll(scratch))
			content, err := v.Certs.OpenVerified(t.Context(), c)
			ok(t, err)
			got := make([]byte, 20)
			split := int64(len(vaulttest.PDF))
			if _, err := content.ReadAt(got, split-10); err != nil || !bytes.Equal(got[:10], vaulttest.PDF[split-10:]) {
				t.Errorf("the bytes around the end of the original = %q, %v, want the last ten bytes of the original first", got, err)
			}
			all, err := io.ReadAll(content)
			if err != nil || int64(len(all)) != c.Verified.Size || !bytes.Equal(all[split-10:split+10], got) {
				t.Errorf("the verified PDF has %d bytes, %v, want %d, including the bytes that ReadAt returned", len(all), err, c.Verified.Size)
			}
			ok(t, content.Close())
		})
	}
}
