package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Status is the status of a certificate or of an application.
type Status string

const (
	// Processing certificates have no verified PDF yet.
	Processing Status = "processing"
	// Approved certificates have a verified PDF, and are valid unless they have expired.
	Approved Status = "approved"
	// Failed certificates have no verified PDF; Failure states the reason. They can be retried.
	Failed Status = "failed"
	// Revoked certificates were revoked or replaced by their institution.
	Revoked Status = "revoked"
)

// Label is a value and its label for people.
type Label[T ~string] struct {
	Value T      `json:"value"`
	Label string `json:"label"`
	// Description is a sentence that explains a status. It is empty for a source.
	Description string `json:"description,omitempty"`
}

// VaultCertificate is a certificate that an institution uploaded. Calls with a UUID also return certificates
// from templates and applications, if the token may view them.
type VaultCertificate struct {
	ID               int64         `json:"id"`
	UUID             string        `json:"uuid"`
	ReferenceID      string        `json:"reference_id"`
	CertificateTitle string        `json:"certificate_title"`
	FullName         string        `json:"full_name"`
	ApplicantEmail   string        `json:"applicant_email"`
	Source           Label[string] `json:"source"`
	Status           Label[Status] `json:"status"`
	IssueDate        string        `json:"issue_date"` // YYYY-MM-DD
	Details          *string       `json:"details"`
	TriggerContext   string        `json:"trigger_context"`
	BatchID          *string       `json:"batch_id"`
	CustomerID       *int64        `json:"customer_id"`
	Institution      Institution   `json:"institution"`
	Failure          *Failure      `json:"failure"`
	File             StoredFile    `json:"file"`
	VerifiedSHA256   *string       `json:"verified_sha256"`
	Placement        *string       `json:"placement"`
	PlacementPage    *int          `json:"placement_page"`
	PlacementBox     *[4]float64   `json:"placement_box"`
	Notices          []Notice      `json:"notices"`
	VerificationURL  string        `json:"verification_url"`
	PDFPath          *string       `json:"pdf_path"`
	ImagePath        *string       `json:"image_path"`
	QRCodePath       string        `json:"qrcode_path"`
	BarcodePath      string        `json:"barcode_path"`
	CreatedAt        time.Time     `json:"created_at"`
	UpdatedAt        time.Time     `json:"updated_at"`
	ApprovedAt       *time.Time    `json:"approved_at"`
	RevokedAt        *time.Time    `json:"revoked_at"`
	RevocationReason *string       `json:"revocation_reason"`
	ExpiresOn        *string       `json:"expires_on"` // YYYY-MM-DD, the last day of validity
	Expired          bool          `json:"expired"`
	// Replaces is the certificate that this certificate replaces, or will replace when it is approved.
	// ReplacedBy is the certificate that has replaced this certificate. Both may be nil.
	Replaces   *Replacement `json:"replaces"`
	ReplacedBy *Replacement `json:"replaced_by"`

	Verifications Verifications `json:"verifications"`
}

// Verifications are the numbers of verifications of a certificate. If the institution hides the names
// of its recipients, a number below 3 is nil.
type Verifications struct {
	Total *int `json:"total"`
	// Last30Days is the number in the last 30 days, including today (UTC).
	Last30Days *int `json:"last_30_days"`
}

// Institution is the issuer of a certificate.
type Institution struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	Slug string `json:"slug"`
}

// Failure is the reason why processing failed.
type Failure struct {
	// Code is a stable code; Message is a sentence for people.
	Code    string `json:"code"`
	Message string `json:"message"`
}

