package template_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vaulttest"
)

// textField returns a text field that fits on pdftest.Page.
func textField(id, text string, y float64) design.Field {
	return design.Field{
		ID: id, Kind: design.Text, Page: 1, Box: design.Box{60, y, 400, 40}, Text: text, Font: design.Font{Family: "Inter"}, Size: 24, MinSize: 10, Required: true,
	}
}

func qr() design.Field {
	return design.Field{ID: "qr", Kind: design.QR, Page: 1, Box: design.Box{440, 700, 80, 80}}
}

// layout returns a layout that can be published on pdftest.Page.
func layout(fields ...design.Field) design.Layout {
	name := textField("name", "{name}", 300)
	name.Kind, name.Label = design.Name, "Name"
	return design.Layout{Language: "en", Title: "BSc Physics", Alt: "A design", Fields: append([]design.Field{name, qr()}, fields...)}
}

// publish creates a template on an uploaded design and publishes it.
func (f *fixture) publish(t *testing.T, name string, l design.Layout) *template.Template {
	t.Helper()
	created := f.upload(t, name, pdftest.Page("a design"))
	return f.republish(t, created, l)
}

func (f *fixture) republish(t *testing.T, tmpl *template.Template, l design.Layout) *template.Template {
	t.Helper()
	tmpl, err := f.Templates.Save(t.Context(), f.inst, tmpl.UUID, template.Draft{Revision: tmpl.Latest().Revision, Layout: l})
	ok(t, err)
	tmpl, err = f.Templates.Publish(t.Context(), f.inst, tmpl.UUID, tmpl.Draft.Revision)
	ok(t, err)
	return tmpl
}

// issue issues a certificate for each name and returns the finished certificates.
func (f *fixture) issue(t *testing.T, uuid string, names ...string) []*cert.Certificate {
	t.Helper()
	b, err := f.Templates.Issue(t.Context(), uuid, template.Issue{Institution: f.inst, Creator: creator, Entries: people(names...)})
	ok(t, err)
	return f.finish(t, b)
}

func people(names ...string) (list []template.Entry) {
	for _, name := range names {
		list = append(list, template.Entry{FullName: name, Email: fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:24] + "@example.org"})
	}
	return list
}

