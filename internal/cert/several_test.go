package cert

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestRetryAndRevokeSeveral(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		other := v.institution("OTH")
		foreign := v.upload(func(u *Upload) { *u = v.input(other) })
		approved := v.approved(v.upload(titled("approved")))
		var failed []*Certificate
		for i := range 3 {
			c := v.upload(titled("failed " + strconv.Itoa(i)))
			v.force(c, Failed)
			failed = append(failed, c)
		}
		v.force(foreign, Failed)
		none := uuid.NewString()
		list, err := v.RetrySeveral(ctx, v.inst.ID, []string{failed[0].UUID, approved.UUID, foreign.UUID, none, failed[1].UUID, failed[0].UUID})
		if err != nil || len(list) != 5 {
			t.Fatalf("%+v, %v", list, err)
		}
		for i, done := range []bool{true, false, false, false, true} {
			if list[i].Done != done || (list[i].Why == "") != done {
				t.Errorf("outcome %d: %+v", i, list[i])
			}
		}
		if list[2].Certificate != nil || v.get(foreign.UUID).Status != Failed {
			t.Errorf("another institution's: %+v", list[2])
		}
		for _, c := range failed[:2] {
			if got := v.get(c.UUID); got.Status != Processing || got.EventContext != Retrying {
				t.Errorf("%s: %s, %s", c.Title, got.Status, got.EventContext)
			}
		}
		if _, err := v.RevokeSeveral(ctx, v.inst.ID, []string{approved.UUID}, Revocation{}); !fault.Is(err, fault.Invalid) || v.get(approved.UUID).Status != Approved {
			t.Errorf("without a reason: %v", err)
		}
		list, err = v.RevokeSeveral(ctx, v.inst.ID, []string{approved.UUID, failed[2].UUID, foreign.UUID}, Revocation{Reason: " Issued in error. ", Note: "See file 7."})
		if err != nil || len(list) != 3 || !list[0].Done || !list[1].Done || list[2].Done {
			t.Fatalf("%+v, %v", list, err)
		}
		if c := v.get(approved.UUID); c.Status != Revoked || c.RevocationReason != "Issued in error." || c.RevocationNote != "See file 7." || v.get(foreign.UUID).Status != Failed {
			t.Errorf("%+v", c)
		}
		list, err = v.RevokeSeveral(ctx, v.inst.ID, []string{approved.UUID}, Revocation{Reason: "Another one."})
		if err != nil || list[0].Done || list[0].Why == "" || v.get(approved.UUID).RevocationReason != "Issued in error." {
			t.Errorf("again: %+v, %v", list, err)
		}
	})
}

func TestSelectionsAreChecked(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	many := make([]string, MaxSelection+1)
	for i := range many {
		many[i] = uuid.NewString()
	}
	for name, ids := range map[string][]string{"none": nil, "too many": many, "no uuid": {"1"}, "sql": {"' OR 1 = 1 --"}, "capitals": {strings.ToUpper(many[0])}, "urn": {"urn:uuid:" + many[0]}} {
		if _, err := v.RetrySeveral(t.Context(), v.inst.ID, ids); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := v.Some(t.Context(), v.inst.ID, many[:MaxSelection]); err != nil || len(list) != 0 {
		t.Errorf("as many as may be: %d, %v", len(list), err)
	}
}

// A walk and its steps give every record of the institution that the filter
// selects exactly once, while they move from status to status.
func TestWalksGiveEachOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		records := crowd(150, v.inst.ID, other.ID)
		v.insert(records)
		for _, b := range []bounds{usualBounds, lowBounds} {
			v.bounds = b
			for name, f := range map[string]Filter{
				"all": {}, "search": {Search: "ada"}, "issued": {IssuedFrom: "2024-03-02"}, "with an order": {Search: "a", Sort: ByName, Ascending: true},
			} {
				want := map[string]bool{}
				for c, err := range v.walk(t.Context(), v.inst.ID, f, 1000) {
					if err != nil || c.InstitutionID != v.inst.ID {
						t.Fatalf("%s: %+v, %v", name, c, err)
					}
					want[c.UUID] = true
				}
				var got []string
				for c, err := range v.walk(t.Context(), v.inst.ID, f, 4) {
					if err != nil {
						t.Fatal(err)
					}
					if slices.Contains(got, c.UUID) {
						t.Fatalf("%s: %s came twice", name, c.UUID)
					}
					got = append(got, c.UUID)
					v.exec(`UPDATE certificates SET updated_at = updated_at + 1, status = CASE status WHEN 'approved' THEN 'revoked' ELSE 'approved' END WHERE uuid = $1`, c.UUID)
				}
				if len(got) != len(want) || len(got) == 0 {
					t.Errorf("%s: %d of %d", name, len(got), len(want))
				}
			}
		}
		v.bounds = usualBounds
		ids, next, err := v.Page(t.Context(), v.inst.ID, Filter{}, "")
		if err != nil || next != "" || len(ids) != len(records)-countOf(records, other.ID) {
			t.Errorf("%d, %q, %v", len(ids), next, err)
		}
		if _, _, err := v.Page(t.Context(), v.inst.ID, Filter{}, "made up"); !fault.Is(err, fault.Invalid) {
			t.Errorf("a cursor that is none: %v", err)
		}
	})
}

func countOf(records []*record, institution int64) (n int) {
	for _, r := range records {
		if r.institution == institution {
			n++
		}
	}
	return n
}

// Steps of the largest size join without a gap.
func TestStepsJoin(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	v.insert(crowd(MaxSelection+70, v.inst.ID))
	seen := map[string]bool{}
	cursor, steps := "", 0
	for {
		ids, next, err := v.Page(t.Context(), v.inst.ID, Filter{}, cursor)
		if err != nil {
			t.Fatal(err)
		}
		steps++
		for _, id := range ids {
			seen[id] = true
		}
		if cursor = next; next == "" {
			break
		}
	}
	if steps != 2 || len(seen) != MaxSelection+70 {
		t.Errorf("%d steps, %d certificates", steps, len(seen))
	}
}
