package search

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
)

// unusualNames returns unusual names of people, and malicious names. If the file with the names does not
// exist, it fails the test in CI and skips the test elsewhere.
func unusualNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../../shared/corpus/recipients/names-tricky.json")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the file with the names does not exist")
	}
	var list []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if name := strings.TrimSpace(l.Name); name != "" && account.CleanText(name) && utf8.RuneCountInString(name) <= 255 {
			names = append(names, name)
		}
	}
	return names
}

// A search finds names in any script by the whole name, its beginning, its middle and each of its words,
// as docs/api.md requires. The bounds do not change the result.
func TestSearchForUnusualNames(t *testing.T) {
	t.Parallel()
	names := unusualNames(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var all []*record
		for i, name := range names {
			r := sampleRecords(1, v.inst.ID)[0]
			r.id, r.name, r.title, r.reference, r.email = int64(1+i), name, fmt.Sprint("T", i), fmt.Sprintf("NWU-%016d", i), fmt.Sprintf("n%d@example.org", i)
			all = append(all, r)
		}
		v.insert(all)
		other := v.institution("OTHER")
		copies := sampleRecords(1, other.ID)
		copies[0].id, copies[0].name, copies[0].reference = 100_000, names[0], "OTHER-0"
		v.insert(copies)
		searches := map[string]bool{}
		for _, name := range names {
			runes := []rune(name)
			for _, s := range []string{name, strings.ToUpper(name), string(runes[:1]), string(runes[:min(2, len(runes))]), string(runes[len(runes)/3:]), string(runes[len(runes)/4 : 1+len(runes)*3/4])} {
				searches[s] = true
			}
			for word := range strings.FieldsSeq(name) {
				searches[word] = true
			}
		}
		for search := range searches {
			if len(search) > maxFilter || cert.FoldText(search) == "" {
				continue
			}
			f := Filter{Search: search, Range: listing.Range{PerPage: 100, Page: 1}}
			want := model(all, v.inst.ID, &f)
			for _, v.bounds = range []bounds{defaultBounds, {count: 1000}} {
				if got := ids(v.list(f)); !slices.Equal(got, want) {
					t.Errorf("search %q with %+v: records = %v, want %v", search, v.bounds, got, want)
				}
			}
		}
	})
}
