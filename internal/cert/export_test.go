package cert

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

func TestExportIsFormulaSafeAndOneInstitutions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		v.upload(func(u *Upload) { *u = v.input(other) })
		v.upload(func(u *Upload) { u.FullName, u.Title = `=HYPERLINK("https://evil.example","x")`, "+1; \"two\"\nlines" })
		approved := v.approved(v.upload(titled("approved")))
		var b bytes.Buffer
		if err := v.Export(t.Context(), &b, v.inst.ID, Choice{}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 3 {
			t.Fatalf("%q, %v", b.String(), err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r") {
					t.Errorf("a formula: %q", cell)
				}
			}
		}
		if rows[1][0] != approved.ReferenceID || rows[1][1] != "approved" || rows[1][7] != "https://vault.example/verify/"+approved.ReferenceID ||
			rows[1][19] != fmt.Sprintf("%x", approved.Verified.SHA256) {
			t.Errorf("%q", rows[1])
		}
		b.Reset()
		if err := v.Export(t.Context(), &b, v.inst.ID, Choice{UUIDs: []string{approved.UUID}}); err != nil || strings.Count(b.String(), "\r\n") != 2 {
			t.Errorf("a choice: %q, %v", b.String(), err)
		}
		b.Reset()
		if err := v.Export(t.Context(), &b, v.inst.ID, Choice{Filter: Filter{IssuedFrom: "x"}}); !fault.Is(err, fault.Invalid) || b.Len() != 0 {
			t.Errorf("a filter that is none: %v after %d bytes", err, b.Len())
		}
		entries, _, err := audit.New(d).List(t.Context(), v.inst.ID, audit.Filter{Action: string(audit.CertificateExported)}, "", 10)
		if err != nil || len(entries) != 2 {
			t.Errorf("recorded: %+v, %v", entries, err)
		}
	})
}

// An archive opens in programs that are not ours, its files are those that were
// made, under names that every file system takes, and its size was told before.
func TestArchive(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	other := v.institution("OTH")
	foreign := v.approved(v.upload(func(u *Upload) { *u = v.input(other) }))
	var ids []string
	of := map[string]*Certificate{}
	for i, name := range []string{"Ada Obi", "Ada Obi", `../../etc/passwd`, "C:\\con|\x7fx?*", "محمد\u202eالأحمد", "王小明", strings.Repeat("é", 200), "..."} {
		c := v.approved(v.upload(func(u *Upload) {
			u.FullName, u.Title = name, fmt.Sprintf("Degree %d / first?", i/2)+strings.Repeat(" ", i)+fmt.Sprint(i)
		}))
		ids, of[entryName(c)] = append(ids, c.UUID), c
	}
	waiting := v.upload(titled("waiting"))
	a, err := v.Archive(t.Context(), v.inst.ID, Choice{UUIDs: append([]string{waiting.UUID, foreign.UUID}, ids...)})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if files, certificates := a.Files(); int64(b.Len()) != a.Size || files != len(ids) || certificates != len(ids)+1 {
		t.Errorf("%d bytes, told %d; %d files of %d", b.Len(), a.Size, files, certificates)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if strings.ContainsAny(f.Name, "/\\:*?\"<>|\x7f\u202e") || strings.HasPrefix(f.Name, ".") || len(f.Name) > 200 || f.Method != zip.Store || f.Flags&8 != 0 {
			t.Errorf("%q, method %d, flags %x", f.Name, f.Method, f.Flags)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if f.Name == listName {
			for _, id := range []string{waiting.ReferenceID, of[z.File[1].Name].ReferenceID} {
				if !bytes.Contains(content, []byte(id)) {
					t.Errorf("the table lacks %s", id)
				}
			}
			if bytes.Contains(content, []byte(foreign.ReferenceID)) {
				t.Error("the table has another institution's certificate")
			}
			continue
		}
		c := of[f.Name]
		if c == nil || sha256.Sum256(content) != c.Verified.SHA256 || f.Modified.Unix()/2 != c.ApprovedAt.Unix()/2 {
			t.Errorf("%s: %+v, %v", f.Name, c, f.Modified)
		}
		delete(of, f.Name)
	}
	if len(of) != 0 {
		t.Errorf("missing: %v", of)
	}
	path := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	unzip, err := exec.LookPath("unzip")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("unzip is not here")
		}
		t.Skip("unzip is not here")
	}
	if out, err := exec.CommandContext(t.Context(), unzip, "-t", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors detected") {
		t.Errorf("unzip: %v\n%s", err, out)
	}
}

