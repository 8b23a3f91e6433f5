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
// p99 are percentiles of the times of single names.
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

// BenchmarkLayout sets Latin names in eight families, without drawing.
func BenchmarkLayout(b *testing.B) {
	f := testFonts(b)
	list := names("Latin")
	families := []string{Inter, EBGaramond, CormorantGaramond, Cinzel, PlayfairDisplay, Jost, GreatVibes, PinyonScript}
	times := make([]time.Duration, 0, b.N)
	set := func(i int) {
		style := Style{Font: Font{Family: families[i%len(families)], Italic: i%3 == 0}, Size: 40, MinSize: 16, Lines: 2, Align: Center}
		if _, err := f.Layout(list[i%len(list)], style, 500); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 3 * len(families) { // reads the fonts
		set(i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		start := time.Now()
		set(i)
		times = append(times, time.Since(start))
		i += 7
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkRead decompresses and reads each embedded font.
func BenchmarkRead(b *testing.B) {
	testFonts(b)
	for _, e := range embeddedFonts {
		b.Run(e.file, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := readEmbedded(e.file)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := readFace(data, 0, 0, e.file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
