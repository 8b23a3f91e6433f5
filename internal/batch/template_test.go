package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
)

// drawer draws the name and the values of a certificate on a base.
type drawer struct{ base []byte }

func (w drawer) Draw(_ context.Context, c *cert.Certificate) (*cert.Drawn, error) {
	if strings.HasPrefix(c.FullName, "Missing") {
		return nil, &seal.Refusal{Code: "missing_characters", Reason: "No font of this template can write the name."}
	}
	d, err := certtest.Draw(w.base, c.FullName+string(c.Template.Values))
	if err != nil {
		return nil, err
	}
	return &cert.Drawn{
		Base: bytes.NewReader(w.base), BaseSize: int64(len(w.base)), Fields: d.Fields, SHA256: d.SHA256, State: d.State, Size: d.Size,
		Page: 1, Box: seal.Box{0.1, 0.2, 0.3, 0.4}, Trusted: true,
	}, nil
}

// template stores a base and returns a Template with the version id 4.
func (v *vault) template(inst *account.Institution) *Template {
	v.tb.Helper()
	t := &Template{VersionID: 4, BaseKey: cert.BaseKey(inst.UUID)}
	if _, err := v.folder.Put(v.tb.Context(), t.BaseKey, bytes.NewReader(pdftest.Page("a design"))); err != nil {
		v.tb.Fatal(err)
	}
	return t
}

// issue returns a submission from a template with an entry for each name.
func (v *vault) issue(inst *account.Institution, t *Template, names ...string) Submission {
	v.tb.Helper()
	u := v.submission(inst, "", names...)
	u.Context, u.Template = cert.FromTemplate, t
	u.Draft = v.NewDraft()
	v.tb.Cleanup(u.Draft.Close)
	for i, name := range names {
		for field, value := range map[cert.Field]string{
			cert.FieldTitle: "BSc Physics", cert.FieldName: name, cert.FieldEmail: strings.ReplaceAll(strings.ToLower(name), " ", ".") + "@example.org",
		} {
			if err := u.Draft.Set(i, field, value); err != nil {
				v.tb.Fatal(err)
			}
		}
		if err := u.Draft.Values(i, json.RawMessage(fmt.Sprintf(`{"Grade":"%d"}`, i))); err != nil {
			v.tb.Fatal(err)
		}
	}
	return u
}

// named is a Config.Templates that knows only the version id 4.
func named(_ context.Context, _ int64, versions []int64) (map[int64]TemplateName, error) {
	names := map[int64]TemplateName{}
	for _, version := range versions {
		if version == 4 {
			names[version] = TemplateName{ID: "the-template", Name: "Diploma", Version: 2}
		}
	}
	return names, nil
}

func TestBatchFromTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.templates = named
		tmpl := v.template(v.inst)
		made := v.submit(v.issue(v.inst, tmpl, people("Person", 60)...))
		if made.Source != cert.Template || made.Context != cert.FromTemplate || made.Template == nil || made.Template.Name != "Diploma" ||
			!strings.HasPrefix(made.Name, "Issued on ") {
			t.Errorf("batch = %+v with the template %+v, want the template Diploma", made, made.Template)
		}
		v.expandAll()
		b, entries := v.get(v.inst, made.UUID)
		if b.Source != cert.Template || b.Context != cert.FromTemplate || b.Template == nil || *b.Template != *made.Template || b.Processing != 60 || len(entries) != 60 {
			t.Errorf("batch = %+v with the template %+v and %d entries, want 60 in processing", b, b.Template, len(entries))
		}
		list, err := v.List(t.Context(), v.inst.ID, Filter{Range: listing.Range{PerPage: 10, Page: 1}, Source: cert.Template})
		if err != nil || len(list.Items) != 1 || list.Items[0].Template == nil {
			t.Errorf("the batches from templates are %+v, %v, want one with its template", list, err)
		}
		for _, i := range []int{0, 59} {
			c, err := v.certs.ByUUID(t.Context(), v.inst.ID, entries[i].UUID)
			if err != nil {
				t.Fatal(err)
			}
			if c.Source != cert.Template || c.BatchID != b.UUID || c.File.Key != tmpl.BaseKey || c.Template == nil || c.Template.VersionID != 4 ||
				string(c.Template.Values) != fmt.Sprintf(`{"Grade":"%d"}`, i) || c.FullName != fmt.Sprintf("Person %d", i) || c.IssueDate != cert.Today(v.clock.Now()) {
				t.Errorf("certificate %d = %+v with the template %+v, want the values of its entry", i, c, c.Template)
			}
		}
		if n := one[int](v, `SELECT count(*) FROM batch_entries WHERE input IS NOT NULL`); n != 0 {
			t.Errorf("%d entries still have their input, want 0", n)
		}
	})
}

