package public

import (
	"net/http"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// Digital returns the data of the part of the page that offers the credential, or nil if the public may not
// download the credential.
func (v *verification) Digital() *page.Digital {
	if !v.Downloadable() {
		return nil
	}
	path := "/verify/" + v.ReferenceID
	return &page.Digital{File: path + "/credential", Wallet: path + "/wallet", ReferenceID: v.ReferenceID, Host: page.HostOf(v.URL), Institution: v.Profile.Issuer()}
}

// downloadable returns the certificate of a request. The error is errNoFile if the public may not download
// the file of the certificate.
func (p *Pages) downloadable(r *http.Request) (*verification, error) {
	v, err := p.find(r.Context(), r.PathValue("reference_id"))
	if fault.Is(err, fault.NotFound) || err == nil && !v.Downloadable() {
		return nil, errNoFile
	}
	return v, err
}

// credential writes the credential of a certificate. The institution must permit downloads, because
// the credential shows what the file shows.
func (p *Pages) credential(w http.ResponseWriter, r *http.Request) error {
	v, err := p.downloadable(r)
	if err != nil {
		return err
	}
	return web.SendCredential(w, r, p.Issuer, v.certificate)
}

// walletPage returns the certificate of a request, and the data of the page that adds the certificate to
// a wallet.
func (p *Pages) walletPage(r *http.Request) (*verification, *page.ToWallet, error) {
	v, err := p.downloadable(r)
	if err != nil {
		return nil, nil, err
	}
	path := "/verify/" + v.ReferenceID
	t := &page.ToWallet{Path: path + "/wallet", Back: path, Title: v.certificate.Title}
	err = t.FindOffer(r.Context(), r, p.Issuer, v.certificate)
	return v, t, err
}

// wallet shows the page that adds a certificate to a wallet. Anyone can open the page, but the code that
// the wallet requires is mailed to the recipient.
func (p *Pages) wallet(w http.ResponseWriter, r *http.Request) error {
	noStore(w)
	_, t, err := p.walletPage(r)
	if err != nil {
		return err
	}
	return p.view.Draw(w, r, http.StatusOK, "wallet_add.html", t)
}

// offerToWallet creates a wallet offer, and redirects to the page, which shows the offer.
func (p *Pages) offerToWallet(w http.ResponseWriter, r *http.Request) error {
	noStore(w)
	v, t, err := p.walletPage(r)
	if err != nil {
		return err
	}
	if err := page.StartOffer(w, r, p.Issuer, v.certificate); err != nil {
		return p.view.ShowAgain(w, r, "wallet_add.html", t, err)
	}
	return p.view.Redirect(w, r, p.view.Reader(r).Link(t.Path), "")
}
