package public

import (
	"context"
	"net/http"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// The data of a page is read from the replica. If the replica does not have the certificate, or has it in
// processing, the data is read again from the primary.
func TestPagesFromAReplica(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	v := newVault(t, d)
	repeated := 0
	v.pages.Read = func(ctx context.Context, f func(ctx context.Context) error) error {
		if err := f(d.ReadFrom(ctx, d, "")); err == nil {
			return nil
		}
		repeated++
		return f(ctx)
	}
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	get := func(state, target string, status, want int) {
		t.Helper()
		repeated = 0
		if w := v.getJSON(target); w.Code != status || repeated != want {
			t.Errorf("%s of %s: status = %d, read again %d times; want %d and %d", target, state, w.Code, repeated, status, want)
		}
	}
	page, file := "/verify/"+c.ReferenceID, "/verify/file/"+hexOf(c.File.SHA256)+"?reference_id="+c.ReferenceID
	get("a certificate in processing", page, http.StatusOK, 1)
	get("a certificate in processing", file, http.StatusOK, 1)
	get("no certificate", "/verify/NWU-7K3M9QX2P4RTVW8Z", http.StatusNotFound, 1)
	v.Settle()
	get("an approved certificate", page, http.StatusOK, 0)
	get("an approved certificate", file, http.StatusOK, 0)
}
