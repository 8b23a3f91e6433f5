package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
)

type copyResult struct {
	blob.CopyCounts

	problems map[string]error
	err      error
}

func copyStore(ctx context.Context, from, to string) copyResult {
	r := copyResult{problems: map[string]error{}}
	c := &blob.Copier{From: blob.OpenFolder(from), To: blob.OpenFolder(to), Problem: func(key string, err error) { r.problems[key] = err }}
	r.err = c.Run(ctx)
	r.CopyCounts = c.Counts()
	return r
}

// newSource returns a store with an installation and n blobs of 2,000 bytes.
func newSource(t *testing.T, n int) (f *blob.Folder, root string) {
	t.Helper()
	f, root = newFolder(t)
	if err := f.SetInstallation(t.Context(), blob.NewInstallation(time.Now())); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		writeFile(t, filepath.Join(root, "blobs", filepath.FromSlash(sourceKey(i))), sourceText(i))
	}
	return f, root
}

func sourceKey(i int) string  { return fmt.Sprintf("inst-%d/%02x/file-%d.original", i%3, i%7, i) }
func sourceText(i int) string { return strings.Repeat(fmt.Sprintf("%07d ", i), 250) }

// TestCopyIsCompleteAndRepeatable checks that a copy has all files and the installation, and that a
// second run copies only what is new.
func TestCopyIsCompleteAndRepeatable(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 50} {
		f, from := newSource(t, n)
		to := filepath.Join(t.TempDir(), "new", "files")
		if r := copyStore(t.Context(), from, to); r.err != nil || r.Copied != int64(n) || r.Bytes != int64(2000*n) || r.Skipped != 0 || r.Failed != 0 {
			t.Fatalf("the copy of %d files = %+v, want all files copied", n, r)
		}
		for i := range n {
			if text, err := os.ReadFile(filepath.Join(to, "blobs", sourceKey(i))); err != nil || string(text) != sourceText(i) {
				t.Fatalf("the copy of %s differs: %v", sourceKey(i), err)
			}
		}
		source, err := f.Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if target, err := blob.OpenFolder(to).Installation(t.Context()); err != nil || target != source {
			t.Errorf("installation of the copy = %+v, %v, want %+v", target, err, source)
		}
		writeFile(t, filepath.Join(from, "blobs", "inst-0", "00", "new"), "new")
		if r := copyStore(t.Context(), from, to); r.err != nil || r.Copied != 1 || r.Skipped != int64(n) || r.Bytes != 3 {
			t.Errorf("the second copy of %d files = %+v, want 1 copied", n, r)
		}
	}
}

// TestCopyNamesDifferences checks that Run reports a copy that differs, a file that is not a blob and a
// file that cannot be read. Run copies the other files, and stores no installation in the target.
func TestCopyNamesDifferences(t *testing.T) {
	t.Parallel()
	_, from := newSource(t, 20)
	to := filepath.Join(t.TempDir(), "files")
	flipped := []byte(sourceText(3))
	flipped[100] ^= 1
	writeFile(t, filepath.Join(to, "blobs", sourceKey(3)), string(flipped))
	writeFile(t, filepath.Join(to, "blobs", sourceKey(4)), sourceText(4)[1:])
	writeFile(t, filepath.Join(to, "blobs", sourceKey(5)), sourceText(5))
	writeFile(t, filepath.Join(from, "blobs", "inst-0", "Upper Case"), "x")
	writeFile(t, filepath.Join(from, "blobs", ".hidden"), "x")
	if err := os.Symlink(t.TempDir(), filepath.Join(from, "blobs", "inst-0", "folder")); err != nil {
		t.Fatal(err)
	}
	r := copyStore(t.Context(), from, to)
	if !errors.Is(r.err, blob.ErrIncompleteCopy) || r.Copied != 17 || r.Skipped != 1 || r.Failed != 5 {
		t.Errorf("the copy = %+v, want 17 files copied, 1 skipped and 5 failed", r)
	}
	for key, want := range map[string]string{
		sourceKey(3): "differs from the source", sourceKey(4): "1999 bytes instead of 2000", "inst-0/Upper Case": "not that of a stored file",
		".hidden": "not that of a stored file", "inst-0/folder": "is a directory",
	} {
		if err := r.problems[key]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the problem of %s = %v, want %q", key, err, want)
		}
	}
	if _, err := blob.OpenFolder(to).Installation(t.Context()); !errors.Is(err, blob.ErrNoInstallation) {
		t.Errorf("installation of an incomplete copy: error = %v, want ErrNoInstallation", err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "blobs", sourceKey(3))); err != nil || !bytes.Equal(text, flipped) {
		t.Errorf("the copy replaced a file of the target; err = %v", err)
	}
}

