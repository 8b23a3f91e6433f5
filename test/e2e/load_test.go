//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// maxResident is the maximum peak of the vault's resident memory in kB.
const maxResident = 300 << 10

// TestMemory uploads 50 files of 17 to 21 MB concurrently, or 24 with -short, and checks the peak memory of
// the vault. The files are PDFs with large data outside of pages, PDFs with a large picture, and pictures.
func TestMemory(t *testing.T) {
	uploads := 50
	if testing.Short() {
		uploads = 24
	}
	padded, err := vault.Sample{Title: "Heavy", Name: "Jane Doe"}.PDFOfSize(maxFile)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := vault.HeavyPNG(2550, 2550)
	if err != nil {
		t.Fatal(err)
	}
	heavy := []vault.Form{
		{FileName: "padded.pdf", File: padded},
		{FileName: "picture.pdf", File: vault.Sample{Title: "Heavy", Name: "Jane Doe", Emblem: 2700}.PDF()},
		{FileName: "picture.png", File: picture},
	}
	f := startIn(t, t.TempDir(), "")
	uuids, api := make([]string, uploads), f.api(t)
	var wg sync.WaitGroup
	for i := range uploads {
		wg.Go(func() {
			kind := heavy[i%len(heavy)]
			made, err := api.Upload(t.Context(), certificate(t, form(person(i)).WithFile(kind.FileName, kind.File)))
			if err != nil {
				t.Errorf("upload %d: %v", i, err)
				return
			}
			uuids[i] = made.UUID
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	uploaded := peak(t, f.PID())
	for _, uuid := range uuids {
		f.awaitFor(t, 4*approvalTime, uuid, "approved") // up to 1 GB is sealed
	}
	approved := peak(t, f.PID())
	t.Logf("peak resident memory: %d MB after %d concurrent uploads, %d MB when all were approved", uploaded>>10, uploads, approved>>10)
	if approved > maxResident {
		t.Errorf("peak resident memory = %d MB, want at most %d MB", approved>>10, maxResident>>10)
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the peak resident memory of a process in kB. It skips the test if the system does
// not report the memory.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not report the peak memory of a process")
	}
	m := highWater.FindSubmatch(status)
	if err != nil || m == nil {
		t.Fatalf("reading the memory of the process: %v", err)
	}
	return number(t, string(m[1]))
}

// TestFullDisk fills the disk. The vault refuses uploads before the disk is full, and loses no
// acknowledged upload.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const size = 160 << 20
	f := &fixture{}
	data := smallDisk(t, size)
	f.Vault = serve(t, vault.Options{Data: data, Args: unlimited(nil)})
	var err error
	if f.institution, err = f.CreateInstitution(t.Context(), "Northwind University", "NWU"); err != nil {
		t.Fatal(err)
	}
	f.client = f.as(t, f.token(t, "", vault.Permissions...))
	first := f.upload(t, form("First"))
	f.awaitFor(t, 4*approvalTime, first.UUID, "approved") // the compiled renderer is on the disk now

	// This file is larger than the free space, so the upload fails while the vault receives the file.
	ballast := filepath.Join(data, "ballast")
	fill(t, data, ballast, size*8/100)
	heavy, err := vault.Sample{Title: "Heavy", Name: "Jane Doe"}.PDFOfSize(maxFile)
	if err != nil {
		t.Fatal(err)
	}
	uploadToFullDisk(t, f, form("Too Heavy").WithFile("heavy.pdf", heavy))
	if left := f.files(t, "incoming"); len(left) != 0 {
		t.Errorf("the failed upload left files: %v", left)
	}
	// The vault accepts smaller uploads until less than 5 % of the disk is free.
	acked := []*client.VaultCertificate{first}
	for i := range 10 {
		acked = append(acked, f.upload(t, form(person(i))))
	}
	fill(t, data, ballast, size*4/100)
	uploadToFullDisk(t, f, form("Too Late"))
	for _, c := range acked {
		if _, err := f.api(t).VaultCertificate(t.Context(), c.UUID); err != nil {
			t.Error(err)
		}
	}
	// The ten certificates are being sealed and can fill the disk. With 4 % free again, the vault is ready.
	eventually(t, approvalTime, "the vault is ready", func() bool {
		fill(t, data, ballast, size*4/100)
		a, err := f.as(t, "").Get(t.Context(), "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		return a.Status == http.StatusOK
	})
	f.Kill()
	f.Vault = serve(t, vault.Options{Data: data, Args: unlimited(nil)}) // a vault must start on a full disk
	f.client = f.as(t, f.client.Token)
	fill(t, data, ballast, size*4/100) // the start has freed the space of the write-ahead log
	uploadToFullDisk(t, f, form("Too Late"))
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	acked = append(acked, f.upload(t, form("Too Late")), f.upload(t, form("Too Heavy").WithFile("heavy.pdf", heavy)))
	for _, c := range acked {
		f.await(t, c.UUID, "approved")
	}
	if n := count(t, f.database(t), `SELECT count(*) FROM certificates`); n != len(acked) {
		t.Errorf("got %d certificates for %d acknowledged uploads, want one for each upload", n, len(acked))
	}
}

// uploadToFullDisk uploads a form. The vault must refuse it because the disk is full.
func uploadToFullDisk(t *testing.T, f *fixture, form *vault.Form) {
	t.Helper()
	_, err := f.api(t).Upload(t.Context(), certificate(t, form))
	if e := wantClientError(t, err, client.ErrUnavailable, ""); e.RetryAfter < time.Second {
		t.Errorf("Retry-After = %v, want at least 1 s", e.RetryAfter)
	}
}

// smallDisk mounts a disk of size bytes until the test ends, and returns its folder. If the disk cannot
// be mounted, smallDisk skips the test.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=700", size), "certvault-test", dir).CombinedOutput()
	if err != nil {
		t.Skipf("mounting a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill changes the size of a file so that the disk has the given free space in bytes.
func fill(t *testing.T, dir, file string, free int64) {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	b, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	size, err := b.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	if grow := int64(s.Bavail)*s.Bsize - free; grow >= 0 {
		_, err = b.Write(make([]byte, grow))
	} else {
		err = b.Truncate(max(0, size+grow))
	}
	if err != nil {
		t.Fatal(err)
	}
}
