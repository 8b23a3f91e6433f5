package recipient

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// Verdicts of a page; the classes of the style are called so.
const (
	valid     = "valid"
	revoked   = "revoked"
	damaged   = "damaged"
	unchecked = "unchecked"
)

// shown is what a page shows of a certificate.
type shown struct {
	*cert.Certificate

	// Base is the path below which its files are.
	Base string
	Face *account.Face
	// Verdict is the record and the checks together, as on public pages.
	Verdict string
	// FileRan and SignatureRan tell which of the checks ran.
	FileRan, SignatureRan bool
	// Approved and Revoked are times as pages write them.
	Approved, Withdrawn *string
	VerifyURL, LinkedIn string
	// Others says that others than its person look at it: they do not see the details,
	// which the institution wrote for that person.
	Others bool
}

// Given says that its files are given out.
func (s *shown) Given() bool { return s.Verdict != revoked && s.Verified != nil }

// Band is the institution's colour, which only a valid certificate has above it.
func (s *shown) Band() *colour.Brand {
	if s.Verdict != valid {
		return nil
	}
	return s.Face.Brand()
}

// show gives what a page shows of a certificate.
func (p *Pages) show(ctx context.Context, c *cert.Certificate, base string) (*shown, error) {
	face, err := p.Accounts.Face(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	checks, err := p.Certs.Checks(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &shown{
		Certificate: c, Base: base, Face: face, Verdict: valid, Approved: web.Timestamp(c.ApprovedAt), Withdrawn: web.Timestamp(c.RevokedAt),
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
	case cert.Revoked:
		s.Verdict = revoked
	default:
		return nil, errNothing
	}
	s.LinkedIn = linkedIn(c, face.Name, s.VerifyURL)
	return s, nil
}

// errNothing is a link that shows nothing, for whatever reason.
var errNothing = fault.New(fault.NotFound, "No such link.")

// linkedIn gives the address of the form there, filled in with a certificate.
func linkedIn(c *cert.Certificate, institution, verifyURL string) string {
	q := url.Values{
		"startTask": {"CERTIFICATION_NAME"}, "name": {c.Title}, "organizationName": {institution}, "certUrl": {verifyURL}, "certId": {c.ReferenceID},
	}
	if day, err := time.Parse(time.DateOnly, c.IssueDate); err == nil {
		q.Set("issueYear", strconv.Itoa(day.Year()))
		q.Set("issueMonth", strconv.Itoa(int(day.Month())))
	}
	return "https://www.linkedin.com/profile/add?" + q.Encode()
}

// held is a certificate in the hands of somebody: of who has the link that was
// mailed, or of the person of an account.
type held struct {
	view        *page.Set
	holder      recipient.Holder
	certificate *cert.Certificate
	base        string
	// link is nil in an account.
	link *recipient.MailLink
}

// hold finds the certificate of a request and who has it.
func (p *Pages) hold(r *http.Request) (*held, error) {
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
		return &held{view: p.secret, holder: l.Holder(), certificate: c, base: "/c/" + token + "/" + c.UUID, link: l}, nil
	}
	s, ok := p.Gate.Person(r)
	if !ok {
		return nil, errNothing
	}
	c, err := p.Recipients.Certificate(r.Context(), s.Person.ID, id)
	if err != nil {
		return nil, err
	}
	return &held{
		view: p.own, holder: recipient.Person(s.Person.ID, s.Person.Name, s.Person.Email), certificate: c, base: "/account/certificates/" + c.UUID,
	}, nil
}

// own is the page of a certificate for who has it.
type own struct {
	*shown

	Shares []*recipient.Share
	// NewLink is a link that was just made: it is shown this once.
	NewLink string
	// What was typed, when it is shown again.
	Label, Expires, Text string
	Public               bool
	Today                string
	// Account says that it is shown in an account; else Invite asks to have one. More
	// links to the other certificates of the mail.
	Account bool
	Invite  *invite
	More    string
	// Mailed says that a mailed link opens it too, for who has it in an account.
	Mailed bool
}

// invite asks who has a mailed link to have an account, or to sign in to theirs.
type invite struct {
	Email string
	// Claimed says that all that is shown is in an account: to sign up for it would
	// promise what cannot be.
	Claimed bool
}

// invite is nil for who is signed in.
func (p *Pages) invite(r *http.Request, email string, shown ...*cert.Certificate) *invite {
	if _, in := p.Gate.Person(r); in {
		return nil
	}
	free := func(c *cert.Certificate) bool { return c.CustomerID == 0 }
	return &invite{Email: email, Claimed: !slices.ContainsFunc(shown, free)}
}

// page gives the page of a certificate for who has it.
func (p *Pages) page(r *http.Request, h *held) (*own, error) {
	s, err := p.show(r.Context(), h.certificate, h.base)
	if err != nil {
		return nil, err
	}
	o := &own{shown: s, Today: p.Now().UTC().Format(time.DateOnly), Account: h.link == nil}
	if o.Shares, err = p.Recipients.Shares(r.Context(), h.certificate); err != nil {
		return nil, err
	}
	if o.Account {
		if o.Mailed, err = p.Recipients.Mailed(r.Context(), h.certificate); err != nil {
			return nil, err
		}
	}
	if h.link != nil {
		o.Invite = p.invite(r, h.link.Email, h.certificate)
		if len(h.link.Certificates) > 1 {
			o.More = "/c/" + r.PathValue("token")
		}
	}
	return o, nil
}

// certificate shows a certificate to who has it.
func (p *Pages) certificate(w http.ResponseWriter, r *http.Request) error {
	h, err := p.hold(r)
	if err != nil {
		return p.nothing(w, r, err)
	}
	o, err := p.page(r, h)
	if err != nil {
		return p.nothing(w, r, err)
	}
	return h.view.Draw(w, r, http.StatusOK, "certificate.html", o)
}

// nothing shows that a link has nothing to show; other errors it gives back.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request, err error) error {
	if !fault.Is(err, fault.NotFound) || page.WantsJSON(r) {
		return err
	}
	view := p.secret
	if r.PathValue("token") == "" {
		view = p.own
	}
	return view.Draw(w, r, http.StatusNotFound, "nothing.html", r.PathValue("token") != "")
}

