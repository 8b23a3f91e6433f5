package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestApplicationsInGeneralLists checks that the general list and the general view of certificates show open
// applications as pending, and do not show rejected or withdrawn applications.
func TestApplicationsInGeneralLists(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		ctx := t.Context()
		o, err := v.Applications.CreateOffer(ctx, v.inst, application.OfferInput{Slug: "course", Name: "Course"})
		if err == nil {
			o, err = v.Applications.SetOfferStatus(ctx, v.inst.ID, o.UUID, application.Open)
		}
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, name := range []string{"Open", "Claimed", "Rejected", "Withdrawn"} {
			a, err := v.Applications.Submit(ctx, application.Submission{
				Institution: v.inst, Offer: o, Creator: cert.Actor{Type: "token", ID: 7, Name: "Portal"}, FullName: name, Email: strings.ToLower(name) + "@example.org",
			})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.UUID)
		}
		r := application.Reviewer{Institution: v.inst, Person: application.Person{ID: 7, Type: "token", Name: "Portal"}}
		_, claimed := v.Applications.Claim(ctx, r, ids[1])
		_, rejected := v.Applications.Reject(ctx, r, ids[2], "No.", "")
		_, withdrawn := v.Applications.Withdraw(ctx, r, ids[3])
		if claimed != nil || rejected != nil || withdrawn != nil {
			t.Fatal(claimed, rejected, withdrawn)
		}
		for query, want := range map[string][]string{
			"": {ids[1], ids[0]}, "?status=pending": {ids[1], ids[0]}, "?search=course": {ids[1], ids[0]}, "?search=rejected": {}, "?status=failed": {},
		} {
			if got := v.general(query); !slices.Equal(got, want) {
				t.Errorf("%q: the list is %v, want %v", query, got, want)
			}
		}
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusNotFound, http.StatusNotFound} {
			a := v.get("/business/certificates/" + ids[i])
			if a.Status != want || want == http.StatusOK && !strings.Contains(string(a.Body), `"pending"`) {
				t.Errorf("application %d: status = %d, body %s, want %d", i, a.Status, a.Body, want)
			}
			if a := v.get("/business/certificates/" + ids[i] + "/download"); a.Status != http.StatusNotFound {
				t.Errorf("the file of application %d: status = %d, body %s, want 404", i, a.Status, a.Body)
			}
		}
	})
}
