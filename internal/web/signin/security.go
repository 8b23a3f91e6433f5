package signin

import (
	"errors"
	"html/template"
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/seal"
)

// security is the data of the page for managing the sign-in to an account.
type security struct {
	Session   *identity.Session
	Sessions  []*identity.Session
	Passkeys  []identity.Passkey
	Codes     identity.SecondFactor
	Languages []*locale.Language
	// Addresses are the further addresses of the account.
	Addresses []account.Address
	// PasskeysSupported reports whether browsers support passkeys for this vault.
	PasskeysSupported bool
	// Name is the person's name or the submitted name. Email is the submitted new main address, and
	// Further the submitted further address.
	Name, Email, Further string
}

func (p *Pages) securityData(r *http.Request) (*security, error) {
	s, _ := p.Person(r)
	d := &security{Session: s, Languages: p.view.Languages(), PasskeysSupported: p.People.HasPasskeys(), Name: s.Person.Name}
	var err error
	if d.Sessions, err = p.People.Sessions(r.Context(), s.Person.ID); err != nil {
		return nil, err
	}
	if d.Addresses, err = p.People.Addresses(r.Context(), s.Person.ID); err != nil {
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
	d, err := p.securityData(r)
	if err != nil {
		return err
	}
	return p.draw(w, r, "security.html", d)
}

// finishChange responds to a form of the security page: with a redirect and a notice, or with the
// page and its problems.
func (p *Pages) finishChange(w http.ResponseWriter, r *http.Request, notice string, err error) error {
	if err == nil {
		return p.view.Redirect(w, r, "/account/security", notice)
	}
	d, dataErr := p.securityData(r)
	if dataErr != nil {
		return errors.Join(err, dataErr)
	}
	if name := r.PostFormValue("name"); name != "" {
		d.Name = name
	}
	d.Email, d.Further = r.PostFormValue("email"), r.PostFormValue("further")
	return p.again(w, r, "security.html", d, err)
}

// session returns the session of the signed-in person. All routes that call session use Require.
func (p *Pages) session(r *http.Request) *identity.Session {
	s, _ := p.Person(r)
	return s
}

func (p *Pages) setName(w http.ResponseWriter, r *http.Request) error {
	return p.finishChange(w, r, "name_set", p.People.SetName(r.Context(), p.session(r).Person.ID, r.PostFormValue("name")))
}

func (p *Pages) setLanguage(w http.ResponseWriter, r *http.Request) error {
	return p.finishChange(w, r, "language_set", p.People.SetLanguage(r.Context(), p.session(r).Person.ID, r.PostFormValue("language")))
}

func (p *Pages) setPassword(w http.ResponseWriter, r *http.Request) error {
	err := p.People.ChangePassword(r.Context(), p.session(r), r.PostFormValue("new_password"))
	return p.finishChange(w, r, "password_set", renameField(err, "password", "new_password"))
}

func (p *Pages) requestAddressChange(w http.ResponseWriter, r *http.Request) error {
	return p.finishChange(w, r, "address_asked", p.People.RequestAddressChange(r.Context(), p.session(r), r.PostFormValue("email"), origin(r)))
}

func (p *Pages) addressPage(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Proof(r.Context(), identity.ToChangeAddress, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	return p.draw(w, r, "address.html", linkForm{Email: proof.Email})
}

func (p *Pages) changeAddress(w http.ResponseWriter, r *http.Request) error {
	err := p.People.ChangeAddress(r.Context(), p.session(r), r.PathValue("token"))
	if errors.Is(err, identity.ErrLink) {
		return p.invalidLink(w, r, err)
	}
	return p.finishChange(w, r, "address_changed", err)
}

func (p *Pages) newPasskeyOptions(w http.ResponseWriter, r *http.Request) error {
	c, err := p.People.BeginNewPasskey(r.Context(), p.session(r).Person)
	if err != nil {
		return err
	}
	return ceremony(w, c)
}

func (p *Pages) addPasskey(w http.ResponseWriter, r *http.Request) error {
	resp, err := readPasskeyResponse(r)
	if err != nil {
		return err
	}
	if err := p.People.AddPasskey(r.Context(), p.session(r), resp.Ceremony, resp.Name, resp.Response); err != nil {
		return err
	}
	p.view.Note(w, "passkey_added")
	return writeLocation(w, "/account/security")
}

// formID returns the id in a form, or 0 if it is invalid.
func formID(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.PostFormValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p *Pages) removePasskey(w http.ResponseWriter, r *http.Request) error {
	return p.finishChange(w, r, "passkey_removed", p.People.RemovePasskey(r.Context(), p.session(r), formID(r)))
}

func (p *Pages) endSession(w http.ResponseWriter, r *http.Request) error {
	return p.finishChange(w, r, "session_ended", p.People.EndSession(r.Context(), p.session(r).Person.ID, formID(r)))
}

func (p *Pages) endOthers(w http.ResponseWriter, r *http.Request) error {
	s := p.session(r)
	return p.finishChange(w, r, "others_ended", p.People.EndOthers(r.Context(), s.Person.ID, s.ID))
}

// codes is the data of the page for setting up a second factor.
type codes struct {
	identity.Enrolment

	// QRCode is a QR code with the secret as SVG, for the camera of a phone.
	QRCode template.HTML
}

func (p *Pages) enrolment(r *http.Request) (codes, error) {
	e, err := p.People.Enrolment(r.Context(), p.session(r).Person)
	if err != nil {
		return codes{}, err
	}
	svg, err := seal.QRCodeSVG(e.URI)
	return codes{Enrolment: e, QRCode: template.HTML(svg)}, err //nolint:gosec // the SVG is generated here
}

func (p *Pages) beginCodes(w http.ResponseWriter, r *http.Request) error {
	if err := p.People.BeginCodes(r.Context(), p.session(r)); err != nil {
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
	recovery, err := p.People.ConfirmCodes(r.Context(), p.session(r), r.PostFormValue("code"), origin(r))
	if err != nil {
		return p.again(w, r, "codes.html", d, err)
	}
	return p.draw(w, r, "recovery.html", recovery)
}

func (p *Pages) newRecovery(w http.ResponseWriter, r *http.Request) error {
	recovery, err := p.People.NewRecoveryCodes(r.Context(), p.session(r))
	if err != nil {
		return err
	}
	return p.draw(w, r, "recovery.html", recovery)
}

func (p *Pages) endCodes(w http.ResponseWriter, r *http.Request) error {
	return p.finishChange(w, r, "codes_off", p.People.EndCodes(r.Context(), p.session(r)))
}

// confirmForm is the data of the page that requires a confirmation of the sign-in.
type confirmForm struct {
	Person   identity.Person
	Next     string
	Passkeys bool
}

func (p *Pages) confirmForm(r *http.Request) (confirmForm, error) {
	f := confirmForm{Person: p.session(r).Person, Next: Local(r.FormValue("next"))}
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
	if err := p.People.Confirm(r.Context(), p.session(r), r.PostFormValue("password"), origin(r)); err != nil {
		return p.again(w, r, "confirm.html", f, err)
	}
	return p.view.Redirect(w, r, f.target(), "")
}

// target returns the address of the page to open after a confirmation.
func (f *confirmForm) target() string {
	if f.Next != "" {
		return f.Next
	}
	return "/account/security"
}

// confirmLink mails a link that signs the person in again. The confirmation page has the form for the
// link only if the person has no password.
func (p *Pages) confirmLink(w http.ResponseWriter, r *http.Request) error {
	f, err := p.confirmForm(r)
	if err != nil {
		return err
	}
	if err := p.People.RequestLink(r.Context(), identity.ToSignIn, f.Person.Email, p.view.Reader(r).Language.Tag, f.target(), origin(r)); err != nil {
		return p.again(w, r, "confirm.html", f, err)
	}
	return p.view.Redirect(w, r, pathWith("/account/confirm", "next", f.Next), "link_sent")
}

func (p *Pages) confirmPasskey(w http.ResponseWriter, r *http.Request) error {
	resp, err := readPasskeyResponse(r)
	if err != nil {
		return err
	}
	if err := p.People.ConfirmByPasskey(r.Context(), p.session(r), resp.Ceremony, resp.Response); err != nil {
		return err
	}
	f := confirmForm{Next: Local(resp.Next)}
	return writeLocation(w, f.target())
}