func TestVersions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		tmpl := f.upload(t, "Diploma", pdftest.Page("a design"))
		if tmpl.Draft == nil || tmpl.Published != nil || tmpl.Draft.Number != 1 || tmpl.Draft.Revision != 1 || len(tmpl.Draft.Pages) != 1 {
			t.Fatalf("a new template = %+v, want a draft", tmpl)
		}
		if _, err := f.Templates.Publish(ctx, f.inst, tmpl.UUID, 1); !fault.Is(err, fault.Invalid) || !hasCode(err, design.CodeQRMissing) {
			t.Errorf("publishing without a QR code: err = %v, want qr_missing", err)
		}
		saved, err := f.Templates.Save(ctx, f.inst, tmpl.UUID, template.Draft{Revision: 1, Name: " Diploma of 2026 ", Layout: layout()})
		ok(t, err)
		if saved.Name != "Diploma of 2026" || saved.Draft.Revision != 2 {
			t.Errorf("saved = %q with revision %d, want the new name and revision 2", saved.Name, saved.Draft.Revision)
		}
		// Two people change the same draft, and the second change is refused.
		if _, err := f.Templates.Save(ctx, f.inst, tmpl.UUID, template.Draft{Revision: 1, Layout: layout()}); !fault.Is(err, fault.Conflict) {
			t.Errorf("saving an old revision: err = %v, want Conflict", err)
		}
		if _, err := f.Templates.Publish(ctx, f.inst, tmpl.UUID, 1); !fault.Is(err, fault.Conflict) {
			t.Errorf("publishing an old revision: err = %v, want Conflict", err)
		}
		if _, err := f.Templates.Issue(ctx, tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: people("Ada Obi")}); codeOf(err) != template.CodeNotPublished {
			t.Errorf("issuing from a draft: err = %v, want template_not_published", err)
		}
		first, err := f.Templates.Publish(ctx, f.inst, tmpl.UUID, 2)
		ok(t, err)
		if first.Draft != nil || first.Published.Number != 1 || first.Published.PublishedAt == nil {
			t.Errorf("published = %+v, want version 1 without a draft", first)
		}
		// If only the name changes, Save creates no draft.
		renamed, err := f.Templates.Save(ctx, f.inst, tmpl.UUID, template.Draft{Revision: 2, Name: "Diploma", Layout: first.Published.Layout})
		ok(t, err)
		if renamed.Name != "Diploma" || renamed.Draft != nil {
			t.Errorf("renamed = %+v, want the name Diploma and no draft", renamed)
		}
		next, err := f.Templates.Save(ctx, f.inst, tmpl.UUID, template.Draft{Revision: 2, Layout: layout(textField("grade", "{column:Grade}", 400))})
		ok(t, err)
		if next.Draft == nil || next.Draft.Number != 2 || next.Draft.Revision != 3 || next.Published.Number != 1 || len(next.Published.Layout.Fields) != 2 {
			t.Errorf("after a change = %+v, want draft 2, and version 1 unchanged", next)
		}
		second, err := f.Templates.Publish(ctx, f.inst, tmpl.UUID, 3)
		ok(t, err)
		versions, err := f.Templates.Versions(ctx, f.inst.ID, tmpl.UUID)
		ok(t, err)
		if second.Published.Number != 2 || len(versions) != 2 || versions[1].State != template.StateRetired {
			t.Errorf("versions = %+v, want version 2 published and version 1 retired", versions)
		}
		ok(t, f.Templates.Archive(ctx, f.inst, tmpl.UUID))
		if _, err := f.Templates.Save(ctx, f.inst, tmpl.UUID, template.Draft{Revision: 3, Layout: layout()}); !fault.Is(err, fault.BadRequest) {
			t.Errorf("saving an archived template: err = %v, want BadRequest", err)
		}
		if _, err := f.Templates.Issue(ctx, tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: people("Ada Obi")}); codeOf(err) != template.CodeArchived {
			t.Errorf("issuing from an archived template: err = %v, want template_archived", err)
		}
		lists := func(archived bool, search string) int {
			list, err := f.Templates.List(ctx, f.inst.ID, template.Filter{Archived: archived, Search: search})
			ok(t, err)
			return len(list)
		}
		if lists(false, "") != 0 || lists(true, "DIPL") != 1 || lists(true, "100%") != 0 {
			t.Error("the archived template is missing from the list of archived templates, or is in another list")
		}
		ok(t, f.Templates.Unarchive(ctx, f.inst, tmpl.UUID))
		if lists(false, "dip") != 1 {
			t.Error("the list does not contain the unarchived template")
		}
		copied, err := f.Templates.Duplicate(ctx, f.inst, tmpl.UUID, "")
		ok(t, err)
		if copied.Name != "Diploma (copy)" || copied.Draft.Number != 1 || len(copied.Draft.Layout.Fields) != 3 {
			t.Errorf("copy = %+v, want a draft named Diploma (copy) with 3 fields", copied)
		}
		if gone, err := f.Templates.DeleteDraft(ctx, f.inst, copied.UUID); err != nil || gone != nil {
			t.Errorf("deleting the only version = %v, err = %v, want no template", gone, err)
		}
		if _, err := f.Templates.ByUUID(ctx, f.inst.ID, copied.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading the deleted template: err = %v, want NotFound", err)
		}
		if _, err := f.Templates.DeleteDraft(ctx, f.inst, tmpl.UUID); !fault.Is(err, fault.BadRequest) {
			t.Errorf("deleting a draft that does not exist: err = %v, want BadRequest", err)
		}
		actions, err := db.Column[string](d.QueryContext(ctx, `SELECT substr(action, 10) FROM audit_entries WHERE action LIKE 'template.%' ORDER BY id`))
		ok(t, err)
		if want := []string{"created", "published", "published", "archived", "restored", "duplicated", "deleted"}; !slices.Equal(actions, want) {
			t.Errorf("audit = %v, want %v", actions, want)
		}
	})
}

