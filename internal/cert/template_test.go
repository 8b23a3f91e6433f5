package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
)

// fakeDrawer draws the name, the reference id and the values of a certificate on a base.
type fakeDrawer struct {
	base []byte
	// fail, if not nil, is called by each Draw. If fail returns an error, Draw returns it.
	fail func(c *Certificate) error
}

func (f *fakeDrawer) Draw(_ context.Context, c *Certificate) (*Drawn, error) {
	if f.fail != nil {
		if err := f.fail(c); err != nil {
			return nil, err
		}
	}
	d, err := certtest.Draw(f.base, c.FullName+" "+c.ReferenceID+" "+string(c.Template.Values))
	if err != nil {
		return nil, err
	}
	return &Drawn{
		Base: bytes.NewReader(f.base), BaseSize: int64(len(f.base)), Fields: d.Fields, SHA256: d.SHA256, State: d.State, Size: d.Size,
		Page: 1, Box: seal.Box{0.1, 0.2, 0.3, 0.4}, Trusted: true,
	}, nil
}

// fromTemplate returns a vault with a template, the drawer of the vault and the key of the stored base of
// the template.
func fromTemplate(tb testing.TB, d *db.DB, options ...option) (v *vault, drawer *fakeDrawer, base string) {
	tb.Helper()
	drawer = &fakeDrawer{base: pdftest.Page("a design")}
	v = newVault(tb, d, append([]option{func(c *Config) { c.Drawer = drawer }}, options...)...)
	base = BaseKey(v.inst.UUID)
	if _, err := v.folder.Put(tb.Context(), base, bytes.NewReader(drawer.base)); err != nil {
		tb.Fatal(err)
	}
	return v, drawer, base
}

// issue creates a certificate from the template with the given base.
func (v *vault) issue(base, title string) *Certificate {
	v.tb.Helper()
	u := issued(v, base, title)
	c, err := v.Upload(v.tb.Context(), u)
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

func issued(v *vault, base, title string) Upload {
	return Upload{
		Institution: v.inst, Creator: Actor{Type: "token", ID: 7, Name: "Registry"}, Context: FromTemplate, Title: title, FullName: "Ada Obi",
		Email: "ada@example.org", IssueDate: "2026-06-30", Template: &TemplateUse{VersionID: 4, Values: json.RawMessage(`{"Grade":"A"}`)}, BaseKey: base,
	}
}

// read returns all bytes of the content that open returns.
func (v *vault) read(c *Certificate, open func(context.Context, *Certificate) (*Content, error)) []byte {
	v.tb.Helper()
	content, err := open(v.tb.Context(), c)
	if err != nil {
		v.tb.Fatal(err)
	}
	data, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil {
		v.tb.Fatal(err)
	}
	return data
}

// A certificate from a template has no digest until it is approved. After the approval, its original is the
// base followed by the fields tail, and its verified PDF is the original followed by the tail. The fields
// tail and the tail are in one file.
func TestCertificateFromTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, drawer, base := fromTemplate(t, d)
		ctx := t.Context()
		var stamps []seal.Placement
		seals := v.sealer.seal
		v.sealer.seal = func(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
			stamps = append(stamps, stamp.Placement)
			if o.Recipient != "" || o.Type != seal.PDF || stamp.Sheet != nil || stamp.Institution != v.inst.Name {
				t.Errorf("original = %+v, stamp = %+v, want a PDF, no name to compare, no sheet and the institution", o, stamp)
			}
			return seals(ctx, o, stamp)
		}
		c := v.get(v.issue(base, "BSc/Physics").UUID)
		if c.Source != Template || c.TriggerContext != FromTemplate || c.File.Name != "BSc-Physics.pdf" || c.File.Key != base || c.File.Size != 0 ||
			c.HasDigest() || c.OriginalDigest() != "" || c.Template == nil || c.Template.VersionID != 4 || string(c.Template.Values) != `{"Grade":"A"}` {
			t.Errorf("record = %+v with %+v, want a certificate from the template without a digest", c, c.Template)
		}
		want, err := drawer.Draw(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		original := slices.Concat(drawer.base, want.Fields)
		if got := v.read(c, v.OpenOriginal); !bytes.Equal(got, original) {
			t.Errorf("the original before the approval (%d bytes) differs from the drawn original (%d bytes)", len(got), len(original))
		}
		unknown := func(when, what string, data []byte) {
			t.Helper()
			if m, err := v.ByDigest(ctx, sha256.Sum256(data)); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s, ByDigest of %s: %+v, err = %v, want NotFound", when, what, m, err)
			}
		}
		for _, when := range []string{"in processing", "approved"} {
			unknown(when, "the base", drawer.base)
			unknown(when, "nothing", nil)
			if m, err := v.ByDigest(ctx, [32]byte{}); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s, ByDigest of the zero digest: %+v, err = %v, want NotFound", when, m, err)
			}
			if when == "in processing" {
				unknown(when, "the original", original)
				c = v.approved(c)
			}
		}
		if c.File.SHA256 != sha256.Sum256(original) || c.File.Size != int64(len(original)) || c.Template.FieldsSize != int64(len(want.Fields)) ||
			c.OriginalDigest() != hex.EncodeToString(c.File.SHA256[:]) || c.File.Key != base || len(c.Notices) != 0 {
			t.Errorf("record after the approval = %+v with %+v, want the size and digest of the original", c, c.Template)
		}
		if got := v.read(c, v.OpenOriginal); !bytes.Equal(got, original) {
			t.Errorf("the original after the approval (%d bytes) differs from the drawn original (%d bytes)", len(got), len(original))
		}
		if got := v.read(c, v.OpenVerified); !bytes.Equal(got, slices.Concat(original, []byte(tailText))) {
			t.Errorf("the verified PDF (%d bytes) is not the original (%d bytes) followed by the tail", len(got), len(original))
		}
		if m, err := v.ByDigest(ctx, c.File.SHA256); err != nil || m.Match != MatchOriginal || m.Count != 1 || m.Certificate.UUID != c.UUID {
			t.Errorf("ByDigest of the original: %+v, err = %v, want the certificate", m, err)
		}
		if keys := v.keys(); len(keys) != 2 || !slices.Contains(keys, base) || !slices.Contains(keys, c.Verified.TailKey) {
			t.Errorf("stored files = %v, want the base and one tail", keys)
		}
		if place := (seal.Placement{Mode: seal.Exact, Page: 1, Box: seal.Box{0.1, 0.2, 0.3, 0.4}, Figure: seal.CodeOnly, Trusted: true}); len(stamps) != 1 || fmt.Sprint(stamps[0]) != fmt.Sprint(place) {
			t.Errorf("the stamps are at %+v, want one at %+v", stamps, place)
		}
		events := v.events()
		if len(events) != 2 || events[0].Context != "template" || events[1].Context != "template" {
			t.Errorf("events = %+v, want two in the context template", events)
		}
	})
}

