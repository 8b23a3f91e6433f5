package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const templatesPath = "/business/certificate-templates"

// Template is the published version of a template.
type Template struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Status  string `json:"status"` // published or archived
	Version int    `json:"version"`
	Pages   int    `json:"pages"`
	// Width and Height are the size of the first page in points of 1/72 inch.
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	// CertificateTitle is the title for entries without a title, or nil.
	CertificateTitle *string         `json:"certificate_title"`
	Fields           []TemplateField `json:"fields"`
	// Columns are the columns for which IssueEntry.Values can have values.
	Columns     []TemplateColumn `json:"columns"`
	PreviewPath string           `json:"preview_path"`
	CreatedAt   time.Time        `json:"created_at"`
	UpdatedAt   time.Time        `json:"updated_at"`
	PublishedAt time.Time        `json:"published_at"`
}

// TemplateField is a field of a template. Only Client.Template sets Page, Box and Text.
type TemplateField struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Label    string `json:"label"`
	Required bool   `json:"required"`
	Page     int    `json:"page"`
	// Box is x, y, width and height in points from the top left of the page as displayed.
	Box  [4]float64 `json:"box"`
	Text string     `json:"text"`
}

// TemplateColumn is a column of a template. If Required is true, IssueEntry.Values must have a value for it.
type TemplateColumn struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
}

// Templates returns the published templates that are not archived. For a token that may only list vault
// certificates, the list is empty; such a token can use the call to test the connection.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	var list []Template
	err := c.do(ctx, &call{method: http.MethodGet, path: templatesPath}, &list)
	return list, err
}

// Template returns the published version of a template, with the positions and texts of its fields.
func (c *Client) Template(ctx context.Context, id string) (*Template, error) {
	return one[Template](ctx, c, &call{method: http.MethodGet, path: templatesPath + "/" + url.PathEscape(id)})
}

// IssueEntry is the content of one certificate that is issued from a template.
type IssueEntry struct {
	FullName       string `json:"full_name"`
	ApplicantEmail string `json:"applicant_email,omitempty"`
	// CertificateTitle may be empty if the template has a title.
	CertificateTitle string `json:"certificate_title,omitempty"`
	// IssueDate is YYYY-MM-DD; empty means today in UTC.
	IssueDate string `json:"issue_date,omitempty"`
	Details   string `json:"details,omitempty"`
	// ExpiresOn is the last day of validity, YYYY-MM-DD, or empty.
	ExpiresOn string `json:"expires_on,omitempty"`
	// Values maps the names of the template's columns to the values.
	Values map[string]string `json:"values,omitempty"`
}

// issueBody is the body of a request to issue certificates.
type issueBody struct {
	Name    string       `json:"name,omitempty"`
	Entries []IssueEntry `json:"entries"`
	Notify  string       `json:"notify,omitempty"`
}

// Issue issues up to MaxEntries certificates from a template, as a batch. name is the name of the batch,
// or "". If an entry has a problem, the vault stores nothing, and the error is ErrInvalid. Error.Fields
// names the field by the position of the entry, as in entries.3.full_name, counted from 0.
func (c *Client) Issue(ctx context.Context, templateID, name string, entries []IssueEntry, options ...Option) (*BatchAccepted, error) {
	k, err := issueCall(templateID, name, entries, options)
	if err != nil {
		return nil, err
	}
	return one[BatchAccepted](ctx, c, k)
}

// CheckedEntries is the result of CheckEntries.
type CheckedEntries struct {
	Total int `json:"total"`
	Valid int `json:"valid"`
	// Problems contains at most the first 1,000 problems.
	Problems []EntryProblem `json:"problems"`
}

// EntryProblem is a problem of an entry.
type EntryProblem struct {
	// Index is the position of the entry, counted from 0. Field is a name such as full_name or
	// values.Grade, or "".
	Index   int    `json:"index"`
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
	// ExistingUUID is the UUID of the existing certificate if the entry is a duplicate, or "".
	ExistingUUID string `json:"existing_uuid"`
}

// CheckEntries checks entries as Issue does, but issues no certificates.
func (c *Client) CheckEntries(ctx context.Context, templateID string, entries []IssueEntry) (*CheckedEntries, error) {
	k, err := issueCall(templateID, "", entries, nil)
	if err != nil {
		return nil, err
	}
	k.query = url.Values{"dry_run": {"1"}}
	return one[CheckedEntries](ctx, c, k)
}

func issueCall(templateID, name string, entries []IssueEntry, options []Option) (*call, error) {
	content, err := json.Marshal(issueBody{name, entries, notifyOf(options)})
	if err != nil {
		return nil, fmt.Errorf("writing the entries: %w", err)
	}
	return post(templatesPath+"/"+url.PathEscape(templateID)+"/issue", &bytesBody{kind: "application/json", content: content}, options), nil
}

// PreviewTemplate writes a sample of a certificate with the entry to w, as PDF. A sample has no reference
// id, no QR code and no signature.
func (c *Client) PreviewTemplate(ctx context.Context, templateID string, entry *IssueEntry, w io.Writer) error {
	content, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("writing the entry: %w", err)
	}
	return c.file(ctx, post(templatesPath+"/"+url.PathEscape(templateID)+"/preview", &bytesBody{kind: "application/json", content: content}, nil), "application/pdf", w)
}

// TemplatePicture writes a picture of the first page of a template to w, as PNG.
func (c *Client) TemplatePicture(ctx context.Context, templateID string, w io.Writer) error {
	return c.file(ctx, &call{method: http.MethodGet, path: templatesPath + "/" + url.PathEscape(templateID) + "/preview"}, "image/png", w)
}

// file sends a call and writes the body of the response to w.
func (c *Client) file(ctx context.Context, k *call, mediaType string, w io.Writer) error {
	k.accept = mediaType + ", application/json"
	return c.send(ctx, k, func(res *http.Response) error {
		content, err := io.ReadAll(io.LimitReader(res.Body, maxFile+1))
		if err != nil {
			return &temporary{fmt.Errorf("reading the response: %w", err)}
		}
		if len(content) > maxFile {
			return errors.New("the file in the response is too large")
		}
		_, err = w.Write(content)
		return err
	})
}

// maxFile is the maximum size in bytes of a response that Client.file reads.
const maxFile = 64 << 20
