package recipient

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// Verdicts about a certificate. They are also class names in the style sheet.
const (
	valid     = "valid"
	revoked   = "revoked"
	replaced  = "replaced"
	expired   = "expired"
	damaged   = "damaged"
	unchecked = "unchecked"
)

// certificateView is a certificate as pages show it.
type certificateView struct {
	*cert.Certificate

	// Base is the path prefix of the certificate's files.
	Base    string
	Profile *account.PublicProfile
	// Verdict combines the record and the checks, as on public pages.
	Verdict string
	// FileRan and SignatureRan report whether the checks of the file and of the signature ran.
	FileRan, SignatureRan bool
	// Approved and Withdrawn are the times of approval and revocation in RFC 3339, or nil.
	Approved, Withdrawn *string
	VerifyURL, LinkedIn string
	// ForOthers reports whether the page is for people other than the recipient. Such a page does
	// not show the details, because the institution wrote the details for the recipient.
	ForOthers bool
}

// Downloadable reports whether the files of the certificate can be downloaded.
func (s *certificateView) Downloadable() bool { return s.Status == cert.Approved && s.Verified != nil }

// Badge returns the badge of the certificate for other websites.
func (s *certificateView) Badge() *page.Badge {
	return &page.Badge{ReferenceID: s.ReferenceID, Address: s.VerifyURL}
}

// Digital returns the data of the part of the page that offers the credential, or nil if the files of the
// certificate cannot be downloaded.
func (s *certificateView) Digital() *page.Digital {
	if !s.Downloadable() {
		return nil
	}
	return &page.Digital{
		File: s.Base + "/credential", Wallet: s.Base + "/wallet", ReferenceID: s.ReferenceID, Host: page.HostOf(s.VerifyURL), Institution: s.Profile.Issuer(),
	}
}

// Band returns the institution's colour for a valid certificate, or nil for any other certificate.
func (s *certificateView) Band() *colour.Brand {
	if s.Verdict != valid {
		return nil
	}
	return s.Profile.Brand()
}

