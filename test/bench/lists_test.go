package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/scale"
	"github.com/certvault/certvault/test/vault"
)

// These environment variables select the data. CERTVAULT_BENCH_FOLDER and CERTVAULT_BENCH_DATABASE name a
// data folder and a PostgreSQL database that this or an earlier version of test/scale/fill filled. If they
// are not set, a benchmark creates CERTVAULT_BENCH_RECORDS records, by default fewRecords. To measure a
// PostgreSQL database twice, set the folder too, because it stores the keys of the database.
const (
	recordsVariable  = "CERTVAULT_BENCH_RECORDS"
	folderVariable   = "CERTVAULT_BENCH_FOLDER"
	databaseVariable = "CERTVAULT_BENCH_DATABASE"
	fewRecords       = 20_000
)

const (
	generalPath = "/business/certificates"
	// warmed is the number of requests of each query before the measurement, and measured the number of
	// measured requests.
	measured = 200
	warmed   = 5
	// samples is the number of records that provide the values of filters.
	samples = 400
	slug    = "nwu"
)

var (
	sortFields = []string{"name", "email", "status", "issue_date", "generated_at", "created_at", "updated_at"}
	orders     = []string{"desc", "asc"}
	statuses   = []string{"generated", "revoked", "failed", "processing"}
)

// listed is the part of a response with a list that the benchmark reads.
type listed struct {
	Data []struct {
		Name       string `json:"name"`
		Email      string `json:"email"`
		ID         any    `json:"id"` // the UUID, or a number in the vault's list
		Reference  string `json:"reference_id"`
		BatchID    string `json:"batch_id"`
		CustomerID int64  `json:"customer_id"`
	} `json:"data"`
	Links struct {
		Next *string `json:"next"`
	} `json:"links"`
	Meta struct {
		Total *int `json:"total"`
	} `json:"meta"`
}

// institution is a large institution on a running server, with values from its records.
type institution struct {
	*vault.Client

	vault                                   *vault.Vault
	total                                   int
	names, emails, refs, batches, customers []string
	random                                  *rand.Rand
}

func (n *institution) list(b *testing.B, path string) *listed {
	b.Helper()
	a, err := n.Get(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	l := &listed{}
	if err := json.Unmarshal(a.Body, l); err != nil || a.Status != 200 {
		b.Fatalf("GET %s: status %d, want 200 and a list: %s: %v", path, a.Status, a.Body, err)
	}
	return l
}

func (n *institution) pick(list []string) string {
	return url.QueryEscape(list[n.random.IntN(len(list))])
}

// day returns a random day that is less than back days ago.
func (n *institution) day(b *testing.B, back int) time.Time {
	b.Helper()
	return time.Now().AddDate(0, 0, -n.random.IntN(back))
}

// large starts a server with a large institution, and returns the institution.
func large(b *testing.B, database string) *institution {
	b.Helper()
	data, filled := os.Getenv(folderVariable), true
	if data == "" {
		data, filled = b.TempDir(), false
	}
	if database != "" {
		// The data folder of the PostgreSQL server is not that of the SQLite server.
		data = filepath.Join(data, "postgres")
		if err := os.MkdirAll(data, 0o700); err != nil {
			b.Fatal(err)
		}
		given := os.Getenv(databaseVariable)
		if filled = given != ""; filled {
			database = given
		}
	}
	if !filled {
		fill(b, data, database)
	} else if err := open(b, data, database).Migrate(b.Context()); err != nil {
		// The start of the server has a time limit that is too short to migrate a million records.
		b.Fatalf("migrating the database of %s or %s: %v", folderVariable, databaseVariable, err)
	}
	v, err := vault.Start(b.Context(), vault.Options{Data: data, Database: database, Args: []string{"--rate-limit", "0"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		code, err := v.Stop()
		if err = errors.Join(err, v.Forget()); err != nil || code != 0 {
			b.Errorf("exit code of the vault = %d, %v; want 0", code, err)
		}
	})
	token, err := v.CreateToken(b.Context(), slug, "", "certificate:list", "certificate-vault:list")
	if err != nil {
		b.Fatal(err)
	}
	c, err := v.Client(token)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.HTTP.CloseIdleConnections)
	n := &institution{Client: c, vault: v, random: rand.New(rand.NewPCG(1, 2))}
	n.sample(b)
	return n
}

func records(b *testing.B) int {
	b.Helper()
	given := os.Getenv(recordsVariable)
	if given == "" {
		return fewRecords
	}
	n, err := strconv.Atoi(given)
	if err != nil {
		b.Fatalf("%s is not a number: %v", recordsVariable, err)
	}
	return n
}

func fill(b *testing.B, data, database string) {
	b.Helper()
	if err := (scale.Fill{Count: records(b), Seed: 1}).Into(b.Context(), data, database, slug); err != nil {
		b.Fatal(err)
	}
	if database == "" {
		return
	}
	// PostgreSQL analyzes the tables only about a minute after the inserts, which is too late.
	d := open(b, data, database)
	if _, err := d.Writer().ExecContext(b.Context(), `VACUUM (ANALYZE)`); err != nil {
		b.Fatal(err)
	}
}

func open(b *testing.B, data, database string) *db.DB {
	b.Helper()
	d, err := db.Open(db.Unlimited(b.Context()), data, database)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// sample reads records from random pages of the list. The pages are sorted by different fields.
func (n *institution) sample(b *testing.B) {
	b.Helper()
	n.total = *n.list(b, generalPath).Meta.Total
	pages := min(n.total, 10_000) / 20
	for i := range samples / 20 {
		l := n.list(b, fmt.Sprintf("%s?per_page=20&page=%d&sort_field=%s", generalPath, 1+n.random.IntN(pages), sortFields[i%len(sortFields)]))
		for _, r := range l.Data {
			n.names, n.emails, n.refs = append(n.names, r.Name), append(n.emails, r.Email), append(n.refs, r.Reference)
			if r.BatchID != "" {
				n.batches = append(n.batches, r.BatchID)
			}
			if r.CustomerID != 0 {
				n.customers = append(n.customers, strconv.FormatInt(r.CustomerID, 10))
			}
		}
	}
}

// query is a kind of request. promise is the highest intended 99th percentile in milliseconds, and path
// returns the path of the i-th request.
type query struct {
	name    string
	promise float64
	path    func(b *testing.B, n *institution, i int) string
}

func fixed(paths ...string) func(*testing.B, *institution, int) string {
	return func(_ *testing.B, _ *institution, i int) string { return generalPath + paths[i%len(paths)] }
}

func valued(f func(b *testing.B, n *institution) string) func(*testing.B, *institution, int) string {
	return func(b *testing.B, n *institution, _ int) string { return generalPath + f(b, n) }
}

// BenchmarkLists requests lists of a large institution from the built binary.
func BenchmarkLists(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		n := large(b, database)
		for _, q := range append(queries(), n.deep(b)...) {
			b.Run(q.name, func(b *testing.B) { n.measure(b, q) })
		}
	})
}

