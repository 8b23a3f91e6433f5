// Package certtest has what tests of a vault at work stand on: a sealer that
// costs nothing, institutions with keys, and files to upload. It does not know
// package cert, whose own tests use it.
package certtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
)

// Tail is what Seal adds to an original.
const Tail = "\n% a tail that makes it verified\n"

// ErrRefused is what a sealer says of a file that can never be sealed.
var ErrRefused error = &seal.Refusal{Code: "no_room", Reason: "There is no room for the stamp."}

// Seal adds a tail to an original.
func Seal(o seal.Original) (*seal.Verified, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(o.R, 0, o.Size)); err != nil {
		return nil, err
	}
	hash.Write([]byte(Tail))
	return &seal.Verified{
		Body: io.NewSectionReader(strings.NewReader(Tail), 0, int64(len(Tail))), SHA256: [32]byte(hash.Sum(nil)), Size: o.Size + int64(len(Tail)),
		Placement: seal.BottomRight, Page: 1, Box: seal.Box{0.5, 0.5, 0.75, 1},
	}, nil
}

// Verify finds every file valid.
func Verify(io.ReaderAt, int64, pades.Options) (*pades.Report, error) {
	return &pades.Report{Verdict: pades.Valid}, nil
}

// Keys makes signing keys with their root.
func Keys(tb testing.TB, now func() time.Time) *authority.Authority {
	tb.Helper()
	keys := authority.New(tb.TempDir(), authority.Options{Now: now})
	if err := keys.MakeRoot(); err != nil {
		tb.Fatal(err)
	}
	return keys
}

// Institution makes an institution, and its key where there are keys.
func Institution(tb testing.TB, d *db.DB, keys *authority.Authority, prefix, name string) *account.Institution {
	tb.Helper()
	i := &account.Institution{UUID: uuid.NewString(), Slug: strings.ToLower(prefix), Name: name, Prefix: prefix}
	if err := d.Tx(tb.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(tb.Context(), `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, 0) RETURNING id`,
			i.UUID, i.Slug, i.Name, i.Prefix).Scan(&i.ID)
	}); err != nil {
		tb.Fatal(err)
	}
	if keys != nil {
		if err := keys.Create(i.UUID, i.Name); err != nil {
			tb.Fatal(err)
		}
	}
	return i
}

// PDF is a file of one page with a text, padded to size where size is given.
func PDF(text string, size int) []byte {
	if size == 0 {
		return onePage(text, -1)
	}
	return onePage(text, size-len(onePage(text, 0)))
}

// onePage is padded by a stream of some length, and by none where that is less
// than 0.
func onePage(text string, padding int) []byte {
	content := "BT /F1 24 Tf 72 700 Td (" + text + ") Tj ET"
	bodies := []string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(content), content),
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
	}
	if padding >= 0 {
		bodies = append(bodies, fmt.Sprintf("<</Length %010d>>stream\n%s\nendstream", padding, strings.Repeat("x", padding)))
	}
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	at := make([]int, len(bodies))
	for i, body := range bodies {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, body)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%010d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}
