package issuer_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// Each certificate has a different place: no position occurs twice in a list, and a list has only the
// certificates of one range of ids and of one version.
func TestPlaces(t *testing.T) {
	t.Parallel()
	v, inst, _ := issued(t, dbtest.SQLite(t))
	const size = 131_072
	seen := make([]bool, size)
	lists := map[string]bool{}
	inOrder := 0
	for _, p := range v.Issuer.Places(t, inst.ID, 3*size, size, 0) {
		if lists[p.List] = true; seen[p.Position] {
			t.Fatalf("two certificates have the position %d", p.Position)
		}
		seen[p.Position] = true
	}
	if len(lists) != 1 {
		t.Errorf("the certificates are in %d lists, want 1", len(lists))
	}
	last := -1
	if v.Issuer.Numbers(t, inst.ID, 3*size) != size {
		t.Error("order.number is not the inverse of order.position for each certificate")
	}
	for _, from := range []struct {
		id      int64
		version int
	}{{3 * size, 0}, {3*size - 1, 0}, {4 * size, 0}, {3 * size, 1}} {
		p := v.Issuer.Places(t, inst.ID, from.id, 1, from.version)[0]
		lists[p.List] = true
		if p.Position == last+1 {
			inOrder++
		}
		last = p.Position
	}
	if len(lists) != 4 || inOrder > 1 {
		t.Errorf("%d lists and %d consecutive positions, want 4 lists and at most 1 consecutive position", len(lists), inOrder)
	}
	for _, id := range []string{uuid.NewString(), uuid.Nil.String(), "x"} {
		if _, err := v.Issuer.List(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("List(%q): error = %v, want fault.NotFound", id, err)
		}
	}
}

// A credential of the previous release keeps its place, and its revocation is in its status list.
func TestPlacesOfThePreviousRelease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		list := uuid.NewString()
		v.Exec(`INSERT INTO credential_status_lists (uuid, institution_id, closed, created_at) VALUES ($1, $2, FALSE, 1)`, list, inst.ID)
		v.Exec(`INSERT INTO credential_status_entries (list, position, certificate_id, revoked) VALUES ($1, 4711, $2, FALSE)`, list, c.ID)
		v.Exec(`INSERT INTO credentials (certificate_id, institution_id, list, position, vc, jwt, sd_jwt, created_at) VALUES ($1, $2, $3, 4711, '', '', '', 1)`, c.ID, inst.ID, list)
		b := credentialOf(t, v, c)
		if b.Status.StatusListIndex != "4711" || revokedIn(t, v, b) {
			t.Errorf("the place is %+v, want the position 4711, not revoked", b.Status)
		}
		_, err := v.Certs.Revoke(t.Context(), inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		v.Advance(issuerStale)
		if !revokedIn(t, v, b) {
			t.Error("the credential is not revoked in the status list after the revocation")
		}
	})
}
