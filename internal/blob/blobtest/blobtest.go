// Package blobtest has the tests that every blob.Store must pass, and S3 servers for tests.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/certvault/certvault/internal/blob"
)

// Run tests a store. The function open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Helper()
	t.Run("read returns the stored content", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for key, content := range map[string][]byte{
			"a/empty":             {},
			"a/small":             []byte("small"),
			"b/c/d.original":      bytes.Repeat([]byte("0123456789abcdef"), 20_000),
			"0190-uuid_like/x.y-": []byte("unusual but valid"),
		} {
			n, err := s.Put(t.Context(), key, iotest.OneByteReader(bytes.NewReader(content)))
			if err != nil || n != int64(len(content)) {
				t.Fatalf("Put(%s) = %d, %v, want the size of the content and no error", key, n, err)
			}
			if got := read(t, s, key); !bytes.Equal(got, content) {
				t.Fatalf("%s: read %d bytes that differ from the %d stored bytes", key, len(got), len(content))
			}
		}
	})
	t.Run("open of an unknown blob returns ErrNotFound and delete returns no error", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		if _, err := s.Open(t.Context(), "a/b"); !errors.Is(err, blob.ErrNotFound) {
			t.Fatalf("Open of an unknown blob = %v, want ErrNotFound", err)
		}
		if err := s.Delete(t.Context(), "a/b"); err != nil {
			t.Fatalf("Delete of an unknown blob = %v, want nil", err)
		}
	})
	t.Run("bytes are in transit until put returns", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		store, ok := s.(interface{ Transit() int64 })
		if !ok {
			t.Skip("the store has no method Transit")
		}
		const size = 200_000
		var during int64
		last := readerFunc(func([]byte) (int, error) { during = store.Transit(); return 0, io.EOF })
		if _, err := s.Put(t.Context(), "a/b", io.MultiReader(bytes.NewReader(make([]byte, size)), last)); err != nil {
			t.Fatal(err)
		}
		// The store counts bytes when it writes its buffer to the file. The last bytes may still be in
		// the buffer.
		if during < size/2 || during > size || store.Transit() != 0 {
			t.Errorf("%d of %d bytes are in transit at the end of the content, and %d after Put; want most of them, and 0", during, size, store.Transit())
		}
		if _, err := s.Put(t.Context(), "a/c", io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(io.ErrUnexpectedEOF))); err == nil || store.Transit() != 0 {
			t.Errorf("after a failed Put (%v), %d bytes are in transit, want 0", err, store.Transit())
		}
	})
	t.Run("failed put stores no blob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		failure := errors.New("connection reset")
		r := io.MultiReader(strings.NewReader("the first half"), iotest.ErrReader(failure))
		if _, err := s.Put(t.Context(), "a/b", r); !errors.Is(err, failure) {
			t.Fatalf("Put = %v, want the error of the reader", err)
		}
		if keys := walk(t, s, ""); len(keys) != 0 {
			t.Fatalf("stored blobs = %v, want none", keys)
		}
		r = io.MultiReader(strings.NewReader("the first half"), iotest.ErrReader(io.ErrUnexpectedEOF))
		if _, err := s.Put(t.Context(), "a/b", r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("Put of a reader that fails with io.ErrUnexpectedEOF = %v, want io.ErrUnexpectedEOF", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Put(ctx, "a/b", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
			t.Fatalf("Put with a canceled context = %v, want context.Canceled", err)
		}
		if keys := walk(t, s, ""); len(keys) != 0 {
			t.Fatalf("stored blobs = %v, want none", keys)
		}
	})
	t.Run("walk calls the function for each stored blob in the order of the keys", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, key := range []string{"b/3", "a/2", "a/x/1", "a.b/1", "a/1", "a-b/1", "a/x.1", "a0", "a/x0"} {
			if _, err := s.Put(t.Context(), key, strings.NewReader(key)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Delete(t.Context(), "a/2"); err != nil {
			t.Fatal(err)
		}
		want := []string{"a-b/1", "a.b/1", "a/1", "a/x.1", "a/x/1", "a/x0", "a0", "b/3"}
		if keys := walk(t, s, ""); !slices.Equal(keys, want) {
			t.Fatalf("Walk visited %v, want %v", keys, want)
		}
		for i, after := range want {
			if keys := walk(t, s, after); !slices.Equal(keys, want[i+1:]) {
				t.Errorf("Walk after %s visited %v, want %v", after, keys, want[i+1:])
			}
		}
		for after, n := range map[string]int{"a": 8, "a/": 6, "a/2": 5, "a/x": 5, "a/x/": 4, "b": 1, "b/": 1, "c": 0} {
			if keys := walk(t, s, after); !slices.Equal(keys, want[len(want)-n:]) {
				t.Errorf("Walk after %s visited %v, want %v", after, keys, want[len(want)-n:])
			}
		}
		stop := errors.New("stop")
		calls := 0
		if err := s.Walk(t.Context(), "", func(blob.Info) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
			t.Errorf("Walk with a function that fails = %v after %d calls, want its error after one", err, calls)
		}
	})
	t.Run("invalid key returns ErrKey", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", "a/.b", "A", "a b", "a\x00", strings.Repeat("a", 600)} {
			if _, err := s.Put(t.Context(), key, strings.NewReader("x")); !errors.Is(err, blob.ErrKey) {
				t.Errorf("Put(%q) = %v, want ErrKey", key, err)
			}
			if _, err := s.Open(t.Context(), key); !errors.Is(err, blob.ErrKey) {
				t.Errorf("Open(%q) = %v, want ErrKey", key, err)
			}
			if err := s.Delete(t.Context(), key); !errors.Is(err, blob.ErrKey) {
				t.Errorf("Delete(%q) = %v, want ErrKey", key, err)
			}
		}
	})
	t.Run("version changes if the blob is replaced", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		version := func() blob.Version {
			t.Helper()
			o, err := s.Open(t.Context(), "a/1")
			if err != nil {
				t.Fatal(err)
			}
			v, err := o.Version()
			if err := errors.Join(err, o.Close()); err != nil {
				t.Fatal(err)
			}
			return v
		}
		if _, err := s.Put(t.Context(), "a/1", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		first := version()
		if again := version(); again != first {
			t.Fatalf("the version of an unchanged blob changed from %+v to %+v", first, again)
		}
		Replace(t, s, "a/1", "y")
		if now := version(); now == first {
			t.Fatalf("the version of a replaced blob is still %+v, want another version", now)
		}
	})
	t.Run("put does not replace a blob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		if _, err := s.Put(t.Context(), "a/1", strings.NewReader("first")); err != nil {
			t.Fatal(err)
		}
		for name, put := range map[string]func(context.Context, string, io.Reader) (int64, error){"Put": s.Put, "PutReserved": s.PutReserved} {
			if _, err := put(t.Context(), "a/1", strings.NewReader("second")); !errors.Is(err, blob.ErrExists) {
				t.Errorf("%s under the key of a blob = %v, want ErrExists", name, err)
			}
		}
		if got := read(t, s, "a/1"); string(got) != "first" {
			t.Errorf("content after the refused calls = %q, want first", got)
		}
	})
	t.Run("clean does not remove stored blobs", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		if _, err := s.Put(t.Context(), "a/1", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if err := s.Clean(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, "a/1"); string(got) != "x" {
			t.Fatalf("content of a stored blob after Clean = %q, want x", got)
		}
	})
}

// Replace deletes a blob and stores other content under its key.
func Replace(tb testing.TB, s blob.Store, key, content string) {
	tb.Helper()
	if err := s.Delete(tb.Context(), key); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.Put(tb.Context(), key, strings.NewReader(content)); err != nil {
		tb.Fatal(err)
	}
}

// readerFunc is a function that implements [io.Reader].
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func read(t *testing.T, s blob.Store, key string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("Open(%s) returned the error %v, want none", key, err)
	}
	b, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	if err := errors.Join(err, o.Close()); err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	return b
}

// walk returns the keys that Walk visits.
func walk(t *testing.T, s blob.Store, after string) (keys []string) {
	t.Helper()
	if err := s.Walk(t.Context(), after, func(i blob.Info) error {
		keys = append(keys, i.Key)
		if i.Modified.IsZero() {
			t.Errorf("%s has no modification time", i.Key)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}
