package bulkimport_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/charmap"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// add adds an archive to a draft and unpacks it.
func (k *fixture) add(d *bulkimport.Draft, raw []byte) *bulkimport.Archive {
	k.t.Helper()
	a, err := k.AddArchive(k.t.Context(), k.inst, d, "diplomas.zip", bytes.NewReader(raw))
	k.ok(err)
	for {
		done, err := k.Unpack(k.t.Context(), a.ID, time.Minute)
		k.ok(err)
		if done {
			break
		}
	}
	list, err := k.Archives(k.t.Context(), d)
	k.ok(err)
	return list[len(list)-1]
}

// TestArchivesOfAllKinds unpacks an archive with entries as common programs write them, and with
// malicious entries.
func TestArchivesOfAllKinds(t *testing.T) {
	t.Parallel()
	cp437, err := charmap.CodePage437.NewEncoder().String("Zoë Müller.pdf")
	if err != nil {
		t.Fatal(err)
	}
	extra := func(raw, name string) []byte {
		field := []byte{0x75, 0x70, 0, 0, 1}
		field = binary.LittleEndian.AppendUint32(field, crc32.ChecksumIEEE([]byte(raw)))
		field = append(field, name...)
		binary.LittleEndian.PutUint16(field[2:], uint16(len(field)-4))
		return field
	}
	link := zip.FileHeader{Name: "link.pdf"}
	link.SetMode(fs.ModeSymlink | 0o777)
	encrypted := zip.FileHeader{Name: "secret.pdf", Flags: 1}
	raw := zipOf(t,
		entry("plain.pdf", vaulttest.PDF),
		entry("folder/", nil),
		entry("folder/inner.pdf", vaulttest.PDF),
		entry(`windows\path.pdf`, vaulttest.PDF),
		zipFile{FileHeader: zip.FileHeader{Name: cp437, NonUTF8: true}, content: vaulttest.PDF},
		zipFile{FileHeader: zip.FileHeader{Name: "xyz", NonUTF8: true, Extra: extra("xyz", "李雷.pdf")}, content: vaulttest.PDF},
		entry("plain.pdf", vaulttest.PDF),
		entry("../../outside.pdf", vaulttest.PDF),
		entry("/absolute.pdf", vaulttest.PDF),
		zipFile{FileHeader: link, content: []byte("/etc/passwd")},
		zipFile{FileHeader: encrypted, content: vaulttest.PDF},
		entry("nested.zip", zipOf(t, entry("a.pdf", vaulttest.PDF))),
		entry("bomb.pdf", make([]byte, 8<<20)),
		entry("large.pdf", make([]byte, 21<<20)),
		entry("list.xlsx", []byte("PK")),
		entry("empty.pdf", nil),
		entry("__MACOSX/._plain.pdf", []byte{0}),
		entry("folder/.DS_Store", []byte{0}),
		entry("Thumbs.db", []byte{0}),
		zipFile{FileHeader: zip.FileHeader{Name: "stored.pdf"}, content: vaulttest.PDF, isStored: true},
	)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.create()
		a := k.add(draft, raw)
		if !a.Done || a.Place != 20 || a.Entries != 20 {
			t.Errorf("archive = %+v, want Done with Place = 20 and Entries = 20", a)
		}
		notices := strings.Join(a.Notices, "\n")
		for _, want := range []string{
			"plain.pdf: The ZIP has this file twice", `"../../outside.pdf": The file's path points outside`,
			`"/absolute.pdf": The file's path points outside`, "link.pdf: This is a link",
		} {
			if !strings.Contains(notices, want) {
				t.Errorf("the notices do not contain %q: %s", want, notices)
			}
		}
		got := map[string]string{}
		for _, f := range k.review(draft).Files {
			got[f.Path] = f.Problem
		}
		for path, want := range map[string]string{
			"plain.pdf": "", "folder/inner.pdf": "", "windows/path.pdf": "", "Zoë Müller.pdf": "", "李雷.pdf": "", "stored.pdf": "",
			"secret.pdf": "password", "nested.zip": "within the ZIP", "bomb.pdf": "hundred times", "large.pdf": "larger than", "list.xlsx": "PDF", "empty.pdf": "empty",
		} {
			problem, ok := got[path]
			if !ok || (want == "") != (problem == "") || !strings.Contains(problem, want) {
				t.Errorf("file %s: listed = %t, problem = %q, want a listed file with the problem %q", path, ok, problem, want)
			}
			delete(got, path)
		}
		if len(got) > 0 {
			t.Errorf("the draft has unexpected files: %v", got)
		}
		// The archive is deleted later, because an earlier state of the database may refer to it.
		k.Advance(3 * time.Hour)
		k.SweepFiles()
		k.Advance(vaulttest.Keep - time.Second)
		k.SweepFiles()
		if n := k.archives(); n != 1 {
			t.Errorf("the store has %d archives while unpacked archives are kept, want 1", n)
		}
		k.Advance(time.Second)
		k.SweepFiles()
		if n := k.archives(); n != 0 {
			t.Errorf("the store has %d archives after the sweep, want none", n)
		}
	})
}

