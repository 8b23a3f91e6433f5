package public

import (
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// maxExcerpt is the maximum number of characters of a description in the list of offers.
const maxExcerpt = 160

// offersPage is the data of the list of the open offers of an institution, and of the page of one offer.
type offersPage struct {
	Profile *account.PublicProfile
	Offers  []*application.Offer
	Offer   *application.Offer
}

// Path returns the path of the list of offers.
func (o *offersPage) Path() string { return "/apply/" + o.Profile.Slug }

// Begin returns the path of the form of the offer, which requires a sign-in.
func (o *offersPage) Begin() string { return "/account/apply/" + o.Profile.Slug + "/" + o.Offer.Slug }

// Excerpt returns the beginning of the description of an offer, on one line.
func (*offersPage) Excerpt(f *application.Offer) string {
	text := strings.Join(strings.Fields(f.Description), " ")
	if runes := []rune(text); len(runes) > maxExcerpt {
		text = strings.TrimSpace(string(runes[:maxExcerpt])) + "…"
	}
	return text
}

// Uploads reports whether the offer asks for files.
func (o *offersPage) Uploads() bool {
	for _, f := range o.Offer.Fields {
		if f.Type == application.Upload {
			return true
		}
	}
	return false
}

// Megabytes returns the maximum size of a file in units of 2^20 bytes.
func (*offersPage) Megabytes() int { return cert.MaxFile >> 20 }

// offersPage returns the data of the page of the institution in the path. The error is page.ErrUnknown if
// there is no such institution. If the offer in the path is not open, offersPage returns the data without
// an offer and an error of the kind fault.NotFound.
func (p *Pages) offersPage(r *http.Request) (*offersPage, error) {
	inst, err := p.Accounts.InstitutionBySlug(r.Context(), r.PathValue("institution"))
	if fault.Is(err, fault.NotFound) {
		return nil, page.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	if err := web.CheckSlug(r.PathValue("institution"), inst.Slug); err != nil {
		return nil, err
	}
	o := &offersPage{}
	if o.Profile, err = p.Accounts.PublicProfile(r.Context(), inst.ID); err != nil {
		return nil, err
	}
	if slug := r.PathValue("offer"); slug != "" {
		o.Offer, err = p.Applications.OpenOffer(r.Context(), inst.ID, slug)
	} else {
		o.Offers, err = p.Applications.OpenOffers(r.Context(), inst.ID)
	}
	return o, err
}

// offers lists the open offers of an institution.
func (p *Pages) offers(w http.ResponseWriter, r *http.Request) error {
	o, err := p.offersPage(r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	return p.view.Draw(w, r, http.StatusOK, "offers.html", o)
}

// offer shows an open offer, or a page with a link to the list of offers if the offer is not open.
func (p *Pages) offer(w http.ResponseWriter, r *http.Request) error {
	o, err := p.offersPage(r)
	w.Header().Set("Cache-Control", "no-cache")
	if o != nil && fault.Is(err, fault.NotFound) && !page.WantsJSON(r) {
		return p.view.Draw(w, r, http.StatusNotFound, "offer_closed.html", o)
	}
	if err != nil {
		return err
	}
	return p.view.Draw(w, r, http.StatusOK, "offer.html", o)
}
