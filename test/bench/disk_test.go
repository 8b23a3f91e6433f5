package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// settleTime is a sufficient wait for the work after an approval, such as the mail.
const settleTime = time.Second

var syncCall = regexp.MustCompile(`(?m)^\d+ +f(data)?sync\(`)

// BenchmarkDisk measures how the vault uses the disk, from the upload to the mail. It counts the syncs and
// the written bytes for each certificate of about 100 kB, and measures the certificates per second. strace
// counts the syncs. In a second run strace delays each sync by 4 ms, as on many cloud disks.
func BenchmarkDisk(b *testing.B) {
	if err := vault.CanTrace(b.Context()); err != nil {
		b.Skipf("this system does not allow strace: %v", err)
	}
	for _, delay := range []time.Duration{0, 4 * time.Millisecond} {
		for _, c := range []struct {
			name  string
			count int // the number of certificates in each iteration
		}{{"alone", 1}, {"load", crowd}} {
			b.Run(fmt.Sprintf("%s/delay=%v", c.name, delay), func(b *testing.B) { benchmarkDisk(b, delay, c.count) })
		}
	}
}

func benchmarkDisk(b *testing.B, delay time.Duration, count int) {
	b.Helper()
	log := filepath.Join(b.TempDir(), "strace.log")
	tracer := []string{"strace", "-D", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-e", "trace=fsync,fdatasync", "-o", log}
	if delay > 0 {
		tracer = append(tracer, "-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", delay.Microseconds()))
	}
	v, c := startTraced(b, "", tracer)
	warm(b, c)
	time.Sleep(settleTime)
	syncs := func() int {
		text, err := os.ReadFile(log)
		if err != nil {
			b.Fatal(err)
		}
		return len(syncCall.FindAll(text, -1))
	}
	var spent time.Duration
	total, first, all, bytes := 0, approved(b, c), syncs(), written(b, v)
	for b.Loop() {
		forms := newForms(count, 1)
		began := time.Now()
		uploadAll(b, c, uploaders, forms)
		total += count
		awaitAll(b, c, first+total)
		spent += time.Since(began)
	}
	time.Sleep(settleTime)
	b.ReportMetric(0, "ns/op") // hides the time of all certificates
	b.ReportMetric(float64(total)/spent.Seconds(), "certificates/s")
	b.ReportMetric(float64(syncs()-all)/float64(total), "syncs/certificate")
	b.ReportMetric(float64(written(b, v)-bytes)/1000/float64(total), "written-kB/certificate")
}

// written returns the number of bytes that the process of a vault has written to disks (proc(5),
// /proc/PID/io).
func written(b *testing.B, v *vault.Vault) (bytes int64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", v.PID()))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nwrite_bytes:")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}
