package api

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// readerFunc is a reader that calls a function.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A token that is revoked while the body of an upload arrives creates no certificate.
func TestTokenRevokedDuringUploadIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		revoke := readerFunc(func([]byte) (int, error) {
			list, err := v.Tokens.List(t.Context(), v.inst.ID)
			// The server records the use of the token after it has authenticated the request.
			for err == nil && list[0].LastUsedAt == nil {
				list, err = v.Tokens.List(t.Context(), v.inst.ID)
			}
			if err != nil {
				return 0, err
			}
			if err := v.Tokens.Revoke(t.Context(), v.inst.ID, list[0].ID); err != nil {
				return 0, err
			}
			return 0, io.EOF
		})
		for _, target := range []struct {
			path string
			body []byte
		}{
			{"/business/certificate-vault", form(t, append(v.validFields(), pdfFile(samplePDF(0)))...)},
			{"/business/certificate-vault/upload-file", form(t, part{name: "file", file: "a.pdf", content: samplePDF(0)})},
		} {
			v.secret = v.token(v.inst, nil, "certificate-vault:create")
			// The lines before the first boundary fill the client's buffer, so that the client
			// sends the lines before it reads on. The server ignores them (RFC 2046, 5.1.1).
			body := io.MultiReader(bytes.NewReader(bytes.Repeat([]byte("line\r\n"), 10_000)), revoke, bytes.NewReader(target.body))
			r := v.request(http.MethodPost, target.path, body)
			r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
			if a := v.do(r); a.Status != http.StatusUnauthorized {
				t.Errorf("%s: status = %d, want 401; body %s", target.path, a.Status, a.Body)
			}
		}
		if rows, files := v.stored(); rows != 0 || files != 0 {
			t.Errorf("%d certificates and %d files are stored, want none", rows, files)
		}
	})
}
