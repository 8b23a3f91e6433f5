package bulkimport_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// A row is doubtful if its file has text that does not contain the name of the recipient.
func TestNamesAreComparedWithFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), "Title,Name,Email,File\nBSc,Ada Lovelace,ada@example.org,ada.pdf\nBSc,Grace Hopper,grace@example.org,other.pdf\nBSc,Bea Obi,bea@example.org,scan.png.pdf\nBSc,Cy,invalid,other.pdf\n")
		for name, text := range map[string]string{"ada.pdf": "LOVELACE, Ada", "other.pdf": "We certify that Hedy Lamarr", "scan.png.pdf": ""} {
			_, err := k.AddFile(t.Context(), k.inst, draft, name, bytes.NewReader(pdftest.Page(text)))
			k.ok(err)
		}
		v := k.review(draft)
		if left, err := k.CompareNames(t.Context(), v, v.Rows, 0); err != nil || left != 3 {
			t.Fatalf("CompareNames() without time = %d, %v; want 3 rows that were not compared", left, err)
		}
		if left, err := k.CompareNames(t.Context(), v, v.Rows, time.Minute); err != nil || left != 0 {
			t.Fatalf("CompareNames() = %d, %v; want 0 rows that were not compared", left, err)
		}
		absent := func(v *bulkimport.Review) (list []int) {
			for _, row := range v.Rows {
				if row.NameAbsent {
					list = append(list, row.Number)
				}
			}
			return list
		}
		if got := absent(v); !slices.Equal(got, []int{3}) || !v.Rows[1].Doubtful() || v.Rows[0].Doubtful() {
			t.Errorf("the rows without the name in the file are %v, want row 3, which is doubtful", got)
		}
		// The results are stored, so a review needs no time to read the files again.
		v = k.review(draft)
		if left, err := k.CompareNames(t.Context(), v, v.Rows, 0); err != nil || left != 0 || !slices.Equal(absent(v), []int{3}) {
			t.Errorf("a second comparison left %d rows (%v) and found %v, want none and row 3", left, err, absent(v))
		}
	})
}

// downStore is a store that cannot be read while down is true.
type downStore struct {
	blob.Store

	down bool
}

func (s *downStore) Open(ctx context.Context, key string) (blob.Object, error) {
	if s.down {
		return nil, blob.ErrUnavailable
	}
	return s.Store.Open(ctx, key)
}

// A file that could not be read while the store was not available is read again.
func TestNamesAreComparedAfterAnOutage(t *testing.T) {
	t.Parallel()
	store := &downStore{}
	k := &fixture{t: t, sealer: &sealer{}}
	k.Vault = vaulttest.New(t, dbtest.SQLite(t), func(d *vault.Deps) { d.Sealer, store.Store, d.Blobs = k.sealer, d.Blobs, store })
	k.Service = k.BulkImports
	k.inst = k.institution("NWU")
	draft := k.list(k.create(), "Title,Name,Email,File\nBSc,Ada Lovelace,ada@example.org,ada.pdf\n")
	_, err := k.AddFile(t.Context(), k.inst, draft, "ada.pdf", bytes.NewReader(pdftest.Page("We certify that Hedy Lamarr")))
	k.ok(err)
	for _, down := range []bool{true, false} {
		store.down = down
		v := k.review(draft)
		if left, err := k.CompareNames(t.Context(), v, v.Rows, time.Minute); err != nil || left != 0 || v.Rows[0].NameAbsent == down {
			t.Errorf("CompareNames with down = %t: %d rows left, name absent: %t, error %v; want 0 rows and %t", down, left, v.Rows[0].NameAbsent, err, !down)
		}
	}
}

func TestSuggestedFiles(t *testing.T) {
	t.Parallel()
	k := newFixture(t, dbtest.SQLite(t))
	draft := k.list(k.create(), `Title,Name,Email,File
BSc,Zoë Müller-Groß,a@example.org,wrong.pdf
BSc,Ada Obi,b@example.org,
BSc,Cy Roth,c@example.org,Roth Cy (1) .pdf
BSc,Di Ito,d@example.org,missing.pdf
BSc,Eli Kim,e@example.org,eli.pdf
`)
	for _, name := range []string{"x/Groß_Zoe Müller.pdf", "obi-ada-2026.pdf", "roth_cy_1.pdf", "ito_di_1.pdf", "ito_di_2.pdf", "eli.pdf", "Kim.pdf"} {
		k.file(draft, name)
	}
	v := k.review(draft)
	got := map[int]string{}
	for row, file := range v.SuggestedFiles() {
		got[row.Number] = file.Path
	}
	want := map[int]string{2: "x/Groß_Zoe Müller.pdf", 3: "obi-ada-2026.pdf", 4: "roth_cy_1.pdf"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the suggested files are %v, want %v and none for row 5, to which two files may belong", got, want)
	}
}
