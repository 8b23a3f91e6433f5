package app

import (
	"bytes"
	"time"

	"github.com/certvault/certvault/client"
)

// driveExpiry checks the records of a certificate that has expired and of a certificate that expires soon,
// and emits their events.
func (d *driver) driveExpiry() {
	d.Helper()
	ctx := d.Context()
	expiring := func(title string, days int) *client.VaultCertificate {
		file, err := client.SeekFile("diploma.pdf", bytes.NewReader(sample("Ada Lovelace")))
		d.must(err)
		created, err := d.client.Upload(ctx, client.NewCertificate{
			CertificateTitle: title, FullName: "Ada Lovelace", ApplicantEmail: "ada@example.org", IssueDate: "2020-01-01",
			ExpiresOn: time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly), File: file,
		})
		d.must(err)
		c, err := d.client.Await(ctx, created.UUID)
		d.must(err)
		return c
	}
	for title, want := range map[string]struct {
		days   int
		status string
	}{"Licence that has expired": {-1, "expired"}, "Licence that expires soon": {10, "valid"}} {
		c := expiring(title, want.days)
		if c.ExpiresOn == nil || c.Expired != (want.status == "expired") || c.Status.Value != client.Approved {
			d.Errorf("%s: the record is %+v, want an approved certificate with a date, expired = %v", title, c, want.status == "expired")
		}
		public, err := d.client.Verify(ctx, c.ReferenceID)
		d.must(err)
		if public.Status != want.status || public.ExpiresOn == nil {
			d.Errorf("%s: the public record is %+v, want the status %s and the date", title, public, want.status)
		}
	}
	d.must(d.app.Certs.SweepExpiries(ctx)) // emits the events
}