// A certificate that cannot be drawn fails with the reason. A retry draws it again.
func TestDrawingFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, drawer, base := fromTemplate(t, d)
		refusal := &seal.Refusal{Code: "missing_characters", Reason: "No font of this template can write U+13000."}
		drawer.fail = func(*Certificate) error { return fmt.Errorf("drawing: %w", refusal) }
		c := v.issue(base, "one")
		if err := v.work(t.Context(), c, 1); err != nil {
			t.Fatal(err)
		}
		c = v.get(c.UUID)
		if c.Status != Failed || c.Failure == nil || *c.Failure != (Failure{refusal.Code, refusal.Reason}) {
			t.Fatalf("status = %s, failure = %+v, want failed with the code and the reason of the refusal", c.Status, c.Failure)
		}
		if _, err := v.OpenOriginal(t.Context(), c); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), refusal.Reason) {
			t.Errorf("opening an original that cannot be drawn: err = %v, want NotFound with the reason", err)
		}
		drawer.fail = nil
		if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		c = v.approved(c)
		if got := v.read(c, v.OpenVerified); sha256.Sum256(got) != c.Verified.SHA256 {
			t.Error("the verified PDF after a retry has another digest than the record")
		}
		// If the base is missing, the attempt is repeated, and the certificate fails after the last one.
		drawer.fail = func(*Certificate) error { return blob.ErrNotFound }
		c = v.issue(base, "two")
		if err := v.work(t.Context(), c, 1); err == nil || v.get(c.UUID).Status != Processing {
			t.Errorf("first attempt without the base: err = %v, status = %s, want an error and processing", err, v.get(c.UUID).Status)
		}
		if err := v.work(t.Context(), c, v.attempts); err != nil {
			t.Fatal(err)
		}
		if c = v.get(c.UUID); c.Failure == nil || c.Failure.Code != "template_missing" {
			t.Errorf("last attempt without the base: failure = %+v, want template_missing", c.Failure)
		}
	})
}

