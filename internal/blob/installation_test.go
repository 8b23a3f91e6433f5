package blob_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
)

func newFolder(t *testing.T) (f *blob.Folder, root string) {
	t.Helper()
	root = t.TempDir()
	f, err := blob.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	return f, root
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOneInstallationPerStore checks that concurrent calls of SetInstallation store one installation,
// and that its file has the documented fields. A damaged file and a file of a later version are refused.
func TestOneInstallationPerStore(t *testing.T) {
	t.Parallel()
	f, root := newFolder(t)
	if _, err := f.Installation(t.Context()); !errors.Is(err, blob.ErrNoInstallation) {
		t.Errorf("Installation of a new store: error = %v, want ErrNoInstallation", err)
	}
	if _, err := blob.OpenFolder(filepath.Join(root, "missing")).Installation(t.Context()); !errors.Is(err, blob.ErrNoInstallation) {
		t.Errorf("Installation of a store that does not exist: error = %v, want ErrNoInstallation", err)
	}
	if _, err := os.Stat(filepath.Join(root, "missing")); !os.IsNotExist(err) {
		t.Errorf("OpenFolder created a folder, or os.Stat failed: %v", err)
	}
	now := time.Date(2026, 11, 22, 9, 30, 0, 5, time.UTC)
	ids := make([]blob.Installation, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			if err := f.SetInstallation(t.Context(), blob.NewInstallation(now)); err != nil {
				t.Error(err)
			}
			var err error
			if ids[i], err = f.Installation(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, i := range ids {
		if i != ids[0] || len(i.ID) != 36 {
			t.Errorf("installations = %v, want 8 equal ones with a UUID", ids)
			break
		}
	}
	file := filepath.Join(root, "certvault.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil || len(fields) != 3 || fields["installation"] != ids[0].ID || fields["created_at"] != "2026-11-22T09:30:00Z" || fields["format"] != 1.0 {
		t.Errorf("certvault.json = %s, want installation, created_at and format; err = %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Join(root, "incoming")); err != nil || len(entries) != 0 {
		t.Errorf("temporary files = %v, %v, want none", entries, err)
	}
	for text, want := range map[string]string{
		"": "damaged", `{"installation":"x","format":1}`: "not a UUID", `{"format":1}`: "not a UUID",
		`{"installation":"` + ids[0].ID + `","format":2}`: "newer version",
	} {
		writeFile(t, file, text)
		if _, err := f.Installation(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("Installation of %q: error = %v, want %q and the name of the file", text, err, want)
		}
	}
}

// TestInstallationOfDevelopmentVersionIsReplaced checks that the id in the file of development
// versions is used, and that the file is replaced.
func TestInstallationOfDevelopmentVersionIsReplaced(t *testing.T) {
	t.Parallel()
	f, root := newFolder(t)
	const id = "0b2d9f0e-3a55-4b8e-9a55-4f1f6b8b2a10"
	old := filepath.Join(root, "installation")
	writeFile(t, old, id+"\n")
	i, err := f.Installation(t.Context())
	if err != nil || i.ID != id {
		t.Fatalf("Installation = %+v, %v, want the id of the old file", i, err)
	}
	for range 2 {
		if err := f.SetInstallation(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if i, err := f.Installation(t.Context()); err != nil || i.ID != id {
			t.Errorf("Installation after the replacement = %+v, %v, want the same id", i, err)
		}
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old file exists, or os.Stat failed: %v", err)
	}
	if _, err := os.Stat(f.InstallationPath()); err != nil {
		t.Errorf("Stat of the new file: err = %v, want none", err)
	}
}