// certificateView returns the view of an approved or revoked certificate, or errNoLink for any
// other certificate.
func (p *Pages) certificateView(ctx context.Context, c *cert.Certificate, base string) (*certificateView, error) {
	profile, err := p.Accounts.PublicProfile(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	checks, err := p.Certs.Checks(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &certificateView{
		Certificate: c, Base: base, Profile: profile, Verdict: valid, Approved: web.Timestamp(c.ApprovedAt), Withdrawn: web.Timestamp(c.RevokedAt),
		VerifyURL: p.Links.Verify(c.ReferenceID),
	}
	for _, k := range checks {
		ran := k.Result != cert.NotRun
		switch k.Name {
		case cert.CheckFile:
			s.FileRan = ran
		case cert.CheckSignature:
			s.SignatureRan = ran
		}
		switch {
		case k.Result == cert.FailedCheck:
			s.Verdict = damaged
		case !ran && s.Verdict == valid:
			s.Verdict = unchecked
		}
	}
	switch c.Status {
	case cert.Approved:
		if p.Certs.HasExpired(c) {
			s.Verdict = expired
		}
	case cert.Revoked:
		s.Verdict = revoked
		if c.Replaced() {
			s.Verdict = replaced
		}
	default:
		return nil, errNoLink
	}
	s.LinkedIn = profile.AddToLinkedIn(c.Title, c.IssueDate, c.ExpiresOn, s.VerifyURL, c.ReferenceID)
	return s, nil
}

// errNoLink is the error for a link that opens no certificate. Its text does not reveal the reason.
var errNoLink = fault.New(fault.NotFound, "There is no such link.")

// holding is a certificate with its holder: the person who opened a mailed link, or the signed-in
// person.
type holding struct {
	view        *page.Set
	holder      recipient.Holder
	certificate *cert.Certificate
	base        string
	// link is nil in an account.
	link *recipient.MailLink
}

// holdingOf returns the certificate of a request with its holder.
func (p *Pages) holdingOf(r *http.Request) (*holding, error) {
	id := r.PathValue("uuid")
	if token := r.PathValue("token"); token != "" {
		l, err := p.Recipients.MailLink(r.Context(), token)
		if err != nil {
			return nil, err
		}
		c, err := l.Certificate(id)
		if err != nil {
			return nil, err
		}
		return &holding{view: p.secret, holder: l.Holder(), certificate: c, base: "/c/" + token + "/" + c.UUID, link: l}, nil
	}
	s, ok := p.Gate.Person(r)
	if !ok {
		return nil, errNoLink
	}
	c, err := p.Recipients.Certificate(r.Context(), s.Person.ID, id)
	if err != nil {
		return nil, err
	}
	return &holding{
		view: p.signedIn, holder: recipient.Person(s.Person.ID, s.Person.Name, s.Person.Email), certificate: c, base: "/account/certificates/" + c.UUID,
	}, nil
}

// holderPage is the data of the page of a certificate for its holder.
type holderPage struct {
	*certificateView

	Shares []*recipient.Share
	// NewLink is a share link that was just created; it is shown only once.
	NewLink string
	// Label, Expires, Text and Public are the input of a form that is shown again.
	Label, Expires, Text string
	Public               bool
	Today                string
	// Account reports whether the page is part of an account. Invite and More are not set in an
	// account. Invite asks a visitor without a session to create an account. More is the path of the
	// page that lists the certificates of the mail, or "" if there is only one.
	Account bool
	Invite  *invitation
	More    string
	// Verifications are the numbers of verifications of the certificate.
	Verifications verification.Numbers
	// Mailed reports whether a mailed link opens the certificate too. It is set only on the page of
	// an account.
	Mailed bool
}

// invitation asks the holder of a mailed link to sign up or to sign in.
type invitation struct {
	Email string
	// Claimed reports whether all certificates on the page already belong to an account. Signing up
	// would then not add them to another account.
	Claimed bool
}

// invitation returns the invitation on a page with the given certificates, or nil for a signed-in
// person.
func (p *Pages) invitation(r *http.Request, email string, certificates ...*cert.Certificate) *invitation {
	if _, signedIn := p.Gate.Person(r); signedIn {
		return nil
	}
	unclaimed := func(c *cert.Certificate) bool { return c.CustomerID == 0 }
	return &invitation{Email: email, Claimed: !slices.ContainsFunc(certificates, unclaimed)}
}

// page returns the data of the page of a certificate for its holder.
func (p *Pages) page(r *http.Request, h *holding) (*holderPage, error) {
	s, err := p.certificateView(r.Context(), h.certificate, h.base)
	if err != nil {
		return nil, err
	}
	o := &holderPage{certificateView: s, Today: p.Now().UTC().Format(time.DateOnly), Account: h.link == nil}
	if o.Shares, err = p.Recipients.Shares(r.Context(), h.certificate); err != nil {
		return nil, err
	}
	if o.Verifications, err = p.Verifications.Of(r.Context(), h.certificate.InstitutionID, h.certificate.ID); err != nil {
		return nil, err
	}
	if o.Account {
		if o.Mailed, err = p.Recipients.HasMailLink(r.Context(), h.certificate); err != nil {
			return nil, err
		}
	}
	if h.link != nil {
		o.Invite = p.invitation(r, h.link.Email, h.certificate)
		if len(h.link.Certificates) > 1 {
			o.More = "/c/" + r.PathValue("token")
		}
	}
	return o, nil
}

// certificate shows a certificate to its holder.
func (p *Pages) certificate(w http.ResponseWriter, r *http.Request) error {
	h, err := p.holdingOf(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if s, ok := p.Gate.Person(r); ok && h.link == nil {
		next, err := p.Recipients.Successor(r.Context(), s.Person.ID, h.certificate)
		if err != nil {
			return err
		}
		if next != nil {
			return h.view.Redirect(w, r, h.view.Reader(r).Link("/account/certificates/"+next.UUID), "replaced")
		}
	}
	o, err := p.page(r, h)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if o.NewLink, err = p.newLink(w, r, h.certificate); err != nil {
		return err
	}
	return h.view.Draw(w, r, http.StatusOK, "certificate.html", o)
}

// notFound shows the page for a link that does not work, or for an address below /account that does not
// exist. If err is not fault.NotFound or the client prefers JSON, notFound returns err.
func (p *Pages) notFound(w http.ResponseWriter, r *http.Request, err error) error {
	if !fault.Is(err, fault.NotFound) || page.WantsJSON(r) {
		return err
	}
	view, byLink := p.signedIn, false
	if r.PathValue("token") != "" || r.PathValue("slug") != "" {
		view, byLink = p.secret, true
	}
	return view.Draw(w, r, http.StatusNotFound, "nothing.html", byLink)
}

// bundle is the data of the page of a mailed link to several certificates.
type bundle struct {
	Base         string
	Institution  string
	Brand        *colour.Brand
	Certificates []*cert.Certificate
	// More reports whether the mail had more certificates than the page shows.
	More   bool
	Invite *invitation
}

// link shows the certificate of a mailed link, or a list if the link opens several certificates.
func (p *Pages) link(w http.ResponseWriter, r *http.Request) error {
	l, err := p.Recipients.MailLink(r.Context(), r.PathValue("token"))
	if err != nil {
		return p.notFound(w, r, err)
	}
	if len(l.Certificates) == 1 {
		r.SetPathValue("uuid", l.Certificates[0].UUID)
		return p.certificate(w, r)
	}
	profile, err := p.Accounts.PublicProfile(r.Context(), l.InstitutionID)
	if err != nil {
		return err
	}
	b := bundle{
		Base: "/c/" + r.PathValue("token"), Institution: profile.Name, Brand: profile.Brand(), Certificates: l.Certificates, More: l.More,
		Invite: p.invitation(r, l.Email, l.Certificates...),
	}
	return p.secret.Draw(w, r, http.StatusOK, "bundle.html", b)
}

func (p *Pages) createShare(w http.ResponseWriter, r *http.Request) error {
	h, err := p.holdingOf(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	n := recipient.NewShare{Label: r.PostFormValue("label"), Public: r.PostFormValue("listed") == "public", Expires: r.PostFormValue("expires")}
	secret, _, actionErr := p.Recipients.CreateShare(r.Context(), h.holder, h.certificate, n)
	if actionErr != nil {
		o, err := p.page(r, h)
		if err != nil {
			return p.notFound(w, r, err)
		}
		o.Label, o.Expires, o.Public = n.Label, n.Expires, n.Public
		return h.view.ShowAgain(w, r, "certificate.html", o, translate(actionErr))
	}
	setShareCookie(w, secret, shareTime)
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "")
}

// shareCookie contains the secret of a new share link, which the page of the certificate shows once.
// The vault stores only the hash of the secret. The secret must not be in the address of the page,
// because the browser keeps the address in its history.
const (
	shareCookie = "__Host-share"
	shareTime   = time.Minute
)

// setShareCookie sets shareCookie for a limited time, or deletes the cookie if the time is negative.
func setShareCookie(w http.ResponseWriter, secret string, limit time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: shareCookie, Value: secret, Path: "/", MaxAge: int(limit.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// newLink returns the new share link of a certificate from the cookie of a request, and deletes the
// cookie. It returns "" if there is no cookie, or if the cookie has no valid link to the certificate.
func (p *Pages) newLink(w http.ResponseWriter, r *http.Request, c *cert.Certificate) (string, error) {
	cookie, err := r.Cookie(shareCookie)
	if err != nil {
		return "", nil //nolint:nilerr // there is no new link
	}
	_, shared, err := p.Recipients.Shared(r.Context(), cookie.Value)
	if fault.Is(err, fault.NotFound) || err == nil && shared.ID != c.ID {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	setShareCookie(w, "", -time.Second)
	return p.Links.To("/s/" + cookie.Value), nil
}

func (p *Pages) revokeShare(w http.ResponseWriter, r *http.Request) error {
	h, err := p.holdingOf(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if err := p.Recipients.RevokeShare(r.Context(), h.certificate, r.PathValue("share")); err != nil {
		return err
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "share_revoked")
}

func (p *Pages) endMailLink(w http.ResponseWriter, r *http.Request) error {
	h, err := p.holdingOf(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if err := p.Recipients.RevokeMailLinks(r.Context(), h.certificate); err != nil {
		return err
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "mailed_ended")
}

func (p *Pages) correct(w http.ResponseWriter, r *http.Request) error {
	h, err := p.holdingOf(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	text := r.PostFormValue("text")
	if actionErr := p.Recipients.RequestCorrection(r.Context(), h.holder, h.certificate, text); actionErr != nil {
		o, err := p.page(r, h)
		if err != nil {
			return p.notFound(w, r, err)
		}
		o.Text = text
		return h.view.ShowAgain(w, r, "certificate.html", o, translate(actionErr))
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "correction_sent")
}

// share shows a shared certificate.
func (p *Pages) share(w http.ResponseWriter, r *http.Request) error {
	share, s, err := p.shared(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	name := "share.html"
	if share.Public {
		name = "share_public.html"
	}
	return p.secret.Draw(w, r, http.StatusOK, name, s)
}

// shared returns the share of a link and the view of its certificate.
func (p *Pages) shared(r *http.Request) (*recipient.Share, *certificateView, error) {
	share, c, err := p.Recipients.Shared(r.Context(), r.PathValue("token"))
	if err != nil {
		return nil, nil, err
	}
	s, err := p.certificateView(r.Context(), c, "/s/"+r.PathValue("token"))
	if err != nil {
		return nil, nil, err
	}
	s.ForOthers = true
	return share, s, nil
}
