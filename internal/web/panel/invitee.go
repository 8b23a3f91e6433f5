package panel

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
)

// hashTime is the maximum time for which a request waits until it can hash a password.
const hashTime = 10 * time.Second

// inviteePage is the data of the page of an invitation. Everyone who has the link can open the
// page.
type inviteePage struct {
	Invitation *account.Invitation
	// Path is the path of the page.
	Path string
	// Yours reports whether the invited person is signed in. Other reports whether another person
	// is signed in. Known reports whether the visitor is signed out and the invited address has an
	// account.
	Yours, Other, Known bool
	Person              Person
	Name                string

	// main reports whether the invited address is the main address of the signed-in person.
	main bool
}

// invitee reads the invitation of a link, and compares the invited address with the addresses of the
// signed-in person. The error is fault.NotFound if the invitation is no longer open.
func (p *Panel) invitee(w http.ResponseWriter, r *http.Request, v *Visit) (*inviteePage, error) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	if err := web.Throttle(w, p.Limit, limit.AddressKey(web.Client(r))); err != nil {
		return nil, err
	}
	i, err := p.Invitations.BySecret(r.Context(), r.PathValue("secret"))
	if err != nil {
		return nil, err
	}
	g := &inviteePage{Invitation: i, Path: account.InvitationPath + r.PathValue("secret"), Person: v.Person}
	invited, err := account.UserByAddress(r.Context(), p.People.DB, i.Folded())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	exists := err == nil
	switch signedIn := v.Person.ID != 0; {
	case !signedIn:
		g.Known = exists
	case exists && invited.ID == v.Person.ID:
		g.Yours, g.main = true, i.For(invited.EmailFolded)
	default:
		g.Other = true
	}
	return g, nil
}

// invitation shows an invitation. It changes nothing, because mail scanners also follow links.
func (p *Panel) invitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	g, err := p.invitee(w, r, v)
	if fault.Is(err, fault.NotFound) {
		return p.view.Draw(w, r, http.StatusNotFound, "invitation_over.html", nil)
	}
	if err != nil {
		return err
	}
	return p.draw(w, r, "invitation.html", g)
}

// acceptInvitation makes the signed-in person a member. If the invited address is the person's main
// address, the same transaction verifies the address. A further address is already verified. If the
// invitation is for another person, acceptInvitation redirects to the page of the invitation.
func (p *Panel) acceptInvitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	g, err := p.invitee(w, r, v)
	if err != nil {
		return err
	}
	if !g.Yours {
		return p.view.Redirect(w, r, g.Path, "")
	}
	if err := p.People.DB.Tx(r.Context(), func(tx *db.Tx) error {
		if g.main {
			if err := p.People.VerifyAddressTx(r.Context(), tx, v.Person.ID); err != nil {
				return err
			}
		}
		_, err := p.Invitations.AcceptTx(r.Context(), tx, r.PathValue("secret"), account.Invitee{UserID: v.Person.ID, Verified: true})
		return err
	}); err != nil {
		return err
	}
	return p.view.Redirect(w, r, "/panel/"+g.Invitation.Slug, "joined")
}

// joinByInvitation creates an account for the invited address, makes the person a member, and signs the
// person in. If a person is already signed in or the address has an account, joinByInvitation redirects to
// the page of the invitation.
func (p *Panel) joinByInvitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	g, err := p.invitee(w, r, v)
	if err != nil {
		return err
	}
	if v.Person.ID != 0 || g.Known {
		return p.view.Redirect(w, r, g.Path, "")
	}
	g.Name = r.PostFormValue("name")
	entry, err := p.join(r, g)
	if err != nil {
		return p.showAgain(w, r, "invitation.html", g, err)
	}
	p.SignIn.SetSession(w, entry)
	return p.view.Redirect(w, r, "/panel/"+g.Invitation.Slug, "joined")
}

func (p *Panel) join(r *http.Request, g *inviteePage) (entry *identity.Entry, err error) {
	password := r.PostFormValue("password")
	if err := account.CheckPassword(password); err != nil {
		return nil, fault.OfField("password", err.Error())
	}
	ctx, cancel := context.WithTimeout(r.Context(), hashTime)
	defer cancel()
	hash, err := p.Accounts.HashPassword(ctx, password)
	if err != nil {
		return nil, fmt.Errorf("joining by an invitation: %w", err)
	}
	email := account.Email{Text: g.Invitation.Email, Folded: g.Invitation.Folded()}
	ctx = r.Context()
	err = p.People.DB.Tx(ctx, func(tx *db.Tx) error {
		person, err := p.People.CreateTx(ctx, tx, email, identity.NewPerson{Name: g.Name, Password: password, Language: g.Invitation.Language}, hash)
		if err != nil {
			return err
		}
		actor := audit.ActorOf(ctx)
		actor.Type, actor.ID, actor.Name = audit.User, person.UUID, person.Name
		if _, err := p.Invitations.AcceptTx(audit.WithActor(ctx, actor), tx, r.PathValue("secret"), account.Invitee{UserID: person.ID, Verified: true}); err != nil {
			return err
		}
		entry, err = p.People.EnterTx(ctx, tx, person.ID, identity.ByInvitation, p.SignIn.Origin(r))
		return err
	})
	return entry, err
}

// declineInvitation declines an invitation. The request comes from the button on the page, or from the
// one-click unsubscribe of a mail program (RFC 8058).
func (p *Panel) declineInvitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if _, err := p.invitee(w, r, v); err != nil {
		return err
	}
	if err := p.Invitations.Decline(r.Context(), r.PathValue("secret")); err != nil {
		return err
	}
	return p.draw(w, r, "invitation_declined.html", nil)
}
