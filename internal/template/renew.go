package template

import (
	"context"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// Renewal returns the input of the ReplaceTx method of cert.Service for the renewal of a certificate.
// The renewal is made from the published version of the template. It has the same texts, values and period
// of validity, and the current date. The function Then of the input ignores its parameter of type
// *cert.Certificate, so the caller may pass nil. The error is fault.BadRequest if the certificate is not
// from a template or its values were erased. Other errors are those of Upload.
func (s *Service) Renewal(ctx context.Context, inst *account.Institution, creator cert.Actor, uuid string) (cert.Upload, error) {
	c, err := s.certs.ByUUID(ctx, inst.ID, uuid)
	if err != nil {
		return cert.Upload{}, err
	}
	if c.Template == nil || c.Template.Values == nil {
		return cert.Upload{}, fault.New(fault.BadRequest, "This certificate is not from a template, or its values were deleted.")
	}
	t, _, err := s.ByVersion(ctx, inst.ID, c.Template.VersionID)
	if err != nil {
		return cert.Upload{}, err
	}
	values, err := ColumnsOf(c)
	if err != nil {
		return cert.Upload{}, err
	}
	if t.Published != nil { // if it is nil, Upload returns an error
		values = t.Published.Known(values)
	}
	today := cert.Today(s.now())
	until, err := c.RenewedUntil(today)
	if err != nil {
		return cert.Upload{}, err
	}
	return s.Upload(ctx, inst, creator, t.UUID, Entry{
		FullName: c.FullName, Email: c.Email, Title: c.Title, IssueDate: today, Details: c.Details, ExpiresOn: until, Values: values,
	})
}
