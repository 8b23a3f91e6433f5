package search

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
)

// record has the fields of a certificate that the model uses.
type record struct {
	id, institution, created, updated, approved, customer          int64
	title, name, email, reference, issued, batch, failure, expires string
	status                                                         cert.Status
	source                                                         cert.Source
	replaced                                                       bool
}

func (r *record) String() string { return fmt.Sprintf("%s(%d)", r.title, r.id) }

// smallBounds are so small that the lists of the test records use each kind of query.
var smallBounds = bounds{count: 12, scan: 25}

// insert stores records directly, without the operations of package cert.
func (v *vault) insert(records []*record) {
	v.tb.Helper()
	overriding := ""
	if v.d.Dialect == db.PostgreSQL {
		overriding = "OVERRIDING SYSTEM VALUE"
	}
	v.tx(func(tx *db.Tx) error {
		for _, r := range records {
			email, err := account.ParseEmail(r.email)
			if err != nil {
				return err
			}
			c := &cert.Certificate{FullName: r.name, Title: r.title, Email: r.email, ReferenceID: r.reference}
			var batch, customer, approved, failure, expires, replacement any
			if r.replaced {
				replacement = uuid.NewString()
			}
			if r.expires != "" {
				expires = r.expires
			}
			if r.batch != "" {
				batch = r.batch
			}
			if r.customer != 0 {
				customer = r.customer
			}
			if r.failure != "" {
				failure = r.failure
			}
			if r.approved != 0 {
				approved = r.approved
			}
			if _, err := tx.ExecContext(v.tb.Context(), `
				INSERT INTO certificates (id, uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date,
					search_text, source, trigger_context, event_context, status, batch_id, customer_id, creator_type, creator_name, file_name, mime_type, size,
					sha256, sha256_state, original_key, created_at, updated_at, approved_at, failure_code, expires_on, replaced_by) `+overriding+`
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $20, 'single_upload', 'single_upload', $12, $13, $14, 'token', 'Registry', 'a.pdf',
					'application/pdf', 1, $15, $15, $2, $16, $17, $18, $19, $21, $22)`,
				r.id, uuid.NewString(), r.institution, r.reference, r.reference, r.title, r.name, r.email, email.Folded, r.issued,
				cert.SearchText(c, email), string(r.status), batch, customer, []byte{1}, r.created, r.updated, approved, failure, string(r.source), expires, replacement); err != nil {
				return err
			}
		}
		return nil
	})
}

// sampleRecords returns n records of the institutions. Some records have the same sort key and the same
// time of creation, so that their ids determine their order. Except for every sixth record, the ids are
// in the order of creation.
func sampleRecords(n int, institutions ...int64) []*record {
	r := rand.New(rand.NewPCG(7, 7))
	batches := []string{"", "", uuid.NewString(), uuid.NewString()}
	people := []string{"Ada Obi", "ada obi", "محمد الأحمد", "王小明", "Łukasz Núñez", "ΜΑΡΊΑ", "Straße 100%", "x_y", "Ada Zoë"}
	start := time.Date(2024, 2, 27, 22, 0, 0, 0, time.UTC)
	var list []*record
	for i := range n {
		created := start.Add(time.Duration(i/3) * 7 * time.Hour)
		if i%6 == 5 {
			created = start.Add(time.Duration(r.IntN(n)) * 5 * time.Hour)
		}
		rec := &record{
			// Each block of ids has at most four records.
			id: int64(1000 + i*blockIDs/4), institution: institutions[min(r.IntN(4)/3, len(institutions)-1)], created: db.Micros(created),
			title: fmt.Sprintf("Diploma %d", i), name: people[r.IntN(len(people))], email: fmt.Sprintf("person%d@Example.org", r.IntN(5)),
			reference: fmt.Sprintf("NWU-%016d", i), issued: created.AddDate(0, 0, -r.IntN(9)).Format(time.DateOnly), batch: batches[r.IntN(4)],
			customer: int64(r.IntN(4)), status: cert.Statuses[r.IntN(len(cert.Statuses))], source: cert.Vault,
		}
		if rec.institution == institutions[0] && i%5 < 2 {
			rec.source = cert.Template // the other institutions have one source
		}
		rec.updated, rec.replaced = rec.created, rec.status == cert.Revoked && i%2 == 0 || i%7 == 0
		// A certificate that was revoked after a failure still has its failure code.
		if rec.status == cert.Failed || rec.status == cert.Revoked && rec.customer == 3 {
			rec.failure = []string{"no_room", "no_room", "no_room", "key_missing"}[i%4]
		}
		if rec.status == cert.Approved || rec.status == cert.Revoked {
			rec.approved = db.Micros(created.Add(time.Duration(r.IntN(60)) * time.Hour))
			rec.updated = rec.approved
		}
		// One third of the certificates do not expire. The others expire near the current day.
		if i%3 > 0 {
			rec.expires = time.Now().UTC().AddDate(0, 0, i%9-4).Format(time.DateOnly)
		}
		list = append(list, rec)
	}
	return list
}

