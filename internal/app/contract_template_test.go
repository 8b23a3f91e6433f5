package app

import (
	"bytes"
	"errors"
	"net/http"
	"slices"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
)

// driveTemplates calls the operations on templates.
func (d *driver) driveTemplates() {
	d.Helper()
	ctx := d.Context()
	t, err := d.app.Templates.Create(ctx, template.NewTemplate{Institution: d.inst, Name: "Diploma", BuiltIn: "heritage"})
	d.must(err)
	l := t.Draft.Layout
	l.Fields = append(slices.Clone(l.Fields), design.Field{
		ID: "grade", Kind: design.Column, Page: 1, Box: design.Box{200, 130, 120, 20}, Text: "{column:Grade}", Font: design.Font{Family: "Inter"}, Size: 10, Required: true,
	})
	t, err = d.app.Templates.Save(ctx, d.inst, t.UUID, template.Draft{Revision: t.Draft.Revision, Layout: l})
	d.must(err)
	t, err = d.app.Templates.Publish(ctx, d.inst, t.UUID, t.Draft.Revision)
	d.must(err)
	list, err := d.client.Templates(ctx)
	d.must(err)
	if len(list) != 1 || list[0].ID != t.UUID || list[0].Columns[0].Name != "Grade" {
		d.Errorf("templates = %+v, want one template with the column Grade", list)
	}
	detail, err := d.client.Template(ctx, t.UUID)
	d.must(err)
	if len(detail.Fields) != len(l.Fields) || detail.Fields[0].Box[2] == 0 {
		d.Errorf("fields = %+v, want all fields of the layout with their boxes", detail.Fields)
	}
	entries := []client.IssueEntry{
		{FullName: "Grace Hopper", ApplicantEmail: "grace@example.org", CertificateTitle: "BSc Computing", IssueDate: "2026-06-30", Values: map[string]string{"Grade": "A"}},
		{FullName: "محمد العلي", ApplicantEmail: "m@example.org", Values: map[string]string{"Grade": "B"}},
	}
	var sample, picture bytes.Buffer
	d.must(d.client.PreviewTemplate(ctx, t.UUID, &entries[0], &sample))
	d.must(d.client.TemplatePicture(ctx, t.UUID, &picture))
	if !bytes.HasPrefix(sample.Bytes(), []byte("%PDF-")) || !bytes.HasPrefix(picture.Bytes(), []byte("\x89PNG")) {
		d.Error("the preview is not a PDF, or the picture is not a PNG")
	}
	checked, err := d.client.CheckEntries(ctx, t.UUID, append(slices.Clone(entries), client.IssueEntry{FullName: "Ada", ApplicantEmail: "ada@example.org"}))
	d.must(err)
	if checked.Total != 3 || checked.Valid != 2 || len(checked.Problems) != 1 {
		d.Errorf("result = %+v, want 3 entries, 2 valid entries and 1 problem", checked)
	}
	accepted, err := d.client.Issue(ctx, t.UUID, "Class of 2026", entries)
	d.must(err)
	batch, err := d.client.AwaitBatch(ctx, accepted.BatchID, nil)
	d.must(err)
	if batch.Approved != 2 || batch.Source != "template" || batch.Template.Name != "Diploma" {
		d.Errorf("batch = %+v, want two approved certificates of the template", batch)
	}
	if _, err := d.client.Issue(ctx, t.UUID, "", entries); !errors.Is(err, client.ErrInvalid) {
		d.Errorf("issuing the same entries again: error = %v, want ErrInvalid", err)
	}
	d.must(d.app.Templates.Archive(ctx, d.inst, t.UUID))
	all, vault := d.token(token.All...), d.token(token.VaultList)
	path := "/business/certificate-templates/" + t.UUID
	header := http.Header{"Content-Type": {"application/json"}}
	for _, tc := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", path, all, 200},
		{"GET", path, vault, 403},
		{"GET", "/business/certificate-templates", vault, 200},
		{"GET", path + "/preview", all, 422},
		{"POST", path + "/preview", all, 422},
		{"POST", path + "/issue", all, 422},
		{"POST", path + "/issue?dry_run=1", all, 422},
		{"POST", "/business/certificate-templates/0197f2b7-93f0-7ab2-8c0d-6e1f2a3b4c5d/issue", all, 404},
		{"GET", "/business/certificate-templates/0197f2b7-93f0-7ab2-8c0d-6e1f2a3b4c5d", all, 404},
	} {
		body := ""
		if tc.method == http.MethodPost {
			body = `{"full_name": "Grace Hopper", "entries": [{"full_name": "Grace Hopper", "applicant_email": "grace@example.org"}]}`
		}
		if got := d.send(tc.method, tc.path, tc.token, header, body); got != tc.status {
			d.Errorf("%s %s: status = %d, want %d", tc.method, tc.path, got, tc.status)
		}
	}
}
