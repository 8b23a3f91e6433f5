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
	// maxLogoForm is the maximum size in bytes of the form with a logo. The file of a logo has at most 1 MiB.
	maxLogoForm = 2 << 20
)

var logoLimits = &body.Limits{
	Size: maxLogoForm, Parts: 6, TooLarge: fault.OfField("logo", "settings.logo_limit"), Broken: errForm,
}

// settingsTab is one of the pages of settings. The template "settings_tab" in parts.html has the labels.
type settingsTab struct{ Path string }

var settingsTabs = []settingsTab{{"settings"}, {"settings/public"}, {"settings/mail"}, {"settings/stamps"}, {"settings/retention"}, {"settings/keys"}}

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
	BaseURL   string
	// Colour is the submitted or saved colour. Preview is the preview of Colour, or nil if Colour is
	// empty or invalid. Unsaved reports whether the form was submitted only for a preview.
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
		BaseURL: p.BaseURL, Colour: profile.Colour, Preview: viewColour(profile.Colour),
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

// setInstitution saves the name, the language of mail, the colour and the logo in one transaction.
// If the form requests a preview of the colour, setInstitution shows the preview and saves nothing.
func (p *Panel) setInstitution(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := readInstitutionForm(r)
	if err == nil && f.preview {
		_, err = account.CheckColour(f.colour)
	} else if err == nil {
		if err = p.saveInstitution(r.Context(), v.Institution().ID, f); err == nil {
			return p.redirect(w, r, v, "settings", "settings_kept")
		}
	}
	s, e := p.institutionPage(r, v)
	if e != nil {
		return e
	}
	if f != nil {
		s.Name, s.Language, s.Colour, s.Preview, s.Unsaved = f.name, f.language, f.colour, viewColour(f.colour), f.preview && err == nil
	}
	if err != nil {
		return p.showAgain(w, r, "settings.html", s, err)
	}
	return p.draw(w, r, "settings.html", s)
}

func (p *Panel) saveInstitution(ctx context.Context, id int64, f *institutionInput) error {
	var logo *account.Logo
	if f.logo != nil || f.removeLogo {
		var err error
		if logo, err = account.DrawLogo(f.logo); err != nil {
			return err
		}
	}
	_, err := p.Accounts.Change(ctx, id, func(c *account.Changes) error {
		c.Name, c.MailLanguage, c.Colour, c.Logo = f.name, f.language, f.colour, logo
		return nil
	})
	return err
}

// institutionInput is the submitted form of the first page of settings. logo is nil if no file was chosen.
type institutionInput struct {
	name, language, colour string
	logo                   []byte
	removeLogo, preview    bool
}

// readInstitutionForm parses the form of the first page of settings.
func readInstitutionForm(r *http.Request) (*institutionInput, error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, err
	}
	f := &institutionInput{}
	for form.Next() {
		part := form.Part()
		if part.FormName() == "logo" {
			if file := part.Value(maxLogoForm, io.Discard); len(file) > 0 {
				f.logo = file
			}
			continue
		}
		value := string(part.Value(maxForm, io.Discard))
		switch part.FormName() {
		case "name":
			f.name = value
		case "mail_language":
			f.language = value
		case "colour":
			f.colour = value
		case "remove_logo":
			f.removeLogo = true
		case "look":
			f.preview = true
		default:
		}
	}
	if err := form.Err(); err != nil {
		return nil, err
	}
	return f, nil
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
		LinkedIn: f.Get("linkedin"),
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
	// Kind is the key of the message for the kind of the key, or empty for a root certificate.
	Kind, Name, Issuer, Fingerprint string
	From, Until                     time.Time
	// Expiry is the earliest expiry in the chain of the certificate. Soon reports whether Expiry is
	// less than 90 days away or has passed. Expired reports whether Expiry is less than a day away
	// or has passed. The key is then not used for signing.
	Expiry        time.Time
	Soon, Expired bool
}

// keyKinds has the keys of the messages for the kinds of keys.
var keyKinds = map[authority.Kind]string{
	authority.Issued: "settings_keys.kind_issued", authority.Imported: "settings_keys.kind_imported", authority.Program: "settings_keys.kind_program",
}

// Foreign reports whether the key was not created by the vault.
func (k keyRow) Foreign() bool { return k.Kind != keyKinds[authority.Issued] }

// FromDay and UntilDay return the first and the last day of the certificate.
func (k keyRow) FromDay() *string  { return dayText(k.From) }
func (k keyRow) UntilDay() *string { return dayText(k.Until) }

func dayText(t time.Time) *string {
	text := t.Format(time.DateOnly)
	return &text
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