// matches implements the definition of a search in docs/api.md.
func (r *record) matches(search string) bool {
	q := cert.FoldText(search)
	fields := []string{cert.FoldText(r.name), cert.FoldText(r.title), cert.FoldText(r.email), cert.FoldText(r.reference)}
	if letters(q) >= 3 {
		return slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(f, q) })
	}
	for i, f := range fields {
		if strings.HasPrefix(f, q) || i < 2 && strings.Contains(f, " "+q) {
			return true
		}
	}
	return false
}

func (r *record) selected(f *Filter) bool {
	between := func(at int64, from, to string) bool {
		date := db.Time(at).Format(time.DateOnly)
		return (from == "" || at != 0 && date >= from) && (to == "" || at != 0 && date <= to)
	}
	if expired := r.expires != "" && r.expires < time.Now().UTC().Format(time.DateOnly); f.Expired != AnyExpiry && expired != (f.Expired == Expired) ||
		f.ExpiresFrom != "" && (r.expires == "" || r.expires < f.ExpiresFrom) || f.ExpiresTo != "" && (r.expires == "" || r.expires > f.ExpiresTo) {
		return false
	}
	if f.Replaced != AnyReplaced && r.replaced != (f.Replaced == OnlyReplaced) {
		return false
	}
	return (len(f.Sources) == 0 || slices.Contains(f.Sources, r.source)) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.status)) && (f.Email == "" || strings.EqualFold(f.Email, r.email)) &&
		(f.Search == "" || r.matches(f.Search)) && (f.BatchID == "" || f.BatchID == r.batch) && (f.FailureCode == "" || r.status == cert.Failed && f.FailureCode == r.failure) && (f.CustomerID == 0 || f.CustomerID == r.customer) &&
		(f.IssuedFrom == "" || r.issued >= f.IssuedFrom) && (f.IssuedTo == "" || r.issued <= f.IssuedTo) && between(r.approved, f.GeneratedFrom, f.GeneratedTo)
}

// model returns the ids of the records that List must return for a filter, in order.
func model(all []*record, institution int64, f *Filter) []int64 {
	var list []*record
	for _, r := range all {
		if r.institution == institution && r.selected(f) {
			list = append(list, r)
		}
	}
	order := f.StatusOrder
	if len(order) == 0 {
		order = cert.Statuses
	}
	slices.SortFunc(list, func(a, b *record) int {
		var c int
		switch f.Sort {
		case ByName:
			c = strings.Compare(cert.FoldText(a.name), cert.FoldText(b.name))
		case ByEmail:
			c = strings.Compare(cert.FoldText(a.email), cert.FoldText(b.email))
		case ByIssueDate:
			c = strings.Compare(a.issued, b.issued)
		case ByGenerated:
			c = cmp.Compare(a.approved, b.approved)
		case ByUpdated:
			c = cmp.Compare(a.updated, b.updated)
		case ByStatus:
			c = cmp.Compare(slices.Index(order, a.status), slices.Index(order, b.status))
		case ByCreated, "":
		}
		c = cmp.Or(c, cmp.Compare(a.created, b.created), cmp.Compare(a.id, b.id))
		if !f.Ascending {
			c = -c
		}
		return c
	})
	ids := []int64{}
	for _, r := range list {
		ids = append(ids, r.id)
	}
	return ids
}

func ids(l *List) []int64 {
	list := []int64{}
	for _, c := range l.Items {
		list = append(list, c.ID)
	}
	return list
}

// byPages returns the ids of all records of a list. It reads the list by page number.
func (v *vault) byPages(f Filter) (all []int64) {
	v.tb.Helper()
	for f.Page = 1; ; f.Page++ {
		l := v.list(f)
		all = append(all, ids(l)...)
		if l.Next == "" {
			return all
		}
	}
}

// byCursor returns the ids of all records of a list. It reads the list by cursor.
func (v *vault) byCursor(f Filter) []int64 {
	v.tb.Helper()
	all, _ := v.toEnd(f)
	return all
}

// toEnd reads a list by cursor. It returns the ids of all records, and the last page.
func (v *vault) toEnd(f Filter) (all []int64, last *List) {
	v.tb.Helper()
	for next := ""; last == nil || next != ""; next = last.Next {
		f.Page, f.Cursor = 1, &next
		last = v.list(f)
		if last.Total != nil || last.AtLeast != 0 {
			v.tb.Errorf("%+v by cursor: the list has a total, want none", f)
		}
		all = append(all, ids(last)...)
	}
	return all, last
}

