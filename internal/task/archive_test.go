package task

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
)

// Other programs can open an archive. It has the stored files under names that are valid in every
// file system, and its size is Archive.Size.
func TestArchiveOpensInOtherPrograms(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	other := v.institution("OTH")
	foreign := v.approved(v.upload(func(u *cert.Upload) { u.Institution = other }))
	var ids []string
	of := map[string]*cert.Certificate{}
	for i, name := range []string{"Ada Obi", "Ada Obi", `../../etc/passwd`, "C:\\con|\x7fx?*", "محمد\u202eالأحمد", "王小明", strings.Repeat("é", 200), "..."} {
		c := v.approved(v.upload(func(u *cert.Upload) {
			u.FullName, u.Title = name, fmt.Sprintf("Degree %d / first?", i/2)+strings.Repeat(" ", i)+fmt.Sprint(i)
		}))
		ids, of[fileName(c)] = append(ids, c.UUID), c
	}
	waiting := v.upload(titled("waiting"))
	a, err := v.Archive(t.Context(), v.inst.ID, Selection{Selected: append([]string{waiting.UUID, foreign.UUID}, ids...)})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if int64(b.Len()) != a.Size || a.Count() != len(ids) || a.Missing != 1 {
		t.Errorf("wrote %d bytes, Size = %d, Count = %d, Missing = %d, want Size bytes, Count = %d and Missing = 1", b.Len(), a.Size, a.Count(), a.Missing, len(ids))
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	first := of[z.File[0].Name].ReferenceID
	for _, f := range z.File {
		if strings.ContainsAny(f.Name, "/\\:*?\"<>|\x7f\u202e") || strings.HasPrefix(f.Name, ".") || len(f.Name) > 200 || f.Method != zip.Store || f.Flags&8 != 0 {
			t.Errorf("entry %q has the method %d and the flags %x, want a valid name, the method Store and no data descriptor", f.Name, f.Method, f.Flags)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Errorf("reading %s: %v", f.Name, err)
		}
		if f.Name == archiveTable {
			for _, id := range []string{waiting.ReferenceID, first} {
				if !bytes.Contains(content, []byte(id)) {
					t.Errorf("table = %s, want a row with %s", content, id)
				}
			}
			if bytes.Contains(content, []byte(foreign.ReferenceID)) {
				t.Errorf("table = %s, want no certificate of another institution", content)
			}
			continue
		}
		c := of[f.Name]
		if c == nil || sha256.Sum256(content) != c.Verified.SHA256 || f.Modified.Unix()/2 != c.ApprovedAt.Unix()/2 {
			t.Errorf("entry %s, modified at %v: want the digest and the time of approval of the certificate %+v", f.Name, f.Modified, c)
		}
		delete(of, f.Name)
	}
	if len(of) != 0 {
		t.Errorf("certificates without an entry: %v, want none", of)
	}
	path := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	unzip, err := exec.LookPath("unzip")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("unzip is not installed")
		}
		t.Skip("unzip is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), unzip, "-t", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors detected") {
		t.Errorf("unzip -t failed: %v\n%s", err, out)
	}
}

