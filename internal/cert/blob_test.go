package cert

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// drawn creates an approved certificate with a picture.
func (v *vault) drawn(title string) *Certificate {
	v.tb.Helper()
	c := v.approved(v.upload(titled(title)))
	picture, err := v.OpenImage(v.tb.Context(), c)
	if err != nil {
		v.tb.Fatal(err)
	}
	if err := picture.Close(); err != nil {
		v.tb.Fatal(err)
	}
	return v.get(c.UUID)
}

func TestReferencedBlobs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.drawn("one")
		want := []string{c.File.Key, c.Verified.TailKey, c.imageKey, "ledger/aa/leaf.proof", "inst/no-kind"}
		got, err := ReferencedBlobs(t.Context(), d, append([]string{"inst/a.original", "inst/a.verified", "inst/a.image", "inst/a." + ArchiveKind}, want...))
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ReferencedBlobs = %v, %v, want the files of the certificate and the unknown kinds %v", got, err, want)
		}
	})
}

func TestReferencedBlobsUsesIndexes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		query, args, err := referencedQuery(d, map[string][]string{"original": {"a"}, "verified": {"b"}, "image": {"c"}})
		if err != nil {
			t.Fatal(err)
		}
		plan := dbtest.Plan(t, d, query, args...)
		for _, index := range []string{"certificates_original_key_idx", "certificates_tail_key_idx", "certificates_image_key_idx"} {
			if !strings.Contains(plan, index) || strings.Contains(plan, "SCAN certificates") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("the look-up does not use the index %s, or reads all certificates:\n%s", index, plan)
			}
		}
	})
}

func TestBlobKeysUsesIndexes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, column := range blobColumns {
			plan := dbtest.Plan(t, d, keysQuery(column), "a", 1000)
			if !strings.Contains(plan, "certificates_"+column+"_idx") || strings.Contains(plan, "B-TREE") || strings.Contains(plan, "Sort") {
				t.Errorf("the query for the column %s sorts, or does not use the index:\n%s", column, plan)
			}
		}
	})
}

// countingQueryer counts the statements.
type countingQueryer struct {
	db.Queryer

	n int
}

func (c *countingQueryer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.n++
	return c.Queryer.QueryContext(ctx, query, args...)
}

func TestBlobKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		one, two := v.drawn("one"), v.approved(v.upload(titled("two")))
		shared := v.upload(func(u *Upload) { u.Title, u.File = "shared", &two.File })
		want := []string{one.File.Key, one.Verified.TailKey, one.imageKey, shared.File.Key, two.Verified.TailKey}
		ended := v.approved(v.upload(titled("ended")))
		if _, err := v.Revoke(t.Context(), v.inst.ID, ended.UUID, Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Erase(t.Context(), ended.ReferenceID, ""); err != nil {
			t.Fatal(err)
		}
		var got []string
		q := &countingQueryer{Queryer: d}
		if err := BlobKeys(t.Context(), q, func(key string) error { got = append(got, key); return nil }); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || q.n != 3 {
			t.Errorf("BlobKeys visited %v with %d statements, want each of %v once and 3 statements", got, q.n, want)
		}
		stop := errors.New("stop")
		if err := BlobKeys(t.Context(), d, func(string) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("BlobKeys with a function that fails: err = %v, want the error of the function", err)
		}
	})
}