func (n *institution) measure(b *testing.B, q query) {
	b.Helper()
	for b.Loop() {
		var took []time.Duration
		var busy time.Duration
		for i := range warmed + measured {
			if i == warmed {
				busy = n.vault.CPU()
			}
			path := q.path(b, n, i)
			began := time.Now()
			n.list(b, path)
			if d := time.Since(began); i >= warmed {
				took = append(took, d)
			}
		}
		b.ReportMetric(0, "ns/op") // hides the time of a series
		b.ReportMetric(millis(quantile(took, 0.50)), "p50-ms")
		b.ReportMetric(millis(quantile(took, 0.99)), "p99-ms")
		b.ReportMetric(millis(n.vault.CPU()-busy)/measured, "cpu-ms") // without the time of PostgreSQL
		b.ReportMetric(q.promise, "promise-ms")
	}
}

func queries() []query {
	const listed, searched, other = 50, 150, 1000
	date := func(t time.Time) string { return t.Format(time.DateOnly) }
	list := []query{
		{"first", listed, fixed("")},
		{"vault", listed, func(*testing.B, *institution, int) string { return vault.CertificatesPath }},
		{"filter/email", listed, func(_ *testing.B, n *institution, _ int) string {
			return vault.CertificatesPath + "?applicant_email=" + n.pick(n.emails)
		}},
		{"filter/batch", listed, valued(func(_ *testing.B, n *institution) string { return "?batch_id=" + n.pick(n.batches) })},
		{"filter/customer", listed, valued(func(_ *testing.B, n *institution) string { return "?customer_id=" + n.pick(n.customers) })},
	}
	for _, s := range statuses {
		list = append(list, query{"filter/status/" + s, listed, fixed("?status=" + s)})
	}
	for _, field := range []string{"issue_date", "generated_at"} {
		list = append(list,
			query{"filter/" + field + "/from", listed, valued(func(b *testing.B, n *institution) string { return "?" + field + "_from=" + date(n.day(b, 2100)) })},
			query{"filter/" + field + "/to", listed, valued(func(b *testing.B, n *institution) string { return "?" + field + "_to=" + date(n.day(b, 2100)) })},
			query{"filter/" + field + "/year", listed, valued(func(b *testing.B, n *institution) string {
				to := n.day(b, 1700)
				return "?" + field + "_from=" + date(to.AddDate(-1, 0, 0)) + "&" + field + "_to=" + date(to)
			})},
			query{"filter/" + field + "/day", listed, valued(func(b *testing.B, n *institution) string {
				d := date(n.day(b, 2100))
				return "?" + field + "_from=" + d + "&" + field + "_to=" + d
			})})
	}
	list = append(list, query{"filter/expired", listed, fixed("?expired=true")}, query{"filter/unexpired", listed, fixed("?expired=false")},
		query{"filter/expired/generated", listed, fixed("?expired=true&status=generated")},
		query{"filter/expires/soon", listed, fixed("?status=generated&expires_from=" + date(time.Now()) + "&expires_to=" + date(time.Now().AddDate(0, 0, 30)))},
		query{"filter/expires/from", listed, valued(func(b *testing.B, n *institution) string { return "?expires_from=" + date(n.day(b, 1000)) })})
	for _, field := range sortFields {
		for _, order := range orders {
			list = append(list, query{"sort/" + field + "/" + order, listed, fixed("?sort_field=" + field + "&sort_order=" + order)})
		}
		var paths []string
		for _, s := range statuses {
			for _, order := range orders {
				paths = append(paths, "?status="+s+"&sort_field="+field+"&sort_order="+order)
			}
		}
		list = append(list, query{"status+sort/" + field, listed, fixed(paths...)})
	}
	search := func(words ...string) func(*testing.B, *institution, int) string {
		for i, w := range words {
			words[i] = "?search=" + url.QueryEscape(w)
		}
		return fixed(words...)
	}
	list = append(list,
		query{"search/name", searched, valued(func(_ *testing.B, n *institution) string { return "?search=" + n.pick(n.names) })},
		query{"search/email", searched, valued(func(_ *testing.B, n *institution) string { return "?search=" + n.pick(n.emails) })},
		query{"search/reference", searched, valued(func(_ *testing.B, n *institution) string { return "?search=" + n.pick(n.refs) })},
		query{"search/latin/rare", searched, search("amara zoë žukauskas", "thandiwe ní bhriain", "oluwaseun łukasz")},
		query{"search/latin/common", searched, search("núñez", "smith", "łukasz", "zhang")},
		query{"search/latin/most", searched, search("example", "northwind", "diploma", "nwu-")},
		query{"search/latin/none", searched, search("xyzzy", "no such person", "adaobiadaobi")},
		query{"search/latin/year", searched, search("diploma in nursing 2021", "2021", "bachelor of laws 2022", "2023")},
		query{"search/latin/short", searched, search("ad", "z", "na", "xq", "o'")},
		query{"search/arabic/rare", searched, search("عبد الرحمن إبراهيم الزهراني", "ياسمين طارق درويش")},
		query{"search/arabic/common", searched, search("محمد", "الأحمد", "شهادة تقدير", "حداد")},
		query{"search/arabic/none", searched, search("لا يوجد أحد", "قسطنطين", "محمدمحمد")},
		query{"search/arabic/short", searched, search("مح", "ع", "ظظ")},
		query{"search/chinese/rare", searched, search("諸葛子轩", "欧阳小明", "司马秀英")},
		query{"search/chinese/common", searched, search("毕业证书", "学士学位", "证书 2022")},
		query{"search/chinese/none", searched, search("没有这个人", "毕业证明", "王王王王")},
		query{"search/chinese/short", searched, search("王", "王小", "龘")},
		query{"search/signs", other, search("***", "100%", "%", "_")})
	// Page 100 with 100 records is the last page that can be requested by its number.
	var deep []string
	for _, filter := range []string{"search=example", "search=northwind", "issue_date_from=2000-01-01", "generated_at_from=2000-01-01", "search=example&issue_date_from=2020-01-01"} {
		for _, field := range sortFields {
			deep = append(deep, "?page=100&per_page=100&"+filter+"&sort_field="+field)
		}
	}
	return append(list, query{"page/100", other, fixed(deep...)}, query{"combined", other, combined})
}