// bundle is the page of a mailed link that has several certificates.
type bundle struct {
	Base         string
	Institution  string
	Brand        *colour.Brand
	Certificates []*cert.Certificate
	// More says that there are more than are shown.
	More   bool
	Invite *invite
}

// link shows what a mailed link has: a certificate, or a list of them.
func (p *Pages) link(w http.ResponseWriter, r *http.Request) error {
	l, err := p.Recipients.MailLink(r.Context(), r.PathValue("token"))
	if err != nil {
		return p.nothing(w, r, err)
	}
	if len(l.Certificates) == 1 {
		r.SetPathValue("uuid", l.Certificates[0].UUID)
		return p.certificate(w, r)
	}
	face, err := p.Accounts.Face(r.Context(), l.InstitutionID)
	if err != nil {
		return err
	}
	b := bundle{
		Base: "/c/" + r.PathValue("token"), Institution: face.Name, Brand: face.Brand(), Certificates: l.Certificates, More: l.More,
		Invite: p.invite(r, l.Email, l.Certificates...),
	}
	return p.secret.Draw(w, r, http.StatusOK, "bundle.html", b)
}

func (p *Pages) createShare(w http.ResponseWriter, r *http.Request) error {
	h, err := p.hold(r)
	if err != nil {
		return p.nothing(w, r, err)
	}
	n := recipient.NewShare{Label: r.PostFormValue("label"), Public: r.PostFormValue("listed") == "public", Expires: r.PostFormValue("expires")}
	secret, _, deed := p.Recipients.CreateShare(r.Context(), h.holder, h.certificate, n)
	o, err := p.page(r, h)
	if err != nil {
		return p.nothing(w, r, err)
	}
	if deed != nil {
		o.Label, o.Expires, o.Public = n.Label, n.Expires, n.Public
		return h.view.Again(w, r, "certificate.html", o, said(deed))
	}
	o.NewLink = p.Links.To("/s/" + secret)
	return h.view.Draw(w, r, http.StatusOK, "certificate.html", o)
}

func (p *Pages) revokeShare(w http.ResponseWriter, r *http.Request) error {
	h, err := p.hold(r)
	if err != nil {
		return p.nothing(w, r, err)
	}
	if err := p.Recipients.RevokeShare(r.Context(), h.certificate, r.PathValue("share")); err != nil {
		return err
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "share_revoked")
}

func (p *Pages) endMailed(w http.ResponseWriter, r *http.Request) error {
	h, err := p.hold(r)
	if err != nil {
		return p.nothing(w, r, err)
	}
	if err := p.Recipients.EndMailed(r.Context(), h.certificate); err != nil {
		return err
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "mailed_ended")
}

func (p *Pages) correct(w http.ResponseWriter, r *http.Request) error {
	h, err := p.hold(r)
	if err != nil {
		return p.nothing(w, r, err)
	}
	text := r.PostFormValue("text")
	if deed := p.Recipients.RequestCorrection(r.Context(), h.holder, h.certificate, text); deed != nil {
		o, err := p.page(r, h)
		if err != nil {
			return p.nothing(w, r, err)
		}
		o.Text = text
		return h.view.Again(w, r, "certificate.html", o, said(deed))
	}
	return h.view.Redirect(w, r, h.view.Reader(r).Link(h.base), "correction_sent")
}

// share shows a certificate to those with whom it was shared.
func (p *Pages) share(w http.ResponseWriter, r *http.Request) error {
	share, s, err := p.shared(r)
	if err != nil {
		return p.nothing(w, r, err)
	}
	name := "share.html"
	if share.Public {
		name = "share_public.html"
	}
	return p.secret.Draw(w, r, http.StatusOK, name, s)
}

func (p *Pages) shared(r *http.Request) (*recipient.Share, *shown, error) {
	share, c, err := p.Recipients.Shared(r.Context(), r.PathValue("token"))
	if err != nil {
		return nil, nil, err
	}
	s, err := p.show(r.Context(), c, "/s/"+r.PathValue("token"))
	if err != nil {
		return nil, nil, err
	}
	s.Others = true
	return share, s, nil
}
