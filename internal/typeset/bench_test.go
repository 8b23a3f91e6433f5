package typeset

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// BenchmarkName sets a name, draws it and writes its font subsets, for names of all scripts. p50 and
// p99 are of single names.
func BenchmarkName(b *testing.B) {
	f := testFonts(b)
	var all []string
	for _, script := range slices.Sorted(maps.Keys(nameParts)) {
		all = append(all, names(script)...)
	}
	times := make([]time.Duration, 0, b.N)
	set := func(name string) {
		block, err := f.Layout(name, Style{Font: Font{Family: EBGaramond, Weight: 600}, Size: 40, MinSize: 16, Lines: 2, Align: Center}, 500)
		if err != nil {
			b.Fatal(err)
		}
		subsets := NewSubsets("CV")
		var content bytes.Buffer
		block.Draw(&content, subsets, 0, 0)
		w := pdf.NewWriter(io.Discard)
		subsets.Objects(w)
		if err := w.Err(); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range all { // reads the fonts
		set(name)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		start := time.Now()
		set(all[i%len(all)])
		times = append(times, time.Since(start))
		i += 7
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
