package pdfium

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"testing"
	"time"
)

// used renders a page of a document, closes the document, and returns the instance that it used.
func used(t *testing.T, r *Renderer, pdf []byte, req Request) *instance {
	t.Helper()
	d, err := r.Open(t.Context(), source(pdf))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	i := d.instance
	if _, err := d.Render(t.Context(), req); err != nil {
		t.Logf("rendering: %v", err)
	}
	return i
}

// TestNothingRemainsOfADocument checks that an instance that is used again has the
// memory and the globals of a new instance.
func TestNothingRemainsOfADocument(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("instances are reset on Linux only")
	}
	r := newRenderer(t, Options{Instances: 1, Timeout: 300 * time.Millisecond, MemoryLimit: 4 * minMemory})
	i := used(t, r, quarters(""), Request{MaxSide: 400})
	fresh, err := r.current.engine.create(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fresh.release(); err != nil {
			t.Error(err)
		}
	})
	if !slices.Contains(r.current.engine.idle, i) {
		t.Fatal("the engine did not keep the instance after a document was rendered")
	}
	size := fresh.module.Memory().Size()
	if i.module.Memory().Size() != size || !bytes.Equal(i.memory.reserved[:size], fresh.memory.reserved[:size]) {
		t.Error("the memory of the used instance differs from the memory of a new instance")
	}
	got, want := i.globals, fresh.globals
	if len(got) < 2 || len(got) != len(want) {
		t.Fatalf("the instances have %d and %d mutable globals, want the same number, at least 2", len(got), len(want))
	}
	for k := range got {
		if got[k].Get() != want[k].Get() {
			t.Errorf("global %d is %d after a document, want %d", k, got[k].Get(), want[k].Get())
		}
	}
	if i.file != nil {
		t.Error("the instance can still read the file of its document")
	}
	for _, g := range i.globals {
		g.Set(12345)
	}
	i.memory.reserved[1000] ^= 0xff
	i.memory.reserved[size-1] ^= 0xff
	if !r.current.engine.start.reset(i) || !bytes.Equal(i.memory.reserved[:size], fresh.memory.reserved[:size]) || i.globals[0].Get() != fresh.globals[0].Get() {
		t.Error("a changed instance differs from a new instance after a reset")
	}
	if second := used(t, r, quarters(""), Request{MaxSide: 400}); second != i {
		t.Error("the second document has another instance, want the instance of the first document")
	}
}

// TestFailedInstanceIsNotUsedAgain checks that an instance that was interrupted, or whose memory has
// grown, is not kept for another document.
func TestFailedInstanceIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{Instances: 1, Timeout: 300 * time.Millisecond})
	for name, doc := range map[string]struct {
		pdf []byte
		req Request
	}{
		"interrupted": {endless(), Request{MaxSide: 400}},
		"grown":       {quarters(""), Request{MaxSide: 3000}},
	} {
		if i := used(t, r, doc.pdf, doc.req); slices.Contains(r.current.engine.idle, i) {
			t.Errorf("%s: the engine kept the instance, want it released", name)
		}
	}
}