// If the stored base is lost or damaged while a copy of it is in memory, the certificate is not approved.
// The message of the failure names the command that finds the file.
func TestBaseIsDamagedWhileDrawing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(t *testing.T, file string)
		code   string
	}{
		"a changed bit": {func(t *testing.T, file string) { changeFile(t, file, func(b []byte) []byte { b[20] ^= 1; return b }) }, "template_damaged"},
		"truncated":     {func(t *testing.T, file string) { changeFile(t, file, func(b []byte) []byte { return b[:len(b)/2] }) }, "template_damaged"},
		"empty":         {func(t *testing.T, file string) { changeFile(t, file, func([]byte) []byte { return nil }) }, "template_damaged"},
		"missing": {func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, "template_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _, base := fromTemplate(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Verify = verifyBase(c.Verify) })
			good, err := os.ReadFile(v.file(base))
			if err != nil {
				t.Fatal(err)
			}
			c := v.issue(base, "one")
			test.damage(t, v.file(base))
			if err := v.work(t.Context(), c, v.attempts); err != nil {
				t.Fatal(err)
			}
			if c = v.get(c.UUID); c.Status != Failed || c.Failure.Code != test.code || !strings.Contains(c.Failure.Message, "doctor --files") {
				t.Errorf("status = %s, failure = %+v, want failed with %s and the command doctor --files", c.Status, c.Failure, test.code)
			}
			if err := os.WriteFile(v.file(base), good, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
				t.Fatal(err)
			}
			v.approved(c)
		})
	}
}

// verifyBase returns a Verifier for which a file that does not begin with the base is invalid, because a
// signature also covers the base.
func verifyBase(verify Verifier) Verifier {
	return func(r io.ReaderAt, size int64, o pades.Options) (*pades.Report, error) {
		base := pdftest.Page("a design")
		head := make([]byte, len(base))
		if _, err := r.ReadAt(head, 0); err != nil || !bytes.Equal(head, base) {
			return &pades.Report{Verdict: pades.Invalid}, nil //nolint:nilerr // the report has the result
		}
		return verify(r, size, o)
	}
}

func changeFile(t *testing.T, file string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, change(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Uploads and certificates from templates can be duplicates of each other.
func TestDuplicatesOfTemplates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, _, base := fromTemplate(t, d)
		uploaded, drawn := v.upload(titled("uploaded")), v.issue(base, "drawn")
		check := func(what string, u Upload, existing *Certificate) {
			t.Helper()
			_, err := v.Upload(t.Context(), u)
			if p := ProblemsOf(err); len(p) != 1 || p[0].Code != CodeDuplicate || p[0].Detail != existing.UUID {
				t.Errorf("%s: err = %v, want a duplicate of %s", what, err, existing.UUID)
			}
		}
		u := v.input(v.inst)
		u.Title = "drawn"
		check("an upload like a certificate from a template", u, drawn)
		check("a certificate from a template like an upload", issued(v, base, "uploaded"), uploaded)
		check("two certificates from a template", issued(v, base, "drawn"), drawn)
	})
}

// If the stored file with the fields tail and the tail is corrupted, the certificate is not approved.
func TestCorruptedFieldsAreNotApproved(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(blob.Store) blob.Store{
		"a changed bit":  func(s blob.Store) blob.Store { return corruptingStore{s} },
		"a missing byte": func(s blob.Store) blob.Store { return truncatingStore{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _, base := fromTemplate(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Blobs = wrap(c.Blobs) })
			c := v.issue(base, "one")
			if err := v.work(t.Context(), c, 1); err == nil || v.get(c.UUID).Status != Processing {
				t.Errorf("err = %v, status = %s, want an error and processing", err, v.get(c.UUID).Status)
			}
			if keys := v.keys(); len(keys) != 1 {
				t.Errorf("stored files = %v, want only the base", keys)
			}
		})
	}
}

// Erasing a certificate from a template deletes its tail and its values, and no file of the template. The
// original of the certificate cannot be drawn again.
func TestEraseCertificateFromTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, _, base := fromTemplate(t, d)
		v.late(v.folder)
		c, other := v.approved(v.issue(base, "one")), v.approved(v.issue(base, "two"))
		c = v.revoked(c)
		if e := v.erased(c, 1, 0); e.Deleted[0] != c.Verified.TailKey {
			t.Errorf("deleted = %v, want the tail", e.Deleted)
		}
		now := v.get(c.UUID)
		if now.Template.Values != nil || now.FilesDeletedAt == nil || now.File.SHA256 != c.File.SHA256 {
			t.Errorf("record = %+v with %+v, want no values and the same digest", now, now.Template)
		}
		if _, err := v.OpenOriginal(t.Context(), now); !errors.Is(err, ErrFilesPurged) {
			t.Errorf("opening the original: err = %v, want ErrFilesPurged", err)
		}
		// Erase a certificate that was revoked before it was processed.
		early := v.revoked(v.issue(base, "three"))
		v.erased(early, 0, 0)
		if _, err := v.OpenOriginal(t.Context(), v.get(early.UUID)); !errors.Is(err, ErrFilesPurged) {
			t.Errorf("opening the original of a certificate that was never processed: err = %v, want ErrFilesPurged", err)
		}
		failed := v.issue(base, "four")
		v.force(failed, Failed)
		v.issue(base, "five") // the newest record cannot be erased
		if e := v.erased(failed, 0, 0); !e.RecordDeleted {
			t.Error("the record of the erased failed certificate still exists, want no record")
		}
		v.clock.Advance(30 * day)
		v.sweepFiles()
		if !v.exists(base) || !v.exists(other.Verified.TailKey) {
			t.Errorf("files = %v, want the base and the tail of the other certificate", v.keys())
		}
		v.setRetention(account.Retention{Revoked: 30, Failed: 30})
		v.force(other, Failed)
		v.clock.Advance(31 * day)
		v.sweep()
		if c, err := v.ByUUID(t.Context(), v.inst.ID, other.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("failed certificate after its retention: %+v, err = %v, want NotFound", c, err)
		}
	})
}

