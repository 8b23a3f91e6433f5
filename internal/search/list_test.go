package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

func titles(l *List) []string {
	list := []string{}
	for _, c := range l.Items {
		list = append(list, c.Title)
	}
	return list
}

func (v *vault) list(f Filter) *List {
	v.tb.Helper()
	if f.Page == 0 {
		f.Page, f.PerPage = 1, 100
	}
	l, err := v.List(v.tb.Context(), v.inst.ID, f)
	if err != nil {
		v.tb.Fatalf("List(%+v) returned the error %v, want none", f, err)
	}
	return l
}

func TestListPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var newest []string
		for i := range 7 {
			// The certificates are created in pairs at the same time, so the ids determine the order
			// within a pair.
			if i%2 == 0 {
				v.clock.Advance(time.Second)
			}
			newest = append([]string{v.upload(titled(fmt.Sprint(i))).Title}, newest...)
		}
		v.clock.Advance(-time.Hour)
		newest = append(newest, v.upload(titled("last id, first date")).Title)
		for _, tc := range []struct {
			page, per int
			want      []string
			more      bool
		}{
			{1, 100, newest, false}, {1, 3, newest[:3], true}, {2, 3, newest[3:6], true}, {3, 3, newest[6:], false},
			{2, 4, newest[4:], false}, {4, 3, nil, false}, {100, 100, nil, false}, {8, 1, newest[7:], false}, {7, 1, newest[6:7], true},
		} {
			l := v.list(Filter{Range: listing.Range{Page: tc.page, PerPage: tc.per}})
			if got := titles(l); !slices.Equal(got, tc.want) || (l.Next != "") != tc.more || l.Total == nil || *l.Total != len(newest) {
				t.Errorf("page %d with %d records per page: %q, more %v; want %q, more %v, total %d", tc.page, tc.per, got, l.Next != "", tc.want, tc.more, len(newest))
			}
		}
		for _, r := range []listing.Range{{Page: 0, PerPage: 1}, {Page: 1, PerPage: 0}, {Page: 1, PerPage: 101}, {Page: -1, PerPage: 10}} {
			if _, err := v.List(t.Context(), v.inst.ID, Filter{Range: r}); !fault.Is(err, fault.Invalid) {
				t.Errorf("range %+v: err = %v, want Invalid", r, err)
			}
		}
	})
}

func TestListByStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for _, s := range cert.Statuses {
			for n := range 2 {
				v.force(v.upload(titled(fmt.Sprint(s, n))), s)
			}
		}
		for _, s := range cert.Statuses {
			l := v.list(Filter{Statuses: []cert.Status{s}})
			if got := titles(l); !slices.Equal(got, []string{fmt.Sprint(s, 1), fmt.Sprint(s, 0)}) || *l.Total != 2 {
				t.Errorf("status %s: got %q, total = %d, want 2 certificates, the newest first", s, got, *l.Total)
			}
			l = v.list(Filter{Statuses: []cert.Status{s}, Search: fmt.Sprint(s, 1), Email: "ADA@example.org"})
			if got := titles(l); !slices.Equal(got, []string{fmt.Sprint(s, 1)}) || *l.Total != 1 {
				t.Errorf("status %s with a search: got %q, total = %d, want the newer certificate", s, got, *l.Total)
			}
		}
		if n, err := Processing(t.Context(), v.d); err != nil || n != 2 {
			t.Errorf("%d certificates are in processing, want 2; err = %v", n, err)
		}
		if n, err := Verified(t.Context(), v.d); err != nil || n != 4 {
			t.Errorf("%d certificates have a verified PDF, want 4; err = %v", n, err)
		}
	})
}

// population has titles, names and addresses in several scripts, some with characters that LIKE
// treats as special.
var population = []struct{ title, name, email string }{
	{"BSc Physics", "Ada Obi", "ada.obi@example.org"},
	{"Diplôme d’État", "José Núñez", "JOSE@Example.ORG"},
	{"شهادة تقدير", "محمد الأحمد", "mohammed@example.com"},
	{"毕业证书", "王小明", "wang@例え.jp"},
	{"100% Attendance", "Pat O'Neil", "pat_oneil@example.org"},
	{"100 Hours of Service", "Patxoneil Under", "patxoneil@example.org"},
	{"Straße und Brücke", "İpek Çelik", "ipek@example.org"},
	{`Back\slash`, "Zoë  Double   Space", "zoe@example.org"},
	{"Master of Medicine", "Μαρία Σοφίας", "maria@example.gr"},
}