// TestCopyRefusesWrongStores checks that Run adds no file to the target if the source or the target is
// wrong.
func TestCopyRefusesWrongStores(t *testing.T) {
	t.Parallel()
	_, from := newSource(t, 1)
	_, other := newSource(t, 1)
	_, unnamed := newFolder(t)
	full := t.TempDir()
	writeFile(t, filepath.Join(full, "certvault.db"), "x")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(from, link); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct{ from, to, want string }{
		"the same":                {from, from, "is the source"},
		"inside":                  {from, filepath.Join(from, "blobs", "a", "b"), "inside it"},
		"inside, by a link":       {from, filepath.Join(link, "copy"), "inside it"},
		"another installation":    {from, other, "belongs to another installation"},
		"a data folder":           {from, full, "is not empty and is not a file store"},
		"no source":               {missing, filepath.Join(missing, "to"), "no such file or directory"},
		"the data folder":         {full, missing, "is not a file store"},
		"without an installation": {unnamed, missing, "incomplete copy"},
	} {
		before := list(t, tc.to)
		if r := copyStore(t.Context(), tc.from, tc.to); r.err == nil || !strings.Contains(r.err.Error(), tc.want) || !strings.Contains(r.err.Error(), tc.from) && !strings.Contains(r.err.Error(), tc.to) {
			t.Errorf("%s: error = %v, want %q and the name of a folder", name, r.err, tc.want)
		}
		if after := list(t, tc.to); after != before {
			t.Errorf("%s: files of the target = %s, want %s", name, after, before)
		}
	}
	for _, location := range []string{"file:///srv", ""} {
		if _, err := blob.OpenURL(location, blob.S3Options{}); !errors.Is(err, blob.ErrLocation) || !strings.Contains(err.Error(), "name a folder") {
			t.Errorf("OpenURL(%q) = %v, want ErrLocation with \"name a folder\"", location, err)
		}
	}
}

// list returns the names of a folder and of all files in it, separated by spaces.
func list(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// TestCopyOfStoreInUse checks that a copy succeeds while files are added to the source and removed from
// it.
func TestCopyOfStoreInUse(t *testing.T) {
	t.Parallel()
	f, from := newSource(t, 200)
	to := filepath.Join(t.TempDir(), "files")
	stop, ready := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			if i == 5 {
				close(ready)
			}
			select {
			case <-stop:
				return
			default:
			}
			key := fmt.Sprintf("live/%02x/%d", i%5, i)
			if _, err := f.Put(t.Context(), key, strings.NewReader("live")); err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				if err := f.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
			if err := f.Delete(t.Context(), sourceKey(199-i)); i < 100 && err != nil {
				t.Error(err)
			}
		}
	})
	<-ready
	r := copyStore(t.Context(), from, to)
	close(stop)
	wg.Wait()
	if r.err != nil {
		t.Fatalf("the copy during uploads and deletions = %+v, want no error", r)
	}
	if r = copyStore(t.Context(), from, to); r.err != nil {
		t.Fatalf("the second copy = %+v, want no error", r)
	}
	if err := f.Walk(t.Context(), "", func(i blob.Info) error {
		_, err := os.Stat(filepath.Join(to, "blobs", i.Key))
		return err
	}); err != nil {
		t.Errorf("a file is missing in the copy: %v", err)
	}
}

// TestCopyEndsIfTheTargetFails checks that a copy ends with an error that names the target if the target
// cannot be written to, and that a later run copies the remaining files.
func TestCopyEndsIfTheTargetFails(t *testing.T) {
	t.Parallel()
	_, from := newSource(t, 30)
	to := filepath.Join(t.TempDir(), "files")
	// The folder of an institution is a link to a folder that does not exist.
	broken := filepath.Join(to, "blobs", "inst-1")
	if err := errors.Join(os.MkdirAll(filepath.Dir(broken), 0o700), os.Symlink(filepath.Join(to, "nowhere"), broken)); err != nil {
		t.Fatal(err)
	}
	if r := copyStore(t.Context(), from, to); r.err == nil || errors.Is(r.err, blob.ErrIncompleteCopy) || !strings.Contains(r.err.Error(), "copying to "+to) {
		t.Errorf("the copy to a broken target = %+v, want an error that names the target", r)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := copyStore(ctx, from, to); !errors.Is(r.err, context.Canceled) || r.Failed != 0 {
		t.Errorf("an interrupted copy = %+v, want context.Canceled", r)
	}
	if r := copyStore(t.Context(), from, to); r.err != nil || r.Copied+r.Skipped != 30 {
		t.Errorf("the continued copy = %+v, want 30 files copied or skipped", r)
	}
}