func TestRefusedArchives(t *testing.T) {
	t.Parallel()
	k := newFixture(t, dbtest.Open(t, t.TempDir(), ""))
	draft := k.create()
	complete := zipOf(t, entry("a.pdf", vaulttest.PDF))
	var many []zipFile
	for i := range bulkimport.MaxFiles + 1 {
		many = append(many, zipFile{FileHeader: zip.FileHeader{Name: fmt.Sprintf("%d", i)}, isStored: true})
	}
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"not a ZIP":      {vaulttest.PDF, "damaged"},
		"incomplete ZIP": {complete[:len(complete)-10], "damaged"},
		"empty file":     {nil, "damaged"},
		"too many files": {zipOf(t, many...), "more than 20000 files"},
	} {
		_, err := k.AddArchive(t.Context(), k.inst, draft, "a.zip", bytes.NewReader(tc.raw))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v, want fault.Invalid with %q", name, err, tc.want)
		}
	}
	if n := k.archives(); n != 0 {
		t.Errorf("the store has %d refused archives, want none", n)
	}
	if _, err := k.AddArchive(t.Context(), k.inst, draft, "a.zip", io.MultiReader(bytes.NewReader(complete), broken{})); err == nil {
		t.Error("AddArchive of an interrupted upload returned no error, want one")
	}
	// A damaged entry becomes a refused file of the draft.
	damaged := bytes.Clone(zipOf(t, zipFile{FileHeader: zip.FileHeader{Name: "a.pdf"}, content: vaulttest.PDF, isStored: true}))
	damaged[60] ^= 0xFF
	k.add(draft, damaged)
	if files := k.review(draft).Files; len(files) != 1 || !strings.Contains(files[0].Problem, "damaged in the ZIP") {
		t.Errorf("files = %+v, want one file that is damaged in the ZIP", files)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestUnpackingResumes checks that each file is stored once if two workers unpack an archive at the same
// time.
func TestUnpackingResumes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.create()
		var files []zipFile
		for i := range 12 {
			files = append(files, entry(fmt.Sprintf("%d.pdf", i), vaulttest.PDF))
		}
		a, err := k.AddArchive(t.Context(), k.inst, draft, "a.zip", bytes.NewReader(zipOf(t, files...)))
		k.ok(err)
		if err := k.Submit(t.Context(), draft, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("submitting while an archive is unpacked: error = %v, want fault.BadRequest", err)
		}
		var rounds int
		for done := false; !done; rounds++ {
			ended := make(chan error, 2)
			for range 2 {
				go func() {
					_, err := k.Unpack(t.Context(), a.ID, time.Nanosecond)
					ended <- err
				}()
			}
			for range 2 {
				if err := <-ended; err != nil && !strings.Contains(err.Error(), bulkimport.ErrConcurrent.Error()) {
					t.Fatal(err)
				}
			}
			k.Advance(time.Second)
			done = one[bool](k, `SELECT status = 'unpacked' FROM bulk_import_archives`)
			if rounds > 100 {
				t.Fatal("the archive is not unpacked after 100 rounds")
			}
		}
		if v := k.review(draft); len(v.Files) != 12 {
			t.Errorf("the draft has %d files, want 12", len(v.Files))
		}
		if n := one[int](k, `SELECT count(*) FROM staged_files`); n != 12 {
			t.Errorf("%d files are staged, want 12", n)
		}
	})
}

// archives returns the number of stored archives.
func (k *fixture) archives() (n int) {
	k.t.Helper()
	k.ok(k.Blobs.Walk(k.t.Context(), "", func(i blob.Info) error {
		if strings.HasSuffix(i.Key, "."+cert.ArchiveKind) {
			n++
		}
		return nil
	}))
	return n
}
