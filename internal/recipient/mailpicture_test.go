package recipient_test

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

// TestMailPicture checks that MailPicture loads the pictures of the mail about an approved certificate,
// and that it does not load the page of a revoked certificate.
func TestMailPicture(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		var logo bytes.Buffer
		if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 96, 32))); err != nil {
			t.Fatal(err)
		}
		if err := b.Accounts.SetLogo(t.Context(), b.inst.ID, logo.Bytes()); err != nil {
			t.Fatal(err)
		}
		c := b.upload(to("ada@example.org"))
		b.store(c, "original")
		b.approve(c)
		m := b.mails()[0]
		if len(m.Pictures) != 2 || m.Pictures[1].Source != "page:"+c.UUID {
			t.Fatalf("the pictures are %v, want the logo and the page of the certificate", m.Pictures)
		}
		for _, p := range m.Pictures {
			if got, err := b.MailPicture(t.Context(), p.Source); err != nil || got == nil || len(got.Content) == 0 {
				t.Errorf("the picture %s is %v, error %v, want content", p.Source, got, err)
			}
		}
		for _, want := range []string{"https://www.linkedin.com/profile/add?certId=" + c.ReferenceID, "/" + c.UUID + "/certificate.pdf", "Issued on 30 June 2026"} {
			if !strings.Contains(m.Text, want) {
				t.Errorf("the text does not contain %q: %s", want, m.Text)
			}
		}
		b.move(c, cert.Revoked)
		if got, err := b.MailPicture(t.Context(), "page:"+c.UUID); !errors.Is(err, mail.ErrNoPicture) {
			t.Errorf("the picture of a revoked certificate is %v, error %v, want mail.ErrNoPicture", got, err)
		}
		if got, err := b.MailPicture(t.Context(), "logo:999"); !errors.Is(err, mail.ErrNoPicture) {
			t.Errorf("the logo of an unknown institution is %v, error %v, want mail.ErrNoPicture", got, err)
		}
	})
}

// TestUnsentNotice checks that the status of a notice is unsent if its message was not sent.
func TestUnsentNotice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		c := b.upload(to("ada@example.org"))
		b.approve(c)
		b.finish(b.mails()[0].uuid, mail.Unsent, "")
		if got := b.statuses(c); len(got) != 1 || got[0] != "unsent" {
			t.Errorf("statuses = %v, want unsent", got)
		}
	})
}

// TestCorrectionMailInEveryLanguage checks that the longest request for a correction fits into a
// mail in every language.
func TestCorrectionMailInEveryLanguage(t *testing.T) {
	t.Parallel()
	b := open(t, dbtest.SQLite(t))
	name := strings.Repeat("𐎀", 255)
	b.Exec(`UPDATE institutions SET name = $1, contact = 'registry@example.org'`, name)
	c := b.upload(to("ada@example.org"), func(u *cert.Upload) { u.Title, u.FullName = name, name })
	for _, l := range b.Languages.Languages() {
		b.Exec(`UPDATE institutions SET mail_language = $1`, l.Tag)
		person := recipient.Person(b.user("x-"+l.Tag+"@example.org", true), name, "x@example.org")
		for _, text := range []string{strings.Repeat("𐎀", 1000), strings.Repeat(`"`, 1000)} {
			if err := b.RequestCorrection(t.Context(), person, c, text); err != nil {
				t.Fatalf("in %s: %v", l.Tag, err)
			}
			list := b.mails()
			if m := list[len(list)-1]; len(m.Text)+len(m.HTML) > 20<<10 || len(m.Pictures) > 1 || !strings.Contains(m.HTML, `<html lang="`+l.Tag+`" dir="`+l.Direction+`">`) {
				t.Errorf("in %s: the mail has %d bytes of text and %d of HTML, want at most 20 KiB, at most one picture, and this language", l.Tag, len(m.Text), len(m.HTML))
			}
		}
	}
}