// StoredFile is the original: the file that was uploaded, or drawn from a template.
type StoredFile struct {
	Name     string `json:"name"`
	MIMEType string `json:"mime_type"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
}

// NameNotInFile is the code of the notice that the text of the file does not contain the name of the
// recipient. The vault adds the notice when the certificate is approved.
const NameNotInFile = "name_not_in_file"

// Notice reports a possible problem of the file, which the institution should check.
type Notice struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

const vaultPath = "/business/certificate-vault"

// NewCertificate is the input for a certificate.
type NewCertificate struct {
	CertificateTitle, FullName, ApplicantEmail string
	// IssueDate is YYYY-MM-DD; empty means today in UTC.
	IssueDate string
	// Details may be empty. The recipient sees the details, but the public does not.
	Details string
	File    *File
	// ExpiresOn is the last day of validity, YYYY-MM-DD; empty means that the certificate does not
	// expire.
	ExpiresOn string
}

// Upload uploads one certificate. The status of the new certificate is Processing, and Await waits
// until this status changes. If the certificate already exists, the error is ErrDuplicate.
func (c *Client) Upload(ctx context.Context, n NewCertificate, options ...Option) (*VaultCertificate, error) {
	b, err := newFormBody([]formField{
		{"certificate_title", n.CertificateTitle}, {"full_name", n.FullName}, {"applicant_email", n.ApplicantEmail},
		{"issue_date", n.IssueDate}, {"details", n.Details}, {"expires_on", n.ExpiresOn},
		{"notify", notifyOf(options)},
	}, formFile{"certificate_file", n.File})
	if err != nil {
		return nil, err
	}
	return one[VaultCertificate](ctx, c, post(vaultPath, b, options))
}

// VaultFilter filters a list of vault certificates; its zero value selects all certificates.
type VaultFilter struct {
	Status         Status
	ApplicantEmail string
	// Search is part of a name, an e-mail address, a title or a reference id.
	Search string
	// Expired is true or false, or empty for both.
	Expired string
	// ExpiresFrom and ExpiresTo are YYYY-MM-DD and inclusive.
	ExpiresFrom, ExpiresTo string
	// Replaced is true or false, or empty for both.
	Replaced string
}

func (f VaultFilter) query() url.Values {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "applicant_email", f.ApplicantEmail)
	set(q, "search", f.Search)
	set(q, "expired", f.Expired)
	set(q, "expires_from", f.ExpiresFrom)
	set(q, "expires_to", f.ExpiresTo)
	set(q, "replaced", f.Replaced)
	return q
}

// VaultCertificates returns all vault certificates that match a filter, newest first. An error ends
// the sequence.
func (c *Client) VaultCertificates(ctx context.Context, f VaultFilter) iter.Seq2[*VaultCertificate, error] {
	return every[VaultCertificate](ctx, c, vaultPath, f.query())
}

// VaultCertificatePage returns one page of the list; pages count from 1.
func (c *Client) VaultCertificatePage(ctx context.Context, f VaultFilter, number, perPage int) (*Page[VaultCertificate], error) {
	return numbered[VaultCertificate](ctx, c, vaultPath, f.query(), number, perPage)
}

// VaultCertificate returns one certificate by its UUID.
func (c *Client) VaultCertificate(ctx context.Context, uuid string) (*VaultCertificate, error) {
	return one[VaultCertificate](ctx, c, &call{method: http.MethodGet, path: vaultPath + "/" + url.PathEscape(uuid)})
}

// Download writes a certificate's verified PDF to w. If there is no verified PDF yet, the error is
// ErrNotFound. An interrupted download continues after the last byte that was written to w.
func (c *Client) Download(ctx context.Context, uuid string, w io.Writer) error {
	return c.download(ctx, &call{method: http.MethodGet, path: vaultPath + "/" + url.PathEscape(uuid) + "/download", accept: "application/pdf"}, w)
}

// RetryProcessing processes a failed certificate again. If the certificate has not failed, the
// error is ErrInvalidOperation.
func (c *Client) RetryProcessing(ctx context.Context, uuid string, options ...Option) (*VaultCertificate, error) {
	return one[VaultCertificate](ctx, c, post(vaultPath+"/"+url.PathEscape(uuid)+"/retry", nil, options))
}

// Revoke revokes a certificate. The public sees the reason, but not the note, which may be empty. The
// recipient gets mail with the reason, unless the option Notify has the value NotifyNever, or no mail about
// the certificate was sent before.
func (c *Client) Revoke(ctx context.Context, uuid, reason, note string, options ...Option) (*VaultCertificate, error) {
	var notify *bool
	if notifyOf(options) == NotifyNever {
		notify = new(bool)
	}
	b, err := jsonBody(struct {
		Reason string `json:"reason"`
		Note   string `json:"note,omitempty"`
		Notify *bool  `json:"notify,omitempty"`
	}{reason, note, notify})
	if err != nil {
		return nil, err
	}
	return one[VaultCertificate](ctx, c, post(vaultPath+"/"+url.PathEscape(uuid)+"/revoke", b, options))
}

// awaitFirst and awaitMax are the first and the longest wait between two requests.
const (
	awaitFirst = 100 * time.Millisecond
	awaitMax   = 5 * time.Second
)

// Await waits until the status of a certificate is no longer Processing, a request fails, or ctx is
// done.
func (c *Client) Await(ctx context.Context, uuid string) (*VaultCertificate, error) {
	for wait := awaitFirst; ; wait = min(2*wait, awaitMax) {
		found, err := c.VaultCertificate(ctx, uuid)
		if err != nil || found.Status.Value != Processing {
			return found, err
		}
		if err := c.sleep(ctx, wait); err != nil {
			return found, fmt.Errorf("waiting for certificate %s: %w", uuid, err)
		}
	}
}

// one sends a call and returns the record in the response.
func one[T any](ctx context.Context, c *Client, k *call) (*T, error) {
	var response struct {
		Data *T `json:"data"`
	}
	if err := c.do(ctx, k, &response); err != nil {
		return nil, err
	}
	if response.Data == nil {
		return nil, fmt.Errorf("%s %s: the response has no record", k.method, k.path)
	}
	return response.Data, nil
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
