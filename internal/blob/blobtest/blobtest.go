// Package blobtest is the test suite that every blob.Store must pass. It is for
// tests only.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/certvault/certvault/internal/blob"
)

// Run tests a store; open returns an empty one.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Helper()
	t.Run("what is put is what is read", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for key, content := range map[string][]byte{
			"a/empty":             {},
			"a/small":             []byte("small"),
			"b/c/d.original":      bytes.Repeat([]byte("0123456789abcdef"), 20_000),
			"0190-uuid_like/x.y-": []byte("odd but legal"),
		} {
			n, err := s.Put(t.Context(), key, iotest.OneByteReader(bytes.NewReader(content)))
			if err != nil || n != int64(len(content)) {
				t.Fatalf("Put(%s) = %d, %v", key, n, err)
			}
			if got := read(t, s, key); !bytes.Equal(got, content) {
				t.Fatalf("%s: read %d bytes, put %d", key, len(got), len(content))
			}
		}
	})
	t.Run("an absent blob is ErrNotFound", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		if _, err := s.Open(t.Context(), "a/b"); !errors.Is(err, blob.ErrNotFound) {
			t.Fatalf("Open = %v", err)
		}
		if err := s.Delete(t.Context(), "a/b"); err != nil {
			t.Fatalf("Delete of an absent blob: %v", err)
		}
	})
	t.Run("a failed put leaves nothing", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		broken := errors.New("connection reset")
		r := io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(broken))
		if _, err := s.Put(t.Context(), "a/b", r); !errors.Is(err, broken) {
			t.Fatalf("Put = %v, want the reader's error", err)
		}
		if keys := walk(t, s); len(keys) != 0 {
			t.Fatalf("left behind: %v", keys)
		}
		r = io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(io.ErrUnexpectedEOF))
		if _, err := s.Put(t.Context(), "a/b", r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("Put = %v, want the unexpected end", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Put(ctx, "a/b", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
			t.Fatalf("Put = %v, want canceled", err)
		}
		if keys := walk(t, s); len(keys) != 0 {
			t.Fatalf("left behind: %v", keys)
		}
	})
	t.Run("walk finds every blob and delete removes one", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, key := range []string{"a/1", "a/2", "b/3"} {
			if _, err := s.Put(t.Context(), key, strings.NewReader(key)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Delete(t.Context(), "a/2"); err != nil {
			t.Fatal(err)
		}
		keys := walk(t, s)
		if len(keys) != 2 || !keys["a/1"] || !keys["b/3"] {
			t.Fatalf("walked %v", keys)
		}
	})
	t.Run("a malformed key is refused", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", "a/.b", "A", "a b", "a\x00", strings.Repeat("a", 600)} {
			if _, err := s.Put(t.Context(), key, strings.NewReader("x")); !errors.Is(err, blob.ErrKey) {
				t.Errorf("Put(%q) = %v", key, err)
			}
			if _, err := s.Open(t.Context(), key); !errors.Is(err, blob.ErrKey) {
				t.Errorf("Open(%q) = %v", key, err)
			}
			if err := s.Delete(t.Context(), key); !errors.Is(err, blob.ErrKey) {
				t.Errorf("Delete(%q) = %v", key, err)
			}
		}
	})
	t.Run("clean spares finished blobs", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		if _, err := s.Put(t.Context(), "a/1", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if err := s.Clean(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, "a/1"); string(got) != "x" {
			t.Fatalf("read %q", got)
		}
	})
}

func read(t *testing.T, s blob.Store, key string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("Open(%s): %v", key, err)
	}
	b, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	if err := errors.Join(err, o.Close()); err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	return b
}

func walk(t *testing.T, s blob.Store) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	if err := s.Walk(t.Context(), func(i blob.Info) error {
		keys[i.Key] = true
		if i.Modified.IsZero() {
			t.Errorf("%s has no time", i.Key)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}
