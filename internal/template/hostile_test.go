package template_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/template"
)

// key returns the key of a stored file that query selects.
func (f *fixture) key(t *testing.T, query string) (key string) {
	t.Helper()
	ok(t, f.DB.QueryRowContext(t.Context(), query).Scan(&key))
	return key
}

// replace replaces a stored file, or deletes it if content is nil. It returns the previous content.
func (f *fixture) replace(t *testing.T, key string, content []byte) []byte {
	t.Helper()
	o, err := f.Blobs.Open(t.Context(), key)
	var before []byte
	if err == nil {
		before, err = io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
		ok(t, errors.Join(err, o.Close(), f.Blobs.Delete(t.Context(), key)))
	}
	if content != nil {
		_, err := f.Blobs.Put(t.Context(), key, bytes.NewReader(content))
		ok(t, err)
	}
	return before
}

func flipped(file []byte) []byte {
	file = bytes.Clone(file)
	file[len(file)/2] ^= 1
	return file
}

// A certificate whose base or font is missing or damaged fails with the reason. After the file is
// restored, a retry succeeds without a restart of the vault.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	ctx := t.Context()
	font, err := f.Templates.AddFont(ctx, f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
	ok(t, err)
	l := layout()
	l.Fields[0].Font.Family = font.Info.Family
	tmpl := f.publish(t, "Diploma", l)
	for _, query := range []string{`SELECT base_key FROM template_versions WHERE base_key IS NOT NULL`, `SELECT font_key FROM institution_fonts`} {
		for code, damaged := range map[string]func([]byte) []byte{
			"template_damaged": flipped,
			"template_missing": func([]byte) []byte { return nil },
		} {
			b, err := f.Templates.Issue(ctx, tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: people("abc " + query[7:11] + code)})
			ok(t, err)
			key := f.key(t, query)
			good := f.replace(t, key, nil)
			f.replace(t, key, damaged(good))
			f.Templates.Forget()
			c := f.finish(t, b)[0]
			if c.Status != cert.Failed || c.Failure.Code != code {
				t.Errorf("%s: status = %s, failure = %+v, want failed with the code %s", query, c.Status, c.Failure, code)
			}
			f.replace(t, key, good)
			if _, err := f.Certs.Retry(ctx, f.inst.ID, c.UUID, nil); err != nil {
				t.Fatal(err)
			}
			if c = f.finish(t, b)[0]; c.Status != cert.Approved {
				t.Errorf("%s: after the file was restored, status = %s, failure = %+v, want approved", query, c.Status, c.Failure)
			}
		}
	}
}

// failingStore is a file store whose files can be opened, but not read. read returns the error of each
// read.
type failingStore struct {
	blob.Store

	read func() error
}

// Open implements [blob.Store].
func (s failingStore) Open(ctx context.Context, key string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, key)
	return failingObject{o, s.read}, err
}

type failingObject struct {
	blob.Object

	read func() error
}

// ReadAt implements [io.ReaderAt].
func (o failingObject) ReadAt([]byte, int64) (int, error) { return 0, o.read() }

// CheckFiles reports no damage if it is canceled or if the file store is unavailable. It reports a file
// that cannot be read for another reason.
func TestInterruptedCheckOfFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	f.upload(t, "Diploma", pdftest.Page("a design"))
	canceled, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx     context.Context //nolint:containedctx // the context of the check
		read    func() error
		want    error
		damages int
	}{
		"canceled":    {canceled, func() error { cancel(); return context.Canceled }, context.Canceled, 0},
		"unavailable": {t.Context(), func() error { return fmt.Errorf("reading a file: %w", blob.ErrUnavailable) }, blob.ErrUnavailable, 0},
		"bad block":   {t.Context(), func() error { return syscall.EIO }, nil, 1},
	} {
		damages := 0
		err := template.CheckFiles(c.ctx, f.DB, failingStore{f.Blobs, c.read}, func(template.Damage) { damages++ })
		if !errors.Is(err, c.want) || damages != c.damages {
			t.Errorf("%s: %d damaged files, err = %v, want %d and %v", name, damages, err, c.damages, c.want)
		}
	}
}

