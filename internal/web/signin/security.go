package signin

import (
	"errors"
	"html/template"
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/seal"
)

// security is the page for managing the credentials of an account.
type security struct {
	Session   *identity.Session
	Sessions  []*identity.Session
	Passkeys  []identity.Passkey
	Codes     identity.Codes
	Languages []*locale.Language
	// HasPasskeys reports whether browsers support passkeys for this vault.
	HasPasskeys bool
	// Name and Email are the submitted input.
	Name, Email string
}

func (p *Pages) gather(r *http.Request) (*security, error) {
	s, _ := p.Person(r)
	d := &security{Session: s, Languages: p.view.Languages(), HasPasskeys: p.People.HasPasskeys(), Name: s.Person.Name}
	var err error
	if d.Sessions, err = p.People.Sessions(r.Context(), s.Person.ID); err != nil {
		return nil, err
	}
	if d.Passkeys, err = p.People.Passkeys(r.Context(), s.Person.ID); err != nil {
		return nil, err
	}
	if d.Codes, err = p.People.Codes(r.Context(), s.Person.ID); err != nil {
		return nil, err
	}
	return d, nil
}

func (p *Pages) security(w http.ResponseWriter, r *http.Request) error {
	d, err := p.gather(r)
	if err != nil {
		return err
	}
	return p.draw(w, r, "security.html", d)
}

// answerChange answers a form of the security page: with a notice, or with the page and its problems.
func (p *Pages) answerChange(w http.ResponseWriter, r *http.Request, notice string, err error) error {
	if err == nil {
		return p.view.Redirect(w, r, "/account/security", notice)
	}
	d, gathered := p.gather(r)
	if gathered != nil {
		return errors.Join(err, gathered)
	}
	if name := r.PostFormValue("name"); name != "" {
		d.Name = name
	}
	d.Email = r.PostFormValue("email")
	return p.again(w, r, "security.html", d, err)
}

// me returns the session of the signed-in person. Routes that call it are behind Require.
func (p *Pages) me(r *http.Request) *identity.Session {
	s, _ := p.Person(r)
	return s
}

func (p *Pages) setName(w http.ResponseWriter, r *http.Request) error {
	return p.answerChange(w, r, "name_set", p.People.SetName(r.Context(), p.me(r).Person.ID, r.PostFormValue("name")))
}

func (p *Pages) setLanguage(w http.ResponseWriter, r *http.Request) error {
	return p.answerChange(w, r, "language_set", p.People.SetLanguage(r.Context(), p.me(r).Person.ID, r.PostFormValue("language")))
}

func (p *Pages) setPassword(w http.ResponseWriter, r *http.Request) error {
	err := p.People.ChangePassword(r.Context(), p.me(r), r.PostFormValue("new_password"))
	return p.answerChange(w, r, "password_set", rename(err, "password", "new_password"))
}

func (p *Pages) askAddress(w http.ResponseWriter, r *http.Request) error {
	return p.answerChange(w, r, "address_asked", p.People.AskAddress(r.Context(), p.me(r), r.PostFormValue("email"), origin(r)))
}

