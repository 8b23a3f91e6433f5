package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

const (
	// verifyCertificates is the number of certificates in the vault.
	verifyCertificates = 1_000_000
	// verifyRate is the number of requests per second in the first part of a measurement, which takes
	// verifyTime. No request waits for the response to an earlier request.
	verifyRate = 200
	verifyTime = 10 * time.Second
	// verifyWorkers is the number of concurrent clients in the second part, which takes verifyRush. Each
	// client sends requests without a pause.
	verifyWorkers = 8
	verifyRush    = 5 * time.Second
	// verifySample is the number of reference ids from which each request takes a random one.
	verifySample = 50_000
)

// BenchmarkVerify measures the page to which a QR code links, on SQLite with a million certificates. The
// requests accept HTML and gzip, as those of a browser do. The floor is the same measurement of /healthz with
// the same HTTP client.
func BenchmarkVerify(b *testing.B) {
	v, c := start(b, "")
	f := form(0)
	uuid, err := upload(b.Context(), c, f)
	if err != nil {
		b.Fatal(err)
	}
	awaitApproval(b, c, uuid)
	ids := multiply(b, filepath.Join(v.Data, "certvault.db"), verifyCertificates)
	public := &visitor{base: v.URL + "/verify/", client: c.HTTP, ids: ids}
	floor := &visitor{base: v.URL + "/", client: c.HTTP, ids: []string{"healthz"}}
	for range 200 {
		if err := public.visit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		floor.measure(b, v)
		public.measure(b, v)
	}
	b.ReportMetric(0, "ns/op") // hides the time of a run
	floor.report(b, "floor-")
	public.report(b, "")
	b.ReportMetric(float64(public.bytes.Load()), "bytes/page")
}

// multiply copies the only certificate and its checks until there are n certificates, each with its own
// ids. It returns some of the reference ids.
func multiply(b *testing.B, file string, n int) []string {
	b.Helper()
	d, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)&_pragma=synchronous(OFF)&_pragma=cache_size(-400000)")
	if err != nil {
		b.Fatal(err)
	}
	d.SetMaxOpenConns(1)
	defer func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	}()
	var columns, values []string
	for _, name := range names(b, d, `SELECT name FROM pragma_table_info('certificates') WHERE name <> 'id'`) {
		columns = append(columns, name)
		switch name {
		case "uuid":
			name = `lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))`
		case "reference_id":
			name = `'NWU-' || made.code`
		case "reference_folded":
			name = `'NWU' || made.code`
		case "email", "email_folded":
			name = `'person.' || made.i || '@example.org'`
		case "sha256", "verified_sha256":
			name = `randomblob(32)`
		case "job_id":
			name = `NULL`
		default:
			name = "c." + name
		}
		values = append(values, name)
	}
	for _, query := range []string{
		fmt.Sprintf(`WITH RECURSIVE counted (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM counted WHERE i < %d),
			made (i, code) AS MATERIALIZED (SELECT i, hex(randomblob(8)) FROM counted)
			INSERT INTO certificates (%s) SELECT %s FROM made CROSS JOIN certificates AS c WHERE c.id = (SELECT min(id) FROM certificates)`,
			n, strings.Join(columns, ", "), strings.Join(values, ", ")),
		`INSERT INTO certificate_checks (certificate_id, name, result, checked_at)
			SELECT c.id, k.name, k.result, k.checked_at FROM certificates c CROSS JOIN certificate_checks k
			WHERE k.certificate_id = (SELECT min(id) FROM certificates) AND c.id <> k.certificate_id`,
		// There is no ANALYZE, because the vault does not execute it on SQLite. With statistics, SQLite would
		// plan a statement again for each value.
	} {
		if _, err := d.ExecContext(b.Context(), query); err != nil {
			b.Fatal(err)
		}
	}
	return names(b, d, fmt.Sprintf(`SELECT reference_id FROM certificates WHERE id %% %d = 0`, n/verifySample))
}

func names(b *testing.B, d *sql.DB, query string) (list []string) {
	b.Helper()
	rows, err := d.QueryContext(b.Context(), query)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			b.Fatal(err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return list
}

// visitor requests pages and reads them completely.
type visitor struct {
	base   string
	client *http.Client
	ids    []string
	// bytes is the transferred size of the last page.
	bytes atomic.Int64

	took  []time.Duration
	rates []float64
	spent time.Duration
	count int
}

// measure sends requests at a constant rate, and then without a pause.
func (p *visitor) measure(b *testing.B, v *vault.Vault) {
	b.Helper()
	p.took = append(p.took, p.steadily(b)...)
	busy, began := v.CPU(), time.Now()
	n := p.rush(b)
	p.count += n
	p.spent += v.CPU() - busy
	p.rates = append(p.rates, float64(n)/time.Since(began).Seconds())
}

func (p *visitor) report(b *testing.B, prefix string) {
	b.Helper()
	slices.Sort(p.rates)
	b.ReportMetric(millis(quantile(p.took, 0.50)), prefix+"p50-ms")
	b.ReportMetric(millis(quantile(p.took, 0.99)), prefix+"p99-ms")
	b.ReportMetric(p.rates[len(p.rates)/2], prefix+"pages/s")
	b.ReportMetric(millis(p.spent)/float64(p.count), prefix+"cpu-ms/page")
}

func (p *visitor) visit(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+p.ids[rand.IntN(len(p.ids))], http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, res.Body)
	p.bytes.Store(n)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("requesting a page: status %s", res.Status)
	}
	return err
}

// steadily sends requests at a constant rate and returns their latencies. Each latency begins at the time
// for which the request was planned, so that it includes the time for which the request was late.
func (p *visitor) steadily(b *testing.B) (took []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / verifyRate)
	defer tick.Stop()
	for range int(verifyTime.Seconds()) * verifyRate {
		due := <-tick.C
		wg.Go(func() {
			if err := p.visit(b.Context()); err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
		})
	}
	wg.Wait()
	return took
}

// rush sends requests from several clients without a pause and returns their number.
func (p *visitor) rush(b *testing.B) int {
	b.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(verifyRush)
	for range verifyWorkers {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := p.visit(b.Context()); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}
