package search

import (
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
)

// A filter by title finds only the certificates with this title, ignoring case.
func TestFilterByTitle(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.bounds.count, v.bounds.scan = 4, 3
		for i := range 12 {
			v.upload(func(u *cert.Upload) {
				u.FullName, u.Email = fmt.Sprintf("Person %02d", i), fmt.Sprintf("p%02d@example.org", i)
				u.Title = []string{"BSc Physics", "BSc Physics and Law", "50% Law_"}[i%3]
			})
		}
		// A title may be equal to the name of the recipient, or to the name of another recipient.
		for _, title := range []string{"Ada OBI", "Bo Ek"} {
			v.upload(func(u *cert.Upload) { u.Title = title })
		}
		v.upload(func(u *cert.Upload) { u.FullName, u.Title = "Bo Ek", "MSc Law" })
		// The filter must not compare the title with addresses or reference ids. One title equals an address.
		other := v.upload(func(u *cert.Upload) { u.FullName, u.Title, u.Email = "Cy Day", "Cy Day", "cy@münchen.example" })
		v.upload(func(u *cert.Upload) { u.FullName, u.Title, u.Email = "Cy Day", "Cy@example.org", "cy@example.org" })
		for title, want := range map[string]int{
			"cy@example.org": 1, "cy@münchen.example": 0, "cy@xn--mnchen-3ya.example": 0, other.ReferenceID: 0, "cy day": 1,
			"ada obi": 1, "bo ek": 1, "bsc  PHYSICS": 4, "BSc Physics and Law": 4, "BSc": 0, "50% law_": 4, "50x law_": 0, "p01@example.org": 0,
		} {
			var names []string
			f := Filter{Title: title, Range: listing.Range{PerPage: 3, Cursor: new(string)}}
			for {
				l, err := v.List(t.Context(), v.inst.ID, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range l.Items {
					names = append(names, c.FullName)
				}
				if l.Next == "" {
					break
				}
				f.Cursor = &l.Next
			}
			if len(names) != want {
				t.Errorf("certificates with the title %q: %v, want %d", title, names, want)
			}
		}
		f := Filter{Title: "BSc Physics", Search: "person 03", Range: listing.Range{PerPage: 3, Cursor: new(string)}}
		if l, err := v.List(t.Context(), v.inst.ID, f); err != nil || len(l.Items) != 1 {
			t.Errorf("a title and a search: %+v, error %v; want one certificate", l, err)
		}
		counts, exact, err := v.CountByStatus(t.Context(), v.inst.ID, Filter{Title: "BSc Physics"})
		if err != nil || exact && counts[cert.Processing] != 4 {
			t.Errorf("counts of a title = %v, exact %t, error %v; want 4 in processing", counts, exact, err)
		}
		long := Filter{Title: strings.Repeat("x", maxFilter+1)}
		if long.Check() == nil {
			t.Error("Check accepts a title that is too long, want an error")
		}
	})
}
