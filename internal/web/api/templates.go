package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
)

// templateRecord is the wire type of a template. F is the wire type of its fields.
type templateRecord[F any] struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	// Version is the number of the published version. Width and Height are those of the first page in
	// points of 1/72 inch.
	Version     int              `json:"version"`
	Pages       int              `json:"pages"`
	Width       float64          `json:"width"`
	Height      float64          `json:"height"`
	Title       *string          `json:"certificate_title"`
	Fields      []F              `json:"fields"`
	Columns     []templateColumn `json:"columns"`
	Signatories []signatory      `json:"signatories"`
	PreviewPath string           `json:"preview_path"`
	CreatedAt   string           `json:"created_at"`
	UpdatedAt   string           `json:"updated_at"`
	PublishedAt *string          `json:"published_at"`
}

// signatory is a member who must approve the certificates of a template.
type signatory struct {
	Index       int     `json:"signatory_index"`
	DisplayName *string `json:"display_name"`
	Designation *string `json:"designation"`
}

// templateField is a field of a template in the list of templates.
type templateField struct {
	ID       string  `json:"id"`
	Kind     string  `json:"kind"`
	Label    *string `json:"label"`
	Required bool    `json:"required"`
}

// templateColumn is a column of a template. The member "values" of an entry can have a value for the column.
type templateColumn struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
}

// templateDetail is a field of a template with its place, its text and its style.
type templateDetail struct {
	templateField

	Page     int        `json:"page"`
	Box      design.Box `json:"box"`
	Rotate   float64    `json:"rotate"`
	Text     *string    `json:"text"`
	Font     *fieldFont `json:"font"`
	Size     float64    `json:"size"`
	MinSize  float64    `json:"min_size"`
	Lines    int        `json:"lines"`
	Leading  float64    `json:"leading"`
	Align    string     `json:"align"`
	VAlign   string     `json:"valign"`
	Color    *string    `json:"color"`
	Tracking float64    `json:"tracking"`
	Case     string     `json:"case"`
	Language *string    `json:"language"`
}

type fieldFont struct {
	Family string `json:"family"`
	Weight int    `json:"weight"`
	Italic bool   `json:"italic"`
}

const (
	templatesPath = "/business/certificate-templates"
	// thumbnailSide is the longer side of the picture of a template in pixels.
	thumbnailSide = 1200
)

// templateWire returns the wire type of the published version of a template.
func templateWire[F any](t *template.Template, field func(*design.Field) F) templateRecord[F] {
	v := t.Published
	status := "published"
	if t.ArchivedAt != nil {
		status = "archived"
	}
	out := templateRecord[F]{
		ID: t.UUID, Name: t.Name, Status: status, Version: v.Number, Pages: len(v.Pages), Width: v.Pages[0].Width, Height: v.Pages[0].Height,
		Title: optional(v.Layout.Title), Fields: []F{}, Columns: []templateColumn{}, Signatories: []signatory{}, PreviewPath: templatesPath + "/" + t.UUID + "/preview",
		CreatedAt: *web.Timestamp(&t.CreatedAt), UpdatedAt: *web.Timestamp(&t.UpdatedAt), PublishedAt: web.Timestamp(v.PublishedAt),
	}
	for i := range v.Layout.Fields {
		out.Fields = append(out.Fields, field(&v.Layout.Fields[i]))
	}
	for i, s := range v.Signatories {
		out.Signatories = append(out.Signatories, signatory{i + 1, optional(s.Name), optional(s.Designation)})
	}
	for _, c := range v.Layout.Columns() {
		out.Columns = append(out.Columns, templateColumn{c.Name, c.Required})
	}
	return out
}

func shortField(f *design.Field) templateField {
	return templateField{ID: f.ID, Kind: string(f.Kind), Label: optional(f.Label), Required: f.Required || f.Kind == design.QR || f.Kind == design.Name}
}

