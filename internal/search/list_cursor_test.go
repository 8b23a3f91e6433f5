package search

import (
	"encoding/base64"
	"errors"
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

func TestCursorIsValidForOneList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTHER")
		v.insert(sampleRecords(30, v.inst.ID, other.ID))
		start := ""
		base := Filter{Sort: ByName, Search: "diploma", Statuses: []cert.Status{cert.Approved, cert.Failed, cert.Revoked}, Range: listing.Range{PerPage: 2, Cursor: &start}}
		l := v.list(withPage(base))
		if l.Next == "" || len(l.Items) != 2 {
			t.Fatalf("first page = %+v, want 2 records and a cursor", l)
		}
		open := func(institution int64, f Filter, cursor string) error {
			f.Cursor = &cursor
			_, err := v.List(t.Context(), institution, f)
			return err
		}
		if err := open(v.inst.ID, base, l.Next); err != nil {
			t.Fatal(err)
		}
		larger := base
		larger.PerPage = 3
		if err := open(v.inst.ID, larger, l.Next); err != nil {
			t.Errorf("a cursor with another page size: err = %v, want nil", err)
		}
		refused := func(name string, err error) {
			t.Helper()
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.Invalid || len(e.Fields) != 1 || e.Fields[0].Name != "cursor" {
				t.Errorf("cursor with %s: err = %v, want an Invalid fault of the field cursor", name, err)
			}
		}
		refused("another institution", open(other.ID, base, l.Next))
		for name, change := range map[string]func(f *Filter){
			"another search": func(f *Filter) { f.Search = "diplom" }, "another status": func(f *Filter) { f.Statuses = []cert.Status{cert.Approved} },
			"another order": func(f *Filter) { f.Sort = ByEmail }, "the other direction": func(f *Filter) { f.Ascending = true },
			"an additional filter": func(f *Filter) { f.CustomerID = 1 }, "other sources": func(f *Filter) { f.Sources = []cert.Source{cert.Vault} },
		} {
			f := base
			change(&f)
			refused(name, open(v.inst.ID, f, l.Next))
		}
		raw, err := base64.RawURLEncoding.DecodeString(l.Next)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			changed := slices.Clone(raw)
			changed[i] ^= 1
			refused(fmt.Sprintf("byte %d changed", i), open(v.inst.ID, base, base64.RawURLEncoding.EncodeToString(changed)))
		}
		for _, cursor := range []string{"x", "0", "page2", l.Next + "A", l.Next[1:], "====", strings.Repeat("A", 100_000), "\x00", "\xff", "é"} {
			refused(fmt.Sprintf("%.20q", cursor), open(v.inst.ID, base, cursor))
		}
	})
}

func withPage(f Filter) Filter {
	f.Page = 1
	return f
}

// A name of the maximum length, which folding makes even longer, fits into a cursor.
func TestCursorAfterALongName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for i := range 3 {
			v.upload(func(u *cert.Upload) { u.Title, u.FullName = fmt.Sprint(i), strings.Repeat("ΐ", 255) })
		}
		if got := v.byCursor(Filter{Sort: ByName, Range: listing.Range{PerPage: 1}}); !slices.Equal(got, v.byCursor(Filter{Range: listing.Range{PerPage: 3}})) || len(got) != 3 {
			t.Errorf("records = %v, want 3, the newest first", got)
		}
	})
}

