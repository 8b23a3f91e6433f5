package api

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// BenchmarkKey measures uploads without an idempotency key ("plain"), with a new key ("keyed"), and a second
// time with the same key ("replayed"). It sends them in turn, so that the load is the same for all three.
// It reports the median durations, and their ratios to the median without a key.
func BenchmarkKey(b *testing.B) {
	each := map[string]func(b *testing.B) *vault{
		"sqlite":   func(b *testing.B) *vault { return newVault(b, dbtest.SQLite(b), 0) },
		"postgres": func(b *testing.B) *vault { return newVault(b, dbtest.Open(b, "", dbtest.PostgresURL(b)), 0) },
	}
	for name, open := range each {
		b.Run(name, func(b *testing.B) {
			v := open(b)
			took := map[string][]time.Duration{}
			send := func(what, key string, body []byte) {
				r := v.request(http.MethodPost, vaultPath, bytes.NewReader(body))
				r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
				if key != "" {
					r.Header.Set("Idempotency-Key", key)
				}
				began := time.Now()
				a := v.do(r)
				took[what] = append(took[what], time.Since(began))
				if a.Status != http.StatusCreated {
					b.Fatalf("status = %d, want 201; body %s", a.Status, a.Body)
				}
			}
			content := samplePDF(100_000)
			n := 0
			for b.Loop() {
				n++
				send("plain", "", form(b, append(v.validFields(), pdfFile(content))...))
				body := form(b, append(v.validFields(), pdfFile(content))...)
				send("keyed", fmt.Sprint(n), body)
				send("replayed", fmt.Sprint(n), body)
			}
			median := func(what string) float64 {
				slices.Sort(took[what])
				return float64(took[what][len(took[what])/2]) / float64(time.Millisecond)
			}
			b.ReportMetric(median("plain"), "ms-plain")
			b.ReportMetric(median("keyed"), "ms-keyed")
			b.ReportMetric(median("replayed"), "ms-replayed")
			b.ReportMetric(median("keyed")/median("plain"), "keyed/plain")
			b.ReportMetric(median("replayed")/median("plain"), "replayed/plain")
		})
	}
}