func hasCode(err error, code string) bool {
	problems, _ := errors.AsType[design.Problems](err)
	return slices.ContainsFunc(problems, func(p design.Problem) bool { return p.Code == code })
}

func codeOf(err error) cert.Code {
	if u, ok := errors.AsType[*template.Unusable](err); ok {
		return u.Code
	}
	return ""
}

// No operation reads or changes a template, a font or a picture of another institution.
func TestOtherInstitutions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		tmpl := f.publish(t, "Diploma", layout())
		_, err := f.Templates.Save(ctx, f.inst, tmpl.UUID, template.Draft{Revision: tmpl.Published.Revision, Layout: layout(textField("x", "x", 500))})
		ok(t, err)
		id, err := f.Templates.AddPicture(ctx, f.inst, bytes.NewReader(smallPNG(t)))
		ok(t, err)
		font, err := f.Templates.AddFont(ctx, f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
		ok(t, err)
		c := f.issue(t, tmpl.UUID, "Ada Obi")[0]
		other, uuid := f.other, tmpl.UUID
		for name, op := range map[string]func() error{
			"ByUUID":   func() error { _, err := f.Templates.ByUUID(ctx, other.ID, uuid); return err },
			"Versions": func() error { _, err := f.Templates.Versions(ctx, other.ID, uuid); return err },
			"Save": func() error {
				_, err := f.Templates.Save(ctx, other, uuid, template.Draft{Revision: 3, Layout: layout()})
				return err
			},
			"Publish":     func() error { _, err := f.Templates.Publish(ctx, other, uuid, 3); return err },
			"Archive":     func() error { return f.Templates.Archive(ctx, other, uuid) },
			"Unarchive":   func() error { return f.Templates.Unarchive(ctx, other, uuid) },
			"Duplicate":   func() error { _, err := f.Templates.Duplicate(ctx, other, uuid, "x"); return err },
			"DeleteDraft": func() error { _, err := f.Templates.DeleteDraft(ctx, other, uuid); return err },
			"Export":      func() error { return f.Templates.Export(ctx, other.ID, uuid, &bytes.Buffer{}) },
			"Page":        func() error { _, err := f.Templates.Page(ctx, other.ID, uuid, 1, 100); return err },
			"Picture": func() error {
				_, err := f.Templates.Picture(ctx, other, uuid, nil, design.Values{}, 1, 100)
				return err
			},
			"Thumbnail": func() error { _, err := f.Templates.Thumbnail(ctx, other, uuid, 100); return err },
			"Preview":   func() error { _, err := f.Templates.Preview(ctx, other, uuid, people("Ada")[0]); return err },
			"Check":     func() error { _, err := f.Templates.Check(ctx, other, uuid, people("Ada")); return err },
			"Issue": func() error {
				_, err := f.Templates.Issue(ctx, uuid, template.Issue{Institution: other, Creator: creator, Entries: people("Ada")})
				return err
			},
			"PictureFile": func() error { _, err := f.Templates.PictureFile(ctx, other.ID, id); return err },
			"DeleteFont":  func() error { return f.Templates.DeleteFont(ctx, other, font.ID) },
			"Draw": func() error {
				foreign := *c
				foreign.InstitutionID = other.ID
				_, err := f.Templates.Draw(ctx, &foreign)
				return err
			},
		} {
			if err := op(); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s of another institution's template: err = %v, want NotFound", name, err)
			}
		}
		if list, err := f.Templates.List(ctx, other.ID, template.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("the other institution lists %d templates, err = %v, want 0", len(list), err)
		}
		if list, err := f.Templates.Fonts(ctx, other.ID); err != nil || len(list) != 0 {
			t.Errorf("the other institution lists %d fonts, err = %v, want 0", len(list), err)
		}
		families, err := f.Templates.Families(ctx, other.ID)
		ok(t, err)
		for _, family := range families {
			if family.Uploaded {
				t.Errorf("the other institution has the uploaded family %s, want none", family.Name)
			}
		}
		if names, err := f.Templates.Names(ctx, other.ID, []int64{tmpl.Published.ID}); err != nil || len(names) != 0 {
			t.Errorf("the other institution gets the names %v, err = %v, want none", names, err)
		}
		after, err := f.Templates.ByUUID(ctx, f.inst.ID, uuid)
		ok(t, err)
		if after.ArchivedAt != nil || after.Draft == nil || after.Draft.Revision != tmpl.Published.Revision+1 {
			t.Errorf("after the attempts, the template is %+v, want it unchanged", after)
		}
	})
}