// combined returns the path of a request with random filters and a random order.
func combined(b *testing.B, n *institution, i int) string {
	b.Helper()
	v := url.Values{"sort_field": {sortFields[n.random.IntN(len(sortFields))]}, "sort_order": {orders[n.random.IntN(2)]}}
	date := func() string { return n.day(b, 2100).Format(time.DateOnly) }
	choices := []func(){
		func() { v.Set("status", statuses[n.random.IntN(len(statuses))]) },
		func() {
			v.Set("search", []string{"ada", "محمد", "毕业证书", "diploma", "2021", "a", "zz"}[n.random.IntN(7)])
		},
		func() { v.Set("issue_date_from", date()) },
		func() { v.Set("issue_date_to", date()) },
		func() { v.Set("generated_at_from", date()) },
		func() { v.Set("generated_at_to", date()) },
	}
	n.random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
	for _, c := range choices[:1+i%3] {
		c()
	}
	return generalPath + "?" + v.Encode()
}

// deep reads 90 % of the list by cursor, once in the order of creation and once in the order of names. It
// returns a query for the next page of each order.
func (n *institution) deep(b *testing.B) []query {
	b.Helper()
	var list []query
	for _, order := range []string{"created_at", "name"} {
		path := generalPath + "?per_page=100&cursor=&sort_field=" + order
		read := 0
		for ; read < n.total*9/10; read += 100 {
			next := n.list(b, path).Links.Next
			if next == nil {
				b.Fatalf("the list by %s ended after %d of %d records", order, read, n.total)
			}
			path = *next
		}
		list = append(list, query{fmt.Sprintf("cursor/%s/%d", order, read), 50, func(*testing.B, *institution, int) string { return path }})
	}
	return list
}

