package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/webhook"
)

// rig is a deliverer and a receiver in one process, for benchmarks.
type rig struct {
	*webhook.Service

	tb          testing.TB
	db          *db.DB
	certificate int64
	url         string
	mu          sync.Mutex
	// committed contains the commit time of each event, and arrivals contains all received
	// requests. Both slices are allocated in advance, so that the rig does not affect the memory
	// measurement.
	committed []time.Time
	arrivals  []arrival
	done      chan struct{}
	want      int
}

// arrival is a received request: the number of its event and the time.
type arrival struct {
	event int
	at    time.Time
}

func eachBench(b *testing.B, f func(b *testing.B, r *rig)) {
	b.Helper()
	for _, dialect := range []db.Dialect{db.SQLite, db.PostgreSQL} {
		b.Run(string(dialect), func(b *testing.B) {
			database := ""
			if dialect == db.PostgreSQL {
				database = dbtest.PostgresURL(b)
			}
			f(b, newRig(b, dbtest.Open(b, b.TempDir(), database)))
		})
	}
}

func newRig(b *testing.B, d *db.DB) *rig {
	b.Helper()
	ring, err := keyring.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	r := &rig{Service: webhook.New(d, ring, time.Now), tb: b, db: d}
	r.reset(0, 0)
	s := httptest.NewServer(http.HandlerFunc(r.receive))
	b.Cleanup(s.Close)
	r.url = s.URL
	deliverer := webhook.NewDeliverer(r.Service, webhook.DelivererConfig{
		Transport: safehttp.Transport(safehttp.Options{Allow: loopback}), Log: slog.New(slog.DiscardHandler),
	})
	deliverer.Start(b.Context())
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
		cancel()
		deliverer.Stop(ctx)
	})
	return r
}