func smallPNG(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	ok(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 20))))
	return b.Bytes()
}

func fontFile(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../typeset/testdata/SourceSerifVariable-abc.ttf")
	ok(t, err)
	return data
}

// ByDigest finds a certificate by the digest of its files, but not by the digest of the design, the base
// or a sample.
func TestDigestsOfBlankDesigns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		tmpl := f.publish(t, "Diploma", layout())
		c := f.issue(t, tmpl.UUID, "Ada Obi")[0]
		sample, err := f.Templates.Preview(t.Context(), f.inst, tmpl.UUID, people("Ada Obi")[0])
		ok(t, err)
		drawn, err := f.Templates.Draw(t.Context(), c)
		ok(t, err)
		base := make([]byte, drawn.BaseSize)
		_, err = drawn.Base.ReadAt(base, 0)
		ok(t, err)
		original := file(t, c, f.Certs.OpenOriginal)
		if !bytes.HasPrefix(original, base) || sha256.Sum256(original) != drawn.SHA256 || drawn.SHA256 != c.File.SHA256 {
			t.Error("the original is not the base followed by the fields")
		}
		for name, content := range map[string][]byte{"design": pdftest.Page("a design"), "base": base, "sample": sample} {
			if match, err := f.Certs.ByDigest(t.Context(), sha256.Sum256(content)); !fault.Is(err, fault.NotFound) && (err != nil || match != nil && match.Count > 0) {
				t.Errorf("the digest of the %s: match = %+v, err = %v, want no certificate", name, match, err)
			}
		}
		for _, content := range [][]byte{original, file(t, c, f.Certs.OpenVerified)} {
			if match, err := f.Certs.ByDigest(t.Context(), sha256.Sum256(content)); err != nil || match == nil || match.Count != 1 {
				t.Errorf("the digest of a file of the certificate: match = %+v, err = %v, want 1 certificate", match, err)
			}
		}
	})
}

