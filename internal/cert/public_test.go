package cert

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// ByDigest returns only approved and revoked certificates, which are public.
func TestByDigestReturnsPublicCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		made := v.upload(titled("one"))
		original := made.File.SHA256
		unknown := func(name string, sum [32]byte) {
			t.Helper()
			if m, err := v.ByDigest(ctx, sum); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: match = %+v, err = %v, want NotFound", name, m, err)
			}
		}
		verified := sha256.Sum256([]byte("verified"))
		v.exec(`UPDATE certificates SET verified_sha256 = $1, verified_size = 1, tail_key = 'x' WHERE uuid = $2`, verified[:], made.UUID)
		for _, status := range []Status{Processing, Failed} {
			v.force(made, status)
			unknown(string(status)+", original", original)
			unknown(string(status)+", verified", verified)
		}
		unknown("a file without a certificate", sha256.Sum256([]byte("x")))
		unknown("the zero digest", [32]byte{})
		for _, status := range []Status{Approved, Revoked} {
			v.force(made, status)
			m, err := v.ByDigest(ctx, verified)
			if err != nil || m.Match != MatchVerified || m.Count != 1 || m.Certificate.UUID != made.UUID {
				t.Errorf("%s, verified PDF: match = %+v, err = %v, want MatchVerified with the certificate", status, m, err)
			}
			m, err = v.ByDigest(ctx, original)
			if err != nil || m.Match != MatchOriginal || m.Count != 1 || m.Certificate.UUID != made.UUID {
				t.Errorf("%s, original: match = %+v, err = %v, want MatchOriginal with the certificate", status, m, err)
			}
		}
		// A second certificate of the same original is not counted until it is approved. Then the file
		// no longer identifies one certificate.
		again := v.upload(titled("two"))
		if m, err := v.ByDigest(ctx, original); err != nil || m.Count != 1 || m.Certificate == nil {
			t.Errorf("with a second certificate in processing: match = %+v, err = %v, want one certificate", m, err)
		}
		v.force(again, Approved)
		if m, err := v.ByDigest(ctx, original); err != nil || m.Match != MatchOriginal || m.Count != 2 || m.Certificate != nil {
			t.Errorf("with two public certificates: match = %+v, err = %v, want the count 2 and no certificate", m, err)
		}
	})
}

// TestOriginalOfAnotherInstitutionHidesNoRecord checks that ByDigest finds the certificates of all
// institutions with the same original. ByDigest ignores an institution with only revoked certificates if
// another institution has an approved one.
func TestOriginalOfAnotherInstitutionHidesNoRecord(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		first := v.upload(titled("one"))
		sum := first.File.SHA256
		v.inst = v.institution("OTH")
		second, third := v.upload(titled("two")), v.upload(titled("three"))
		check := func(name string, statuses [3]Status, count int, want ...string) {
			t.Helper()
			for i, c := range []*Certificate{first, second, third} {
				v.force(c, statuses[i])
			}
			m, err := v.ByDigest(ctx, sum)
			if err != nil {
				t.Errorf("%s: ByDigest returned the error %v, want none", name, err)
				return
			}
			var got []string
			for _, i := range m.Issuers {
				id := ""
				if i.Certificate != nil {
					id = i.Certificate.UUID
				}
				got = append(got, id)
			}
			if m.Count != count || !slices.Equal(got, want) || (m.Certificate != nil) != (count == 1) {
				t.Errorf("%s: count = %d, issuers' certificates = %q, certificate = %v; want %d, %q, and a certificate only if the count is 1", name, m.Count, got, m.Certificate, count, want)
			}
		}
		check("one of each", [3]Status{Approved, Approved, Failed}, 2, first.UUID, second.UUID)
		check("the other revoked its own", [3]Status{Approved, Revoked, Failed}, 1, first.UUID)
		check("the other revoked two", [3]Status{Approved, Revoked, Revoked}, 1, first.UUID)
		check("the other has two", [3]Status{Approved, Approved, Revoked}, 3, first.UUID, "")
		check("the first revoked its own", [3]Status{Revoked, Approved, Failed}, 1, second.UUID)
		check("both revoked", [3]Status{Revoked, Revoked, Failed}, 2, first.UUID, second.UUID)
	})
}