func (r *rig) receive(w http.ResponseWriter, req *http.Request) {
	now := time.Now()
	var body struct {
		Title string `json:"certificate_title"`
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		r.tb.Error(err)
	}
	_, _ = io.Copy(io.Discard, req.Body)
	w.WriteHeader(http.StatusNoContent)
	event, err := strconv.Atoi(body.Title)
	if err != nil {
		r.tb.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.arrivals = append(r.arrivals, arrival{event, now}); len(r.arrivals) == r.want {
		close(r.done)
	}
}

// reset clears the arrivals and sets the number of events and of expected requests.
func (r *rig) reset(events, want int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed, r.arrivals = make([]time.Time, 0, events), make([]arrival, 0, want)
	r.want, r.done = want, make(chan struct{})
}

func (r *rig) institution(prefix string) int64 {
	r.tb.Helper()
	f := fixture{db: r.db}
	id := f.institution(r.tb, prefix)
	if r.certificate == 0 {
		r.certificate = f.certificate(r.tb, id)
	}
	return id
}

func (r *rig) endpoints(institution int64, url string, n int) (last *webhook.Endpoint) {
	r.tb.Helper()
	for range n {
		e, _, err := r.Create(r.tb.Context(), institution, url, nil)
		if err != nil {
			r.tb.Fatal(err)
		}
		last = e
	}
	return last
}

// emit emits n events in one transaction and records the commit time.
func (r *rig) emit(institution int64, n int) {
	r.tb.Helper()
	if err := r.db.Tx(r.tb.Context(), func(tx *db.Tx) error {
		for i := range n {
			if err := r.EmitTx(r.tb.Context(), tx, webhook.Event{
				Name: webhook.Approved, InstitutionID: institution, CertificateID: r.certificate, OccurredAt: time.Now(),
				UUID: "00000000-0000-0000-0000-000000000000", Title: strconv.Itoa(len(r.committed) + i), ApplicantEmail: "jane@example.org",
				Source: "vault", TriggerContext: "single_upload", ReferenceID: "AAA-0000000000000000", Status: "approved", FullName: "Jane Doe",
				IssueDate: "2026-07-01",
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		r.tb.Fatal(err)
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for range n {
		r.committed = append(r.committed, now)
	}
}

func (r *rig) await() {
	r.tb.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tb.Fatalf("%d requests arrived within 2 minutes, want %d", len(r.arrivals), r.want)
	}
}

// latencies returns the times from commit to arrival, sorted.
func (r *rig) latencies() (list []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.arrivals {
		// An arrival may be recorded before its commit time.
		list = append(list, max(0, a.at.Sub(r.committed[a.event])))
	}
	slices.Sort(list)
	return list
}

func millis(list []time.Duration, share float64) float64 {
	return float64(list[min(len(list)-1, int(share*float64(len(list))))].Microseconds()) / 1000
}

// BenchmarkIdle measures the time from the commit of a single event to its arrival.
func BenchmarkIdle(b *testing.B) {
	eachBench(b, func(b *testing.B, r *rig) {
		inst := r.institution("AAA")
		r.endpoints(inst, r.url, 1)
		var all []time.Duration
		for b.Loop() {
			for range 100 {
				r.reset(1, 1)
				r.emit(inst, 1)
				r.await()
				all = append(all, r.latencies()...)
				time.Sleep(40 * time.Millisecond) // the benchmark measures an idle deliverer
			}
		}
		slices.Sort(all)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(all, 0.5), "p50-ms")
		b.ReportMetric(millis(all, 0.95), "p95-ms")
	})
}

// BenchmarkDeadEndpoint emits 40 events to 50 healthy endpoints, while another endpoint with a million
// queued deliveries accepts connections and never responds. It measures the time until all events have
// arrived at all healthy endpoints, the time from the commit of an event to each arrival, and the
// duration of a search for due deliveries.
func BenchmarkDeadEndpoint(b *testing.B) {
	const queued, healthy, events = 1_000_000, 50, 40
	eachBench(b, func(b *testing.B, r *rig) {
		dead, alive := r.institution("AAA"), r.institution("BBB")
		end := make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
		defer silent.Close()
		defer close(end)
		e := r.endpoints(dead, silent.URL, 1)
		backlog(b, r.db, dead, r.certificate, e.ID, queued)
		r.endpoints(alive, r.url, healthy)
		scan := webhook.NewDeliverer(r.Service, webhook.DelivererConfig{})
		var runs, all, scans []time.Duration
		for b.Loop() {
			r.reset(events, healthy*events)
			began := time.Now()
			for range events {
				r.emit(alive, 1)
			}
			r.await()
			runs = append(runs, time.Since(began))
			all = append(all, r.latencies()...)
			for range 20 {
				start := time.Now()
				if _, err := scan.CountDue(b.Context()); err != nil {
					b.Fatal(err)
				}
				scans = append(scans, time.Since(start))
			}
		}
		for _, list := range [][]time.Duration{runs, all, scans} {
			slices.Sort(list)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(queued), "backlog")
		b.ReportMetric(millis(runs, 1), "all-max-ms")
		b.ReportMetric(millis(all, 0.5), "p50-ms")
		b.ReportMetric(millis(all, 0.99), "p99-ms")
		b.ReportMetric(millis(scans, 0.5), "due-scan-ms")
	})
}

// BenchmarkMinute emits events for one minute, at a rate of 500 deliveries per second with SQLite and
// of 1,000 with PostgreSQL. It reports the memory of the process, which also contains the receiver.
func BenchmarkMinute(b *testing.B) {
	const minute, endpoints, tick = time.Minute, 5, 20 * time.Millisecond
	eachBench(b, func(b *testing.B, r *rig) {
		rate := 500
		if r.db.Dialect == db.PostgreSQL {
			rate = 1000
		}
		inst := r.institution("AAA")
		r.endpoints(inst, r.url, endpoints)
		for b.Loop() {
			total := rate / endpoints * int(minute.Seconds())
			r.reset(total, total*endpoints)
			began, sent := time.Now(), 0
			pace := time.NewTicker(tick)
			var memory []float64
			for sent < total {
				<-pace.C
				// The number of due events depends on the time, so that a late tick does not reduce the rate.
				due := min(total, int(float64(rate/endpoints)*time.Since(began).Seconds()))
				if due > sent {
					r.emit(inst, due-sent)
				}
				if sixth := total / 6; due/sixth > sent/sixth {
					memory = append(memory, resident(b))
				}
				sent = due
			}
			pace.Stop()
			emitted := time.Since(began)
			r.await()
			all := r.latencies()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(len(all))/time.Since(began).Seconds(), "deliveries/s")
			b.ReportMetric(emitted.Seconds(), "emitting-s")
			b.ReportMetric(millis(all, 0.5), "p50-ms")
			b.ReportMetric(millis(all, 0.99), "p99-ms")
			// The first sample is smaller with SQLite: each connection has a page cache of 16 MB, which is
			// not yet full.
			b.ReportMetric(memory[0], "MB-after-10s")
			b.ReportMetric(memory[len(memory)/2], "MB-after-40s")
			b.ReportMetric(memory[len(memory)-1], "MB-after-60s")
		}
	})
}

// BenchmarkBurst measures the rate at which 5,000 queued deliveries of one endpoint are sent.
func BenchmarkBurst(b *testing.B) {
	const queued = 5_000
	eachBench(b, func(b *testing.B, r *rig) {
		inst := r.institution("AAA")
		r.endpoints(inst, r.url, 1)
		var rates []float64
		for b.Loop() {
			r.reset(queued, queued)
			began := time.Now()
			r.emit(inst, queued)
			emitted := time.Since(began)
			r.await()
			rates = append(rates, queued/(time.Since(began)-emitted).Seconds())
		}
		slices.Sort(rates)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(rates[len(rates)/2], "deliveries/s")
	})
}

// resident returns the resident memory of this process in MiB after a garbage collection. Without /proc,
// it returns only the size of the Go heap.
func resident(b *testing.B) float64 {
	b.Helper()
	runtime.GC()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse) / (1 << 20)
	}
	var pages, in int
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &pages, &in); err != nil {
		b.Fatal(err)
	}
	return float64(in*os.Getpagesize()) / (1 << 20)
}