// These statements drop the tables, triggers, functions and indexes for searches, counts and lists.
var (
	searchSchema = map[db.Dialect]string{
		db.SQLite:     `DROP TRIGGER certificates_search_insert; DROP TABLE certificate_search`,
		db.PostgreSQL: `DROP FUNCTION certificates_search CASCADE; DROP TABLE certificate_search`,
	}
	countSchema = map[db.Dialect]string{
		db.SQLite:     `DROP TRIGGER certificates_count_insert; DROP TABLE certificate_counts`,
		db.PostgreSQL: `DROP FUNCTION certificates_count CASCADE; DROP TABLE certificate_counts`,
	}
	listSchema = `DROP INDEX certificates_created_at_idx; DROP INDEX certificates_status_idx; DROP INDEX certificates_name_folded_idx;
		DROP INDEX certificates_email_folded_idx; DROP INDEX certificates_status_issue_date_idx; DROP INDEX certificates_issue_date_idx;
		DROP INDEX certificates_generated_at_idx; DROP INDEX certificates_updated_at_idx; DROP INDEX certificates_batch_id_idx;
		DROP INDEX certificates_customer_id_idx; DROP INDEX IF EXISTS certificates_block_idx`
)

// stripped creates a database, executes the statements in parts, and then fills the database with records.
func stripped(b *testing.B, database string, parts ...string) *db.DB {
	b.Helper()
	data := b.TempDir()
	if err := (scale.Fill{}).Into(b.Context(), data, database, slug); err != nil {
		b.Fatal(err)
	}
	d := open(b, data, database)
	for _, part := range parts {
		for statement := range strings.SplitSeq(part, ";") {
			if _, err := d.Writer().ExecContext(b.Context(), statement); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := (scale.Fill{InstitutionID: 1, Count: min(records(b), 200_000), Seed: 1}).Run(b.Context(), d); err != nil {
		b.Fatal(err)
	}
	return d
}

// BenchmarkListsOnInsert measures what the tables, triggers and indexes for lists cost when a record is
// stored. It stores records, each in its own transaction, in four databases: one with all of them, one
// without those for searches, one also without the indexes, and one also without the counts.
func BenchmarkListsOnInsert(b *testing.B) {
	const inserts = 400
	each(b, func(b *testing.B, database string) {
		dialect, fresh := db.SQLite, func() string { return "" }
		if database != "" {
			dialect, fresh = db.PostgreSQL, func() string { return dbtest.PostgresURL(b) }
		}
		variants := []*db.DB{
			stripped(b, fresh()), stripped(b, fresh(), searchSchema[dialect]), stripped(b, fresh(), searchSchema[dialect], listSchema),
			stripped(b, fresh(), searchSchema[dialect], listSchema, countSchema[dialect]),
		}
		seed := uint64(1)
		for b.Loop() {
			took, sum := make([][]time.Duration, len(variants)), make([]time.Duration, len(variants))
			for range inserts {
				seed++
				for i, d := range variants {
					began := time.Now()
					if err := (scale.Fill{InstitutionID: 1, Count: 1, Seed: seed}).Run(b.Context(), d); err != nil {
						b.Fatal(err)
					}
					t := time.Since(began)
					took[i], sum[i] = append(took[i], t), sum[i]+t
				}
			}
			bare := len(variants) - 1
			ratio := func(i int) float64 { return float64(quantile(took[i], 0.50)) / float64(quantile(took[bare], 0.50)) }
			b.ReportMetric(0, "ns/op") // hides the time of a series
			b.ReportMetric(millis(quantile(took[0], 0.50)), "p50-ms")
			b.ReportMetric(millis(quantile(took[bare], 0.50)), "bare-ms")
			b.ReportMetric(ratio(0), "x-bare")
			b.ReportMetric(float64(sum[0])/float64(sum[bare]), "x-bare-mean")
			b.ReportMetric(ratio(1), "x-bare-without-search")
			b.ReportMetric(ratio(2), "x-bare-without-indexes")
		}
	})
}