// Archive.Write continues without files that are damaged or missing, and lists these files.
func TestArchiveContinuesWithoutDamagedFiles(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(v *vault, c *cert.Certificate) error{
		"missing file": func(v *vault, c *cert.Certificate) error { return v.folder.Delete(v.tb.Context(), c.Verified.TailKey) },
		"changed file": func(v *vault, c *cert.Certificate) error {
			file := filepath.Join(v.root, "blobs", filepath.FromSlash(c.Verified.TailKey))
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			content[3] ^= 1
			if err := os.Chmod(file, 0o600); err != nil {
				return err
			}
			return os.WriteFile(file, content, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
			first := v.approved(v.upload(titled("first")))
			v.clock.Advance(time.Minute)
			damaged := v.approved(v.upload(titled("damaged")))
			v.clock.Advance(time.Minute)
			last := v.approved(v.upload(titled("last")))
			if err := damage(v, damaged); err != nil {
				t.Fatal(err)
			}
			a, err := v.Archive(t.Context(), v.inst.ID, Selection{})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := a.Write(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			files := contents(t, b.Bytes())
			for _, c := range []*cert.Certificate{first, last} {
				if sha256.Sum256(files[fileName(c)]) != c.Verified.SHA256 {
					t.Errorf("%s is not in the archive or has a different digest, want the verified PDF", fileName(c))
				}
			}
			if _, ok := files[fileName(damaged)]; ok || len(files) != 4 {
				t.Errorf("the archive has %d files, with the damaged file %t; want 4 files without it", len(files), ok)
			}
			if list := string(files[archiveMissing]); !strings.Contains(list, fileName(damaged)) || strings.Contains(list, fileName(first)) {
				t.Errorf("the list of missing files = %s, want only the damaged file", list)
			}
			table := string(files[archiveTable])
			if strings.Count(table, "(none: the stored file is damaged or missing)") != 1 || strings.Contains(table, fileName(damaged)) || !strings.Contains(table, fileName(last)) {
				t.Errorf("table = %s, want exactly one certificate with a damaged file", table)
			}
			if n, err := v.certs.Damaged(t.Context()); err != nil || n != 1 {
				t.Errorf("%d certificates have a failed check after Write, want 1; err = %v", n, err)
			}
		})
	}
}

// contents returns the contents of the files of an archive, by name.
func contents(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Errorf("reading %s: %v", f.Name, err)
		}
	}
	return files
}

func TestArchiveIsBounded(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	v.exec(`UPDATE certificates SET verified_size = $1 WHERE uuid = $2`, int64(maxArchiveSize)+1, c.UUID)
	if _, err := v.Archive(t.Context(), v.inst.ID, Selection{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("archive that is too large: err = %v, want Invalid", err)
	}
	v.upload(titled("waiting"))
	if _, err := v.Archive(t.Context(), v.inst.ID, Selection{Filter: search.Filter{Statuses: []cert.Status{cert.Processing}}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("archive of certificates without a verified PDF: err = %v, want Invalid", err)
	}
	big := v.institution("BIG")
	v.exec(`INSERT INTO certificates (uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date,
			search_text, source, trigger_context, event_context, status, creator_type, creator_name, file_name, mime_type, size, sha256, sha256_state, original_key,
			created_at, updated_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= $1)
		SELECT 'uuid ' || i, $2, 'BIG-' || i, 'BIG' || i, 'BSc ' || i, 'Ada Obi', 'ada@example.org', 'ada@example.org', '2026-06-30', ' ada obi', 'vault', 'single_upload',
			'single_upload', 'processing', 'token', 'Registry', 'a.pdf', 'application/pdf', 1, sha256, sha256_state, 'a key', 0, 0
		FROM n CROSS JOIN certificates WHERE uuid = $3`, int64(maxArchive), big.ID, c.UUID)
	if _, err := v.Archive(t.Context(), big.ID, Selection{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("archive with too many certificates: err = %v, want Invalid", err)
	}
}

// The table of an archive lists the certificates whose files were deleted by retention.
func TestArchiveWithoutDeletedFiles(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	deleted, other := v.approved(v.upload(nil)), v.approved(v.upload(titled("other")))
	v.exec(`UPDATE certificates SET status = 'revoked', revoked_at = updated_at, files_ended_at = updated_at, original_key = '', tail_key = '' WHERE uuid = $1`, deleted.UUID)
	p, err := v.Archive(t.Context(), v.inst.ID, Selection{Selected: []string{deleted.UUID, other.UUID}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	files := contents(t, b.Bytes())
	if table := string(files[archiveTable]); len(files) != 2 || !strings.Contains(table, "(none: its files were deleted)") {
		t.Errorf("the archive has %d files and the table %s, want 2 files and a row that says that files were deleted", len(files), table)
	}
}
