package page

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/seal"
)

// Digital is the data of the template part "digital", which offers the credential of a certificate.
type Digital struct {
	// File is the path of the credential. Wallet is the path of the page that adds the credential to a
	// wallet, or "".
	File, Wallet string
	ReferenceID  string
	// Host is the host of the vault, and Institution is the name of the institution.
	Host, Institution string
}

// HostOf returns the host of an address.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// ToWallet is the data of the template part "to-wallet": the page that adds a credential to a wallet.
type ToWallet struct {
	// Path is the path of the page, and Back is the path of the page of the certificate.
	Path, Back string
	Title      string
	// Link opens the wallet on the person's device, and QRCode contains the same link. Both are empty
	// if there is no offer that can be redeemed.
	Link      template.URL
	QRCode    template.HTML
	ExpiresAt time.Time
}

// offerCookie contains the secret of a wallet offer. The vault stores only the hash of the secret.
const offerCookie = "__Host-wallet"

// StartOffer creates a wallet offer for a certificate, and stores the secret of the offer in a cookie for
// FindOffer. If the error is fault.TooMany, its message is a key of the catalog.
func StartOffer(w http.ResponseWriter, r *http.Request, s *issuer.Service, c *cert.Certificate) error {
	o, err := s.NewOffer(r.Context(), c)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.TooMany {
		translated := *e
		translated.Message = "digital.often"
		return &translated
	}
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: offerCookie, Value: o.Secret, Path: "/", MaxAge: int(issuer.OfferLife.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	return nil
}

// FindOffer adds the offer in the cookie of a request to the page, if the offer is for the certificate
// and can still be redeemed.
func (t *ToWallet) FindOffer(ctx context.Context, r *http.Request, s *issuer.Service, c *cert.Certificate) error {
	cookie, err := r.Cookie(offerCookie)
	if err != nil {
		return nil //nolint:nilerr // there is no offer
	}
	o, err := s.Offered(ctx, c.InstitutionID, cookie.Value)
	if fault.Is(err, fault.NotFound) || err == nil && o.CertificateID != c.ID {
		return nil
	}
	if err != nil {
		return err
	}
	address, err := s.OfferURL(ctx, c.InstitutionID, o)
	if err != nil {
		return err
	}
	// OpenID4VCI 1.0, 4.1.3 and 12.1.
	link := "openid-credential-offer://?credential_offer_uri=" + url.QueryEscape(address)
	svg, err := seal.QRCodeSVG(link)
	if err != nil {
		return err
	}
	t.Link, t.QRCode, t.ExpiresAt = template.URL(link), template.HTML(svg), o.ExpiresAt //nolint:gosec // both are made here
	return nil
}
