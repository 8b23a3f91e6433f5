package pdfium

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tree returns the files of a folder with their modes and modification times.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			list[path] = info.Mode().String() + info.ModTime().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCompiledDir checks that a renderer uses the code in CompiledDir and writes no files to it, and
// that it uses CacheDir if CompiledDir has no code.
func TestCompiledDir(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test compiles PDFium")
	}
	shared(t)
	dir, own := filepath.Join(t.TempDir(), "warm"), t.TempDir()
	if err := Warm(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if len(before) != 1 {
		t.Fatalf("Warm wrote %d files, want 1", len(before))
	}
	for path := range before {
		if info, err := os.Stat(path); err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != 0o644 {
			t.Errorf("mode of %s = %v, want 0644", path, info.Mode())
		}
	}
	r := newRenderer(t, Options{CompiledDir: dir, CacheDir: own})
	if _, err := r.Render(t.Context(), source(quarters("")), Request{MaxSide: 100}); err != nil {
		t.Fatal(err)
	}
	if n := len(tree(t, own)); n != 0 {
		t.Errorf("the renderer wrote %d files to CacheDir, want 0", n)
	}
	if after := tree(t, dir); len(after) != 1 {
		t.Errorf("CompiledDir has %d files, want 1", len(after))
	}
	// A second call of Warm does not change the file.
	began := time.Now()
	if err := Warm(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for path, state := range tree(t, dir) {
		if before[path] != state {
			t.Errorf("the second call of Warm took %v and changed %s, want no change", time.Since(began), path)
		}
	}
	// CompiledDir has no code.
	other := t.TempDir()
	r = newRenderer(t, Options{CompiledDir: other, CacheDir: own})
	if err := r.Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(other); err != nil || len(list) != 0 {
		t.Errorf("the renderer wrote %v to CompiledDir, error = %v; want no files", list, err)
	}
	if n := len(tree(t, own)); n != 1 {
		t.Errorf("the renderer wrote %d files to CacheDir, want 1", n)
	}
}

// TestLoadDoesNotCompile checks that load returns an error and writes no files if the folder has no
// code.
func TestLoadDoesNotCompile(t *testing.T) {
	t.Parallel()
	shared(t)
	wasm, err := instrumented()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := load(t.Context(), wasm, dir, DefaultMemoryLimit); err == nil {
		t.Error("load returned no error for an empty folder, want an error")
	}
	if list := tree(t, dir); len(list) != 0 {
		t.Errorf("load wrote %v, want no files", list)
	}
	if _, err := load(t.Context(), wasm, filepath.Join(dir, "missing"), DefaultMemoryLimit); err == nil {
		t.Error("load returned no error for a missing folder, want an error")
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); err == nil {
		t.Error("load created the missing folder")
	}
}
