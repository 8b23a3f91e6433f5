package signin

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

// signInForm is the data of the forms for signing in, entering a code, signing up and resetting a
// password. A form that is shown again has the submitted input.
type signInForm struct {
	Email, Next string
	Passkeys    bool
}

func (p *Pages) signInForm(r *http.Request) signInForm {
	return signInForm{Email: r.FormValue("email"), Next: Local(r.FormValue("next")), Passkeys: p.People.HasPasskeys()}
}

func (p *Pages) signInPage(w http.ResponseWriter, r *http.Request) error {
	form := p.signInForm(r)
	if s, ok := p.Person(r); ok {
		return p.view.Redirect(w, r, startPage(s, form.Next), "")
	}
	return p.draw(w, r, "signin.html", form)
}

func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) error {
	form := p.signInForm(r)
	e, err := p.People.SignIn(r.Context(), form.Email, r.PostFormValue("password"), origin(r))
	if err != nil {
		return p.again(w, r, "signin.html", form, err)
	}
	return p.finishSignIn(w, r, e, form.Next)
}

// finishSignIn sets the cookies of a session. It redirects to the page for the second factor if the
// session waits for a code, or else to the start page: next, or the person's first page.
func (p *Pages) finishSignIn(w http.ResponseWriter, r *http.Request, e *identity.Entry, next string) error {
	p.SetSession(w, e)
	if e.Session.Pending {
		return p.view.Redirect(w, r, pathWith("/sign-in/code", "next", Local(next)), "")
	}
	return p.view.Redirect(w, r, startPage(&e.Session, next), "")
}

// requestLink requests a mailed link and redirects to the path sent. The response does not reveal
// whether a link was mailed.
func (p *Pages) requestLink(w http.ResponseWriter, r *http.Request, purpose identity.Purpose, form, sent string) error {
	data := p.signInForm(r)
	err := p.People.RequestLink(r.Context(), purpose, data.Email, p.view.Reader(r).Language.Tag, data.Next, origin(r))
	if err != nil {
		return p.again(w, r, form, data, err)
	}
	return p.view.Redirect(w, r, p.view.Reader(r).Link(sent), "")
}

func (p *Pages) requestSignInLink(w http.ResponseWriter, r *http.Request) error {
	return p.requestLink(w, r, identity.ToSignIn, "signin.html", "/sign-in/sent")
}

// sentPage asks the person to check the mailbox. The page does not show the e-mail address.
func (p *Pages) sentPage(w http.ResponseWriter, r *http.Request) error {
	return p.draw(w, r, "sent.html", r.URL.Path)
}

// linkForm is the data of the pages that most mailed links open.
type linkForm struct {
	Email, Name string
}

func (p *Pages) linkPage(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Proof(r.Context(), identity.ToSignIn, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	return p.draw(w, r, "link.html", linkForm{Email: proof.Email})
}

// invalidLink shows the page for a link that is not valid if err is identity.ErrLink. It returns any
// other error.
func (p *Pages) invalidLink(w http.ResponseWriter, r *http.Request, err error) error {
	if !errors.Is(err, identity.ErrLink) {
		return err
	}
	return p.view.Draw(w, r, http.StatusNotFound, "stale.html", nil)
}

func (p *Pages) useLink(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Proof(r.Context(), identity.ToSignIn, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	e, err := p.People.SignInByLink(r.Context(), r.PathValue("token"), origin(r))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	return p.finishSignIn(w, r, e, proof.Data)
}

func (p *Pages) codePage(w http.ResponseWriter, r *http.Request) error {
	if _, err := p.People.Pending(r.Context(), origin(r)); err != nil {
		return p.notPending(w, r, err)
	}
	return p.draw(w, r, "code.html", p.signInForm(r))
}

func (p *Pages) code(w http.ResponseWriter, r *http.Request) error {
	form := p.signInForm(r)
	e, err := p.People.Code(r.Context(), r.PostFormValue("code"), origin(r))
	if errors.Is(err, identity.ErrNoSession) {
		return p.notPending(w, r, err)
	}
	if err != nil {
		return p.again(w, r, "code.html", form, err)
	}
	return p.finishSignIn(w, r, e, form.Next)
}

// notPending redirects to the sign-in page if err is identity.ErrNoSession, because no session waits for
// a second factor. It returns any other error.
func (p *Pages) notPending(w http.ResponseWriter, r *http.Request, err error) error {
	if !errors.Is(err, identity.ErrNoSession) {
		return err
	}
	return p.view.Redirect(w, r, pathWith("/sign-in", "next", Local(r.FormValue("next"))), "")
}

func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := p.People.SignOut(r.Context(), origin(r)); err != nil {
		return err
	}
	clearSession(w)
	return p.view.Redirect(w, r, p.view.Reader(r).Link("/sign-in"), "signed_out")
}

// passkeyResponse is the response of a passkey, as signin.js sends it.
type passkeyResponse struct {
	Ceremony string          `json:"ceremony"`
	Response json.RawMessage `json:"response"`
	Next     string          `json:"next"`
	Name     string          `json:"name"`
}

func readPasskeyResponse(r *http.Request) (resp passkeyResponse, err error) {
	if err := json.NewDecoder(r.Body).Decode(&resp); err != nil {
		return passkeyResponse{}, body.BadForm(err)
	}
	return resp, nil
}

// ceremony writes the secret of a ceremony and the options for the browser's authenticator.
func ceremony(w http.ResponseWriter, c *identity.Ceremony) error {
	return web.WriteJSON(w, http.StatusOK, map[string]any{"ceremony": c.Secret, "options": c.Options})
}

func (p *Pages) passkeyOptions(w http.ResponseWriter, r *http.Request) error {
	c, err := p.People.BeginPasskey(r.Context())
	if err != nil {
		return err
	}
	return ceremony(w, c)
}

func (p *Pages) passkey(w http.ResponseWriter, r *http.Request) error {
	resp, err := readPasskeyResponse(r)
	if err != nil {
		return err
	}
	e, err := p.People.SignInByPasskey(r.Context(), resp.Ceremony, resp.Response, origin(r))
	if err != nil {
		return err
	}
	p.SetSession(w, e)
	return writeLocation(w, startPage(&e.Session, resp.Next))
}

// writeLocation writes the address of the page that signin.js must open.
func writeLocation(w http.ResponseWriter, address string) error {
	return web.WriteJSON(w, http.StatusOK, map[string]string{"location": address})
}
