package pdfium

import (
	"image"
	"path/filepath"
	"testing"
)

func BenchmarkInstrument(b *testing.B) {
	wasm, err := module(files)
	if err != nil {
		skip(b, err.Error())
	}
	for b.Loop() {
		if _, err := instrument(wasm); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompile measures the start of the renderer with an empty cache and with a
// filled cache.
func BenchmarkCompile(b *testing.B) {
	for _, bc := range []struct {
		name string
		dir  func() string
	}{
		{"cold", func() string { return b.TempDir() }},
		{"cached", func() string { return cacheDir }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			if err := newRenderer(b, Options{CacheDir: bc.dir()}).Compile(b.Context()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r := newRenderer(b, Options{CacheDir: bc.dir()})
				if err := r.Compile(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := r.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen measures the time to open and close a document of one page.
func BenchmarkOpen(b *testing.B) {
	r := newRenderer(b, Options{})
	pdf := quarters("")
	var size uint32
	for b.Loop() {
		d, err := r.Open(b.Context(), source(pdf))
		if err != nil {
			b.Fatal(err)
		}
		size = d.instance.module.Memory().Size()
		d.Close()
	}
	b.ReportMetric(float64(size)/(1<<20), "MiB/instance")
}

func BenchmarkRender(b *testing.B) {
	r := newRenderer(b, Options{})
	for _, s := range corpus(b) {
		if ok, err := filepath.Match("pdf/producer/*", s.name); err != nil || !ok {
			continue
		}
		name := filepath.Base(s.name)
		b.Run("page/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Render(b.Context(), source(s.data), Request{MaxSide: 400, Annotations: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("clip/"+name, func(b *testing.B) {
			req := Request{Scale: 4, Annotations: true, Clip: [4]float64{.85, .9, 1, 1}}
			var size image.Point
			for b.Loop() {
				p, err := r.Render(b.Context(), source(s.data), req)
				if err != nil {
					b.Fatal(err)
				}
				size = p.Image.Bounds().Max
			}
			b.ReportMetric(float64(size.X*size.Y), "px")
		})
		b.Run("clip of open document/"+name, func(b *testing.B) {
			d, err := r.Open(b.Context(), source(s.data))
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			req := Request{Scale: 4, Annotations: true, Gray: true, Clip: [4]float64{.85, .9, 1, 1}}
			for b.Loop() {
				if _, err := d.Render(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