// checkBackwards reads a list from its last page backwards to its first page. It fails the test unless
// the pages that it reads are the pages of want.
func (v *vault) checkBackwards(f Filter, last *List, where string, want []int64) {
	v.tb.Helper()
	pages := slices.Collect(slices.Chunk(want, f.PerPage))
	l := last
	f.Back = true
	at := len(pages) - 1
	for ; l.Prev != "" && at > 0; at-- {
		f.Cursor = &l.Prev
		l = v.list(f)
		if got := ids(l); !slices.Equal(got, pages[at-1]) || l.Next == "" {
			v.tb.Errorf("%s, backwards: page %d = %v, want %v and a next cursor", where, at, got, pages[at-1])
		}
	}
	if at > 0 || l.Prev != "" {
		v.tb.Errorf("%s: reading backwards ended on page %d of %d, want the first page", where, at+1, len(pages))
	}
}

// inDays returns the date that is n days after the current day.
func inDays(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }

// TestListAgainstModel compares lists with many filters, in every order, by pages and by cursor, with a
// model that sorts in memory. Every kind of query must return the same records.
func TestListAgainstModel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTHER")
		all := sampleRecords(140, v.inst.ID, other.ID)
		v.insert(all)
		batch := all[slices.IndexFunc(all, func(r *record) bool { return r.batch != "" })].batch
		filters := map[string]Filter{
			"no filter": {},
			"a source":  {Sources: []cert.Source{cert.Vault}}, "both sources": {Sources: []cert.Source{cert.Template, cert.Vault}},
			"a source and a search": {Sources: []cert.Source{cert.Template}, Search: "ada"}, "a source and a range": {Sources: []cert.Source{cert.Vault}, IssuedFrom: "2024-03-02"},
			"a status": {Statuses: []cert.Status{cert.Approved}}, "two statuses": {Statuses: []cert.Status{cert.Revoked, cert.Processing}}, "a status without records": {Statuses: []cert.Status{cert.Lapsed}},
			"an e-mail": {Email: "PERSON1@example.ORG"}, "an e-mail and a status": {Email: "person2@example.org", Statuses: []cert.Status{cert.Approved}},
			"a search for all":  {Search: "diploma"},
			"a search for some": {Search: "ADA O"}, "a search in Arabic": {Search: "الأحمد"}, "a search in Chinese": {Search: "王小明"}, "a short search": {Search: "a"},
			"a short search in Chinese": {Search: "王"},
			"a search for one record":   {Search: "NWU-0000000000000033"}, "a search for no record": {Search: "nobody at all"}, "a search for signs": {Search: "100%"},
			"a search and a status": {Search: "person", Statuses: []cert.Status{cert.Failed}}, "a batch": {BatchID: batch}, "a batch and a status": {BatchID: batch, Statuses: []cert.Status{cert.Approved}},
			"a failure": {FailureCode: "no_room"}, "a failure and its status": {FailureCode: "no_room", Statuses: []cert.Status{cert.Failed}},
			"a failure and another status": {FailureCode: "no_room", Statuses: []cert.Status{cert.Revoked}},
			"a failure and two statuses":   {FailureCode: "no_room", Statuses: []cert.Status{cert.Failed, cert.Approved}},
			"a failure and a search":       {FailureCode: "no_room", Search: "ada"}, "a failure and a customer": {FailureCode: "no_room", CustomerID: 1},
			"a customer": {CustomerID: 2}, "a customer and a search": {CustomerID: 1, Search: "ada"},
			"issued from": {IssuedFrom: "2024-03-02"}, "issued to": {IssuedTo: "2024-03-03"}, "issued on": {IssuedFrom: "2024-02-29", IssuedTo: "2024-02-29"},
			"issued in a status":       {IssuedFrom: "2024-02-28", Statuses: []cert.Status{cert.Revoked}},
			"issued in an empty range": {IssuedFrom: "2024-03-02", IssuedTo: "2024-03-01"},
			"generated from":           {GeneratedFrom: "2024-03-02"}, "generated to": {GeneratedTo: "2024-03-07"}, "generated on": {GeneratedFrom: "2024-03-01", GeneratedTo: "2024-03-01"},
			"expired": {Expired: Expired}, "not expired": {Expired: Unexpired}, "expires from": {ExpiresFrom: inDays(-1)}, "expires to": {ExpiresTo: inDays(2)},
			"expires soon": {ExpiresFrom: inDays(0), ExpiresTo: inDays(2), Statuses: []cert.Status{cert.Approved}}, "expired in a status": {Expired: Expired, Statuses: []cert.Status{cert.Revoked, cert.Approved}},
			"not expired in a status": {Expired: Unexpired, Statuses: []cert.Status{cert.Approved}}, "not expired and expires to": {Expired: Unexpired, ExpiresTo: inDays(3)},
			"expired and expires from": {Expired: Expired, ExpiresFrom: inDays(-3), ExpiresTo: inDays(4)}, "expired of a source": {Expired: Expired, Sources: []cert.Source{cert.Template}},
			"expired and a search": {Expired: Expired, Search: "ada"}, "not expired and a search": {Expired: Unexpired, Search: "diploma"}, "not expired and an e-mail": {Expired: Unexpired, Email: "person1@example.org"},
			"expired and issued": {Expired: Expired, IssuedFrom: "2024-03-01"}, "not expired and issued": {Expired: Unexpired, IssuedTo: "2024-03-03"}, "expired and generated": {Expired: Expired, GeneratedFrom: "2024-03-01"},
			"replaced": {Replaced: OnlyReplaced}, "not replaced": {Replaced: NotReplaced}, "replaced in a status": {Replaced: OnlyReplaced, Statuses: []cert.Status{cert.Revoked}},
			"not replaced in a status": {Replaced: NotReplaced, Statuses: []cert.Status{cert.Revoked}}, "replaced and a search": {Replaced: OnlyReplaced, Search: "ada"},
			"replaced and expired": {Replaced: OnlyReplaced, Expired: Expired}, "not replaced and not expired": {Replaced: NotReplaced, Expired: Unexpired},
			"replaced of a source":      {Replaced: OnlyReplaced, Sources: []cert.Source{cert.Template}},
			"expires in an empty range": {ExpiresFrom: inDays(2), ExpiresTo: inDays(1)},
			"both ranges":               {IssuedFrom: "2024-02-26", GeneratedTo: "2024-03-06"}, "all filters": {
				Search: "diploma", Statuses: []cert.Status{cert.Approved, cert.Revoked}, IssuedFrom: "2024-02-20", IssuedTo: "2024-12-31", GeneratedFrom: "2024-01-01", GeneratedTo: "2024-12-31",
			},
		}
		cases := 0
		for _, name := range slices.Sorted(maps.Keys(filters)) {
			f := filters[name]
			for _, low := range []bool{false, true} {
				if v.bounds = defaultBounds; low {
					v.bounds = smallBounds
				}
				for _, f.Sort = range Sorts {
					for _, f.Ascending = range []bool{false, true} {
						// With -short, every fifth list is tested. Each filter has 28 lists, and
						// 28 is not a multiple of 5, so each combination of bounds, order and
						// direction is tested with some filter.
						if cases++; testing.Short() && cases%5 != 0 {
							continue
						}
						f.PerPage, f.Page = 17, 1
						want := model(all, v.inst.ID, &f)
						where := fmt.Sprintf("%s by %s, ascending %v, low bounds %v", name, f.Sort, f.Ascending, low)
						got, last := v.toEnd(f)
						if !slices.Equal(got, want) {
							t.Errorf("%s, by cursor: %v, want %v", where, got, want)
						}
						v.checkBackwards(f, last, where, want)
						if low == (f.Sort == ByCreated || f.Sort == ByName) {
							if got := v.byPages(f); !slices.Equal(got, want) {
								t.Errorf("%s, by pages: %v, want %v", where, got, want)
							}
						}
						l := v.list(f)
						exact := name == "no filter" || name == "a source" || name == "both sources" || name == "a status" || name == "two statuses" || len(want) <= v.bounds.count
						if exact && (l.Total == nil || *l.Total != len(want)) || !exact && (l.Total != nil || l.AtLeast != v.bounds.count) {
							t.Errorf("%s: exact %t, AtLeast = %d; want %d records, exact %t", where, l.Total != nil, l.AtLeast, len(want), exact)
						}
					}
				}
			}
		}
	})
}

func TestListByStatusInOtherOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		all := sampleRecords(40, v.inst.ID)
		v.insert(all)
		for _, statuses := range [][]cert.Status{nil, {cert.Processing, cert.Approved}} {
			f := Filter{Sort: ByStatus, Ascending: true, StatusOrder: []cert.Status{cert.Failed, cert.Approved, cert.Pending, cert.InReview, cert.Processing, cert.Revoked}, Statuses: statuses, Range: listing.Range{PerPage: 3}}
			if got, want := v.byCursor(f), model(all, v.inst.ID, &f); !slices.Equal(got, want) {
				t.Errorf("statuses %v: records = %v, want %v", statuses, got, want)
			}
		}
	})
}
