package panel

import (
	"net/http"
	"net/url"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
)

// offerStates are the labels of the statuses of offers.
var offerStates = map[application.OfferStatus]status{
	application.Draft: {"offers.state_draft", "wait"}, application.Open: {"offers.state_open", "good"}, application.Closed: {"offers.state_closed", ""},
}

// offerState returns the label of the status of an offer.
func offerState(o *application.Offer) status { return offerStates[o.Status] }

// offersPage is the data of the list of offers.
type offersPage struct {
	Visit *Visit
	List  []*application.Offer
	// people are the people whom the offers name as reviewers.
	people map[int64]account.PersonName
	panel  *Panel
}

// Unreviewed reports whether an offer names reviewers, and none of them may review any more.
func (d *offersPage) Unreviewed(o *application.Offer) bool {
	return o.Unreviewed(d.people)
}

// Address returns the public address of an offer.
func (d *offersPage) Address(o *application.Offer) string { return d.panel.offerAddress(d.Visit, o) }

// offerAddress returns the address of the public page on which people apply for an offer.
func (p *Panel) offerAddress(v *Visit, o *application.Offer) string {
	return p.Links.To("/apply/" + url.PathEscape(v.Institution().Slug) + "/" + url.PathEscape(o.Slug))
}

// offers lists the offers of the institution.
func (p *Panel) offers(w http.ResponseWriter, r *http.Request, v *Visit) error {
	list, err := p.Applications.Offers(r.Context(), v.Institution().ID, "")
	if err != nil {
		return err
	}
	people, err := p.Applications.Reviewers(r.Context(), v.Institution().ID, list)
	if err != nil {
		return err
	}
	return p.draw(w, r, "offers.html", &offersPage{Visit: v, List: list, people: people, panel: p})
}

// offerOf returns the offer in the path.
func (p *Panel) offerOf(r *http.Request, v *Visit) (*application.Offer, error) {
	return p.Applications.Offer(r.Context(), v.Institution().ID, r.PathValue("offer"))
}

// setOfferStatus changes the status of an offer.
func (p *Panel) setOfferStatus(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	to := application.OfferStatus(r.PostForm.Get("status"))
	if offerStates[to].Key == "" {
		return errForm
	}
	if _, err := p.Applications.SetOfferStatus(r.Context(), v.Institution().ID, o.UUID, to); err != nil {
		d, e := p.offerForm(r, v, o)
		if e != nil {
			return e
		}
		return p.showAgain(w, r, "offer.html", d, p.texts(r).offerError(err, d))
	}
	return p.redirect(w, r, v, "offers/"+o.UUID, "offer_"+string(to))
}