func (p *Pages) addressPage(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Look(r.Context(), identity.ToChangeAddress, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	return p.draw(w, r, "address.html", linkForm{Email: proof.Email})
}

func (p *Pages) changeAddress(w http.ResponseWriter, r *http.Request) error {
	err := p.People.ChangeAddress(r.Context(), p.me(r), r.PathValue("token"))
	if errors.Is(err, identity.ErrLink) {
		return p.invalidLink(w, r, err)
	}
	return p.answerChange(w, r, "address_changed", err)
}

func (p *Pages) newPasskeyOptions(w http.ResponseWriter, r *http.Request) error {
	c, err := p.People.BeginNewPasskey(r.Context(), p.me(r).Person)
	if err != nil {
		return err
	}
	return ceremony(w, c)
}

func (p *Pages) addPasskey(w http.ResponseWriter, r *http.Request) error {
	a, err := readAnswer(r)
	if err != nil {
		return err
	}
	if err := p.People.AddPasskey(r.Context(), p.me(r).Person, a.Ceremony, a.Name, a.Response); err != nil {
		return err
	}
	p.view.Note(w, "passkey_added")
	return writeLocation(w, "/account/security")
}

// number returns the id of a row that a form names, or 0 if it is invalid.
func number(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.PostFormValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p *Pages) removePasskey(w http.ResponseWriter, r *http.Request) error {
	return p.answerChange(w, r, "passkey_removed", p.People.RemovePasskey(r.Context(), p.me(r).Person, number(r)))
}

func (p *Pages) endSession(w http.ResponseWriter, r *http.Request) error {
	return p.answerChange(w, r, "session_ended", p.People.EndSession(r.Context(), p.me(r).Person.ID, number(r)))
}

func (p *Pages) endOthers(w http.ResponseWriter, r *http.Request) error {
	s := p.me(r)
	return p.answerChange(w, r, "others_ended", p.People.EndOthers(r.Context(), s.Person.ID, s.ID))
}

// codes is the page for setting up a second factor.
type codes struct {
	identity.Enrolment

	// QRCode contains the secret for a camera.
	QRCode template.HTML
}

func (p *Pages) enrolment(r *http.Request) (codes, error) {
	e, err := p.People.Enrolment(r.Context(), p.me(r).Person)
	if err != nil {
		return codes{}, err
	}
	svg, err := seal.QRCodeSVG(e.URI)
	return codes{Enrolment: e, QRCode: template.HTML(svg)}, err //nolint:gosec // the SVG is generated here
}

func (p *Pages) beginCodes(w http.ResponseWriter, r *http.Request) error {
	if err := p.People.BeginCodes(r.Context(), p.me(r).Person); err != nil {
		return err
	}
	return p.view.Redirect(w, r, "/account/security/codes", "")
}

func (p *Pages) codesPage(w http.ResponseWriter, r *http.Request) error {
	d, err := p.enrolment(r)
	if errors.Is(err, identity.ErrNoEnrolment) {
		return p.view.Redirect(w, r, "/account/security", "")
	}
	if err != nil {
		return err
	}
	return p.draw(w, r, "codes.html", d)
}

func (p *Pages) confirmCodes(w http.ResponseWriter, r *http.Request) error {
	d, err := p.enrolment(r)
	if errors.Is(err, identity.ErrNoEnrolment) {
		return p.view.Redirect(w, r, "/account/security", "")
	}
	if err != nil {
		return err
	}
	recovery, err := p.People.ConfirmCodes(r.Context(), p.me(r), r.PostFormValue("code"), origin(r))
	if err != nil {
		return p.again(w, r, "codes.html", d, err)
	}
	return p.draw(w, r, "recovery.html", recovery)
}

func (p *Pages) newRecovery(w http.ResponseWriter, r *http.Request) error {
	recovery, err := p.People.NewRecoveryCodes(r.Context(), p.me(r).Person)
	if err != nil {
		return err
	}
	return p.draw(w, r, "recovery.html", recovery)
}

func (p *Pages) endCodes(w http.ResponseWriter, r *http.Request) error {
	return p.answerChange(w, r, "codes_off", p.People.EndCodes(r.Context(), p.me(r).Person))
}

// confirmForm is the page that asks for a confirmation of the sign-in.
type confirmForm struct {
	Person   identity.Person
	Next     string
	Passkeys bool
}

func (p *Pages) confirmForm(r *http.Request) (confirmForm, error) {
	f := confirmForm{Person: p.me(r).Person, Next: Local(r.FormValue("next"))}
	list, err := p.People.Passkeys(r.Context(), f.Person.ID)
	f.Passkeys = len(list) > 0
	return f, err
}

func (p *Pages) confirmPage(w http.ResponseWriter, r *http.Request) error {
	f, err := p.confirmForm(r)
	if err != nil {
		return err
	}
	return p.draw(w, r, "confirm.html", f)
}

func (p *Pages) confirm(w http.ResponseWriter, r *http.Request) error {
	f, err := p.confirmForm(r)
	if err != nil {
		return err
	}
	if err := p.People.Confirm(r.Context(), p.me(r), r.PostFormValue("password"), origin(r)); err != nil {
		return p.again(w, r, "confirm.html", f, err)
	}
	return p.view.Redirect(w, r, f.after(), "")
}

// after returns the target after a confirmation.
func (f *confirmForm) after() string {
	if f.Next != "" {
		return f.Next
	}
	return "/account/security"
}

// confirmLink is for a person with neither a password nor a passkey: a mailed link signs them in
// again.
func (p *Pages) confirmLink(w http.ResponseWriter, r *http.Request) error {
	f, err := p.confirmForm(r)
	if err != nil {
		return err
	}
	if err := p.People.Ask(r.Context(), identity.ToSignIn, f.Person.Email, p.view.Reader(r).Language.Tag, f.after(), origin(r)); err != nil {
		return p.again(w, r, "confirm.html", f, err)
	}
	return p.view.Redirect(w, r, to("/account/confirm", "next", f.Next), "link_sent")
}

func (p *Pages) confirmPasskey(w http.ResponseWriter, r *http.Request) error {
	a, err := readAnswer(r)
	if err != nil {
		return err
	}
	if err := p.People.ConfirmByPasskey(r.Context(), p.me(r), a.Ceremony, a.Response); err != nil {
		return err
	}
	f := confirmForm{Next: Local(a.Next)}
	return writeLocation(w, f.after())
}
