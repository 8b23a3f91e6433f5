package search

import (
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestDuplicatesAreFoundBeforeTheUpload(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		v.force(c, cert.Approved)
		text := cert.Text{Title: " BSc Physics", FullName: "ada OBI", Email: "ADA@example.org", IssueDate: "2026-06-30"}
		same, alike, err := v.Alike(t.Context(), v.inst.ID, text, c.File.SHA256)
		if err != nil || same == nil || same.UUID != c.UUID || len(alike) != 0 {
			t.Errorf("%v, %v, %v", same, alike, err)
		}
		text.Email = "ada.obi@example.org"
		same, alike, err = v.Alike(t.Context(), v.inst.ID, text, [32]byte{})
		if err != nil || same != nil || len(alike) != 1 {
			t.Errorf("the same name and title: %v, %v, %v", same, alike, err)
		}
		text.FullName = "Bob"
		if same, alike, err = v.Alike(t.Context(), v.inst.ID, text, c.File.SHA256); err != nil || same != nil || len(alike) != 1 {
			t.Errorf("the same file: %v, %v, %v", same, alike, err)
		}
		if same, alike, err = v.Alike(t.Context(), v.institution("UTH").ID, text, c.File.SHA256); err != nil || same != nil || len(alike) != 0 {
			t.Errorf("another institution: %v, %v, %v", same, alike, err)
		}
	})
}
