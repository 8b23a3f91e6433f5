package pdfium

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

func TestWithoutBinary(t *testing.T) {
	t.Parallel()
	if err := available(fstest.MapFS{"wasm/README.md": {}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("available returned %v, want ErrUnavailable", err)
	}
}

func TestWrongBinary(t *testing.T) {
	t.Parallel()
	other := fstest.MapFS{
		binaryName: {Data: []byte("another version")},
		sumName:    {Data: []byte("5e4cd023  pdfium.wasm\n")},
	}
	if _, err := module(other); err == nil {
		t.Error("a module with another hash was accepted, want an error")
	}
}

func TestLicences(t *testing.T) {
	t.Parallel()
	shared(t)
	text, err := Licences()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"MIT License", "PDFium Authors", "Apache License"} {
		if !strings.Contains(text, part) {
			t.Errorf("the licences do not contain %q", part)
		}
	}
}

func TestTooSmallMemoryLimitIsRefused(t *testing.T) {
	t.Parallel()
	shared(t)
	if _, err := New(t.Context(), Options{MemoryLimit: 1 << 20}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("New with a limit of 1 MiB returned %v, want ErrUnavailable", err)
	}
}

// TestDeadline checks that a stopped call returns the reason, that later calls
// for the same document return the same error, and that other documents are not
// affected.
func TestDeadline(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{Timeout: 300 * time.Millisecond, Instances: 1})
	cause := errors.New("the client closed the connection")
	for _, tc := range []struct {
		name    string
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		want    error
		wantNot error
	}{
		{"timeout of the renderer", context.WithCancel, ErrTimeout, context.DeadlineExceeded},
		{"deadline of the caller", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		}, ErrTimeout, nil},
		{"cancellation by the caller", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			timer := time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		}, cause, ErrTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := r.Open(t.Context(), source(endless()))
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			ctx, cancel := tc.ctx(t.Context())
			defer cancel()
			if _, err = d.Render(ctx, Request{MaxSide: 400}); !errors.Is(err, tc.want) || tc.wantNot != nil && errors.Is(err, tc.wantNot) {
				t.Errorf("rendering returned %v, want %v and not the error wantNot of the test case", err, tc.want)
			}
			if _, again := d.Render(t.Context(), Request{MaxSide: 400}); again == nil || again.Error() != err.Error() {
				t.Errorf("a second call returned %v, want %v", again, err)
			}
			d.Close()
			p, err := r.Render(t.Context(), source(quarters("")), Request{MaxSide: 100})
			if err != nil {
				t.Fatalf("rendering the next document: %v", err)
			}
			wantColor(t, p.Image, .25, .25, red)
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{MemoryLimit: minMemory, Instances: 1})
	if _, err := r.Render(t.Context(), source(bomb(t, 4*minMemory)), Request{MaxSide: 400}); !errors.Is(err, ErrMemory) {
		t.Errorf("rendering a decompression bomb returned %v, want ErrMemory", err)
	}
	if _, err := r.Render(t.Context(), source(quarters("")), Request{MaxSide: 4000}); !errors.Is(err, ErrMemory) {
		t.Errorf("rendering an image that does not fit into the memory limit returned %v, want ErrMemory", err)
	}
	if _, err := r.Render(t.Context(), source(quarters("")), Request{MaxSide: 400}); err != nil {
		t.Errorf("rendering the next document: %v", err)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{})
	pdf := quarters("")
	d, err := r.Open(t.Context(), source(pdf))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for range 5 {
				p, err := r.Render(t.Context(), source(pdf), Request{MaxSide: 100 + k})
				if err != nil {
					t.Error(err)
					return
				}
				wantColor(t, p.Image, .75, .25, green)
				if p, err = d.Render(t.Context(), Request{MaxSide: 100, Gray: k%2 == 0}); err != nil {
					t.Error(err)
					return
				}
				wantColor(t, p.Image, .75, .75, blank)
			}
		})
	}
	wg.Wait()
}

func TestWaitForInstance(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{Instances: 1})
	d, err := r.Open(t.Context(), source(quarters("")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Open(ctx, source(quarters(""))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open while the only instance is in use returned %v, want DeadlineExceeded", err)
	}
	d.Close()
	d.Close()
	if d, err = r.Open(t.Context(), source(quarters(""))); err != nil {
		t.Fatalf("opening a document after the instance was released: %v", err)
	}
	d.Close()
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{Timeout: time.Minute})
	idle, err := r.Open(t.Context(), source(quarters("")))
	if err != nil {
		t.Fatal(err)
	}
	busy, err := r.Open(t.Context(), source(endless()))
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		close(begun)
		_, err := busy.Render(t.Context(), Request{MaxSide: 400})
		ended <- err
	}()
	<-begun
	closed := make(chan error)
	go func() { closed <- r.Close(t.Context()) }()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("the running call returned %v after Close, want ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := idle.Render(t.Context(), Request{MaxSide: 400}); !errors.Is(err, ErrClosed) {
		t.Errorf("rendering an open document after Close returned %v, want ErrClosed", err)
	}
	if _, err := r.Open(t.Context(), source(quarters(""))); !errors.Is(err, ErrClosed) {
		t.Errorf("opening a document after Close returned %v, want ErrClosed", err)
	}
}

func TestCloseUnused(t *testing.T) {
	t.Parallel()
	r := newRenderer(t, Options{})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(t.Context(), source(quarters(""))); !errors.Is(err, ErrClosed) {
		t.Errorf("Open after Close returned %v, want ErrClosed", err)
	}
}

// TestBadCache checks that the renderer starts even if the files of its cache are
// truncated or the cache is not a folder.
func TestBadCache(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test compiles PDFium several times")
	}
	dir := t.TempDir()
	r := newRenderer(t, Options{CacheDir: dir})
	if err := r.Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		damaged++
		return os.Truncate(path, 100_000)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files of the cache were truncated (error %v), want at least one", damaged, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []string{dir, file} {
		r := newRenderer(t, Options{CacheDir: cache})
		if _, err := r.Render(t.Context(), source(quarters("")), Request{MaxSide: 100}); err != nil {
			t.Errorf("rendering with the cache %s: %v", cache, err)
		}
	}
}
