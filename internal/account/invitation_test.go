package account_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// outbox has the service for invitations, its clock and the mail that it has sent.
type outbox struct {
	*account.Invitations

	now  time.Time
	sent []mail.Message
}

func newOutbox(t *testing.T, d *db.DB) (*outbox, *crew) {
	t.Helper()
	languages, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	p := &outbox{now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
	c := newCrew(t, d, func() time.Time { return p.now }, "AAA")
	p.Invitations = account.NewInvitations(account.InvitationsConfig{
		Accounts: c.s, Languages: languages, Link: func(path string) string { return "https://vault.example.org" + path },
		Send: func(_ context.Context, _ *db.Tx, m mail.Message) (string, error) {
			p.sent = append(p.sent, m)
			return "id", nil
		},
	})
	return p, c
}

// secret returns the secret of the link in the last mail.
func (p *outbox) secret(t *testing.T) string {
	t.Helper()
	_, rest, ok := strings.Cut(p.sent[len(p.sent)-1].Text, "https://vault.example.org"+account.InvitationPath)
	if !ok {
		t.Fatalf("the mail has no link: %s", p.sent[len(p.sent)-1].Text)
	}
	secret, _, _ := strings.Cut(rest, "\n")
	if len(secret) < 26 {
		t.Fatalf("the secret %q is too short", secret)
	}
	return secret
}

// person creates a user.
func person(t *testing.T, d *db.DB, email string) (id int64) {
	t.Helper()
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(t.Context(), `INSERT INTO users (uuid, email, email_folded, name, created_at) VALUES ($1, $1, $1, $1, 0) RETURNING id`, email).Scan(&id)
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestInvitation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, c := newOutbox(t, d)
		admin := c.of[account.Admin]
		i, err := p.Invite(t.Context(), admin.UserID, c.ID, account.NewInvitation{Email: "Guest@Example.org", Role: account.Issuer, ManageWebhooks: true})
		if err != nil {
			t.Fatal(err)
		}
		m, secret := p.sent[0], p.secret(t)
		if m.To.Email != "guest@example.org" || !strings.Contains(m.Subject, "University AAA") || !strings.Contains(m.Text, "Admin invites you") ||
			!strings.Contains(m.Text, "Issuer") || !strings.Contains(m.Text, "8 March 2026") || !strings.Contains(m.HTML, secret) || !strings.HasSuffix(m.Unsubscribe, secret+"/decline") || m.Sender != "University AAA" {
			t.Errorf("the mail is %+v, want the folded address, the texts of the invitation, the link, and the sender", m)
		}
		var hash []byte
		if err := d.QueryRowContext(t.Context(), `SELECT hash FROM invitations WHERE uuid = $1`, i.UUID).Scan(&hash); err != nil || len(hash) != 32 || bytes.Contains(hash, []byte(secret[:8])) {
			t.Errorf("the stored hash is %x, error %v, want 32 bytes without the secret", hash, err)
		}
		found, err := p.BySecret(t.Context(), secret)
		if err != nil || found.Institution != "University AAA" || found.Inviter != "Admin" || !found.For("guest@example.org") {
			t.Fatalf("BySecret = %+v, error %v, want the invitation by Admin of University AAA", found, err)
		}
		guest, other := person(t, d, "guest@example.org"), person(t, d, "stranger@example.org")
		if _, err := p.Accept(t.Context(), secret, account.Invitee{UserID: other, Verified: true}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a user with another address accepts: error = %v, want fault.Forbidden", err)
		}
		if _, err := p.Accept(t.Context(), secret, account.Invitee{UserID: guest}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a user whose address is not verified accepts: error = %v, want fault.Forbidden", err)
		}
		if _, err := p.Accept(t.Context(), "guess", account.Invitee{UserID: guest, Verified: true}); !fault.Is(err, fault.NotFound) {
			t.Errorf("accepting with an unknown secret: error = %v, want fault.NotFound", err)
		}
		// Only one of several concurrent calls succeeds.
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for n := range errs {
			wg.Go(func() { _, errs[n] = p.Accept(t.Context(), secret, account.Invitee{UserID: guest, Verified: true}) })
		}
		wg.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
			} else if !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
		}
		member, err := c.s.Membership(t.Context(), guest, c.Slug)
		if err != nil || done != 1 || member.Role != account.Issuer || !member.ManageWebhooks {
			t.Errorf("%d calls succeeded, want 1; the membership is %+v, want an issuer with webhooks; error %v", done, member, err)
		}
		if list, err := p.List(t.Context(), c.ID); err != nil || len(list) != 0 {
			t.Errorf("the open invitations after the acceptance are %+v, want none; error %v", list, err)
		}
		got := fmt.Sprint(actions(t, d, c.ID)[len(account.Roles):])
		if got != "[invitation.sent invitation.accepted member.added]" {
			t.Errorf("the new entries of the audit log are %s, want the invitation, the acceptance and the new member", got)
		}
	})
}

