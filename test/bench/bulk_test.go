package bench

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

const (
	// bulkSize is the maximum size of a batch.
	bulkSize = 5000
	// smallSize is the size of the small batches of another institution.
	smallSize = 10
	// probes is the number of single uploads, and of small batches, that are measured before the large
	// batch and again during it.
	probes = 12
	// bulkTime is the maximum wait for a batch.
	bulkTime = 10 * time.Minute
)

// BenchmarkBulk submits a batch of the maximum size with files of about 100 kB. It measures single uploads
// of the same institution, and small batches of another institution, before the large batch and during it.
func BenchmarkBulk(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		v, c := start(b, database)
		other := neighbour(b, v)
		warm(b, c)
		for b.Loop() {
			files := stageMany(b, c, 100)
			small := stageMany(b, other, 1)
			alone, smallAlone := probe(b, c, other, small)
			began := time.Now()
			id := submit(b, c, files, bulkSize)
			acked := time.Since(began)
			beside, smallBeside := probe(b, c, other, small)
			if now, err := c.Batch(b.Context(), id, 1, 1); err != nil || now.Status != "processing" {
				b.Fatalf("the large batch is not processing after the measurements: %+v, %v", now, err)
			}
			awaitBatch(b, c, id)
			b.ReportMetric(0, "ns/op") // hides the time of a batch
			b.ReportMetric(millis(acked), "ack-ms")
			b.ReportMetric(bulkSize/time.Since(began).Seconds(), "entries/s")
			b.ReportMetric(millis(quantile(alone, 0.5)), "single-alone-ms")
			b.ReportMetric(millis(quantile(beside, 0.5)), "single-beside-ms")
			b.ReportMetric(millis(slices.Max(beside)), "single-beside-max-ms")
			b.ReportMetric(millis(quantile(smallAlone, 0.5)), "small-alone-ms")
			b.ReportMetric(millis(quantile(smallBeside, 0.5)), "small-beside-ms")
			b.ReportMetric(millis(slices.Max(smallBeside)), "small-beside-max-ms")
			b.ReportMetric(float64(quantile(smallBeside, 0.5))/float64(quantile(smallAlone, 0.5)), "x-small")
		}
		b.ReportMetric(peakMB(b, v.PID()), "peak-MB")
	})
}

// neighbour creates another institution and returns a client of it.
func neighbour(b *testing.B, v *vault.Vault) *vault.Client {
	b.Helper()
	institution, err := v.CreateInstitution(b.Context(), "Eastwind College", "EWC")
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
	return c
}

// stageMany stages n files and returns their ids. Several entries can use the same file.
func stageMany(b *testing.B, c *vault.Client, n int) []string {
	b.Helper()
	list := make([]string, n)
	var wg sync.WaitGroup
	for worker := range uploaders {
		wg.Go(func() {
			for i := worker; i < len(list); i += uploaders {
				id, err := c.Stage(b.Context(), "diploma.pdf", form(0).File)
				if err != nil {
					b.Error(err)
				}
				list[i] = id
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return list
}

// submit submits a batch of n entries that use the files in turn, and returns the id of the batch.
func submit(b *testing.B, c *vault.Client, files []string, n int) string {
	b.Helper()
	entries := make([]vault.Entry, n)
	for i := range entries {
		who := serial.Add(1)
		entries[i] = vault.Entry{
			Index: i, Title: "Diploma", FullName: fmt.Sprintf("Person %d", who), Email: fmt.Sprintf("person.%d@example.org", who), FileID: files[i%len(files)],
			IssueDate: "2026-06-01",
		}
	}
	a, err := c.Bulk(b.Context(), entries)
	if err != nil {
		b.Fatal(err)
	}
	made, err := a.Batch()
	if err != nil || a.Status != 202 {
		b.Fatalf("submitting a batch: status %d: %s: %v", a.Status, a.Body, err)
	}
	return made.BatchID
}

func awaitBatch(b *testing.B, c *vault.Client, id string) {
	b.Helper()
	deadline := time.NewTimer(bulkTime)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := c.Batch(b.Context(), id, 1, 1)
		if err != nil {
			b.Fatal(err)
		}
		if now.Status != "processing" {
			if now.Approved != now.Total {
				b.Fatalf("not all certificates of the batch are approved: %+v", now)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			b.Fatalf("the batch is not finished after %v: %+v", bulkTime, now)
		}
	}
}

// probe measures single uploads from the first byte to the approval, and small batches of another
// institution from the first byte to the last approval.
func probe(b *testing.B, c, other *vault.Client, files []string) (singles, smalls []time.Duration) {
	b.Helper()
	for range probes {
		next := form(0)
		began := time.Now()
		uuid, err := upload(b.Context(), c, next)
		if err != nil {
			b.Fatal(err)
		}
		awaitApproval(b, c, uuid)
		singles = append(singles, time.Since(began))
		began = time.Now()
		awaitBatch(b, other, submit(b, other, files, smallSize))
		smalls = append(smalls, time.Since(began))
	}
	return singles, smalls
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMB returns the peak memory of a process in MiB, or 0 on a system without /proc.
func peakMB(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	m := highWater.FindSubmatch(status)
	if err != nil || m == nil {
		b.Fatalf("reading the memory of the process: %v", err)
	}
	kB, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kB) / 1024
}