func TestByDigestUsesIndexes(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	for query, index := range map[string]string{
		`SELECT uuid FROM certificates WHERE verified_sha256 = x'00' AND status IN ('approved', 'revoked') ORDER BY id LIMIT 1`:                                     "certificates_verified_sha256_idx",
		`SELECT 1 FROM certificates WHERE sha256 = x'00' AND status IN ('approved', 'revoked') LIMIT 10`:                                                            "certificates_sha256_idx",
		`SELECT institution_id FROM certificates WHERE sha256 = x'00' AND institution_id > 1 AND status IN ('approved', 'revoked') ORDER BY institution_id LIMIT 1`: "certificates_sha256_idx (sha256=? AND institution_id>?)",
	} {
		var id, parent, unused int
		var detail string
		if err := d.QueryRowContext(t.Context(), `EXPLAIN QUERY PLAN `+query).Scan(&id, &parent, &unused, &detail); err != nil || !strings.Contains(detail, index) {
			t.Errorf("%s: plan = %s, err = %v, want index %s", query, detail, err, index)
		}
	}
}

func TestSimilarFindsOneMistake(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		rename := func(c *Certificate, id string) {
			v.exec(`UPDATE certificates SET reference_id = $1, reference_folded = $2 WHERE uuid = $3`, id, FoldReference(id), c.UUID)
		}
		const id = "NWU-7K3M9QX2P4RTVW8Z"
		made := v.upload(titled("one"))
		rename(made, id)
		similar := func(typed string) string {
			got, err := v.Similar(t.Context(), typed)
			if err != nil {
				t.Errorf("Similar(%q) returned the error %v, want none", typed, err)
			}
			return got
		}
		for _, status := range []Status{Processing, Failed} {
			v.force(made, status)
			if got := similar("NWU-7K3M9QX2P4RTVW8S"); got != "" {
				t.Errorf("status %s: Similar = %q, want none", status, got)
			}
		}
		v.force(made, Approved)
		for typed, want := range map[string]string{
			"NWU-7K3M9QX2P4RTVWBZ":  id, // B for 8
			"nwu 7k3m9qx2p4rtuw8z":  id, // U for V
			"NWU-K73M9QX2P4RTVW8Z":  id, // two swapped characters
			"NWU-7K3M9QX2P4RTVWZ8":  id,
			"NWU-7K3M9QX2P4RTVW8H":  "", // H is not confused with Z
			"NWU-1K3M9QX2P4RTVWBZ":  "", // two mistakes
			"NVU-7K3M9QX2P4RTVW8Z":  "", // the prefix is not corrected
			"NWU-7K3M9QX2P4RTVW8":   "",
			"":                      "",
			strings.Repeat("7", 60): "",
		} {
			if got := similar(typed); got != want {
				t.Errorf("Similar(%q) = %q, want %q", typed, got, want)
			}
		}
		// Similar returns no id if two ids are similar.
		other := v.upload(titled("two"))
		rename(other, "NWU-7K3M9QX2P4RTVW62")
		v.force(other, Approved)
		rename(made, "NWU-7K3M9QX2P4RTVW6S")
		if got := similar("NWU-7K3M9QX2P4RTVW6Z"); got != "NWU-7K3M9QX2P4RTVW62" {
			t.Errorf("with one similar id: Similar = %q, want NWU-7K3M9QX2P4RTVW62", got)
		}
		rename(made, "NWU-7K3M9QX2P4RTVWGZ")
		if got := similar("NWU-7K3M9QX2P4RTVW6Z"); got != "" {
			t.Errorf("with two similar ids: Similar = %q, want none", got)
		}
	})
}
