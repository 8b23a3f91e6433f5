//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// TestErase erases a revoked certificate with the command erase while the vault runs. The files are
// deleted at once. A public look-up of the file still finds the revoked certificate.
func TestErase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		erase := func(reference string) vault.Result {
			t.Helper()
			res, err := vault.Run(t.Context(), f.Options, "", "erase", "--certificate", reference, "--reason", "Request of the person", "--json")
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		c, pdf := f.uploadApproved(t, "Ada Obi")
		other, _ := f.uploadApproved(t, "Bo Li")
		public := f.as(t, "")
		get(t, public, c.VerificationURL, http.StatusOK)
		if res := erase(c.ReferenceID); res.Code != 1 || !strings.Contains(res.Stderr, "Revoke it first") || res.Stdout != "" {
			t.Errorf("erasing an approved certificate: got %+v, want exit code 1 and the advice to revoke it first", res)
		}
		f.revoke(t, c.UUID, "Issued in error.", "")
		before := len(f.files(t, "blobs"))
		var done struct {
			ReferenceID   string `json:"reference_id"`
			FilesDeleted  int    `json:"files_deleted"`
			RecordDeleted bool   `json:"record_deleted"`
		}
		res := erase(strings.ToLower(c.ReferenceID))
		if err := json.Unmarshal([]byte(res.Stdout), &done); err != nil || res.Code != 0 || done.ReferenceID != c.ReferenceID || done.FilesDeleted != 2 || done.RecordDeleted {
			t.Fatalf("erasing a revoked certificate: got %+v, %v; want exit code 0, two deleted files and record_deleted = false", res, err)
		}
		if after := len(f.files(t, "blobs")); after != before-2 {
			t.Errorf("got %d files after the erasure, want %d", after, before-2)
		}
		wantClientError(t, f.api(t).Download(t.Context(), c.UUID, io.Discard), client.ErrNotFound, "The files of this certificate are no longer available: they were erased, "+
			"or deleted because the institution keeps the files of revoked certificates for a limited time. The record remains.")
		sum := sha256.Sum256(pdf)
		if a := get(t, public, "/verify/file/"+hex.EncodeToString(sum[:]), http.StatusOK); !strings.Contains(string(a.Body), c.ReferenceID) {
			t.Errorf("the look-up of the erased file = %s, want the revoked certificate", a.Body)
		}
		f.verified(t, other.UUID)
		if n := count(t, f.database(t), `SELECT count(*) FROM audit_entries WHERE action = 'certificate.erased' AND subject_id = $1`, c.UUID); n != 1 {
			t.Errorf("got %d erasures in the audit log, want 1", n)
		}
		if res := erase(c.ReferenceID); res.Code != 0 {
			t.Errorf("erasing the certificate again: got %+v, want exit code 0", res)
		}
	})
}
