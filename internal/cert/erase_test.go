package cert

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/fault"
)

// late makes the vault use blobs for deletions, with sweeps that keep files for 14 days.
func (v *vault) late(blobs blob.Store) {
	v.sweeper = deletion.New(deletion.Config{
		DB: v.d, Blobs: blobs, References: []deletion.References{ReferencedBlobs}, Keep: 14 * day, Now: v.clock.Now, Log: v.log,
	})
	v.Service.deletions = v.sweeper
}

func (v *vault) revoked(c *Certificate) *Certificate {
	v.tb.Helper()
	if _, err := v.Revoke(v.tb.Context(), v.inst.ID, c.UUID, Revocation{Reason: "Issued by mistake"}); err != nil {
		v.tb.Fatal(err)
	}
	return v.get(c.UUID)
}

// erased erases a certificate. The test fails unless Erase deletes and keeps the given numbers of files.
func (v *vault) erased(c *Certificate, deleted, kept int) *Erasure {
	v.tb.Helper()
	e, err := v.Erase(v.tb.Context(), strings.ToLower(c.ReferenceID), " Request of the person ")
	if err != nil {
		v.tb.Fatal(err)
	}
	if len(e.Deleted) != deleted || len(e.Kept) != kept {
		v.tb.Errorf("erasing %q deleted %v and kept %v, want %d and %d files", c.Title, e.Deleted, e.Kept, deleted, kept)
	}
	return e
}

// erasures returns the entries in the audit log for erasures.
func (v *vault) erasures() []audit.Entry {
	v.tb.Helper()
	list, _, err := audit.New(v.d).List(v.tb.Context(), v.inst.ID, audit.Filter{Action: string(audit.CertificateErased)}, "", 100)
	if err != nil {
		v.tb.Fatal(err)
	}
	return list
}

func TestEraseRevokedCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.late(v.folder)
		ctx := t.Context()
		c := v.revoked(v.drawn("erased"))
		other := v.drawn("other")
		v.erased(c, 3, 0)
		for _, key := range []string{c.File.Key, c.Verified.TailKey, c.imageKey} {
			if v.exists(key) {
				t.Errorf("the file %s still exists", key)
			}
		}
		now := v.get(c.UUID)
		if now.Status != Revoked || now.FilesDeletedAt == nil || now.Verified.SHA256 != c.Verified.SHA256 || now.File.SHA256 != c.File.SHA256 {
			t.Errorf("record = %+v, want the revoked certificate with its digests and without its files", now)
		}
		if m, err := v.ByDigest(ctx, c.Verified.SHA256); err != nil || m.Certificate.UUID != c.UUID {
			t.Errorf("ByDigest = %+v, err = %v, want the revoked certificate", m, err)
		}
		if _, err := v.OpenVerified(ctx, now); !errors.Is(err, ErrFilesPurged) {
			t.Errorf("opening the verified PDF: err = %v, want ErrFilesPurged", err)
		}
		if n, err := v.Damaged(ctx); err != nil || n != 0 {
			t.Errorf("%d certificates are damaged, want 0; err = %v", n, err)
		}
		// A second erasure changes nothing.
		v.erased(c, 0, 0)
		list := v.erasures()
		if len(list) != 1 || list[0].Subject.Name != c.ReferenceID || list[0].Detail["reason"] != "Request of the person" || list[0].Detail["files"] != float64(3) {
			t.Errorf("recorded erasures = %+v, want one with the reason and the number of files", list)
		}
		v.clock.Advance(30 * day)
		v.sweepFiles()
		if len(v.keys()) != 3 || !v.exists(other.File.Key) {
			t.Errorf("files = %v, want the three files of the other certificate", v.keys())
		}
	})
}

// Erase also deletes files to which the certificate no longer refers: files whose retention has ended, and
// pictures that were replaced.
func TestEraseDeletesFormerFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.late(v.folder)
		c := v.drawn("erased")
		if err := os.WriteFile(filepath.Join(v.root, "blobs", filepath.FromSlash(c.imageKey)), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		v.checkImage(c)
		c = v.revoked(c)
		if len(v.keys()) != 4 {
			t.Fatalf("files = %v, want 4 with both pictures", v.keys())
		}
		v.setRetention(account.Retention{Revoked: 30})
		v.clock.Advance(31 * day)
		v.sweep()
		if len(v.keys()) != 4 || v.get(c.UUID).FilesDeletedAt == nil {
			t.Fatalf("files after the end of the retention = %v, want 4", v.keys())
		}
		v.erased(c, 4, 0)
		if len(v.keys()) != 0 {
			t.Errorf("files = %v, want none", v.keys())
		}
		if len(v.erasures()) != 1 {
			t.Error("the audit log does not have exactly one entry for an erasure")
		}
	})
}

func TestEraseFailedCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.late(v.folder)
		ctx := t.Context()
		c := v.failed("erased")
		if _, err := v.Erase(ctx, c.ReferenceID, ""); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "Revoke it") || !v.exists(c.File.Key) {
			t.Errorf("erasing the newest record: err = %v, want Conflict with the advice to revoke it, and the file to exist", err)
		}
		v.upload(titled("newest"))
		if e := v.erased(c, 1, 0); !e.RecordDeleted {
			t.Error("RecordDeleted = false, want true")
		}
		if _, err := v.ByUUID(ctx, v.inst.ID, c.UUID); !fault.Is(err, fault.NotFound) || v.exists(c.File.Key) {
			t.Errorf("the erased certificate: err = %v, want NotFound and no file", err)
		}
		if list := v.erasures(); len(list) != 1 || list[0].Subject.ID != c.UUID {
			t.Errorf("recorded erasures = %+v, want one of the certificate", list)
		}
	})
}

func TestEraseKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.late(v.folder)
		shared := v.receive(v.inst, samplePDF("shared", 0))
		of := func(title string) *Certificate {
			return v.approved(v.upload(func(u *Upload) { u.Title, u.File = title, shared }))
		}
		first, second := v.revoked(of("first")), of("second")
		if e := v.erased(first, 1, 1); e.Kept[0] != shared.Key {
			t.Errorf("kept %v, want the shared original", e.Kept)
		}
		content, err := v.OpenVerified(t.Context(), second)
		if err != nil {
			t.Fatalf("opening the verified PDF of the other certificate: %v", err)
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
		// After the other certificate is erased too, the shared original is deleted.
		v.erased(v.revoked(second), 2, 0)
		if v.exists(shared.Key) {
			t.Error("the shared original still exists")
		}
	})
}

func TestEraseRefuses(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	processing, approved := v.upload(titled("processing")), v.approved(v.upload(titled("approved")))
	revoked := v.revoked(v.approved(v.upload(titled("revoked"))))
	files := v.keys()
	var applied *Certificate
	v.tx(func(tx *db.Tx) (err error) {
		applied, err = v.SubmitTx(t.Context(), tx, Application{Institution: v.inst, Title: "applied", FullName: "Ada Obi", Email: "ada@example.org"})
		return err
	})
	for name, tc := range map[string]struct {
		reference, reason string
		kind              fault.Kind
		want              string
	}{
		"processing":      {processing.ReferenceID, "", fault.Conflict, "Revoke it first"},
		"approved":        {approved.ReferenceID, "", fault.Conflict, "Revoke it first"},
		"applied":         {applied.ReferenceID, "", fault.Conflict, "must decide first"},
		"unknown":         {"NWU-0000000000000000", "", fault.NotFound, "No such certificate"},
		"no reference id": {"everything", "", fault.NotFound, "No such certificate"},
		"long reason":     {revoked.ReferenceID, strings.Repeat("x", 1001), fault.Invalid, ""},
		"NUL in reason":   {revoked.ReferenceID, "a\x00b", fault.Invalid, ""},
	} {
		if _, err := v.Erase(t.Context(), tc.reference, tc.reason); !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want %v with %q", name, err, tc.kind, tc.want)
		}
	}
	if got := v.keys(); !slices.Equal(got, files) || len(v.erasures()) != 0 {
		t.Errorf("files = %v, want the unchanged %v and no recorded erasure", got, files)
	}
}

// brokenStore is a store whose Delete fails.
type brokenStore struct{ blob.Store }

var errBroken = errors.New("the disk does not respond")

func (brokenStore) Delete(context.Context, string) error { return errBroken }

// If the files cannot be deleted after the record was changed, the next sweep or a second erasure deletes
// them at once.
func TestInterruptedErasureIsCompleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for name, complete := range map[string]func(c *Certificate){
			"sweep":          func(*Certificate) { v.sweepFiles() },
			"second erasure": func(c *Certificate) { v.erased(c, 2, 0) },
		} {
			c := v.revoked(v.approved(v.upload(titled(name))))
			v.late(brokenStore{v.folder})
			if _, err := v.Erase(t.Context(), c.ReferenceID, ""); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "files remain") {
				t.Fatalf("erasing with a broken store: err = %v, want errBroken and that files remain", err)
			}
			if len(v.keys()) != 2 || v.get(c.UUID).FilesDeletedAt == nil {
				t.Fatalf("files = %v, want both files, and a record without files", v.keys())
			}
			v.late(v.folder)
			if complete(c); len(v.keys()) != 0 {
				t.Errorf("files after the %s = %v, want none", name, v.keys())
			}
		}
	})
}

// If a certificate is erased while its picture is drawn, no picture remains.
func TestErasureWhileThePictureIsDrawn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.late(v.folder)
		c := v.revoked(v.approved(v.upload(nil)))
		v.sealer.png = func(context.Context, io.ReaderAt, int64) ([]byte, error) {
			v.erased(c, 2, 0)
			return []byte("a picture"), nil
		}
		if _, err := v.OpenImage(t.Context(), c); !errors.Is(err, ErrFilesPurged) {
			t.Errorf("OpenImage = %v, want ErrFilesPurged", err)
		}
		if len(v.keys()) != 0 {
			t.Errorf("files = %v, want none", v.keys())
		}
	})
}
