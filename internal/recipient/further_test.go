package recipient_test

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/recipient"
)

// addAddress adds a verified address to an account, as package identity does.
func (b *fixture) addAddress(user int64, email string) {
	b.t.Helper()
	e, err := account.ParseEmail(email)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Tx(func(tx *db.Tx) error {
		if added, err := account.AddAddressTx(b.t.Context(), tx, user, e, b.Now()); err != nil || !added {
			b.t.Fatalf("adding an address: %t, %v", added, err)
		}
		return b.ClaimTx(b.t.Context(), tx, user, e.Folded)
	})
}

// wantWallet checks how many certificates a person has.
func (b *fixture) wantWallet(user int64, want int) {
	b.t.Helper()
	w, err := b.Wallet(b.t.Context(), user, recipient.Filter{Page: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	if w.All != want {
		b.t.Errorf("the wallet has %d certificates, want %d", w.All, want)
	}
}

func TestFurtherAddressBelongsToOneWallet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		ada := b.user("ada@example.org", true)
		home, work := b.upload(), b.upload(to("ada@work.example"))
		b.approve(home, work)
		b.wantWallet(ada, 1)
		b.addAddress(ada, "ada@work.example")
		b.wantWallet(ada, 2)
		if one, other := b.get(home.UUID).CustomerID, b.get(work.UUID).CustomerID; one == 0 || one != other {
			t.Errorf("the customers are %d and %d, want the same number above 0", one, other)
		}

		// The mail about a later certificate goes to the further address. It has no mailed link, because the
		// certificate is in the account, and does not contain the main address.
		later := b.upload(to("Ada@Work.example"), titled("MSc"))
		b.approve(later)
		b.wantWallet(ada, 3)
		list := b.mails()
		if m := list[len(list)-1]; m.To.Email != "Ada@Work.example" || mailLink.MatchString(m.Text) || strings.Contains(m.Text, "ada@example.org") ||
			!strings.Contains(m.Text, "/account/certificates/"+later.UUID) {
			t.Errorf("mail = %+v, want a mail to the further address with a link to the account only", m)
		}

		// After the institution has corrected a wrong address to the further address, the link that was
		// mailed to the wrong address no longer shows the certificate.
		wrong := b.upload(to("adda@work.example"), titled("PhD"))
		b.approve(wrong)
		secret := b.link(len(b.mails()) - 1)
		if _, err := b.CorrectEmail(ctx, b.inst.ID, wrong.UUID, "ada@work.example", nil); err != nil {
			t.Fatal(err)
		}
		b.wantWallet(ada, 4)
		if l, err := b.MailLink(ctx, secret); err == nil && len(l.Certificates) > 0 {
			t.Error("the link to the wrong address still shows the certificate")
		}
		if list := b.mails(); list[len(list)-1].To.Email != "ada@work.example" {
			t.Errorf("the mail after the correction went to %s, want the new address", list[len(list)-1].To.Email)
		}

		// After the removal of the address, the person keeps the certificates, and later certificates are
		// unassigned.
		b.Tx(func(tx *db.Tx) error {
			_, err := account.RemoveAddressTx(ctx, tx, ada, "ada@work.example")
			return err
		})
		if c := b.upload(to("ada@work.example"), titled("Diploma")); c.CustomerID != 0 {
			t.Errorf("the customer after the removal is %d, want 0", c.CustomerID)
		}
		b.wantWallet(ada, 4)
	})
}