func wholeField(f *design.Field) templateDetail {
	d := templateDetail{templateField: shortField(f), Page: f.Page, Box: f.Box, Rotate: f.Rotate}
	if f.Font.Family == "" {
		d.Align, d.VAlign, d.Case, d.Lines, d.Leading = "left", "middle", "none", 1, defaultLeading
		return d
	}
	d.Text, d.Size, d.MinSize, d.Tracking, d.Color, d.Language = optional(f.Text), f.Size, f.MinSize, f.Tracking, optional(f.Color), optional(f.Language)
	d.Font = &fieldFont{f.Font.Family, f.Font.Weight, f.Font.Italic}
	d.Align, d.VAlign, d.Case = cmp.Or(f.Align, "left"), cmp.Or(f.VAlign, "middle"), cmp.Or(f.Case, "none")
	d.Lines, d.Leading = cmp.Or(f.Lines, 1), cmp.Or(f.Leading, defaultLeading)
	d.MinSize, d.Font.Weight = cmp.Or(f.MinSize, f.Size), cmp.Or(f.Font.Weight, 400)
	return d
}

// defaultLeading is the leading of a field without one.
const defaultLeading = 1.2

// templates responds with a JSON array of the published templates that are not archived. For a token
// that may only list vault certificates, the array is empty. Its client can use the request to test the
// connection.
func (a *API) templates(w http.ResponseWriter, c *call) error {
	records := []templateRecord[templateField]{}
	if c.token.Has(token.TemplateList, token.TemplateIssue) {
		list, err := a.Templates.List(c.Context(), c.institution.ID, template.Filter{})
		if err != nil {
			return err
		}
		for _, t := range list {
			if t.Published != nil {
				records = append(records, templateWire(t, shortField))
			}
		}
	}
	return web.WriteJSON(w, http.StatusOK, records)
}

var errNoTemplate = fault.New(fault.NotFound, "There is no such template.")

// findTemplate returns the template in the path.
func (a *API) findTemplate(c *call) (*template.Template, error) {
	id, ok := parseUUID(c.PathValue("id"))
	if !ok {
		return nil, errNoTemplate
	}
	return a.Templates.ByUUID(c.Context(), c.institution.ID, id)
}

// template responds with the published version of a template, with all properties of its fields.
func (a *API) template(w http.ResponseWriter, c *call) error {
	t, err := a.findTemplate(c)
	if err != nil {
		return err
	}
	if t.Published == nil {
		return errNoTemplate
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Data templateRecord[templateDetail] `json:"data"`
	}{templateWire(t, wholeField)})
}

// thumbnail responds with a picture of the first page of a certificate from a template, with sample values.
func (a *API) thumbnail(w http.ResponseWriter, c *call) error {
	t, err := a.findTemplate(c)
	if err != nil {
		return err
	}
	picture, err := a.Templates.Thumbnail(c.Context(), c.institution, t.UUID, thumbnailSide)
	if err != nil {
		return err
	}
	return send(w, "image/png", picture)
}

// send sends a file that is in memory.
func send(w http.ResponseWriter, mediaType string, file []byte) error {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(file)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(file) //nolint:gosec // a PDF or PNG that the vault drew; the error cannot be reported to the client
	return nil
}

// previewTemplate responds with a sample of a certificate from one entry.
func (a *API) previewTemplate(w http.ResponseWriter, c *call) error {
	t, err := a.findTemplate(c)
	if err != nil {
		return err
	}
	in, err := a.readEntry(w, c)
	if err != nil {
		return withoutEntry(err)
	}
	file, err := a.Templates.Preview(c.Context(), c.institution, t.UUID, in)
	if err != nil {
		return withoutEntry(err)
	}
	w.Header().Set("Content-Disposition", `inline; filename="sample.pdf"`)
	return send(w, "application/pdf", file)
}

