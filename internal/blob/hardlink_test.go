package blob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinkOutlivesTheBlob checks that a hard link keeps the content of a deleted blob, and that Link
// returns different errors for a missing blob and a missing folder.
func TestLinkOutlivesTheBlob(t *testing.T) {
	t.Parallel()
	f, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Put(t.Context(), "a/1", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "copy")
	if err := errors.Join(f.Link("a/1", name), f.Delete(t.Context(), "a/1")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "content" {
		t.Errorf("the link has %q, %v, want the content", text, err)
	}
	if err := f.Link("a/1", filepath.Join(dir, "other")); !errors.Is(err, ErrNotFound) {
		t.Errorf("Link of a deleted blob: error = %v, want ErrNotFound", err)
	}
	if _, err := f.Put(t.Context(), "a/2", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	if err := f.Link("a/2", name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Link with the name of an existing file: error = %v, want fs.ErrExist", err)
	}
	if err := f.Link("a/2", filepath.Join(dir, "none", "copy")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) {
		t.Errorf("Link in a folder that does not exist: error = %v, want fs.ErrNotExist and not ErrNotFound", err)
	}
	if err := f.Link("../a", name); !errors.Is(err, ErrKey) {
		t.Errorf("Link of an invalid key: error = %v, want ErrKey", err)
	}
}
