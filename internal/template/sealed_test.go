package template_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// tool runs a program and returns its output. If the program is missing, tool skips the test, except in
// CI.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// A picture without an accent has the current colour of the institution.
func TestBuiltInPictureHasTheColourOfTheInstitution(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), sealed(t))
	picture := func(accent string) string {
		t.Helper()
		raw, err := f.Templates.BuiltInPicture(t.Context(), template.NewTemplate{Institution: f.inst, BuiltIn: "guild", Paper: "a4", Accent: accent}, 200)
		ok(t, err)
		return string(raw)
	}
	usual := picture("")
	ok(t, f.Accounts.SetColour(t.Context(), f.inst.ID, "#ff0000"))
	if got := picture(""); got == usual || got != picture("#ff0000") {
		t.Error("the picture does not have the colour of the institution")
	}
}

// Each certificate of a batch has exactly the texts of its entry, and not the name of the person who
// issued it. For the first certificate, the QR code contains the address for its verification, and the
// digital signature is valid.
func TestCertificatesShowTheirRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, sealed(t))
		names := []string{"Amelia Hart", "Žofie Nováková", "Анастасія Шевчук", "Ελένη Παπαδοπούλου", "Nguyễn Thị Ánh", "Maria-Magdalena Konstantinopoulou de Vasconcelos e Albuquerque"}
		left := func(id, text string, y float64) design.Field {
			field := textField(id, text, y)
			field.Required = false
			return field
		}
		tmpl := f.publish(t, "Diploma", layout(
			left("title", "{title}", 350), left("grade", "Grade: {column:Grade}", 400), left("date", "{date}", 450), left("details", "{details}", 500),
			left("institution", "{institution}", 550), left("reference", "{reference}", 600),
		))
		var entries []template.Entry
		for i, name := range names {
			entries = append(entries, template.Entry{
				FullName: name, Email: fmt.Sprintf("p%d@example.org", i), Title: fmt.Sprintf("Course %d", i), IssueDate: "2026-03-12",
				Details: fmt.Sprintf("With %d points", 90+i), Values: map[string]string{"Grade": fmt.Sprintf("G%d", i)},
			})
		}
		issuer := cert.Actor{Type: "user", ID: 4711, Name: "Registrar Quimby"}
		b, err := f.Templates.Issue(t.Context(), tmpl.UUID, template.Issue{Institution: f.inst, Creator: issuer, Entries: entries})
		ok(t, err)
		list := f.finish(t, b)
		for i, c := range list {
			if c.Status != cert.Approved {
				t.Fatalf("%s: status = %s, failure = %v, want approved", c.FullName, c.Status, c.Failure)
			}
			path := filepath.Join(t.TempDir(), "c.pdf")
			ok(t, os.WriteFile(path, file(t, c, f.Certs.OpenVerified), 0o600))
			e := &entries[i]
			want := strings.Join([]string{"a design", e.FullName, e.Title, "Grade: " + e.Values["Grade"], "12 March 2026", e.Details, f.inst.Name, c.ReferenceID}, "\n")
			if got := norm.NFC.String(strings.Join(strings.Fields(tool(t, "pdftotext", path, "-")), " ")); got != strings.Join(strings.Fields(norm.NFC.String(want)), " ") {
				t.Errorf("the text of the certificate is %q, want %q", got, want)
			}
			if i > 0 {
				continue
			}
			tool(t, "qpdf", "--check", path)
			if out := tool(t, "pdfsig", "-nocert", path); !strings.Contains(out, "Signature is Valid") || !strings.Contains(out, "Total document signed") {
				t.Errorf("pdfsig = %s, want a valid signature of the total document", out)
			}
			picture := strings.TrimSuffix(path, ".pdf")
			tool(t, "pdftoppm", "-r", "200", "-png", "-singlefile", path, picture)
			if out := tool(t, "zbarimg", "-q", "--raw", picture+".png"); strings.TrimSpace(out) != f.Links.Verify(c.ReferenceID) {
				t.Errorf("the QR code contains %q, want %s", out, f.Links.Verify(c.ReferenceID))
			}
		}
		// All certificates of the version share the base.
		keys := map[string]bool{}
		for _, c := range list {
			keys[c.File.Key] = true
		}
		if len(keys) != 1 {
			t.Errorf("the certificates have %d bases, want 1", len(keys))
		}
	})
}

// refusing is a sealer that refuses each certificate, because the QR code cannot be read. It records the
// stamps.
type refusing struct {
	*vaulttest.Sealer

	stamps *[]seal.Stamp
}