// withoutEntry returns err with messages for its problems. The names of the fields do not contain the
// number of the entry.
func withoutEntry(err error) error {
	problems, ok := errors.AsType[batch.Problems](err)
	if !ok {
		return err
	}
	var bad fault.Fields
	for _, p := range problems {
		name := issueName(p.Field)
		bad.Add(cmp.Or(name, "entry"), problemText(cmp.Or(name, "entry"), p.Problem))
	}
	return bad.Err()
}

// issue issues certificates from a template. With dry_run=1, it only checks the entries.
func (a *API) issue(w http.ResponseWriter, c *call) error {
	t, err := a.findTemplate(c)
	if err != nil {
		return err
	}
	switch value := c.URL.Query().Get("dry_run"); value {
	case "1", "true":
		return a.dryRun(w, c, t)
	case "", "0", "false":
	default:
		return fault.OfField("dry_run", "The dry_run field must be 1 or 0.")
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	in, err := readIssue(w, x)
	if err == nil {
		err = x.complete()
	}
	if err == nil {
		err = a.issueEntries(x, t, in)
	}
	return x.end(w, err)
}

func (a *API) issueEntries(x *exchange, t *template.Template, in *issueInput) error {
	c := x.call
	if len(in.problems) > 0 {
		problems, err := a.checkEntries(c, t, in)
		if err != nil {
			return err
		}
		return batch.Problems(problems).Err()
	}
	_, err := a.Templates.Issue(c.Context(), t.UUID, template.Issue{
		Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Name: in.name, Entries: in.entries,
		Notify: in.notify,
		Then: func(ctx context.Context, tx *db.Tx, made *batch.Batch) error {
			return x.respondTx(ctx, tx, http.StatusAccepted, message{
				Message: "The certificates are being issued.",
				Data:    accepted{BatchID: made.UUID, Total: made.Total, Status: string(made.Status())},
			})
		},
	})
	return err
}

// checkedEntries is the response to a dry run.
type checkedEntries struct {
	Total    int              `json:"total"`
	Valid    int              `json:"valid"`
	Problems []checkedProblem `json:"problems"`
}

type checkedProblem struct {
	Index   int     `json:"index"`
	Field   *string `json:"field"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	// ExistingUUID is the UUID of the existing certificate if the entry is a duplicate of it.
	ExistingUUID *string `json:"existing_uuid"`
}

func (a *API) dryRun(w http.ResponseWriter, c *call, t *template.Template) error {
	in, err := readIssue(w, &exchange{api: a, call: c})
	if err != nil {
		return err
	}
	if err := a.Templates.CheckNotify(in.notify); err != nil {
		return err
	}
	problems, err := a.checkEntries(c, t, in)
	if err != nil {
		return err
	}
	data := checkedEntries{Total: len(in.entries), Problems: []checkedProblem{}}
	bad := map[int]bool{}
	for _, p := range problems {
		bad[p.Entry] = true
		if len(data.Problems) == maxProblems {
			continue
		}
		name := issueName(p.Field)
		item := checkedProblem{Index: p.Entry, Field: optional(name), Code: string(p.Code), Message: problemText(cmp.Or(name, "entry"), p.Problem)}
		if p.Code == cert.CodeDuplicate {
			item.ExistingUUID = optional(p.Detail)
		}
		data.Problems = append(data.Problems, item)
	}
	data.Valid = data.Total - len(bad)
	text := "All entries can be issued."
	if len(bad) > 0 {
		text = "Some entries have problems. Nothing was stored."
	}
	return web.WriteJSON(w, http.StatusOK, message{Message: text, Data: data})
}

// maxProblems is the maximum number of problems in the response to a dry run.
const maxProblems = 1000

// checkEntries checks the entries, and returns their problems and the problems of reading the entries.
func (a *API) checkEntries(c *call, t *template.Template, in *issueInput) ([]template.RowProblem, error) {
	if len(in.entries) == 0 {
		return nil, errNoEntries.Err()
	}
	found, err := a.Templates.Check(c.Context(), c.institution, t.UUID, in.entries)
	if err != nil {
		return nil, err
	}
	return in.merge(found), nil
}