// A file that is damaged, or gone, leaves an archive that nobody takes for
// whole.
func TestArchiveOfDamagedFilesIsBroken(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(v *vault, c *Certificate) error{
		"gone": func(v *vault, c *Certificate) error { return v.folder.Delete(v.tb.Context(), c.Verified.TailKey) },
		"changed": func(v *vault, c *Certificate) error {
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
			v.approved(v.upload(titled("good")))
			v.clock.advance(-time.Minute)
			if err := harm(v, v.approved(v.upload(titled("bad")))); err != nil {
				t.Fatal(err)
			}
			a, err := v.Archive(t.Context(), v.inst.ID, Choice{})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := a.Write(t.Context(), &b); err == nil {
				t.Error("no error")
			}
			if _, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil || int64(b.Len()) >= a.Size {
				t.Errorf("%d of %d bytes open: %v", b.Len(), a.Size, err)
			}
		})
	}
}

func TestArchiveIsBounded(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	v.exec(`UPDATE certificates SET verified_size = $1 WHERE uuid = $2`, int64(maxArchive)+1, c.UUID)
	if _, err := v.Archive(t.Context(), v.inst.ID, Choice{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("too large: %v", err)
	}
	v.upload(titled("waiting"))
	if _, err := v.Archive(t.Context(), v.inst.ID, Choice{Filter: Filter{Statuses: []Status{Processing}}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("nothing in it: %v", err)
	}
	v.insert(crowd(MaxSelection+1, v.institution("BIG").ID)) // ids start anew, so it is the last
	if _, err := v.Archive(t.Context(), 2, Choice{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("too many: %v", err)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		if _, _, err := v.hooks.Create(t.Context(), v.inst.ID, "https://receiver.example/hooks", nil); err != nil {
			t.Fatal(err)
		}
		c := v.upload(nil)
		v.clock.advance(time.Minute)
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) { return nil, pades.ErrKey }
		if err := v.work(t.Context(), c, v.attempts); err != nil {
			t.Fatal(err)
		}
		v.clock.advance(time.Minute)
		if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.clock.advance(time.Minute)
		ada := audit.With(t.Context(), audit.Actor{Type: audit.User, ID: "1", Name: "Ada Obi"})
		if _, err := v.Revoke(ada, v.inst.ID, c.UUID, Revocation{Reason: "Issued in error."}); err != nil {
			t.Fatal(err)
		}
		check := func(name string, want ...webhook.Name) []Moment {
			t.Helper()
			list, err := v.History(t.Context(), v.get(c.UUID))
			if err != nil || len(list) != len(want) {
				t.Fatalf("%s: %+v, %v", name, list, err)
			}
			for i, m := range list {
				if m.Event != want[i] || i > 0 && m.At.Before(list[i-1].At) {
					t.Errorf("%s, %d: %+v", name, i, m)
				}
			}
			return list
		}
		list := check("all", webhook.Created, webhook.Failed, webhook.Retried, webhook.Revoked)
		if list[0].By.Name != "Registry" || list[1].Failure == nil || list[3].Reason != "Issued in error." || list[3].By.Name != "Ada Obi" || len(list[2].Deliveries) != 1 ||
			list[2].Deliveries[0].Status != webhook.DeliveryPending {
			t.Errorf("%+v", list)
		}
		// A record that was brought in without its past tells what it knows itself.
		v.exec(`DELETE FROM webhook_deliveries`)
		v.exec(`DELETE FROM webhook_events`)
		if list := check("without events", webhook.Created, "", webhook.Revoked); list[1].Action != audit.CertificateRetried {
			t.Errorf("a deed without its event: %+v", list[1])
		}
	})
}
