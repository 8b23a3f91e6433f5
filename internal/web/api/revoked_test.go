package api

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// readerFunc is a function that implements io.Reader.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// If a token is revoked while the body of an upload arrives, the upload is refused and nothing is
// stored.
func TestTokenRevokedDuringUploadIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		revoke := readerFunc(func([]byte) (int, error) {
			list, err := v.Tokens.List(t.Context(), v.inst.ID)
			// The server has authenticated the request when it has recorded the use of the token.
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
			// The lines before the first boundary fill the buffer of the client, so that the client
			// sends the header of the request before it calls revoke. The server ignores these lines
			// (RFC 2046, 5.1.1).
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
