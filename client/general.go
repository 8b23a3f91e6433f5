package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Certificate is a certificate of any source.
type Certificate struct {
	ID                 string        `json:"id"`
	ReferenceID        string        `json:"reference_id"`
	CertificateTitle   string        `json:"certificate_title"`
	Name               string        `json:"name"`
	Email              string        `json:"email"`
	Status             Label[string] `json:"status"`     // pending, processing, generated, failed, revoked
	Source             Label[string] `json:"source"`     // vault, template or customer
	IssueDate          string        `json:"issue_date"` // YYYY-MM-DD
	GeneratedAt        *time.Time    `json:"generated_at"`
	BatchID            *string       `json:"batch_id"`
	Batch              *BatchName    `json:"batch"`
	CustomerID         *int64        `json:"customer_id"`
	Creator            Creator       `json:"creator"`
	PDFPath            *string       `json:"pdf_path"`
	ImagePath          *string       `json:"image_path"`
	QRCodePath         string        `json:"qrcode_path"`
	BarcodePath        string        `json:"barcode_path"`
	TotalSignatures    *int          `json:"total_signatures"` // nil if no signature is required
	ApprovedSignatures *int          `json:"approved_signatures"`
	Signatures         []Signature   `json:"signatures"`
	CreatedAt          time.Time     `json:"created_at"`
	UpdatedAt          time.Time     `json:"updated_at"`
	ExpiresOn          *string       `json:"expires_on"` // YYYY-MM-DD, the last day of validity
	Expired            bool          `json:"expired"`
	Replaces           *Replacement  `json:"replaces"`
	ReplacedBy         *Replacement  `json:"replaced_by"`
}

// BatchName identifies the batch of a certificate.
type BatchName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Creator is the token or the user that created a certificate, or that claimed or decided an application.
type Creator struct {
	Type string `json:"type"` // token or user
	ID   *int64 `json:"id"`
	Name string `json:"name"`
}

// Signature is a signatory of a certificate and the signatory's decision.
type Signature struct {
	ID                int64      `json:"id"`
	InstitutionUserID int64      `json:"institution_user_id"`
	DisplayName       *string    `json:"display_name"`
	Designation       *string    `json:"designation"`
	SignatoryIndex    int        `json:"signatory_index"` // counts from 1
	Status            string     `json:"status"`          // approved, declined or pending
	ApprovedAt        *time.Time `json:"approved_at"`
}

// CertificateFilter filters and sorts a list of certificates; its zero value selects all
// certificates.
type CertificateFilter struct {
	// Search is part of a name, an e-mail address, a title or a reference id.
	Search string
	// Status is pending, processing, generated, failed or revoked.
	Status string
	// Source is vault, template or customer.
	Source string
	// The dates are YYYY-MM-DD and inclusive.
	IssueDateFrom, IssueDateTo, GeneratedFrom, GeneratedTo string

	BatchID    string
	CustomerID int64
	// SortField is name, email, status, issue_date, generated_at, created_at or
	// updated_at; SortOrder is asc or desc.
	SortField, SortOrder string
	// Expired is true or false, or empty for both.
	Expired string
	// ExpiresFrom and ExpiresTo are YYYY-MM-DD and inclusive.
	ExpiresFrom, ExpiresTo string
	// Replaced is true or false, or empty for both.
	Replaced string
}

func (f CertificateFilter) query() url.Values {
	q := url.Values{}
	set(q, "search", f.Search)
	set(q, "status", f.Status)
	set(q, "source", f.Source)
	set(q, "issue_date_from", f.IssueDateFrom)
	set(q, "issue_date_to", f.IssueDateTo)
	set(q, "generated_at_from", f.GeneratedFrom)
	set(q, "generated_at_to", f.GeneratedTo)
	set(q, "batch_id", f.BatchID)
	if f.CustomerID != 0 {
		q.Set("customer_id", strconv.FormatInt(f.CustomerID, 10))
	}
	set(q, "sort_field", f.SortField)
	set(q, "sort_order", f.SortOrder)
	set(q, "expired", f.Expired)
	set(q, "expires_from", f.ExpiresFrom)
	set(q, "expires_to", f.ExpiresTo)
	set(q, "replaced", f.Replaced)
	return q
}

const certificatesPath = "/business/certificates"

// Certificates returns all certificates that match a filter, from every source. An error ends the
// sequence.
func (c *Client) Certificates(ctx context.Context, f CertificateFilter) iter.Seq2[*Certificate, error] {
	return every[Certificate](ctx, c, certificatesPath, f.query())
}

// CertificatePage returns one page of the list; pages count from 1.
func (c *Client) CertificatePage(ctx context.Context, f CertificateFilter, number, perPage int) (*Page[Certificate], error) {
	return numbered[Certificate](ctx, c, certificatesPath, f.query(), number, perPage)
}

// Certificate returns one certificate by its UUID.
func (c *Client) Certificate(ctx context.Context, uuid string) (*Certificate, error) {
	return one[Certificate](ctx, c, &call{method: http.MethodGet, path: certificatesPath + "/" + url.PathEscape(uuid)})
}

// DownloadCertificate writes a certificate's verified PDF to w, as Download does.
func (c *Client) DownloadCertificate(ctx context.Context, uuid string, w io.Writer) error {
	return c.download(ctx, &call{method: http.MethodGet, path: certificatesPath + "/" + url.PathEscape(uuid) + "/download", accept: "application/pdf"}, w)
}
