package backup

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/keyring"
)

// FuzzManifest checks that a changed manifest is rejected, and that an entry never names a file
// outside the backup.
func FuzzManifest(f *testing.F) {
	ring, err := keyring.Parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "in the test")
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	w, err := createManifest(dir, ring, Header{Installation: "i", CreatedAt: time.Unix(1, 0).UTC(), Version: "v", Schema: 37, Dialect: "sqlite"})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range []Entry{{Name: sqliteName, Size: 3, SHA256: Digest{1}}, {Name: blobName("a/b"), Missing: true}} {
		if err := w.add(e); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.finish(); err != nil {
		f.Fatal(err)
	}
	genuine, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(genuine)
	f.Add(bytes.Replace(genuine, []byte("files/blobs"), []byte("../../blobs"), 1))
	f.Add(genuine[:len(genuine)-40])
	f.Add([]byte("{}\n{\"count\":1}\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, manifestName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openManifest(dir, ring)
		if err != nil {
			return
		}
		defer func() { _ = r.close() }()
		for {
			e, err := r.next()
			if errors.Is(err, io.EOF) {
				// The last line is not signed, and JSON allows different encodings of it.
				last := bytes.LastIndexByte(genuine[:len(genuine)-1], '\n') + 1
				if !bytes.HasPrefix(text, genuine[:last]) {
					t.Errorf("the manifest %q was accepted", text)
				}
				return
			}
			if err != nil {
				return
			}
			if !fs.ValidPath(e.Name) || e.Size < 0 {
				t.Errorf("the entry %+v was accepted", e)
			}
		}
	})
}