// Changing or archiving a template and deleting its font do not change the files of an issued certificate.
// The sweep of files does not delete these files.
func TestIssuedCertificatesNeverChange(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		font, err := f.Templates.AddFont(ctx, f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
		ok(t, err)
		again, err := f.Templates.AddFont(ctx, f.inst, "again.ttf", bytes.NewReader(fontFile(t)))
		ok(t, err)
		if again.ID != font.ID || again.FileName != font.FileName {
			t.Errorf("uploading the same font again = %+v, want the first font", again)
		}
		abc := textField("abc", "{details}", 400)
		abc.Font.Family, abc.Required = font.Info.Family, false
		tmpl := f.publish(t, "Diploma", layout(abc))
		c := f.issue(t, tmpl.UUID, "Ada Obi", "Bo Ek")[0]
		b, err := f.Templates.Issue(ctx, tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: []template.Entry{{FullName: "Cy Day", Email: "c@example.org", Details: "abc"}}})
		ok(t, err)
		before, verified := file(t, c, f.Certs.OpenOriginal), file(t, c, f.Certs.OpenVerified)
		// The batch waits during the changes below.
		f.republish(t, tmpl, layout())
		ok(t, f.Templates.DeleteFont(ctx, f.inst, font.ID))
		ok(t, f.Templates.Archive(ctx, f.inst, tmpl.UUID))
		for range 3 {
			f.Advance(vaulttest.Keep + 3*time.Hour)
			f.SweepFiles()
		}
		c, err = f.Certs.ByUUID(ctx, f.inst.ID, c.UUID)
		ok(t, err)
		if !bytes.Equal(file(t, c, f.Certs.OpenOriginal), before) || !bytes.Equal(file(t, c, f.Certs.OpenVerified), verified) {
			t.Error("the files of the certificate have changed")
		}
		late := f.finish(t, b)[0]
		if late.Status != cert.Approved || late.Template.VersionID != tmpl.Published.ID {
			t.Errorf("the waiting certificate has the status %s, version %d and failure %v, want approved with version %d", late.Status, late.Template.VersionID, late.Failure, tmpl.Published.ID)
		}
		if list, err := f.Templates.Fonts(ctx, f.inst.ID); err != nil || len(list) != 0 {
			t.Errorf("fonts = %v, err = %v, want none", list, err)
		}
		var damages []template.Damage
		ok(t, template.CheckFiles(ctx, d, f.Blobs, func(x template.Damage) { damages = append(damages, x) }))
		if len(damages) != 0 {
			t.Errorf("damaged files = %v, want none", damages)
		}
		ok(t, f.Blobs.Delete(ctx, c.File.Key))
		ok(t, template.CheckFiles(ctx, d, f.Blobs, func(x template.Damage) { damages = append(damages, x) }))
		if len(damages) != 1 || damages[0].File != "template Diploma, version 1" {
			t.Errorf("damaged files after the base was deleted = %v, want template Diploma, version 1", damages)
		}
	})
}

// If a deleted font is uploaded again, it counts towards the maximum number of fonts, even if its file
// is still stored.
func TestRestoredFontCounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		upload := func() (*template.Font, error) {
			return f.Templates.AddFont(ctx, f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
		}
		font, err := upload()
		ok(t, err)
		abc := textField("abc", "abc", 400)
		abc.Font.Family = font.Info.Family
		f.publish(t, "Diploma", layout(abc))
		ok(t, f.Templates.DeleteFont(ctx, f.inst, font.ID))
		for i := range 50 {
			f.Exec(`INSERT INTO institution_fonts (institution_id, sha256, file_name, size, info, font_key, uploaded_by, created_at) VALUES ($1, $2, 'x.ttf', 1, '{}', $3, '', 0)`,
				f.inst.ID, []byte{byte(i)}, fmt.Sprint(i))
		}
		if _, err := upload(); !fault.Is(err, fault.BadRequest) {
			t.Errorf("uploading a deleted font again as the 51st: error = %v, want BadRequest", err)
		}
		f.Exec(`DELETE FROM institution_fonts WHERE sha256 = $1`, []byte{0})
		if _, err := upload(); err != nil {
			t.Errorf("uploading a deleted font again as the 50th: error = %v, want nil", err)
		}
	})
}

