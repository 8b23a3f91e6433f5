package api

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestFingerprintFormat checks the format of stored fingerprints. The format must not change, because a
// stored fingerprint is compared with those of later requests for 24 hours, even after an upgrade. A
// fingerprint is the SHA-256 of all parts of the form. Each part is written as its kind, the length of its
// name, its name, and the SHA-256 of its content.
func TestFingerprintFormat(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	for what, parts := range map[string][]part{
		"accepted":  append(v.validFields(), pdfFile(samplePDF(100_000)), text("details", "x")),
		"refused":   append(v.validFields(), pdfFile([]byte("PK\x03\x04"))),
		"too large": append(v.validFields(), pdfFile(samplePDF(20<<20+2000))),
		"two files": append(v.validFields(), pdfFile(samplePDF(0)), pdfFile([]byte("second"))),
	} {
		h := sha256.New()
		for _, p := range parts {
			kind := byte('f')
			if p.file != "" {
				kind = 'F'
			}
			h.Write([]byte{kind})
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p.name))))
			h.Write([]byte(p.name))
			content := sha256.Sum256(p.content)
			h.Write(content[:])
		}
		key := strings.ReplaceAll(what, " ", "-")
		a := v.postFormWithKey(key, parts...)
		if a.Status != http.StatusCreated && a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: status = %d, want 201 or 422; body %s", what, a.Status, a.Body)
		}
		var n int
		if err := v.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM idempotency_keys WHERE fingerprint = $1`, h.Sum(nil)).Scan(&n); err != nil || n != 1 {
			t.Errorf("%s: got %d stored keys with the expected fingerprint, error %v; want 1", what, n, err)
		}
	}
}
