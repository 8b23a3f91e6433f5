package api

import (
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
)

// replacement is the wire type of a link between a certificate and its replacement.
type replacement struct {
	UUID        string `json:"uuid"`
	ReferenceID string `json:"reference_id"`
}

// replacementOf returns the wire type of a link, or nil if there is no link.
func replacementOf(l *cert.Link) *replacement {
	if l == nil {
		return nil
	}
	return &replacement{UUID: l.UUID, ReferenceID: l.ReferenceID}
}

// replace creates a certificate from a file and its text fields, in place of the certificate in the
// path. Text fields that the request does not have are copied from the old certificate. If the request
// does not have the field notify, the planned time of the mail about the old certificate is kept.
//
// The route has checked the permission to create certificates. The token also needs the permission to
// revoke certificates.
func (a *API) replace(w http.ResponseWriter, c *call) error {
	if !c.token.Has(token.VaultRevoke) {
		return fault.New(fault.Forbidden, "Forbidden - Insufficient permissions")
	}
	// For an unknown record the status is 404, even if the request has other errors.
	old, err := a.findVault(c)
	if err != nil {
		return err
	}
	form, err := openUpload(w, c.Request, "certificate_file", "certificate_title", "full_name", "applicant_email", "issue_date", "details", "expires_on", notifyName)
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	err = form.receive(x, func(file *cert.File) error {
		text := old.Text()
		for name, target := range map[string]*string{
			"certificate_title": &text.Title, "full_name": &text.FullName, "applicant_email": &text.Email, "issue_date": &text.IssueDate, "details": &text.Details,
			"expires_on": &text.ExpiresOn,
		} {
			if value, given := form.values[name]; given {
				*target = value
			}
		}
		notify := cert.Notify{Kept: true}
		if value, given := form.values[notifyName]; given {
			notify = cert.ReadNotify(value)
		}
		_, err := a.Certs.Replace(c.Context(), old.UUID, cert.Upload{
			Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Context: cert.SingleUpload,
			Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details, ExpiresOn: text.ExpiresOn,
			File: file, FileProblem: form.fileProblem, Notify: notify,
			Then: x.withCertificate(http.StatusCreated, "Replacement uploaded successfully and is being processed."),
		})
		return err
	})
	return x.end(w, err)
}
