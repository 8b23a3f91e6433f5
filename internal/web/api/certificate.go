package api

import (
	"context"
	"encoding/hex"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/web"
)

// certificate is the wire type of a vault certificate.
type certificate struct {
	ID               int64       `json:"id"`
	UUID             string      `json:"uuid"`
	ReferenceID      string      `json:"reference_id"`
	CertificateTitle string      `json:"certificate_title"`
	FullName         string      `json:"full_name"`
	ApplicantEmail   string      `json:"applicant_email"`
	Source           labelled    `json:"source"`
	Status           status      `json:"status"`
	IssueDate        string      `json:"issue_date"`
	Details          *string     `json:"details"`
	TriggerContext   string      `json:"trigger_context"`
	BatchID          *string     `json:"batch_id"`
	CustomerID       *int64      `json:"customer_id"`
	Institution      institution `json:"institution"`
	Failure          *failure    `json:"failure"`
	// File is nil for an application that no reviewer has approved.
	File             *file         `json:"file"`
	VerifiedSHA256   *string       `json:"verified_sha256"`
	Placement        *string       `json:"placement"`
	PlacementPage    *int          `json:"placement_page"`
	PlacementBox     *seal.Box     `json:"placement_box"`
	Notices          []seal.Notice `json:"notices"`
	VerificationURL  string        `json:"verification_url"`
	PDFPath          *string       `json:"pdf_path"`
	ImagePath        *string       `json:"image_path"`
	QRCodePath       string        `json:"qrcode_path"`
	BarcodePath      string        `json:"barcode_path"`
	CreatedAt        string        `json:"created_at"`
	UpdatedAt        string        `json:"updated_at"`
	ApprovedAt       *string       `json:"approved_at"`
	RevokedAt        *string       `json:"revoked_at"`
	RevocationReason *string       `json:"revocation_reason"`
	ExpiresOn        *string       `json:"expires_on"`
	Expired          bool          `json:"expired"`
	Replaces         *replacement  `json:"replaces"`
	ReplacedBy       *replacement  `json:"replaced_by"`

	Verifications verifications `json:"verifications"`
}

// verifications are the numbers of verifications of a certificate. A number below three is null if the
// institution hides the names of its recipients.
type verifications struct {
	Total      *int `json:"total"`
	Last30Days *int `json:"last_30_days"`
}

type labelled struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

type status struct {
	Value       string `json:"value"`
	Label       string `json:"label"`
	Description string `json:"description"`
}

type institution struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	Slug string `json:"slug"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type file struct {
	Name     string `json:"name"`
	MIMEType string `json:"mime_type"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
}

var statuses = map[cert.Status]status{
	cert.Pending:    {Label: "Pending", Description: "The certificate waits for the institution's approval."},
	cert.InReview:   {Label: "In review", Description: "A reviewer has claimed the application."},
	cert.Processing: {Label: "Processing", Description: "The verified PDF is being created."},
	cert.Approved:   {Label: "Approved", Description: "The certificate is valid and its verified PDF can be downloaded."},
	cert.Failed:     {Label: "Failed", Description: "The verified PDF could not be created. See failure, then retry."},
	cert.Revoked:    {Label: "Revoked", Description: "The institution has revoked the certificate."},
}

var sourceLabels = map[cert.Source]string{cert.Vault: "Vault", cert.Template: "Template", cert.Customer: "Customer"}

// sourceOf returns the source of a certificate with its label.
func sourceOf(c *cert.Certificate) labelled {
	return labelled{Value: string(c.Source), Label: sourceLabels[c.Source]}
}

// wireAll converts certificates of an institution to their wire types. q is a transaction, or nil.
func (a *API) wireAll(ctx context.Context, q db.Queryer, inst *account.Institution, list ...*cert.Certificate) ([]*certificate, error) {
	ids := make([]int64, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	counts, err := a.Verifications.Shown(ctx, q, inst.ID, ids...)
	if err != nil {
		return nil, err
	}
	data := make([]*certificate, len(list))
	for i, c := range list {
		if data[i], err = a.wire(c, inst, counts[c.ID]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// wire converts a certificate to its wire type.
func (a *API) wire(c *cert.Certificate, inst *account.Institution, counts verification.Shown) (*certificate, error) {
	s := statuses[c.Status]
	s.Value = string(c.Status)
	out := &certificate{
		ID: c.ID, UUID: c.UUID, ReferenceID: c.ReferenceID, CertificateTitle: c.Title, FullName: c.FullName, ApplicantEmail: c.Email,
		Source: sourceOf(c), Status: s, IssueDate: c.IssueDate, Details: optional(c.Details),
		TriggerContext: string(c.TriggerContext), BatchID: optional(c.BatchID), CustomerID: optional(c.CustomerID),
		Institution: institution{UUID: inst.UUID, Name: inst.Name, Slug: inst.Slug},
		Placement:   optional(c.Placement), PlacementPage: optional(c.PlacementPage), PlacementBox: c.PlacementBox,
		Notices:          append([]seal.Notice{}, c.Notices...),
		VerificationURL:  a.Links.Verify(c.ReferenceID),
		QRCodePath:       a.Links.QRCode(c.ReferenceID),
		BarcodePath:      a.Links.Barcode(c.ReferenceID),
		CreatedAt:        *web.Timestamp(&c.CreatedAt),
		UpdatedAt:        *web.Timestamp(&c.UpdatedAt),
		ApprovedAt:       web.Timestamp(c.ApprovedAt),
		RevokedAt:        web.Timestamp(c.RevokedAt),
		RevocationReason: optional(c.RevocationReason),
		ExpiresOn:        optional(c.ExpiresOn), Expired: a.Certs.HasExpired(c),
		Replaces:      replacementOf(c.Replaces),
		ReplacedBy:    replacementOf(c.ReplacedBy),
		Verifications: verifications{Total: counts.Total, Last30Days: counts.Recent},
	}
	if c.File.Name != "" {
		out.File = &file{Name: c.File.Name, MIMEType: string(c.File.Type), Size: c.File.Size, SHA256: c.OriginalDigest()}
	}
	if c.Failure != nil {
		out.Failure = &failure{Code: c.Failure.Code, Message: c.Failure.Message}
	}
	if c.Verified != nil {
		out.VerifiedSHA256 = optional(hex.EncodeToString(c.Verified.SHA256[:]))
	}
	var err error
	out.PDFPath, out.ImagePath, err = a.assets(c)
	return out, err
}

// assets returns the links to a certificate's verified PDF and picture, or nil if the certificate is not
// approved.
func (a *API) assets(c *cert.Certificate) (pdf, image *string, err error) {
	if c.Status != cert.Approved {
		return nil, nil, nil
	}
	p, err := a.Links.File(c.UUID, web.PDFFile)
	if err != nil {
		return nil, nil, err
	}
	i, err := a.Links.File(c.UUID, web.ImageFile)
	return &p, &i, err
}

// optional returns a pointer to v, or nil if v is the zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
