package app

import (
	"bytes"
	"errors"

	"github.com/certvault/certvault/client"
)

// driveReplacement replaces a certificate, and reads both records.
func (d *driver) driveReplacement() {
	d.Helper()
	ctx := d.Context()
	old := d.approved()
	replacement := func(name string) client.ReplacementCertificate {
		file, err := client.SeekFile("diploma.pdf", bytes.NewReader(sample(name)))
		d.must(err)
		details := ""
		return client.ReplacementCertificate{FullName: &name, Details: &details, File: file}
	}
	created, err := d.client.Replace(ctx, old.UUID, replacement("Ada King"))
	d.must(err)
	if created.Replaces == nil || created.Replaces.UUID != old.UUID || created.FullName != "Ada King" || created.Details != nil || created.CertificateTitle != old.CertificateTitle {
		d.Errorf("the replacement = %+v, want the given name, no details and the other fields of the old certificate", created)
	}
	if _, err := d.client.Replace(ctx, old.UUID, replacement("Ada Byron")); !errors.Is(err, client.ErrInvalidOperation) {
		d.Errorf("a second replacement: error = %v, want ErrInvalidOperation", err)
	}
	_, err = d.client.Await(ctx, created.UUID)
	d.must(err)
	replaced, err := d.client.VaultCertificate(ctx, old.UUID)
	d.must(err)
	if replaced.Status.Value != client.Revoked || replaced.ReplacedBy == nil || replaced.ReplacedBy.ReferenceID != created.ReferenceID {
		d.Errorf("the old certificate = %+v, want a revoked certificate with the reference id of the replacement", replaced)
	}
	if served("listCertificates") {
		general, err := d.client.Certificate(ctx, old.UUID)
		d.must(err)
		if general.ReplacedBy == nil || general.ReplacedBy.UUID != created.UUID {
			d.Errorf("the old certificate = %+v, want the UUID of the replacement", general)
		}
	}
	for id, want := range map[string]string{old.ReferenceID: "replaced", created.ReferenceID: "valid"} {
		public, err := d.client.Verify(ctx, id)
		d.must(err)
		if public.Status != want || (public.ReplacedBy != nil) != (want == "replaced") || (public.Replaces != nil) != (want == "valid") {
			d.Errorf("the public record = %+v, want the status %s and a link to the other certificate", public, want)
		}
	}
}
