package search

import (
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestDuplicatesAndSimilarCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		v.force(c, cert.Approved)
		text := cert.Text{Title: " BSc Physics", FullName: "ada OBI", Email: "ADA@example.org", IssueDate: "2026-06-30"}
		same, similar, err := v.Duplicates(t.Context(), v.inst.ID, text, c.File.SHA256)
		if err != nil || same == nil || same.UUID != c.UUID || len(similar) != 0 {
			t.Errorf("text and file of a certificate: same = %v, similar = %v, err = %v, want the certificate and no similar one", same, similar, err)
		}
		text.Email = "ada.obi@example.org"
		same, similar, err = v.Duplicates(t.Context(), v.inst.ID, text, [32]byte{})
		if err != nil || same != nil || len(similar) != 1 {
			t.Errorf("another address and file: same = %v, similar = %v, err = %v, want no duplicate and one similar certificate", same, similar, err)
		}
		text.FullName = "Bob"
		if same, similar, err = v.Duplicates(t.Context(), v.inst.ID, text, c.File.SHA256); err != nil || same != nil || len(similar) != 1 {
			t.Errorf("only the same file: same = %v, similar = %v, err = %v, want no duplicate and one similar certificate", same, similar, err)
		}
		if same, similar, err = v.Duplicates(t.Context(), v.institution("UTH").ID, text, c.File.SHA256); err != nil || same != nil || len(similar) != 0 {
			t.Errorf("another institution: same = %v, similar = %v, err = %v, want no certificate", same, similar, err)
		}
	})
}
