package vaulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/vault"
)

// TemplateVersion is the id of the version that Issue uses. The name of its template is Diploma.
const TemplateVersion = 4

// Base is the base of the template that Issue uses.
var Base = pdftest.Page("a design")

// Drawer draws the name, the reference id and the values of a certificate on Base. It refuses names that
// begin with "Missing".
type Drawer struct{}

// Draw draws the original of a certificate.
func (Drawer) Draw(_ context.Context, c *cert.Certificate) (*cert.Drawn, error) {
	if strings.HasPrefix(c.FullName, "Missing") {
		return nil, &seal.Refusal{Code: "missing_characters", Reason: "No font of this template can write the name."}
	}
	d, err := certtest.Draw(Base, c.FullName+" "+c.ReferenceID+" "+string(c.Template.Values))
	if err != nil {
		return nil, err
	}
	return &cert.Drawn{
		Base: bytes.NewReader(Base), BaseSize: int64(len(Base)), Fields: d.Fields, SHA256: d.SHA256, State: d.State, Size: d.Size,
		Page: 1, Box: seal.Box{0.7, 0.8, 0.85, 0.9}, Trusted: true,
	}, nil
}

// Templates returns the name of the template of TemplateVersion, if versions contains that id.
func Templates(_ context.Context, _ int64, versions []int64) (map[int64]batch.TemplateName, error) {
	names := map[int64]batch.TemplateName{}
	for _, id := range versions {
		if id == TemplateVersion {
			names[id] = batch.TemplateName{ID: "01900000-0000-7000-8000-000000000004", Name: "Diploma", Version: 2}
		}
	}
	return names, nil
}

// fonts returns the embedded fonts.
var fonts = sync.OnceValues(func() (*typeset.Fonts, error) { return typeset.New() })

// DrawTemplates is a change for New. With it, the service of templates draws certificates, not Drawer.
func DrawTemplates(d *vault.Deps) {
	found, err := fonts()
	if err != nil {
		panic(err) // the binary of the test has no fonts: run `make deps`
	}
	d.Drawer, d.Templates, d.Fonts = nil, nil, found
}

// Template publishes a built-in design as a template. The vault must be created with DrawTemplates.
func (v *Vault) Template(inst *account.Institution, name, builtIn string) *template.Template {
	v.TB.Helper()
	t, err := v.Templates.Create(v.TB.Context(), template.NewTemplate{Institution: inst, Name: name, BuiltIn: builtIn})
	v.ok(err)
	t, err = v.Templates.Publish(v.TB.Context(), inst, t.UUID, t.Draft.Revision)
	v.ok(err)
	return t
}

// Issue submits a batch from a template with an entry for each name. Each call stores the base of the
// template again.
func (v *Vault) Issue(inst *account.Institution, names ...string) *batch.Batch {
	v.TB.Helper()
	key := cert.BaseKey(inst.UUID)
	_, err := v.Blobs.Put(v.TB.Context(), key, bytes.NewReader(Base))
	v.ok(err)
	draft := v.Batches.NewDraft()
	defer draft.Close()
	for i, name := range names {
		for field, value := range map[cert.Field]string{
			cert.FieldTitle: "BSc Physics", cert.FieldName: name, cert.FieldIssueDate: "2026-06-30",
			cert.FieldEmail: strings.ReplaceAll(strings.ToLower(name), " ", ".") + "@example.org",
		} {
			v.ok(draft.Set(i, field, value))
		}
		v.ok(draft.Values(i, json.RawMessage(`{"Grade":"A"}`)))
	}
	b, err := v.Batches.Submit(v.TB.Context(), batch.Submission{
		Institution: inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.FromTemplate, Draft: draft,
		Template: &batch.Template{VersionID: TemplateVersion, BaseKey: key},
	})
	v.ok(err)
	return b
}

// Finish runs the queue until no entry of a batch is queued or in processing. Settle could return earlier,
// because the certificates of a batch do not exist before the queue expands the batch.
func (v *Vault) Finish(inst *account.Institution, b *batch.Batch) {
	v.TB.Helper()
	v.Until("the batch is finished", func() bool {
		got, err := v.Batches.ByUUID(v.TB.Context(), inst.ID, b.UUID, "")
		return err == nil && got.Processing == 0
	})
}
