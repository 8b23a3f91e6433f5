package bench

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// readers is the number of clients that concurrently request public pages.
	readers = 8
	// readTime is the duration of a measurement of public pages.
	readTime = 5 * time.Second
	// shownPages is the number of certificates whose pages are requested.
	shownPages = 20
)

// BenchmarkVerifyPage measures how many pages of certificates a vault sends per second to clients whose
// requests it counts as verifications. To compare two versions, set CERTVAULT_BINARY to the binary of each
// version in turn.
func BenchmarkVerifyPage(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		v, c := start(b, database)
		paths := make([]string, shownPages)
		for i := range paths {
			a, err := c.Upload(b.Context(), form(i))
			if err != nil || a.Status != http.StatusCreated {
				b.Fatalf("uploading: response %+v, %v; want status 201", a, err)
			}
			made, err := a.Certificate()
			if err != nil {
				b.Fatal(err)
			}
			if _, err := c.Await(b.Context(), made.UUID); err != nil {
				b.Fatal(err)
			}
			paths[i] = "/verify/" + made.ReferenceID
		}
		for b.Loop() {
			var sent atomic.Int64
			var group sync.WaitGroup
			spent, end := v.CPU(), time.Now().Add(readTime)
			for r := range readers {
				client, err := v.Client("")
				if err != nil {
					b.Fatal(err)
				}
				group.Go(func() {
					for n := r; time.Now().Before(end); n++ {
						if a, err := client.Get(b.Context(), paths[n%len(paths)]); err != nil || a.Status != http.StatusOK {
							b.Errorf("requesting a page: response %+v, %v; want status 200", a, err)
							return
						}
						sent.Add(1)
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(sent.Load())/readTime.Seconds(), "pages/s")
			b.ReportMetric(float64((v.CPU()-spent).Microseconds())/float64(sent.Load()), "cpu-µs/page")
		}
	})
}