func (r refusing) Seal(_ context.Context, _ seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
	*r.stamps = append(*r.stamps, stamp)
	return nil, &seal.Refusal{Code: "code_not_readable", Reason: "The QR code cannot be read at its place on the design."}
}

// Publish refuses a template whose QR code cannot be read, and stores no base.
func TestPublishProvesTheCode(t *testing.T) {
	t.Parallel()
	var stamps []seal.Stamp
	f := newFixture(t, dbtest.SQLite(t), func(d *vault.Deps) { d.Sealer = refusing{&vaulttest.Sealer{}, &stamps} })
	tmpl := f.upload(t, "Dark", pdftest.Page("a design"))
	tmpl, err := f.Templates.Save(t.Context(), f.inst, tmpl.UUID, template.Draft{Revision: 1, Layout: layout()})
	ok(t, err)
	if _, err = f.Templates.Publish(t.Context(), f.inst, tmpl.UUID, tmpl.Draft.Revision); !fault.Is(err, fault.Invalid) || !hasCode(err, template.CodeQRNotReadable) {
		t.Errorf("publishing: err = %v, want %s", err, template.CodeQRNotReadable)
	}
	if len(stamps) != 1 || stamps[0].Placement.Trusted || stamps[0].Placement.Figure != seal.CodeOnly || stamps[0].Signature != nil {
		t.Errorf("stamps = %+v, want one with only the QR code, not trusted, without a signature", stamps)
	}
	bases := 0
	ok(t, f.Blobs.Walk(t.Context(), "", func(i blob.Info) error {
		if strings.HasSuffix(i.Key, cert.BaseKind) {
			bases++
		}
		return nil
	}))
	if tmpl, err = f.Templates.ByUUID(t.Context(), f.inst.ID, tmpl.UUID); err != nil || tmpl.Published != nil || bases != 0 {
		t.Errorf("template = %+v with %d bases, err = %v, want a draft without a base", tmpl, bases, err)
	}
}

// A sample shows the values and a mark, and has no reference id and no QR code.
func TestSample(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), sealed(t))
	tmpl := f.publish(t, "Light", layout())
	samples, err := f.Templates.Preview(t.Context(), f.inst, tmpl.UUID, template.Entry{FullName: "Amelia Hart"})
	ok(t, err)
	path := filepath.Join(t.TempDir(), "sample.pdf")
	ok(t, os.WriteFile(path, samples, 0o600))
	tool(t, "qpdf", "--check", path)
	text := tool(t, "pdftotext", path, "-")
	// pdftotext separates the letters of the mark, because the mark is not horizontal.
	if letters := strings.Join(strings.Fields(text), ""); !strings.Contains(letters, "AmeliaHart") || !strings.Contains(letters, "SAMPLE") || strings.Contains(text, "NWU-") {
		t.Errorf("the text of the sample is %q, want the name and SAMPLE without a reference id", text)
	}
	picture := strings.TrimSuffix(path, ".pdf")
	tool(t, "pdftoppm", "-r", "150", "-png", "-singlefile", path, picture)
	out, err := exec.CommandContext(t.Context(), "zbarimg", "-q", "--raw", picture+".png").Output()
	if err == nil || len(out) > 0 {
		t.Errorf("the sample has the QR code %q, want none", out)
	}
	// The result of Picture has a QR code with a reference id that no certificate has.
	drawn, err := f.Templates.Picture(t.Context(), f.inst, tmpl.UUID, nil, design.Samples()[0].Values, 1, 1800)
	ok(t, err)
	ok(t, os.WriteFile(picture+".png", drawn, 0o600))
	code := strings.TrimSpace(tool(t, "zbarimg", "-q", "--raw", picture+".png"))
	if want := cert.SampleReference(f.inst.Prefix); !strings.HasSuffix(code, "/"+want) || len(want) != len(cert.WidestReference(f.inst.Prefix)) {
		t.Errorf("the QR code of the picture contains %q, want an address with the reference id %s", code, want)
	}
	for name, draw := range map[string]func() ([]byte, error){
		"page": func() ([]byte, error) { return f.Templates.Page(t.Context(), f.inst.ID, tmpl.UUID, 1, 400) },
		"picture": func() ([]byte, error) {
			return f.Templates.Picture(t.Context(), f.inst, tmpl.UUID, nil, design.Samples()[0].Values, 1, 400)
		},
	} {
		if png, err := draw(); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
			t.Errorf("%s: err = %v, want a PNG", name, err)
		}
	}
	if _, err := f.Templates.Page(t.Context(), f.inst.ID, tmpl.UUID, 2, 400); err == nil {
		t.Error("Page drew page 2 of a design with one page, want an error")
	}
}
