package blob_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/blob/blobtest"
)

func TestFolder(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		t.Helper()
		f, err := blob.NewFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return f
	})
}

func TestFolderCleanRemovesUnfinishedFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, err := blob.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	unfinished := filepath.Join(root, "incoming", "123")
	if err := os.WriteFile(unfinished, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Clean(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err != nil {
		t.Fatal("Clean removed an unfinished file that is newer than the time")
	}
	if err := f.Clean(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); !os.IsNotExist(err) {
		t.Fatalf("Stat of an unfinished file that is older than the time: err = %v after Clean, want a file that does not exist", err)
	}
}