func TestListSearch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		references := map[string]string{}
		for _, p := range population {
			references[p.title] = v.upload(func(u *cert.Upload) { u.Title, u.FullName, u.Email = p.title, p.name, p.email }).ReferenceID
		}
		physics := references["BSc Physics"]
		for _, tc := range []struct {
			search string
			want   string
		}{
			{"", "*"},
			{"  ", "*"},
			{"physics", "BSc Physics"},
			{"HYSIC", "BSc Physics"},
			{"ada obi", "BSc Physics"},
			{"ADA.OBI@", "BSc Physics"},
			{physics, "BSc Physics"},
			{strings.ToLower(physics[6:14]), "BSc Physics"},
			{"diplôme D’ÉTAT", "Diplôme d’État"},
			{"NÚÑEZ", "Diplôme d’État"},
			{"nu\u0301n\u0303ez", "Diplôme d’État"},
			{"jose@example.org", "Diplôme d’État"},
			{"الأحمد", "شهادة تقدير"},
			{"تقدير", "شهادة تقدير"},
			{"业证书", "毕业证书"},
			{"王小明", "毕业证书"},
			{"wang@xn--r8jz45g", "毕业证书"},
			{"wang@例え", "毕业证书"},
			{"STRASSE", "Straße und Brücke"},
			{"brücke", "Straße und Brücke"},
			{"çelik", "Straße und Brücke"},
			{"ΜΑΡΊΑ σοφία", "Master of Medicine"},
			{"σοφίας", "Master of Medicine"},
			{"zoë double space", `Back\slash`},
			// %, _ and \ are literal characters.
			{"100%", "100% Attendance"},
			{"%att", ""},
			{"pat_oneil", "100% Attendance"},
			{"pat%neil", ""},
			{`back\slash`, `Back\slash`},
			{`ack\sla`, `Back\slash`},
			{`%`, ""},
			{`_`, ""},
			{`\`, ""},
			{"***", ""},
			// A search with fewer than three letters and digits matches only beginnings of words.
			{"ob", "BSc Physics"},
			{"bi", ""},
			{"bs", "BSc Physics"},
			{"ph", "BSc Physics"},
			{"小明", ""},
			{"王小", "毕业证书"},
			{"毕", "毕业证书"},
			{"证书", ""},
			{"مح", "شهادة تقدير"},
			{"حم", ""},
			{"é", ""},
			{"d’", "Diplôme d’État"},
			{"wa", "毕业证书"},
			{"je", ""},
			// No search matches across fields.
			{"ada obi bsc", ""},
			{"obi\nbsc", ""},
			{"physics ada", ""},
			{"no such thing", ""},
		} {
			want := []string{tc.want}
			switch tc.want {
			case "":
				want = []string{}
			case "*":
				want = titles(v.list(Filter{}))
			}
			l := v.list(Filter{Search: tc.search})
			if got := titles(l); !slices.Equal(got, want) || *l.Total != len(want) {
				t.Errorf("a search for %q finds %q, want %q and the same total", tc.search, got, want)
			}
		}
	})
}

func TestListByEmail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for _, p := range population {
			v.upload(func(u *cert.Upload) { u.Title, u.FullName, u.Email = p.title, p.name, p.email })
		}
		for email, want := range map[string]string{
			"ada.obi@example.org": "BSc Physics", "Jose@EXAMPLE.org": "Diplôme d’État", " wang@xn--r8jz45g.jp ": "毕业证书", "WANG@例え.JP": "毕业证书",
			"pat_oneil@example.org": "100% Attendance", "obi@example.org": "", "ada.obi@example": "", "%": "", "nobody": "",
		} {
			got := titles(v.list(Filter{Email: email}))
			if want == "" && len(got) != 0 || want != "" && !slices.Equal(got, []string{want}) {
				t.Errorf("the e-mail filter %q finds %q, want %q", email, got, want)
			}
		}
	})
}

// List returns a list or a fault of kind Invalid for any text in a filter. Text that a database
// cannot store or match must not cause an internal error.
func TestListAcceptsAnyText(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.upload(nil)
		for _, tc := range []struct {
			name, text string
			refused    bool
		}{
			{"NUL", "a\x00b", true},
			{"not UTF-8", "\xff\xfe", true},
			{"longer than a pattern can be", strings.Repeat("x", 60_000), true},
			{"long and escaped", strings.Repeat("%", 4096), false},
			{"long and longer when folded", strings.Repeat("ΐ", 2048), false},
			{"SQL", `'; DROP TABLE certificates; --`, false},
		} {
			for _, f := range []Filter{{Search: tc.text}, {Email: tc.text}} {
				f.Page, f.PerPage = 1, 15
				l, err := v.List(t.Context(), v.inst.ID, f)
				if tc.refused && !fault.Is(err, fault.Invalid) || !tc.refused && (err != nil || len(l.Items) != 0) {
					t.Errorf("%s: list = %+v, err = %.200v; want an error of kind Invalid: %t; otherwise an empty list", tc.name, l, err, tc.refused)
				}
			}
		}
	})
}

// A list does not contain or count certificates of another institution.
func TestListOfOtherInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		c := v.upload(nil)
		v.force(c, cert.Failed)
		for _, f := range []Filter{
			{}, {Statuses: []cert.Status{cert.Failed}}, {Email: "ada@example.org"}, {Search: "Physics"}, {Search: c.ReferenceID}, {Search: "%"}, {Search: "a"},
		} {
			f.Page, f.PerPage = 1, 100
			l, err := v.List(t.Context(), other.ID, f)
			if err != nil || len(l.Items) != 0 || l.Total == nil || *l.Total != 0 {
				t.Errorf("filter %+v: the list of another institution = %+v, err = %v, want an empty list with the total 0", f, l, err)
			}
		}
	})
}
