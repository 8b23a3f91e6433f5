package blob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedPutStoresNoBlob checks that a blob whose name could not be made durable is removed,
// because Put returns an error.
func TestFailedPutStoresNoBlob(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, err := NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Put(t.Context(), "a/1", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("input/output error")
	f.syncDir = func(string) error { return failure }
	if _, err := f.Put(t.Context(), "a/2", strings.NewReader("x")); !errors.Is(err, failure) {
		t.Errorf("Put = %v, want the error of the sync", err)
	}
	// A Put that fails because there is a blob under the key must not remove this blob.
	if _, err := f.Put(t.Context(), "a/1", strings.NewReader("x")); !errors.Is(err, ErrExists) {
		t.Errorf("Put under the key of a blob = %v, want ErrExists", err)
	}
	for _, dir := range []string{"blobs/a", "incoming"} {
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := map[string]string{"blobs/a": "1", "incoming": ""}[dir]
		if got := strings.Join(names, " "); got != want {
			t.Errorf("files in %s = %q, want %q", dir, got, want)
		}
	}
}
