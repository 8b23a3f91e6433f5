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
	// verifyCertificates stand in the vault whose public page is measured.
	verifyCertificates = 1_000_000
	// verifyRate requests a second come, whether or not the last was answered, for
	// verifyTime.
	verifyRate = 200
	verifyTime = 10 * time.Second
	// verifyWorkers then ask as fast as they are answered, for verifyRush.
	verifyWorkers = 8
	verifyRush    = 5 * time.Second
	// verifySample is how many reference ids are asked for.
	verifySample = 50_000
)

// BenchmarkVerify is the page that a QR code leads to, as a browser asks for it,
// on SQLite with a million certificates. The floor is an answer of two bytes over
// the same connections: what TLS, HTTP, the log and the visitors themselves take.
func BenchmarkVerify(b *testing.B) {
	v, c := start(b, "")
	f := form(0)
	uuid, err := upload(b.Context(), c, f)
	if err != nil {
		b.Fatal(err)
	}
	settle(b, c, uuid)
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
	b.ReportMetric(0, "ns/op") // of a run
	floor.report(b, "floor-")
	public.report(b, "")
	b.ReportMetric(float64(public.bytes.Load()), "bytes/page")
}

// multiply copies the one certificate there is, with its checks, until there are
// n, each under ids of its own, and gives some of their reference ids.
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
		// No ANALYZE: the vault does none, and its statistics would have SQLite plan
		// the same statements anew for each value.
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

// visitor asks for pages as a browser does, and reads them whole.
type visitor struct {
	base   string
	client *http.Client
	ids    []string
	// bytes is the size of the last page as it was sent.
	bytes atomic.Int64

	took  []time.Duration
	rates []float64
	spent time.Duration
	asked int
}

// measure visits at an even rate, and then without a pause.
func (p *visitor) measure(b *testing.B, v *vault.Vault) {
	b.Helper()
	p.took = append(p.took, p.steadily(b)...)
	busy, began := v.CPU(), time.Now()
	n := p.rush(b)
	p.asked += n
	p.spent += v.CPU() - busy
	p.rates = append(p.rates, float64(n)/time.Since(began).Seconds())
}

func (p *visitor) report(b *testing.B, prefix string) {
	b.Helper()
	slices.Sort(p.rates)
	b.ReportMetric(millis(quantile(p.took, 0.50)), prefix+"p50-ms")
	b.ReportMetric(millis(quantile(p.took, 0.99)), prefix+"p99-ms")
	b.ReportMetric(p.rates[len(p.rates)/2], prefix+"pages/s")
	b.ReportMetric(millis(p.spent)/float64(p.asked), prefix+"cpu-ms/page")
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
		err = fmt.Errorf("a page was answered with %s", res.Status)
	}
	return err
}

// steadily asks at an even rate. A page is late from the moment it was due, so
// that a pause of the vault counts for all who came meanwhile.
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

// rush asks from several sides without a pause, and counts.
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
