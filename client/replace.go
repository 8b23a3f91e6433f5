package client

import (
	"context"
	"net/url"
)

// Replacement is another certificate of the institution.
type Replacement struct {
	UUID        string `json:"uuid"`
	ReferenceID string `json:"reference_id"`
}

// ReplacementCertificate is the input for a certificate that replaces another one. Only the file is
// required. A field that is nil gets the value of the replaced certificate. Details and ExpiresOn may point
// to "", which removes the value.
type ReplacementCertificate struct {
	CertificateTitle, FullName, ApplicantEmail, IssueDate, ExpiresOn, Details *string

	File *File
}

// Replace uploads a certificate that replaces another one. The status of the new certificate is Processing.
// When it becomes Approved, the replaced certificate is revoked at the same time. If it becomes Failed, the
// replaced certificate does not change and can be replaced again. The file must differ from that of the
// replaced certificate. The token needs the permissions to create and to revoke vault certificates.
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
