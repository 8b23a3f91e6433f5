package panel

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web/body"
)

const (
	// maxLogoForm is the maximum size in bytes of the form with a logo. The logo has at most 1 MB.
	maxLogoForm = 2 << 20
)

var logoLimits = &body.Limits{
	Size: maxLogoForm, Parts: 4, TooLarge: fault.OfField("logo", "The logo must be a PNG or JPEG file of at most 1 MB."), Broken: errForm,
}

// settingsTab is one of the pages of settings.
type settingsTab struct{ Path, Label string }

var settingsTabs = []settingsTab{
	{"settings", "Institution"}, {"settings/public", "What the public sees"}, {"settings/mail", "Mail"},
	{"settings/stamps", "QR code and files"}, {"settings/retention", "Retention"}, {"settings/keys", "Signing key"},
}

// settingsPage is the data that all pages of settings share.
type settingsPage struct {
	Visit *Visit
	// Current is the path of the page.
	Current string
}

// Tabs returns all pages of settings.
func (*settingsPage) Tabs() []settingsTab { return settingsTabs }

type institutionSettings struct {
	settingsPage

	Profile *account.PublicProfile
	Name    string
	// Language is the language of mail to people who have not chosen a language.
	Language  string
	Languages []*locale.Language
	// Colour is the submitted or saved colour. Preview is the preview of this colour. Unsaved
	// reports whether the colour is not saved.
	Colour  string
	Preview *colourView
	Unsaved bool
}

func (p *Panel) institutionPage(r *http.Request, v *Visit) (*institutionSettings, error) {
	profile, err := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	language, err := p.Accounts.MailLanguage(r.Context(), v.Institution().ID)
	if err != nil {
		return nil, err
	}
	return &institutionSettings{
		settingsPage: settingsPage{v, "settings"}, Profile: profile, Name: profile.Name, Language: language, Languages: p.Site.Catalog().Languages(),
		Colour: profile.Colour, Preview: viewColour(profile.Colour),
	}, nil
}

// settings shows the name, the language of mail, the colour and the logo.
func (p *Panel) settings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	s, err := p.institutionPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings.html", s)
}

// setName saves the name and the language of mail.
func (p *Panel) setName(w http.ResponseWriter, r *http.Request, v *Visit) error {
	_, err := p.Accounts.Change(r.Context(), v.Institution().ID, func(c *account.Changes) error {
		c.Name, c.MailLanguage = r.PostForm.Get("name"), r.PostForm.Get("mail_language")
		return nil
	})
	if err == nil {
		return p.redirect(w, r, v, "settings", "settings_kept")
	}
	s, e := p.institutionPage(r, v)
	if e != nil {
		return e
	}
	s.Name, s.Language = r.PostForm.Get("name"), r.PostForm.Get("mail_language")
	return p.showAgain(w, r, "settings.html", s, err)
}

var errNoLogoFile = fault.OfField("logo", "Choose a PNG or JPEG file first.")

// setLogo saves or removes the logo.
func (p *Panel) setLogo(w http.ResponseWriter, r *http.Request, v *Visit) error {
	file, remove, err := logoOf(r)
	if err == nil && !remove && len(file) == 0 {
		err = errNoLogoFile
	}
	if err == nil {
		notice := "logo_kept"
		if remove {
			file, notice = nil, "logo_gone"
		}
		if err = p.Accounts.SetLogo(r.Context(), v.Institution().ID, file); err == nil {
			return p.redirect(w, r, v, "settings", notice)
		}
	}
	s, e := p.institutionPage(r, v)
	if e != nil {
		return e
	}
	return p.showAgain(w, r, "settings.html", s, err)
}

// logoOf parses the form with a logo.
func logoOf(r *http.Request) (file []byte, remove bool, err error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, false, err
	}
	for form.Next() {
		switch part := form.Part(); part.FormName() {
		case "logo":
			file = part.Value(maxLogoForm, io.Discard)
		case "remove":
			remove = true
		default:
		}
	}
	return file, remove, form.Err()
}