// PictureFile refuses a picture whose stored file is damaged or missing. Uploading the picture again
// restores the file.
func TestDamagedPicture(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	ctx := t.Context()
	id, err := f.Templates.AddPicture(ctx, f.inst, bytes.NewReader(smallPNG(t)))
	ok(t, err)
	for name, damage := range map[string]func([]byte) []byte{"damaged": flipped, "missing": func([]byte) []byte { return nil }} {
		key := f.key(t, `SELECT picture_key FROM template_pictures`)
		f.replace(t, key, damage(smallPNG(t)))
		if _, err := f.Templates.PictureFile(ctx, f.inst.ID, id); !fault.Is(err, fault.Damaged) {
			t.Errorf("a %s picture: err = %v, want Damaged", name, err)
		}
		again, err := f.Templates.AddPicture(ctx, f.inst, bytes.NewReader(smallPNG(t)))
		if err != nil || again != id {
			t.Errorf("uploading a %s picture again: id = %s, err = %v, want the same id", name, again, err)
		}
		if got, err := f.Templates.PictureFile(ctx, f.inst.ID, id); err != nil || !bytes.Equal(got, smallPNG(t)) {
			t.Errorf("after the upload, PictureFile returned %d bytes, err = %v, want the uploaded picture", len(got), err)
		}
	}
}

// exportedFile returns a file in the format of Export. about is the content of template.json.
func exportedFile(t *testing.T, about map[string]any, pdf []byte) []byte {
	t.Helper()
	text, err := json.Marshal(about)
	ok(t, err)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, content := range map[string][]byte{"template.json": text, "design.pdf": pdf} {
		w, err := z.Create(name)
		ok(t, err)
		_, err = w.Write(content)
		ok(t, err)
	}
	ok(t, z.Close())
	return out.Bytes()
}

// Import refuses a file with more than 200 fields or 50 fonts.
func TestImportLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	fields := func(n int) design.Layout {
		l := layout()
		for len(l.Fields) < n {
			l.Fields = append(l.Fields, l.Fields[0])
		}
		return l
	}
	fonts := func(n int) []map[string]string {
		list := make([]map[string]string, n)
		for i := range list {
			list[i] = map[string]string{"sha256": "00", "file_name": "a\x1b.ttf", "family": "A"}
		}
		return list
	}
	for _, test := range []struct {
		fields, fonts int
		accepted      bool
	}{{200, 50, true}, {201, 0, false}, {2, 51, false}} {
		file := exportedFile(t, map[string]any{"format": 1, "name": "x", "layout": fields(test.fields), "fonts": fonts(test.fonts)}, pdftest.Page("a design"))
		got, err := f.Templates.Import(t.Context(), f.inst, "", bytes.NewReader(file))
		if test.accepted != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: err = %v, want nil if the file is accepted, and Invalid otherwise", test, err)
		}
		if err == nil && strings.ContainsRune(got.Draft.Warnings[0].Text, '\x1b') {
			t.Error("the warning contains a control character, want none")
		}
	}
}

// A certificate is not issued if its template is archived after the texts were checked.
func TestArchivedWhileIssuing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	ctx := t.Context()
	tmpl := f.publish(t, "Diploma", layout())
	upload, err := f.Templates.Upload(ctx, f.inst, creator, tmpl.UUID, people("Ada Obi")[0])
	ok(t, err)
	ok(t, f.Templates.Archive(ctx, f.inst, tmpl.UUID))
	if _, err := f.Certs.Upload(ctx, upload); codeOf(err) != template.CodeArchived {
		t.Errorf("err = %v, want template_archived", err)
	}
	ok(t, f.Templates.Unarchive(ctx, f.inst, tmpl.UUID))
	if _, err := f.Certs.Upload(ctx, upload); err != nil {
		t.Errorf("uploading after Unarchive: err = %v, want nil", err)
	}
}

// If a font is deleted while a version is being published with it, the version keeps the font.
func TestFontDeletedWhilePublishing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		tmpl := f.publish(t, "Diploma", layout())
		font, err := f.Templates.AddFont(ctx, f.inst, "font.ttf", bytes.NewReader(fontFile(t)))
		ok(t, err)
		deleted := make(chan error, 1)
		f.Tx(func(tx *db.Tx) error { // like the transaction of Publish
			if _, err := tx.ExecContext(ctx, `UPDATE institution_fonts SET size = size`); err != nil {
				return err
			}
			go func() { deleted <- f.Templates.DeleteFont(ctx, f.inst, font.ID) }()
			time.Sleep(300 * time.Millisecond)
			_, err := tx.ExecContext(ctx, `UPDATE template_versions SET fonts = $1 WHERE id = $2`, `["`+font.ID+`"]`, tmpl.Published.ID)
			return err
		})
		ok(t, <-deleted)
		if c := f.issue(t, tmpl.UUID, "Ada Obi")[0]; c.Status != cert.Approved {
			t.Errorf("status = %s, failure %+v, want approved", c.Status, c.Failure)
		}
	})
}
