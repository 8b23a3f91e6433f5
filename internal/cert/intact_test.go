package cert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// file returns the path of the file of a blob.
func (v *vault) file(key string) string {
	return filepath.Join(v.root, "blobs", filepath.FromSlash(key))
}

// damages has functions that damage a stored file. Their arguments are its path and its content.
var damages = map[string]func(name string, content []byte) error{
	"flipped": func(name string, content []byte) error {
		content = bytes.Clone(content)
		content[len(content)/2] ^= 1
		return os.WriteFile(name, content, 0o600)
	},
	"flipped, with its old time": func(name string, content []byte) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		content = bytes.Clone(content)
		content[len(content)/2] ^= 1
		return errors.Join(os.WriteFile(name, content, 0o600), os.Chtimes(name, info.ModTime(), info.ModTime()))
	},
	"truncated": func(name string, content []byte) error { return os.WriteFile(name, content[:len(content)-1], 0o600) },
	"emptied":   func(name string, _ []byte) error { return os.WriteFile(name, nil, 0o600) },
	"lengthened": func(name string, content []byte) error {
		return os.WriteFile(name, append(bytes.Clone(content), 0), 0o600)
	},
	"missing": func(name string, _ []byte) error { return os.Remove(name) },
}

func TestDamagedFileIsNeverServed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var log bytes.Buffer
		v := newVault(t, d, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		for _, size := range []int{0, 2 * largeFile} {
			c := v.approved(v.upload(func(u *Upload) {
				u.Title, u.File = fmt.Sprintf("a file of %d bytes", size), v.receive(v.inst, samplePDF("a diploma", size))
			}))
			for part, key := range map[string]string{"original": c.File.Key, "tail": c.Verified.TailKey} {
				for damage, apply := range damages {
					v.checkDamage(fmt.Sprintf("%s, %s of %d bytes", damage, part, size), c, key, apply, &log)
				}
			}
		}
	})
}

// checkDamage damages and restores a stored file of a certificate. It fails the test unless
// OpenVerified returns Damaged for the damaged file, logs one alarm, and accepts the restored file.
func (v *vault) checkDamage(name string, c *Certificate, key string, damage func(name string, content []byte) error, log *bytes.Buffer) {
	t := v.tb
	t.Helper()
	content, err := os.ReadFile(v.file(key))
	if err != nil {
		t.Fatal(err)
	}
	open := func() error {
		content, err := v.OpenVerified(t.Context(), c)
		if err == nil {
			err = content.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatalf("%s: opening the intact file: err = %v, want nil", name, err)
	}
	if err := damage(v.file(key), content); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	v.clock.Advance(time.Minute)
	for range 2 {
		if err := open(); !fault.Is(err, fault.Damaged) {
			t.Errorf("%s: opening the damaged file: err = %v, want Damaged", name, err)
		}
	}
	now := db.Time(db.Micros(v.clock.Now()))
	if k := v.fileCheck(c); k.Result != FailedCheck || !k.CheckedAt.Equal(now) {
		t.Errorf("%s: the check = %+v, want failed at %v", name, k, now)
	}
	if n := strings.Count(log.String(), "ALARM"); n != 1 || !strings.Contains(log.String(), c.UUID) {
		t.Errorf("%s: %d alarms, want 1 with the UUID of the certificate: %s", name, n, log)
	}
	if n, err := v.Damaged(t.Context()); err != nil || n != 1 {
		t.Errorf("%s: %d certificates are damaged, want 1; err = %v", name, n, err)
	}
	if checks, err := v.CheckFiles(t.Context(), c, nil); err != nil || results(checks)[CheckFile] != FailedCheck {
		t.Errorf("%s: a check of the damaged file = %+v, err = %v, want failed", name, checks, err)
	}
	if err := os.WriteFile(v.file(key), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("%s: opening the restored file: err = %v, want nil", name, err)
	}
	if checks, err := v.CheckFiles(t.Context(), c, nil); err != nil || results(checks)[CheckFile] != Passed {
		t.Errorf("%s: a check of the restored file = %+v, err = %v, want passed", name, checks, err)
	}
	if n, err := v.Damaged(t.Context()); err != nil || n != 0 {
		t.Errorf("%s: %d certificates are damaged after the check, want 0; err = %v", name, n, err)
	}
}

// countingStore counts the bytes that are read from blobs.
type countingStore struct {
	blob.Store

	read *atomic.Int64
}

func (s countingStore) Open(ctx context.Context, key string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, key)
	return countedObject{o, s.read}, err
}

type countedObject struct {
	blob.Object

	read *atomic.Int64
}

func (o countedObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	o.read.Add(int64(n))
	return n, err
}

// The digest of a large file is computed once for each version of the stored files. The digest of a
// small file is computed each time.
func TestLargeFileIsReadOnceForItsDigest(t *testing.T) {
	t.Parallel()
	var read atomic.Int64
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Blobs = countingStore{c.Blobs, &read} })
	for _, size := range []int{0, 2 * largeFile} {
		c := v.approved(v.upload(func(u *Upload) {
			u.Title, u.File = fmt.Sprintf("a file of %d bytes", size), v.receive(v.inst, samplePDF("a diploma", size))
		}))
		for i := range 3 {
			read.Store(0)
			content, err := v.OpenVerified(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if err := content.Close(); err != nil {
				t.Error(err)
			}
			want := c.Verified.Size
			if size > 0 && i > 0 {
				want = 0
			}
			if n := read.Load(); n != want {
				t.Errorf("opening number %d of a file of %d bytes read %d bytes, want %d", i+1, c.Verified.Size, n, want)
			}
		}
	}
}