// The files of certificates from templates are checked like other files: if the base or the fields tail is
// damaged, the check of the file fails. Certificates that are not approved have no files to check.
func TestDamagedTemplateFilesAreFound(t *testing.T) {
	t.Parallel()
	v, drawer, base := fromTemplate(t, dbtest.Open(t, t.TempDir(), ""))
	waiting, c := v.issue(base, "waiting"), v.approved(v.issue(base, "one"))
	results := func() map[string]Result {
		t.Helper()
		found := map[string]Result{}
		if err := v.CheckAll(t.Context(), func(c *Certificate, checks []Check) {
			for _, k := range checks {
				found[c.Title+" "+k.Name] = k.Result
			}
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := results(); len(got) != 2 || got["one file"] != Passed || got["one signature"] != Passed {
		t.Errorf("checks = %v, want two checks that passed", got)
	}
	for name, key := range map[string]string{"the base": base, "the fields": c.Verified.TailKey} {
		good, err := os.ReadFile(v.file(key))
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		bad[20] ^= 1
		if err := os.WriteFile(v.file(key), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := results(); got["one file"] != FailedCheck {
			t.Errorf("with damage to %s: checks = %v, want a failed check of the file", name, got)
		}
		for _, open := range []func(context.Context, *Certificate) (*Content, error){v.OpenOriginal, v.OpenVerified} {
			if _, err := open(t.Context(), c); !fault.Is(err, fault.Damaged) {
				t.Errorf("opening a file with damage to %s: err = %v, want Damaged", name, err)
			}
		}
		if err := os.WriteFile(v.file(key), good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := results(); got["one file"] != Passed {
		t.Errorf("after the repair: checks = %v, want a passed check of the file", got)
	}
	if got := v.read(waiting, v.OpenOriginal); !bytes.HasPrefix(got, drawer.base) {
		t.Error("the original of a certificate in processing cannot be drawn after the checks")
	}
}

// If several workers draw a certificate concurrently, it is approved once, and its record has the digest of
// the verified PDF that is stored.
func TestWorkersDrawTheSameCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, drawer, base := fromTemplate(t, d)
		const workers = 4
		var drawn sync.WaitGroup
		drawn.Add(workers)
		drawer.fail = func(*Certificate) error {
			drawn.Done()
			drawn.Wait()
			return nil
		}
		c := v.issue(base, "one")
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				if err := v.work(t.Context(), c, 1); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		got := v.get(c.UUID)
		if got.Status != Approved || len(v.events()) != 2 {
			t.Errorf("status = %s, events = %+v, want approved with two events", got.Status, v.events())
		}
		if data := v.read(got, v.OpenVerified); sha256.Sum256(data) != got.Verified.SHA256 {
			t.Error("the verified PDF has another digest than the record")
		}
		if keys := v.keys(); len(keys) != 2 {
			t.Errorf("stored files = %v, want the base and one tail", keys)
		}
	})
}

// If the response to the commit of an approval is lost, the verified PDF is not deleted.
func TestLostCommitOfTemplateLosesNoFile(t *testing.T) {
	t.Parallel()
	proxy, proxied := dbtest.NewProxy(t, dbtest.MigratedURL(t))
	v, drawer, base := fromTemplate(t, dbtest.Open(t, "", proxied))
	c := v.issue(base, "one")
	drawer.fail = func(*Certificate) error { proxy.LoseResponse(""); return nil }
	if err := v.work(t.Context(), c, 1); err == nil {
		t.Error("the attempt whose response to the commit was lost returned nil, want an error")
	}
	drawer.fail = nil
	if err := v.work(t.Context(), c, 2); err != nil {
		t.Error(err)
	}
	got := v.get(c.UUID)
	if data := v.read(got, v.OpenVerified); got.Status != Approved || sha256.Sum256(data) != got.Verified.SHA256 {
		t.Errorf("status = %s, want approved with its verified PDF", got.Status)
	}
}