// The entries of a batch from a template need no file, but all other rules apply. A certificate that
// cannot be drawn does not affect the other entries.
func TestProblemsOfBatchFromTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		tmpl := v.template(v.inst)
		bad := v.issue(v.inst, tmpl, "Ada Obi", "Bo Ek")
		bad.Draft.entries[1].text.Title = ""
		delete(bad.Draft.entries[1].given, cert.FieldTitle)
		_, err := v.Submit(t.Context(), bad)
		var problems Problems
		if !fault.Is(err, fault.Invalid) || !errors.As(err, &problems) || len(problems) != 1 ||
			problems[0].Entry != 1 || problems[0].Field != cert.FieldTitle || problems[0].Code != cert.CodeRequired {
			t.Errorf("an entry without a title: error = %v, problems = %v, want one problem of the title", err, problems)
		}
		uploaded := v.submit(v.submission(v.inst, v.stage(v.inst).UUID, "Ada Obi"))
		v.expandAll()
		b := v.submit(v.issue(v.inst, tmpl, "Ada Obi", "Bo Ek", "Bo Ek", "Missing Letters"))
		v.expandAll()
		v.process("the batch is finished", func() bool {
			got, _ := v.get(v.inst, b.UUID)
			return got.Processing == 0
		})
		got, entries := v.get(v.inst, b.UUID)
		_, first := v.get(v.inst, uploaded.UUID)
		if got.Approved != 1 || got.Failed != 1 || got.Rejected != 2 || got.Status() != CompletedWithErrors {
			t.Errorf("batch = %+v, want one approved, one failed and two rejected", got)
		}
		if entries[0].ExistingUUID != first[0].UUID || entries[2].ExistingUUID != entries[1].UUID || entries[3].ErrorCode != "missing_characters" {
			t.Errorf("entries = %+v, want two duplicates and one that cannot be drawn", entries)
		}
	})
}

// A batch refers to the base of its template until all its certificates exist and refer to the base.
func TestBatchRefersToBase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		tmpl := v.template(v.inst)
		v.submit(v.issue(v.inst, tmpl, people("Person", 3)...))
		keys := []string{tmpl.BaseKey, cert.BaseKey(v.inst.UUID)}
		check := func(when string, inBatch, inCertificates int) {
			t.Helper()
			batch, err := ReferencedBlobs(t.Context(), d, keys)
			certs, err2 := cert.ReferencedBlobs(t.Context(), d, keys)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if len(batch) != inBatch || len(certs) != inCertificates {
				t.Errorf("%s: batches refer to %v and certificates to %v, want %d and %d keys", when, batch, certs, inBatch, inCertificates)
			}
			visited := map[string]int{}
			for _, visit := range []func(context.Context, db.Queryer, func(string) error) error{BlobKeys, cert.BlobKeys} {
				if err := visit(t.Context(), d, func(key string) error { visited[key]++; return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if n := visited[tmpl.BaseKey]; n != 1 {
				t.Errorf("%s: the base is visited %d times among %v, want once", when, n, slices.Sorted(maps.Keys(visited)))
			}
		}
		check("queued", 1, 0)
		v.expandAll()
		check("expanded", 0, 3)
		v.clock.Advance(30 * 24 * time.Hour)
		v.exec(`UPDATE blob_sweeps SET next_at = 0`)
		if err := v.deletions.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if existing, err := v.deletions.Exist(t.Context(), keys[:1]); err != nil || len(existing) != 1 {
			t.Errorf("the bases after the sweep are %v, %v, want one", existing, err)
		}
	})
}