// An original that is not a part of a verified PDF has its own check, which is not public.
func TestDamagedOriginalIsNeverServed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			return sealed(o, []byte(tailText), true)
		}
		whole, waiting := v.approved(v.upload(titled("whole"))), v.upload(titled("waiting"))
		for _, c := range []*Certificate{whole, waiting} {
			content, err := os.ReadFile(v.file(c.File.Key))
			if err != nil {
				t.Fatal(err)
			}
			if err := damages["flipped"](v.file(c.File.Key), content); err != nil {
				t.Fatal(err)
			}
			if _, err := v.OpenOriginal(ctx, c); !fault.Is(err, fault.Damaged) {
				t.Errorf("%s: opening the damaged original: err = %v, want Damaged", c.Title, err)
			}
			if yes, err := v.OriginalDamaged(ctx, c); err != nil || !yes {
				t.Errorf("%s: damaged = %t, err = %v, want true", c.Title, yes, err)
			}
			if list, err := v.Checks(ctx, c); err != nil || len(list) != 3 || results(list)[CheckFile] == FailedCheck {
				t.Errorf("%s: public checks = %+v, err = %v, want 3 and no failed check of the file", c.Title, list, err)
			}
			if err := os.WriteFile(v.file(c.File.Key), content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := v.CheckFiles(ctx, c, nil); err != nil {
				t.Fatal(err)
			}
			if n, err := v.Damaged(ctx); err != nil || n != 0 {
				t.Errorf("%s: %d certificates are damaged after the check, want 0; err = %v", c.Title, n, err)
			}
			opened, err := v.OpenOriginal(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(opened); err != nil || !bytes.Equal(got, content) || opened.Close() != nil {
				t.Errorf("%s: read %d bytes, err = %v, want the original", c.Title, len(got), err)
			}
		}
		pdf, err := v.OpenVerified(ctx, whole)
		if err != nil || pdf.Close() != nil {
			t.Errorf("opening and closing the verified PDF of the certificate with a restored original: err = %v, want nil", err)
		}
	})
}

// A request that read the record before retention deleted the files stores no failed check.
func TestDeletedFilesAreNotDamaged(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	v.exec(`UPDATE certificates SET status = 'revoked', revoked_at = 0, files_ended_at = 1, original_key = '', tail_key = '' WHERE id = $1`, c.ID)
	v.exec(`DELETE FROM certificate_checks`)
	if err := os.Remove(v.file(c.Verified.TailKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.OpenVerified(t.Context(), c); !fault.Is(err, fault.Damaged) {
		t.Errorf("opening a deleted file with an old record: err = %v, want Damaged", err)
	}
	if checks, err := v.CheckFiles(t.Context(), c, nil); err != nil || len(checks) != 0 {
		t.Errorf("CheckFiles of deleted files: checks = %+v, err = %v, want none", checks, err)
	}
	if n, err := v.Damaged(t.Context()); err != nil || n != 0 {
		t.Errorf("%d certificates are damaged, want 0; err = %v", n, err)
	}
}

// CheckAll checks the files of all certificates. An application without a file has no checks.
func TestCheckAll(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		want := map[string]Result{}
		for _, title := range []string{"intact", "damaged", "also intact"} {
			c := v.approved(v.upload(titled(title)))
			want[c.UUID] = Passed
			if title == "damaged" {
				want[c.UUID] = FailedCheck
				if err := os.Remove(v.file(c.File.Key)); err != nil {
					t.Fatal(err)
				}
			}
		}
		application := v.upload(titled("application"))
		v.exec(`UPDATE certificates SET original_key = '' WHERE id = $1`, application.ID)
		got := map[string]Result{}
		if err := v.CheckAll(t.Context(), func(c *Certificate, checks []Check) {
			if c.UUID != application.UUID {
				got[c.UUID] = results(checks)[CheckFile]
			} else if len(checks) > 0 {
				t.Errorf("checks of an application without a file = %+v, want none", checks)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("results = %v, want %v", got, want)
		}
	})
}

// A damaged or missing picture is drawn again and stored under a new key.
func TestDamagedPictureIsDrawnAgain(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	v.checkImage(c)
	for name, damage := range damages {
		key := v.get(c.UUID).imageKey
		if err := damage(v.file(key), []byte("a picture")); err != nil {
			t.Fatal(err)
		}
		v.checkImage(v.get(c.UUID))
		if now := v.get(c.UUID).imageKey; now == key {
			t.Errorf("%s: the key of the picture is unchanged, want a new key", name)
		}
	}
	if n, err := v.Damaged(t.Context()); err != nil || n != 0 {
		t.Errorf("%d certificates are damaged, want 0; err = %v", n, err)
	}
	// The key of a picture from an earlier version of the vault has no digest.
	v.exec(`UPDATE certificates SET image_key = $1`, blobKey(v.inst.UUID, "0198-aa", "image"))
	v.checkImage(v.get(c.UUID))
}
