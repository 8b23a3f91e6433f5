package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// inS3 returns a change of the settings for a vault with a file store in S3 and its secrets outside of
// the data folder.
func inS3(t *testing.T, location string) func(*config.Serve) {
	t.Helper()
	secrets, database := t.TempDir(), dbtest.MigratedURL(t)
	return func(c *config.Serve) {
		c.Database, c.Blob = database, location
		c.MasterKeyFile, c.KeyIdentityFile = filepath.Join(secrets, "master.key"), filepath.Join(secrets, "identity.txt")
	}
}

func (d *direct) upload(name string) (status int, uuid string) {
	d.Helper()
	form := vault.NewForm("Diploma", name, strings.ReplaceAll(strings.ToLower(name), " ", ".")+"@example.org", "ada.pdf", sample(name))
	contentType, body, err := form.Encode()
	if err != nil {
		d.Fatal(err)
	}
	w := d.serve(http.MethodPost, vault.CertificatesPath, contentType, body)
	if w.Code == http.StatusServiceUnavailable {
		d.expectUnavailable("upload", w)
	}
	var made struct {
		Data struct {
			UUID string `json:"uuid"`
		} `json:"data"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil {
		d.Fatal(err)
	}
	return w.Code, made.Data.UUID
}

// TestS3OutageIsUnavailable checks that requests that need the file store get 503 while S3 does not
// work, and succeed afterwards. The vault also works after the folder of files in transit is deleted.
func TestS3OutageIsUnavailable(t *testing.T) {
	t.Parallel()
	faults := &blobtest.Faults{Next: &blobtest.Memory{}}
	d := newDirect(t, inS3(t, blobtest.NewS3(t, faults).Location()))
	status, uuid := d.upload("Ada Obi")
	if status != http.StatusCreated {
		t.Fatalf("status of an upload = %d, want 201", status)
	}
	file := "/panel/" + d.inst.Slug + "/certificates/" + uuid + "/original"
	if w := d.get(file); w.Code != http.StatusOK {
		t.Fatalf("status of the original = %d, want 200", w.Code)
	}
	if err := os.RemoveAll(filepath.Join(d.app.cfg.Data, "files")); err != nil {
		t.Fatal(err)
	}
	if w := d.get(file); w.Code != http.StatusOK {
		t.Errorf("status of the original without the folder files = %d, want 200", w.Code)
	}
	if status, _ := d.upload("Grace Hopper"); status != http.StatusCreated {
		t.Errorf("status of an upload without the folder files = %d, want 201", status)
	}
	for name, fault := range map[string]blobtest.Fault{"down": blobtest.Down, "slow": blobtest.SlowDown, "wrong credentials": blobtest.Denied} {
		if err := os.RemoveAll(filepath.Join(d.app.cfg.Data, "files")); err != nil {
			t.Fatal(err)
		}
		faults.Always(fault)
		_ = d.app.probeFiles(t.Context())
		if w := d.get("/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the file store does not respond") {
			t.Errorf("%s: /readyz = %d %s, want 503 with the reason", name, w.Code, w.Body)
		}
		if status, _ := d.upload("Edsger Dijkstra"); status != http.StatusServiceUnavailable {
			t.Errorf("%s: status of an upload = %d, want 503", name, status)
		}
		d.expectUnavailable(name, d.get(file))
		if w := d.get(vault.CertificatesPath); w.Code != http.StatusOK {
			t.Errorf("%s: status of the list = %d, want 200, because it needs no files", name, w.Code)
		}
		faults.Set(nil)
		if err := d.app.probeFiles(t.Context()); err != nil {
			t.Errorf("%s: probe after the fault: error = %v, want nil", name, err)
		}
		if w := d.get(file); w.Code != http.StatusOK {
			t.Errorf("%s: status of the original after the fault = %d, want 200", name, w.Code)
		}
	}
}

// TestWrongS3IsRejected checks that a server does not start with the file store of another installation,
// with a prefix without files, without access to S3, or with credentials in --blob. The server changes
// nothing in the bucket.
func TestWrongS3IsRejected(t *testing.T) {
	t.Parallel()
	memory := &blobtest.Memory{}
	faults := &blobtest.Faults{Next: memory}
	server := blobtest.NewS3(t, faults)
	location := server.Location()
	change := inS3(t, location)
	d := newDirect(t, change)
	other := newDirect(t, inS3(t, server.Location()))
	before := len(memory.Keys())
	start := func(fault blobtest.Fault, location string) error {
		t.Helper()
		faults.Always(fault)
		defer faults.Set(nil)
		c := settings(t, t.TempDir())
		change(c)
		c.Blob = location
		a, err := New(t.Context(), c, slog.New(slog.DiscardHandler), t.Output())
		if err == nil {
			_ = a.close(t.Context())
		}
		return err
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"another installation":   {start(blobtest.None, other.app.cfg.Blob), "set --blob to the file store of the database"},
		"a prefix without files": {start(blobtest.None, server.Location()), "certvault.json does not exist; set --blob"},
		"no access":              {start(blobtest.Denied, location), "AccessDenied"},
		"credentials":            {start(blobtest.None, "s3://key:secret@bucket"), "--blob: "},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: error = %v, want %q", name, tc.err, tc.want)
		}
	}
	if after := len(memory.Keys()); after != before {
		t.Errorf("files in the bucket = %d, want %d as before", after, before)
	}
	if _, err := Restore(t.Context(), d.app.cfg.Storage, RestoreOptions{}); !errors.Is(err, errRestoreToS3) {
		t.Errorf("Restore with --blob = %v, want errRestoreToS3", err)
	}
	for _, f := range Examine(t.Context(), d.app.cfg.Storage) {
		if (f.Name == "file store" || f.Name == "installation" || f.Name == "incomplete uploads") && !f.Good {
			t.Errorf("finding = %+v, want a good one", f)
		}
	}
}