// A list that is read page by page returns each unchanged record once, even while other records are
// added and changed.
func TestWalkWhileRecordsChange(t *testing.T) {
	t.Parallel()
	for _, by := range []Sort{ByUpdated, ByCreated, ByStatus} {
		for _, ascending := range []bool{false, true} {
			t.Run(fmt.Sprintf("order %s, ascending %v", by, ascending), func(t *testing.T) {
				t.Parallel()
				dbtest.Each(t, func(t *testing.T, d *db.DB) {
					v := newVault(t, d)
					all := sampleRecords(40, v.inst.ID)
					v.insert(all)
					stay := map[int64]int{}
					for i, r := range all {
						if i%3 != 0 {
							stay[r.id] = 0
						}
					}
					next, turn := "", 0
					for first := true; first || next != ""; first = false {
						l := v.list(Filter{Range: listing.Range{Page: 1, PerPage: 3, Cursor: &next}, Sort: by, Ascending: ascending})
						for _, c := range l.Items {
							if _, ok := stay[c.ID]; ok {
								stay[c.ID]++
							}
						}
						next = l.Next
						if turn++; turn > 40 {
							t.Fatal("the list has more than 40 pages, want at most 40")
						}
						moved := all[(turn*3)%39]
						moved = all[slices.Index(all, moved)/3*3]
						v.exec(`UPDATE certificates SET status = $1, updated_at = $2 WHERE id = $3`,
							string(cert.Statuses[turn%4]), db.Micros(v.clock.Now().Add(time.Duration(turn*7%11)*time.Hour)), moved.id)
						if turn < 15 {
							fresh := sampleRecords(1, v.inst.ID)[0]
							fresh.id, fresh.title, fresh.reference = int64(900_000+turn), fmt.Sprint("new ", turn), fmt.Sprintf("NEW-%016d", turn)
							fresh.created += int64(turn*7%11) * int64(24*time.Hour/time.Microsecond)
							v.insert([]*record{fresh})
						}
					}
					for id, n := range stay {
						if n != 1 {
							t.Errorf("record %d was returned %d times, want once", id, n)
						}
					}
				})
			})
		}
	}
}

// Reading backwards returns the records that were added at the beginning of the list in the meantime. The
// first page is full.
func TestPreviousPageAfterInsertions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		all := sampleRecords(20, v.inst.ID)
		v.insert(all)
		f := Filter{Range: listing.Range{Page: 1, PerPage: 5, Cursor: new(string)}}
		before := model(all, v.inst.ID, &f)
		first := v.list(f)
		f.Cursor = &first.Next
		second := v.list(f)
		newest := slices.MaxFunc(all, func(a, b *record) int { return int(a.created - b.created) }).created
		for i := range 3 {
			fresh := sampleRecords(1, v.inst.ID)[0]
			fresh.id, fresh.title, fresh.reference, fresh.created = int64(900_000+i), fmt.Sprint("new ", i), fmt.Sprintf("NEW-%016d", i), newest+int64(1+i)
			v.insert([]*record{fresh})
			all = append(all, fresh)
		}
		f.Cursor, f.Back = &second.Prev, true
		back := v.list(f)
		if got := ids(back); !slices.Equal(got, before[:5]) || back.Prev == "" {
			t.Errorf("previous page = %v, want %v and a previous cursor", got, before[:5])
		}
		f.Cursor = &back.Prev
		want := model(all, v.inst.ID, &f)[:5]
		if top := v.list(f); !slices.Equal(ids(top), want) || top.Prev != "" || top.Next == "" {
			t.Errorf("first page = %v, want %v; previous cursor = %q, want none", ids(top), want, top.Prev)
		}
		v.exec(`DELETE FROM certificates`)
		if l := v.list(f); len(l.Items) != 0 || l.Prev != "" || l.Next != "" {
			t.Errorf("page of an empty list = %+v, want no records and no cursors", l)
		}
	})
}

func TestListTimeout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.upload(nil)
		v.listTime = time.Nanosecond
		_, err := v.List(t.Context(), v.inst.ID, Filter{Range: listing.Range{Page: 1, PerPage: 15}})
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Kind != fault.Unavailable || e.RetryAfter <= 0 {
			t.Errorf("List with a time limit of 1 ns: err = %v, want Unavailable with RetryAfter", err)
		}
		v.listTime = listTime
		if l := v.list(Filter{}); len(l.Items) != 1 {
			t.Errorf("the list with the usual time limit has %d records, want 1", len(l.Items))
		}
	})
}
