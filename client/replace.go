package client

import (
	"context"
	"net/url"
)

// Replacement identifies a certificate that replaces, or is replaced by, another certificate.
type Replacement struct {
	UUID        string `json:"uuid"`
	ReferenceID string `json:"reference_id"`
}

// ReplacementCertificate is the input of Replace. Only File is required. If a field is nil, the value of
// the replaced certificate is used. Details and ExpiresOn may point to "", which removes the value.
type ReplacementCertificate struct {
	CertificateTitle, FullName, ApplicantEmail, IssueDate, ExpiresOn, Details *string

	File *File
}

// Replace uploads a certificate that replaces the certificate with the UUID. The status of the new
// certificate is Processing. When the new certificate is approved, the old certificate is revoked. If the
// new certificate fails, the old certificate does not change and can be replaced again. The file must differ
// from the file of the old certificate. The token needs the permissions to create and to revoke vault
// certificates.
func (c *Client) Replace(ctx context.Context, uuid string, n ReplacementCertificate, options ...Option) (*VaultCertificate, error) {
	var fields []formField
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"certificate_title", n.CertificateTitle}, {"full_name", n.FullName}, {"applicant_email", n.ApplicantEmail},
		{"issue_date", n.IssueDate}, {"expires_on", n.ExpiresOn}, {"details", n.Details},
	} {
		if f.value != nil {
			fields = append(fields, formField{f.name, *f.value})
		}
	}
	if notify := notifyOf(options); notify != "" {
		fields = append(fields, formField{"notify", notify})
	}
	b, err := newWholeFormBody(fields, formFile{"certificate_file", n.File})
	if err != nil {
		return nil, err
	}
	return one[VaultCertificate](ctx, c, post(vaultPath+"/"+url.PathEscape(uuid)+"/replace", b, options))
}
