package pdfium

import (
	"sync"
	"testing"
	"time"
)

// inMemory reports whether PDFium is loaded or being loaded.
func inMemory(r *Renderer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current != nil
}

// awaitUnload waits until PDFium is not in memory.
func awaitUnload(t *testing.T, r *Renderer) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); inMemory(r); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("PDFium is still in memory after 20 seconds")
		}
	}
}

// TestUnload checks that PDFium is freed when no document has been open for the time Unload, and that
// the next document loads it again.
func TestUnload(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{Unload: 20 * time.Millisecond})
	for range 2 {
		d, err := r.Open(t.Context(), source(quarters("")))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		if !inMemory(r) {
			t.Fatal("PDFium was freed while a document was open")
		}
		p, err := d.Render(t.Context(), Request{MaxSide: 100})
		if err != nil {
			t.Fatal(err)
		}
		wantColor(t, p.Image, .25, .25, red)
		d.Close()
		awaitUnload(t, r)
	}
	if err := r.Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitUnload(t, r)
}

// TestUnloadDuringUse checks that documents are rendered even if PDFium is freed between them.
func TestUnloadDuringUse(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{Unload: time.Nanosecond, Instances: 2})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 4 {
				p, err := r.Render(t.Context(), source(quarters("")), Request{MaxSide: 100})
				if err != nil {
					t.Error(err)
					return
				}
				wantColor(t, p.Image, .75, .25, green)
			}
		})
	}
	wg.Wait()
}