// TestInvitationToFurtherAddress checks that a person can accept an invitation to a further address.
func TestInvitationToFurtherAddress(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	p, c := newOutbox(t, d)
	if _, err := p.Invite(t.Context(), c.of[account.Admin].UserID, c.ID, account.NewInvitation{Email: "guest@work.example", Role: account.Issuer}); err != nil {
		t.Fatal(err)
	}
	guest := person(t, d, "guest@example.org")
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := account.AddAddressTx(t.Context(), tx, guest, account.Email{Text: "guest@work.example", Folded: "guest@work.example"}, time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Accept(t.Context(), p.secret(t), account.Invitee{UserID: guest, Verified: true}); err != nil {
		t.Errorf("accepting: error = %v, want none", err)
	}
}

func TestInvitationPermissions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, c := newOutbox(t, d)
		other := newCrew(t, d, time.Now, "BBB")
		for by, member := range c.of {
			for _, as := range account.Roles {
				i, err := p.Invite(t.Context(), member.UserID, c.ID, account.NewInvitation{Email: string(by) + "-" + string(as.Role) + "@guest.example.org", Role: as.Role})
				allowed := by == account.Owner || by == account.Admin && as.Role != account.Owner
				if allowed != (err == nil) || !allowed && !fault.Is(err, fault.Forbidden) {
					t.Errorf("the role %s invites the role %s: error = %v, allowed = %v, want fault.Forbidden only if not allowed", by, as.Role, err, allowed)
				}
				if err != nil {
					continue
				}
				for name, f := range map[string]func(by, institutionID int64) error{
					"resending": func(by, id int64) error { return p.Resend(t.Context(), by, id, i.UUID) },
					"revoking":  func(by, id int64) error { return p.Revoke(t.Context(), by, id, i.UUID) },
				} {
					if err := f(other.of[account.Owner].UserID, other.ID); !fault.Is(err, fault.NotFound) {
						t.Errorf("%s as an owner of another institution: error = %v, want fault.NotFound", name, err)
					}
					if err := f(c.of[account.Developer].UserID, c.ID); !fault.Is(err, fault.Forbidden) {
						t.Errorf("%s as a developer: error = %v, want fault.Forbidden", name, err)
					}
				}
			}
		}
		if _, err := p.Invite(t.Context(), other.of[account.Owner].UserID, c.ID, account.NewInvitation{Email: "x@example.org", Role: account.Issuer}); !fault.Is(err, fault.NotFound) {
			t.Errorf("an owner of another institution invites: error = %v, want fault.NotFound", err)
		}
		for name, n := range map[string]account.NewInvitation{
			"address": {Email: "x", Role: account.Issuer}, "role": {Email: "x@example.org"}, "language": {Email: "x@example.org", Role: account.Issuer, Language: "tlh"},
			"new address (member)": {Email: "AAA-issuer@example.org", Role: account.Issuer}, "new address (invited)": {Email: "OWNER-issuer@guest.example.org", Role: account.Admin},
		} {
			if _, err := p.Invite(t.Context(), c.of[account.Owner].UserID, c.ID, n); !fault.Is(err, fault.Invalid) {
				t.Errorf("inviting with a refused %s: error = %v, want fault.Invalid", name, err)
			}
		}
	})
}

