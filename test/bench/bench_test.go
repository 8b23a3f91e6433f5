// Package bench measures the built binary from outside, and some functions of the vault in the process of
// the test. Several benchmarks also measure a floor: the minimum time that the machine needs for the
// same work.
package bench

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // for the driver "pgx"
	_ "modernc.org/sqlite"             // for the driver "sqlite"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

const (
	// pairs is the number of uploads in a measurement, each after a measurement of the floor.
	pairs = 200
	// crowd is the number of certificates in a measurement of many certificates, and uploaders the number
	// of clients that upload them or stage files concurrently.
	crowd     = 300
	uploaders = 6
	// emblem is the value of vault.Sample.Emblem for a file of about 100 kB.
	emblem = 207
	// approvalTime is the maximum wait for the approval of uploads.
	approvalTime = 2 * time.Minute
)

func each(b *testing.B, f func(b *testing.B, database string)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) { f(b, "") })
	b.Run("postgres", func(b *testing.B) { f(b, dbtest.PostgresURL(b)) })
}

// start starts a vault without rate limits and creates an institution. It returns the vault and a
// client of the institution.
func start(b *testing.B, database string) (*vault.Vault, *vault.Client) {
	b.Helper()
	return startTraced(b, database, nil)
}

// startTraced is like start. tracer is the command that starts the vault, see vault.Options.
func startTraced(b *testing.B, database string, tracer []string) (*vault.Vault, *vault.Client) {
	b.Helper()
	v, err := vault.Start(b.Context(), vault.Options{
		Data: b.TempDir(), Database: database, Args: []string{"--rate-limit", "0", "--public-rate-limit", "0"}, Tracer: tracer,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		code, err := v.Stop()
		if err = errors.Join(err, v.Forget()); err != nil || code != 0 {
			b.Errorf("exit code of the vault = %d, %v; want 0", code, err)
		}
	})
	institution, err := v.CreateInstitution(b.Context(), "Northwind University", "NWU")
	if err != nil {
		b.Fatal(err)
	}
	token, err := v.CreateToken(b.Context(), institution.Slug, "", vault.Permissions...)
	if err != nil {
		b.Fatal(err)
	}
	c, err := v.Client(token)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.HTTP.CloseIdleConnections)
	return v, c
}

var serial atomic.Int64

// form returns the upload of a new certificate of about 100 kB. Different layouts have different page
// sizes.
func form(layout int) *vault.Form {
	who := fmt.Sprintf("Person %d", serial.Add(1))
	pdf := vault.Sample{
		Institution: "Northwind University", Title: "Diploma", Name: who, Line: "has completed the course.", Date: "1 June 2026",
		Width: 842 - float64(layout), Height: 595 + float64(layout%7), Emblem: emblem,
	}.PDF()
	return vault.NewForm("Diploma", who, fmt.Sprintf("person.%d@example.org", serial.Load()), "diploma.pdf", pdf)
}

// upload uploads a certificate and returns its UUID. Any goroutine may call it.
func upload(ctx context.Context, c *vault.Client, f *vault.Form) (string, error) {
	a, err := c.Upload(ctx, f)
	if err != nil {
		return "", err
	}
	if a.Status != 201 {
		return "", fmt.Errorf("uploading a certificate: status %d: %s", a.Status, a.Body)
	}
	made, err := a.Certificate()
	if err != nil {
		return "", err
	}
	return made.UUID, nil
}

// warm uploads several certificates with layout 0 and waits for their approval, so that the renderer is
// compiled and the connections are open.
func warm(b *testing.B, c *vault.Client) {
	b.Helper()
	for range 8 {
		uuid, err := upload(b.Context(), c, form(0))
		if err != nil {
			b.Fatal(err)
		}
		awaitApproval(b, c, uuid)
	}
}

func awaitApproval(b *testing.B, c *vault.Client, uuid string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), approvalTime)
	defer cancel()
	done, err := c.Await(ctx, uuid)
	if err != nil || done.Status.Value != "approved" {
		b.Fatalf("the certificate is not approved: %+v, %v", done, err)
	}
}

// BenchmarkUpload measures the upload of a PDF of about 100 kB from the first byte sent to the end of the
// 201 response, over HTTPS on a reused connection. Before each upload, when the previous certificate is
// approved, it measures the floor.
func BenchmarkUpload(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		v, c := start(b, database)
		warm(b, c)
		f := newFloor(b, filepath.Join(v.Data, "floor"), database)
		var uploads, floors []time.Duration
		for b.Loop() {
			for range pairs {
				next := form(0)
				floors = append(floors, f.measure(b, next.File))
				began := time.Now()
				uuid, err := upload(b.Context(), c, next)
				uploads = append(uploads, time.Since(began))
				if err != nil {
					b.Fatal(err)
				}
				awaitApproval(b, c, uuid)
			}
		}
		b.ReportMetric(0, "ns/op") // hides the time of a run, which includes waits
		b.ReportMetric(millis(quantile(uploads, 0.50)), "p50-ms")
		b.ReportMetric(millis(quantile(uploads, 0.99)), "p99-ms")
		b.ReportMetric(millis(quantile(floors, 0.50)), "floor-p50-ms")
		b.ReportMetric(millis(quantile(floors, 0.99)), "floor-p99-ms")
		b.ReportMetric(float64(quantile(uploads, 0.50))/float64(quantile(floors, 0.50)), "x-floor")
	})
}