// No row refers to the files of a deleted draft, or of a deleted font that no version uses.
func TestFilesOfDeletedDrafts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		tmpl := f.upload(t, "Diploma", pdftest.Page("a design"))
		font, err := f.Templates.AddFont(t.Context(), f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
		ok(t, err)
		keys := func() (n int) {
			ok(t, template.BlobKeys(t.Context(), d, func(string) error { n++; return nil }))
			return n
		}
		if n := keys(); n != 2 {
			t.Errorf("BlobKeys visits %d keys, want 2, of the design and the font", n)
		}
		_, err = f.Templates.DeleteDraft(t.Context(), f.inst, tmpl.UUID)
		ok(t, err)
		ok(t, f.Templates.DeleteFont(t.Context(), f.inst, font.ID))
		if n := keys(); n != 0 {
			t.Errorf("BlobKeys visits %d keys after the deletion, want 0", n)
		}
	})
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		id, err := f.Templates.AddPicture(ctx, f.inst, bytes.NewReader(smallPNG(t)))
		ok(t, err)
		font, err := f.Templates.AddFont(ctx, f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
		ok(t, err)
		abc := textField("abc", "abc", 400)
		abc.Font.Family = font.Info.Family
		tmpl := f.publish(t, "Diploma", layout(design.Field{ID: "seal", Kind: design.Image, Page: 1, Box: design.Box{60, 60, 80, 40}, Image: id}, abc))
		var exported bytes.Buffer
		ok(t, f.Templates.Export(ctx, f.inst.ID, tmpl.UUID, &exported))
		got, err := f.Templates.Import(ctx, f.other, "", bytes.NewReader(exported.Bytes()))
		ok(t, err)
		if got.Name != "Diploma" || len(got.Draft.Layout.Fields) != 4 || got.InstitutionID != f.other.ID {
			t.Errorf("imported = %+v, want Diploma of the other institution with 4 fields", got)
		}
		if w := got.Draft.Warnings; len(w) != 1 || w[0].Code != "font_missing" {
			t.Errorf("warnings = %v, want the missing font", w)
		}
		if _, err := f.Templates.PictureFile(ctx, f.other.ID, id); err != nil {
			t.Errorf("reading the imported picture: err = %v, want nil", err)
		}
		if bytes.Contains(exported.Bytes(), fontFile(t)[:200]) {
			t.Error("the exported file contains the font, want only its name")
		}
		for name, content := range map[string][]byte{"nothing": nil, "text": []byte("x"), "a part": exported.Bytes()[:exported.Len()/2]} {
			if _, err := f.Templates.Import(ctx, f.inst, "x", bytes.NewReader(content)); !fault.Is(err, fault.Invalid) {
				t.Errorf("importing %s: err = %v, want Invalid", name, err)
			}
		}
	})
}

func TestRefusedDesigns(t *testing.T) {
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	for name, n := range map[string]template.NewTemplate{
		"no name":          {Name: " ", BuiltIn: "guild"},
		"a long name":      {Name: strings.Repeat("x", 101), BuiltIn: "guild"},
		"a tab in a name":  {Name: "x\ty", BuiltIn: "guild"},
		"no such design":   {Name: "x", BuiltIn: "none"},
		"no such paper":    {Name: "x", BuiltIn: "guild", Paper: "a9"},
		"no such color":    {Name: "x", BuiltIn: "guild", Accent: "red"},
		"no PDF":           {Name: "x", Design: strings.NewReader("text")},
		"an empty file":    {Name: "x", Design: strings.NewReader("")},
		"a damaged PNG":    {Name: "x", Design: strings.NewReader("\x89PNG\r\n\x1a\n")},
		"an SVG":           {Name: "x", Design: strings.NewReader("<svg xmlns='http://www.w3.org/2000/svg'/>")},
		"a file too large": {Name: "x", Design: bytes.NewReader(make([]byte, 21<<20))},
	} {
		n.Institution = f.inst
		_, err := f.Templates.Create(t.Context(), n)
		if problem, ok := errors.AsType[*fault.Error](err); !ok || problem.Kind != fault.Invalid || len(problem.Fields) != 1 {
			t.Errorf("%s: err = %v, want Invalid with one field", name, err)
		}
	}
	for name, content := range map[string]string{"no picture": "text", "a damaged picture": "\x89PNG\r\n\x1a\nxxxx"} {
		if _, err := f.Templates.AddPicture(t.Context(), f.inst, strings.NewReader(content)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: err = %v, want Invalid", name, err)
		}
	}
	if _, err := f.Templates.AddFont(t.Context(), f.inst, "x.ttf", strings.NewReader("text")); !fault.Is(err, fault.Invalid) {
		t.Errorf("no font: err = %v, want Invalid", err)
	}
}