func TestClosedInvitations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, c := newOutbox(t, d)
		owner, guest := c.of[account.Owner], person(t, d, "guest@example.org")
		accept := func(secret string) error {
			_, err := p.Accept(t.Context(), secret, account.Invitee{UserID: guest, Verified: true})
			return err
		}
		refused := func(what, secret string) {
			t.Helper()
			if err := accept(secret); !fault.Is(err, fault.NotFound) {
				t.Errorf("accepting with %s: error = %v, want fault.NotFound", what, err)
			}
			if _, err := p.BySecret(t.Context(), secret); !fault.Is(err, fault.NotFound) {
				t.Errorf("reading with %s: error = %v, want fault.NotFound", what, err)
			}
		}
		invite := func() (string, string) {
			t.Helper()
			i, err := p.Invite(t.Context(), owner.UserID, c.ID, account.NewInvitation{Email: "guest@example.org", Role: account.Auditor, Language: "de"})
			if err != nil {
				t.Fatal(err)
			}
			return i.UUID, p.secret(t)
		}
		id, first := invite()
		if err := p.Resend(t.Context(), owner.UserID, c.ID, id); !fault.Is(err, fault.TooMany) {
			t.Errorf("sending twice in a minute: error = %v, want fault.TooMany", err)
		}
		p.now = p.now.Add(time.Hour)
		if err := p.Resend(t.Context(), owner.UserID, c.ID, id); err != nil {
			t.Fatal(err)
		}
		refused("the link in the previous mail", first)
		second := p.secret(t)
		if !strings.Contains(p.sent[1].Text, "Einladung ansehen") {
			t.Errorf("the second mail is not in German: %s", p.sent[1].Text)
		}
		p.now = p.now.Add(7*24*time.Hour - time.Second)
		if _, err := p.BySecret(t.Context(), second); err != nil {
			t.Errorf("reading the invitation a second before it expires: error = %v, want none", err)
		}
		p.now = p.now.Add(time.Second)
		refused("an expired link", second)
		// An expired invitation is still listed, and its address can be invited again.
		if list, err := p.List(t.Context(), c.ID); err != nil || len(list) != 1 || !list[0].Expired(p.now) {
			t.Errorf("the open invitations are %+v, error %v, want the expired one", list, err)
		}
		id, third := invite()
		if err := p.Revoke(t.Context(), owner.UserID, c.ID, id); err != nil {
			t.Fatal(err)
		}
		refused("a revoked link", third)
		if err := p.Resend(t.Context(), owner.UserID, c.ID, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("sending a revoked invitation again: error = %v, want fault.NotFound", err)
		}
		p.now = p.now.Add(time.Minute)
		_, fourth := invite()
		if err := p.Decline(t.Context(), fourth); err != nil {
			t.Fatal(err)
		}
		refused("a declined link", fourth)
		// The invitations of a removed member are revoked.
		p.now = p.now.Add(time.Minute)
		if _, err := p.Invite(t.Context(), c.of[account.Admin].UserID, c.ID, account.NewInvitation{Email: "guest@example.org", Role: account.Admin}); err != nil {
			t.Fatal(err)
		}
		if err := c.s.RemoveMember(t.Context(), owner.UserID, c.ID, c.of[account.Admin].UUID); err != nil {
			t.Fatal(err)
		}
		refused("a link from a removed member", p.secret(t))
		list, _, err := audit.New(d).List(t.Context(), c.ID, audit.Filter{Action: "invitation.declined"}, "", 10)
		if err != nil || len(list) != 1 || list[0].Actor.Name != "guest@example.org" || list[0].Actor.Type != audit.User {
			t.Errorf("the recorded entries are %+v, error %v, want one by the user guest@example.org", list, err)
		}
	})
}

// When a member gets another role, the invitations end that the member may not send with the new role.
func TestInvitationsOfDemotedMember(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		p, c := newOutbox(t, d)
		owner := c.of[account.Owner]
		second, err := c.s.AddMember(ctx, c.ID, account.NewMember{Email: "second@example.org", Name: "Second", Role: account.Owner})
		if err != nil {
			t.Fatal(err)
		}
		links := map[string]string{}
		invite := func(by int64, email string, role account.Role) {
			t.Helper()
			if _, err := p.Invite(ctx, by, c.ID, account.NewInvitation{Email: email, Role: role}); err != nil {
				t.Fatal(err)
			}
			links[email] = p.secret(t)
		}
		invite(owner.UserID, "kept@example.org", account.Owner)
		invite(second.UserID, "owner@example.org", account.Owner)
		invite(second.UserID, "admin@example.org", account.Admin)
		for _, step := range []struct {
			role  account.Role
			works string
		}{
			{account.Owner, "admin@example.org kept@example.org owner@example.org"},
			{account.Admin, "admin@example.org kept@example.org"},
			{account.Auditor, "kept@example.org"},
			{account.Owner, "kept@example.org"},
		} {
			if err := c.s.SetMember(ctx, owner.UserID, c.ID, second.UUID, step.role, true); err != nil {
				t.Fatal(err)
			}
			var works []string
			for _, email := range slices.Sorted(maps.Keys(links)) {
				if _, err := p.BySecret(ctx, links[email]); err == nil {
					works = append(works, email)
				} else if !fault.Is(err, fault.NotFound) {
					t.Fatal(err)
				}
			}
			if got := strings.Join(works, " "); got != step.works {
				t.Errorf("after the change to %s, the invitations of %s are open, want those of %s", step.role, got, step.works)
			}
		}
		back := person(t, d, "owner@example.org")
		if _, err := p.Accept(ctx, links["owner@example.org"], account.Invitee{UserID: back, Verified: true}); !fault.Is(err, fault.NotFound) {
			t.Errorf("accepting an invitation of a former owner: error = %v, want fault.NotFound", err)
		}
	})
}

