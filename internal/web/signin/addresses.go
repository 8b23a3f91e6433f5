package signin

import (
	"errors"
	"net/http"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
)

func (p *Pages) requestAddress(w http.ResponseWriter, r *http.Request) error {
	err := p.People.RequestAddress(r.Context(), p.session(r), r.PostFormValue("further"), origin(r))
	return p.finishChange(w, r, "further_asked", renameField(err, "email", "further"))
}

func (p *Pages) furtherPage(w http.ResponseWriter, r *http.Request) error {
	address, err := p.People.FurtherAddress(r.Context(), p.session(r), r.PathValue("token"))
	if err != nil {
		return p.invalidLink(w, r, err)
	}
	return p.draw(w, r, "further.html", linkForm{Email: address})
}

func (p *Pages) addAddress(w http.ResponseWriter, r *http.Request) error {
	err := p.People.AddAddress(r.Context(), p.session(r), r.PathValue("token"))
	if errors.Is(err, identity.ErrLink) {
		return p.invalidLink(w, r, err)
	}
	return p.finishChange(w, r, "further_added", err)
}

func (p *Pages) removeAddress(w http.ResponseWriter, r *http.Request) error {
	err := p.People.RemoveAddress(r.Context(), p.session(r), r.PostFormValue("address"))
	if fault.Is(err, fault.NotFound) {
		err = nil // the form was submitted twice
	}
	return p.finishChange(w, r, "further_removed", err)
}
