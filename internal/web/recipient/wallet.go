package recipient

import (
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/web/page"
)

// walletPage returns the certificate of a request, and the data of the page that adds the certificate to
// a wallet. The error is errNoFile if the certificate is not approved.
func (p *Pages) walletPage(r *http.Request) (*holding, *page.ToWallet, error) {
	h, err := p.holdingOf(r)
	if err != nil {
		return nil, nil, err
	}
	if h.certificate.Status != cert.Approved {
		return nil, nil, errNoFile
	}
	t := &page.ToWallet{Path: h.base + "/wallet", Back: h.base, Title: h.certificate.Title}
	err = t.FindOffer(r.Context(), r, p.Issuer, h.certificate)
	return h, t, err
}

// wallet shows the page that adds a certificate to a wallet.
func (p *Pages) wallet(w http.ResponseWriter, r *http.Request) error {
	h, t, err := p.walletPage(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	return h.view.Draw(w, r, http.StatusOK, "wallet_add.html", t)
}

// offerToWallet creates a wallet offer, and redirects to the wallet page, which shows the offer.
func (p *Pages) offerToWallet(w http.ResponseWriter, r *http.Request) error {
	h, t, err := p.walletPage(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if err := page.StartOffer(w, r, p.Issuer, h.certificate); err != nil {
		return h.view.ShowAgain(w, r, "wallet_add.html", t, err)
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(t.Path), "")
}
