package signin

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/identity"
)

func (p *Pages) signUpPage(w http.ResponseWriter, r *http.Request) error {
	form := p.signInForm(r)
	if s, ok := p.Person(r); ok {
		return p.view.Redirect(w, r, startPage(s, form.Next), "")
	}
	return p.draw(w, r, "signup.html", form)
}

func (p *Pages) requestSignUpLink(w http.ResponseWriter, r *http.Request) error {
	return p.requestLink(w, r, identity.ToSignUp, "signup.html", "/sign-up/sent")
}

func (p *Pages) joinPage(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Proof(r.Context(), identity.ToSignUp, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	return p.draw(w, r, "join.html", linkForm{Email: proof.Email})
}

func (p *Pages) join(w http.ResponseWriter, r *http.Request) error {
	token := r.PathValue("token")
	proof, err := p.People.Proof(r.Context(), identity.ToSignUp, token)
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	form := linkForm{Email: proof.Email, Name: r.PostFormValue("name")}
	e, err := p.People.SignUp(r.Context(), token, identity.NewPerson{
		Name: form.Name, Password: r.PostFormValue("password"), Language: p.view.Reader(r).Language.Tag,
	}, origin(r))
	if errors.Is(err, identity.ErrLink) {
		return p.invalidLink(w, r, err)
	}
	if err != nil {
		return p.again(w, r, "join.html", form, err)
	}
	return p.finishSignIn(w, r, e, proof.Data)
}

func (p *Pages) resetPage(w http.ResponseWriter, r *http.Request) error {
	return p.draw(w, r, "reset.html", p.signInForm(r))
}

func (p *Pages) requestResetLink(w http.ResponseWriter, r *http.Request) error {
	return p.requestLink(w, r, identity.ToReset, "reset.html", "/reset/sent")
}

func (p *Pages) newPasswordPage(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Proof(r.Context(), identity.ToReset, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	form, err := p.newPasswordForm(r, proof)
	if err != nil {
		return err
	}
	return p.draw(w, r, "newpassword.html", form)
}

// newPasswordForm is the data of the page for a new password. It lists the passkeys of the account,
// because a person who resets the password may no longer trust all of these passkeys.
type newPasswordForm struct {
	Email    string
	Passkeys []identity.Passkey
	// Remove has the ids of the passkeys to remove.
	Remove map[int64]bool
}

func (p *Pages) newPasswordForm(r *http.Request, proof identity.Proof) (form newPasswordForm, err error) {
	form = newPasswordForm{Email: proof.Email, Remove: map[int64]bool{}}
	for _, text := range r.PostForm["remove_passkey"] {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			form.Remove[id] = true
		}
	}
	form.Passkeys, err = p.People.Passkeys(r.Context(), proof.PersonID())
	return form, err
}

func (p *Pages) newPassword(w http.ResponseWriter, r *http.Request) error {
	proof, err := p.People.Proof(r.Context(), identity.ToReset, r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	form, err := p.newPasswordForm(r, proof)
	if err != nil {
		return err
	}
	_, err = p.People.Reset(r.Context(), r.PathValue("token"), r.PostFormValue("password"), slices.Collect(maps.Keys(form.Remove))...)
	if errors.Is(err, identity.ErrLink) {
		return p.invalidLink(w, r, err)
	}
	if err != nil {
		return p.again(w, r, "newpassword.html", form, err)
	}
	clearSession(w)
	return p.view.Redirect(w, r, pathWith("/sign-in", "email", proof.Email), "password_set")
}
