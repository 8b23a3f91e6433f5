package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestDoctorChecksAllFiles checks that doctor --files raises the alarm of a certificate with a damaged
// file, and clears the alarm after the file is correct again.
func TestDoctorChecksAllFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, err := blob.NewFolder(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.New(t, dbtest.Open(t, dir, ""), func(d *vault.Deps) { d.Blobs = folder })
	inst := v.Institution("NWU", "Northern & Western University")
	v.Upload(inst, "Ada Obi", "a.pdf")
	damaged := v.Upload(inst, "Ben Two", "b.pdf")
	v.Work(2)
	if damaged, err = v.Certs.BySignedLink(t.Context(), damaged.UUID); err != nil {
		t.Fatal(err)
	}
	check := func(name string, tail string, damages int, want string) {
		t.Helper()
		blobtest.Replace(t, folder, damaged.Verified.TailKey, tail)
		list := ExamineFiles(t.Context(), config.Storage{Data: dir})
		if len(list) != 1+damages || list[0].Good != (damages == 0) || !strings.Contains(list[0].Detail, want) {
			t.Errorf("%s: findings = %+v, want %q and %d damaged certificates", name, list, want, damages)
		}
		for _, f := range list[1:] {
			if f.Good || f.Name != "certificate "+damaged.ReferenceID || f.Detail != problems[cert.CheckFile] {
				t.Errorf("%s: finding = %+v, want the damaged file of the certificate", name, f)
			}
		}
		if n, err := v.Certs.Damaged(t.Context()); err != nil || n != damages {
			t.Errorf("%s: %d certificates with damaged files, want %d; error = %v", name, n, damages, err)
		}
	}
	check("intact", certtest.Tail, 0, "all files of 2 certificates")
	check("truncated", certtest.Tail[1:], 1, "certificates with damaged files: 1 of 2")
	check("restored", certtest.Tail, 0, "all files of 2 certificates")
	if err := folder.Delete(t.Context(), damaged.Verified.TailKey); err != nil {
		t.Fatal(err)
	}
	if list := ExamineFiles(t.Context(), config.Storage{Data: dir}); len(list) != 2 || list[0].Good {
		t.Errorf("findings without the file = %+v, want one damaged certificate", list)
	}
	if list := ExamineFiles(t.Context(), config.Storage{Data: t.TempDir()}); len(list) != 1 || list[0].Good {
		t.Errorf("findings without a vault = %+v, want an error", list)
	}
}