type publicSettings struct {
	settingsPage

	Profile *account.PublicProfile
	Public  account.Public
}

// publicSettings shows the public profile.
func (p *Panel) publicSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	profile, err := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_public.html", &publicSettings{settingsPage{v, "settings/public"}, profile, profile.Public})
}

// setPublic saves the public profile.
func (p *Panel) setPublic(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := r.PostForm
	public := account.Public{
		HideName: f.Get("hide_name") != "", AllowImage: f.Get("image") != "", AllowDownload: f.Get("download") != "", Contact: f.Get("contact"),
	}
	err := p.Accounts.SetPublic(r.Context(), v.Institution().ID, public)
	if err == nil {
		return p.redirect(w, r, v, "settings/public", "settings_kept")
	}
	profile, e := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if e != nil {
		return e
	}
	return p.showAgain(w, r, "settings_public.html", &publicSettings{settingsPage{v, "settings/public"}, profile, public}, err)
}

// keyRow is the data of the X.509 certificate of a key on a page.
type keyRow struct {
	Kind, Name, Issuer, Fingerprint string
	From, Until                     time.Time
	// Expiry is the earliest expiry in the chain of the certificate. Soon reports whether Expiry is
	// less than 90 days away or has passed. Expired reports whether Expiry is less than a day away
	// or has passed: the key then signs nothing.
	Expiry        time.Time
	Soon, Expired bool
}

var keyKinds = map[authority.Kind]string{
	authority.Issued: "Made by this vault", authority.Imported: "Imported", authority.Program: "Held by a program",
}

func (p *Panel) keyRow(kind string, chain []*x509.Certificate) keyRow {
	c, now := chain[0], p.Now()
	return keyRow{
		Kind: kind, Name: c.Subject.CommonName, Issuer: c.Issuer.CommonName, Fingerprint: authority.Fingerprint(c), From: c.NotBefore.UTC(), Until: c.NotAfter.UTC(),
		Expiry: authority.Expiry(chain), Soon: authority.Expiry(chain).Before(now.Add(authority.ExpiresSoon)), Expired: authority.Expired(chain, now),
	}
}

type keySettings struct {
	settingsPage

	// Key is the current signing key, or nil if there is no key or the keys cannot be read. Why is
	// the reason if Key is nil. Past are the earlier keys, and Roots are the root certificates.
	Key   *keyRow
	Why   string
	Past  []keyRow
	Roots []keyRow
}

// keySettings shows the signing keys and the root certificates.
func (p *Panel) keySettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	s, err := p.keyPage(r.Context(), v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_keys.html", s)
}

func (p *Panel) keyPage(ctx context.Context, v *Visit) (*keySettings, error) {
	s := &keySettings{settingsPage: settingsPage{v, "settings/keys"}}
	roots, err := p.Keys.Roots(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the root certificates: %w", err)
	}
	for _, c := range roots {
		s.Roots = append(s.Roots, p.keyRow("", []*x509.Certificate{c}))
	}
	list, err := p.Keys.Certificates(ctx, v.Institution().UUID)
	if f, ok := errors.AsType[*authority.Fault](err); ok && f.Code != authority.CodeStorage {
		s.Why = f.Message()
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys: %w", err)
	}
	for i, c := range list {
		row := p.keyRow(keyKinds[c.Kind], c.Chain)
		if i == 0 {
			s.Key = &row
			continue
		}
		s.Past = append(s.Past, row)
	}
	return s, nil
}

// askRotateKey asks for confirmation before a new key is created.
func (p *Panel) askRotateKey(w http.ResponseWriter, r *http.Request, v *Visit) error {
	s, err := p.keyPage(r.Context(), v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "key_rotate.html", s)
}

// rotateKey creates a new signing key.
func (p *Panel) rotateKey(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.RotateKey(r.Context(), v.Institution()); err != nil {
		if f, ok := errors.AsType[*authority.Fault](err); ok && f.Code != authority.CodeStorage {
			return fault.Wrap(fault.Conflict, f.Message(), err)
		}
		return err
	}
	return p.redirect(w, r, v, "settings/keys", "key_rotated")
}
