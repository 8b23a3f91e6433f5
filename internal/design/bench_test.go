package design

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// rows returns the values of n random certificates in twelve scripts.
func rows(n int) []*Values {
	random := rand.New(rand.NewPCG(5, 6))
	out := make([]*Values, n)
	for i := range out {
		out[i] = row(random, i)
	}
	return out
}

// BenchmarkDraw draws certificates of 10,000 names in twelve scripts. p50-µs and p99-µs are
// percentiles of the time for one certificate, and bytes is the mean size of the fields tail.
func BenchmarkDraw(b *testing.B) {
	_, template := publish(b, blank(), certificate(), noPictures)
	list := rows(10_000)
	for _, v := range list[:100] { // The first use of a font reads it.
		if _, err := template.Draw(v); err != nil {
			b.Fatal(err)
		}
	}
	times := make([]time.Duration, 0, b.N)
	var sizes []int
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		start := time.Now()
		tail, err := template.Draw(list[i%len(list)])
		if err != nil {
			b.Fatal(list[i%len(list)], err)
		}
		times = append(times, time.Since(start))
		sizes = append(sizes, len(tail))
		i++
	}
	slices.Sort(times)
	slices.Sort(sizes)
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(sum/len(sizes)), "bytes")
	b.ReportMetric(float64(sizes[len(sizes)*99/100]), "p99-bytes")
	b.ReportMetric(float64(sizes[len(sizes)-1]), "max-bytes")
}

// BenchmarkCheck checks a list of 10,000 rows.
func BenchmarkCheck(b *testing.B) {
	_, template := publish(b, blank(), certificate(), noPictures)
	list := rows(10_000)
	for _, v := range list[:100] {
		if problems := template.Check(v); len(problems) > 0 {
			b.Fatal(v, problems)
		}
	}
	for b.Loop() {
		for _, v := range list {
			if problems := template.Check(v); len(problems) > 0 {
				b.Fatal(v, problems)
			}
		}
	}
}

// BenchmarkPublish publishes and opens a template.
func BenchmarkPublish(b *testing.B) {
	for b.Loop() {
		base, _ := publish(b, blank(), certificate(), noPictures)
		b.ReportMetric(float64(len(base.PDF)), "bytes")
	}
}
