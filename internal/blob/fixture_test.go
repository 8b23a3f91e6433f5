package blob_test

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/certvault/certvault/internal/blob"
)

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readBlob(t *testing.T, s blob.Store, key string) string {
	t.Helper()
	o, err := s.Open(t.Context(), key)
	if err != nil {
		t.Errorf("Open(%s) = %v, want no error", key, err)
		return ""
	}
	content, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	if err := errors.Join(err, o.Close()); err != nil {
		t.Errorf("reading %s: %v", key, err)
	}
	return string(content)
}

func walkKeys(t *testing.T, s blob.Store) (keys []string) {
	t.Helper()
	if err := s.Walk(t.Context(), "", func(i blob.Info) error { keys = append(keys, i.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}