// BenchmarkAcknowledge measures how many uploads of about 100 kB the vault accepts per second from
// concurrent clients. The vault seals the certificates in the meantime.
func BenchmarkAcknowledge(b *testing.B) {
	for _, clients := range []int{8, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			each(b, func(b *testing.B, database string) {
				_, c := start(b, database)
				warm(b, c)
				total, first := 0, approved(b, c)
				var spent time.Duration
				for b.Loop() {
					forms := newForms(crowd, 1)
					began := time.Now()
					uploadAll(b, c, clients, forms)
					spent += time.Since(began)
					total += crowd
					awaitAll(b, c, first+total)
				}
				b.ReportMetric(0, "ns/op") // hides the time of all certificates
				b.ReportMetric(float64(total)/spent.Seconds(), "uploads/s")
			})
		})
	}
}

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// floor stores an upload durably with the minimum of work.
type floor struct {
	dir string
	db  *sql.DB
	n   int
}

func newFloor(b *testing.B, dir, database string) *floor {
	b.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	driver, source := "pgx", database
	if database == "" {
		driver = "sqlite"
		source = "file:" + filepath.Join(dir, "floor.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	}
	d, err := sql.Open(driver, source)
	if err != nil {
		b.Fatal(err)
	}
	d.SetMaxOpenConns(1)
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	if _, err := d.ExecContext(b.Context(), `CREATE TABLE bench_floor (id TEXT PRIMARY KEY, sum TEXT, record TEXT)`); err != nil {
		b.Fatal(err)
	}
	return &floor{dir: dir, db: d}
}

// measure writes, syncs and renames a file, syncs its folder, hashes the content and commits one row.
// It returns the duration.
func (f *floor) measure(b *testing.B, content []byte) time.Duration {
	b.Helper()
	f.n++
	began := time.Now()
	if err := f.store(content); err != nil {
		b.Fatal(err)
	}
	sum := sha256.Sum256(content)
	record := make([]byte, 1000)
	for i := range record {
		record[i] = 'r'
	}
	if _, err := f.db.ExecContext(b.Context(), `INSERT INTO bench_floor (id, sum, record) VALUES ($1, $2, $3)`,
		fmt.Sprintf("%d", f.n), fmt.Sprintf("%x", sum), string(record)); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func (f *floor) store(content []byte) error {
	file, err := os.CreateTemp(f.dir, "incoming-")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(f.dir, fmt.Sprintf("%d.original", f.n))); err != nil {
		return err
	}
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// BenchmarkEndToEnd measures many certificates from the first upload to the last approval. In the case
// "seen" all have the same page size, in the case "varied" each has a different one.
func BenchmarkEndToEnd(b *testing.B) {
	for _, page := range []struct {
		name    string
		layouts int
	}{{"seen", 1}, {"varied", crowd}} {
		b.Run(page.name, func(b *testing.B) {
			each(b, func(b *testing.B, database string) {
				v, c := start(b, database)
				warm(b, c)
				var rates []float64
				var spent time.Duration
				for b.Loop() {
					forms := newForms(crowd, page.layouts)
					before := approved(b, c)
					began, busy := time.Now(), v.CPU()
					uploadAll(b, c, uploaders, forms)
					awaitAll(b, c, before+crowd)
					spent += v.CPU() - busy
					rates = append(rates, crowd/time.Since(began).Seconds())
				}
				slices.Sort(rates)
				b.ReportMetric(0, "ns/op") // hides the time of all certificates
				b.ReportMetric(rates[len(rates)/2], "certificates/s")
				b.ReportMetric(millis(spent)/float64(crowd*len(rates)), "cpu-ms/certificate")
			})
		})
	}
}

// newForms returns n forms with a number of different layouts.
func newForms(n, layouts int) []*vault.Form {
	forms := make([]*vault.Form, n)
	for i := range forms {
		forms[i] = form(i % layouts)
	}
	return forms
}

// uploadAll uploads forms with a number of concurrent clients.
func uploadAll(b *testing.B, c *vault.Client, clients int, forms []*vault.Form) {
	b.Helper()
	var wg sync.WaitGroup
	work := make(chan *vault.Form)
	for range clients {
		wg.Go(func() {
			for f := range work {
				if _, err := upload(b.Context(), c, f); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, f := range forms {
		work <- f
	}
	close(work)
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// approved returns the number of approved certificates.
func approved(b *testing.B, c *vault.Client) int {
	b.Helper()
	a, err := c.Get(b.Context(), vault.CertificatesPath+"?status=approved&per_page=1")
	if err != nil {
		b.Fatal(err)
	}
	var list struct {
		Meta struct {
			Total *int `json:"total"`
		} `json:"meta"`
	}
	if err := json.Unmarshal(a.Body, &list); err != nil || list.Meta.Total == nil {
		b.Fatalf("counting the approved certificates: status %d: %s: %v", a.Status, a.Body, err)
	}
	return *list.Meta.Total
}

func awaitAll(b *testing.B, c *vault.Client, total int) {
	b.Helper()
	deadline := time.NewTimer(approvalTime)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for approved(b, c) < total {
		select {
		case <-tick.C:
		case <-deadline.C:
			b.Fatalf("not all certificates are approved after %v", approvalTime)
		}
	}
}