// Repeated invitation and revocation must not send more than one mail a minute to an address.
func TestRevokedInvitationsCountForLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, c := newOutbox(t, d)
		owner := c.of[account.Owner].UserID
		invite := func(email string) error {
			i, err := p.Invite(t.Context(), owner, c.ID, account.NewInvitation{Email: email, Role: account.Auditor})
			if err != nil {
				return err
			}
			return p.Revoke(t.Context(), owner, c.ID, i.UUID)
		}
		if err := invite("stranger@example.org"); err != nil {
			t.Fatal(err)
		}
		for range 24 {
			if err := invite("Stranger@Example.org"); !fault.Is(err, fault.TooMany) {
				t.Fatalf("inviting again within a minute of a revoked invitation: error = %v, want fault.TooMany", err)
			}
		}
		if len(p.sent) != 1 {
			t.Errorf("%d mails were sent to the address, want 1", len(p.sent))
		}
		if err := invite("other@example.org"); err != nil {
			t.Errorf("inviting another address: error = %v, want none", err)
		}
		p.now = p.now.Add(time.Minute)
		if err := invite("stranger@example.org"); err != nil {
			t.Errorf("inviting the same address after a minute: error = %v, want none", err)
		}
	})
}

// TestInvitationMail checks the mail in each language.
func TestInvitationMail(t *testing.T) {
	t.Parallel()
	p, c := newOutbox(t, dbtest.Open(t, t.TempDir(), ""))
	for i, l := range p.Languages.Languages() {
		if _, err := p.Invite(t.Context(), c.of[account.Owner].UserID, c.ID, account.NewInvitation{
			Email: fmt.Sprintf("g%d@example.org", i), Role: account.Roles[i%len(account.Roles)].Role, Language: l.Tag,
		}); err != nil {
			t.Errorf("inviting in the language %s: %v", l.Tag, err)
			continue
		}
		m := p.sent[i]
		if len(m.Text)+len(m.HTML) > 30<<10 || strings.Contains(m.Text, "{") || strings.Contains(m.HTML, "<img") || !strings.Contains(m.HTML, `lang="`+l.Tag+`"`) {
			t.Errorf("the mail in %s is larger than 30 KiB, has a brace or an image, or lacks its language: %s", l.Tag, m.Text)
		}
	}
}

// TestMailOfInstitutionInEveryLanguage checks the mail to the owner of an institution with a long name.
func TestMailOfInstitutionInEveryLanguage(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	p, c := newOutbox(t, d)
	long := strings.Repeat("𐎀", 255)
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE institutions SET name = $1, colour = '#1a237e'`, long)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	inst, err := c.s.Institution(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Languages.Languages() {
		p.sent = nil
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			return p.MailOwnerTx(t.Context(), tx, inst, account.Person{Name: long, Email: "owner@example.org"}, long, l.Tag)
		}); err != nil {
			t.Fatal(err)
		}
		m := p.sent[0]
		if len(m.Text)+len(m.HTML) > 20<<10 || len(m.Pictures) > 1 || !strings.Contains(m.HTML, `<html lang="`+l.Tag+`" dir="`+l.Direction+`">`) || !strings.Contains(m.HTML, `bgcolor="#1a237e"`) || !strings.HasPrefix(m.Sender, "𐎀") {
			t.Errorf("in %s: the mail has %d bytes of text, %d bytes of HTML, %d pictures and the sender %q, want at most 20 KiB, at most one picture and "+
				"a sender that begins with 𐎀; the HTML must have the language, the direction %s and the colour #1a237e",
				l.Tag, len(m.Text), len(m.HTML), len(m.Pictures), m.Sender, l.Direction)
		}
	}
}
