package panel

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	Size: maxLogoForm, Parts: 9, TooLarge: fault.OfField("logo", "settings.logo_limit"), Broken: errForm,
}

// errSettingsChanged is the error if the settings that a form showed differ from the saved settings. The form
// is then shown again with the values that merged returns.
var errSettingsChanged = fault.New(fault.Conflict, "settings.changed")

// merged returns the typed value of a setting, or the saved one if it was changed after the form was
// shown.
func merged[T comparable](shown, typed, saved T) T {
	if saved == shown {
		return typed
	}
	return saved
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
	// Shown are the saved settings when the form was shown.
	Shown shownInstitution
	// Colour is the submitted or saved colour. Preview is the preview of Colour, or nil if Colour is
	// empty or invalid. Unsaved reports whether the form was submitted only for a preview.
	Colour  string
	Preview *colourView
	Unsaved bool
}

// shownInstitution are the settings that the first page of settings shows, except the logo, which changes only
// if a file is chosen or removed.
type shownInstitution struct{ Name, Language, Colour string }

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
		BaseURL: p.BaseURL, Shown: shownInstitution{profile.Name, language, profile.Colour}, Colour: profile.Colour, Preview: viewColour(profile.Colour),
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
// If the form requests a preview of the colour, setInstitution shows the preview and saves nothing. It also saves
// nothing if these settings were changed after the form was shown.
func (p *Panel) setInstitution(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f, err := readInstitutionForm(r)
	if err == nil && f.preview {
		_, err = account.CheckColour(f.Colour)
	} else if err == nil {
		if err = p.saveInstitution(r.Context(), v.Institution().ID, f); err == nil {
			return p.redirect(w, r, v, "settings", "settings_kept")
		}
	}
	s, e := p.institutionPage(r, v)
	if e != nil {
		return e
	}
	switch saved := s.Shown; {
	case errors.Is(err, errSettingsChanged):
		s.Name, s.Language = merged(f.shown.Name, f.Name, saved.Name), merged(f.shown.Language, f.Language, saved.Language)
		s.Colour = merged(f.shown.Colour, f.Colour, saved.Colour)
		s.Preview = viewColour(s.Colour)
	case f != nil:
		s.Name, s.Language, s.Colour, s.Shown = f.Name, f.Language, f.Colour, f.shown
		s.Preview, s.Unsaved = viewColour(f.Colour), f.preview && err == nil
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
		if f.shown != (shownInstitution{c.Name, c.MailLanguage, c.Colour}) {
			return errSettingsChanged
		}
		c.Name, c.MailLanguage, c.Colour, c.Logo = f.Name, f.Language, f.Colour, logo
		return nil
	})
	return err
}

// institutionInput is the submitted form of the first page of settings: the typed settings, and those that the
// form showed. logo is nil if no file was chosen.
type institutionInput struct {
	shownInstitution

	shown               shownInstitution
	logo                []byte
	removeLogo, preview bool
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
			f.Name = value
		case "mail_language":
			f.Language = value
		case "colour":
			f.Colour = value
		case "shown_name":
			f.shown.Name = value
		case "shown_mail_language":
			f.shown.Language = value
		case "shown_colour":
			f.shown.Colour = value
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
	// Public are the typed or saved settings. Shown are the saved settings when the form was shown.
	Public, Shown account.Public
}

// publicSettings shows the public profile.
func (p *Panel) publicSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	profile, err := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_public.html", &publicSettings{settingsPage{v, "settings/public"}, profile, profile.Public, profile.Public})
}

// publicOf returns the settings in the fields of a form whose names begin with prefix.
func publicOf(f url.Values, prefix string) account.Public {
	return account.Public{
		HideName: f.Get(prefix+"hide_name") != "", AllowImage: f.Get(prefix+"image") != "", AllowDownload: f.Get(prefix+"download") != "",
		Contact: f.Get(prefix + "contact"), LinkedIn: f.Get(prefix + "linkedin"),
	}
}

// setPublic saves the public profile, unless it was changed after the form was shown.
func (p *Panel) setPublic(w http.ResponseWriter, r *http.Request, v *Visit) error {
	typed, shown := publicOf(r.PostForm, ""), publicOf(r.PostForm, "shown_")
	_, err := p.Accounts.Change(r.Context(), v.Institution().ID, func(c *account.Changes) error {
		if c.Public != shown {
			return errSettingsChanged
		}
		c.Public = typed
		return nil
	})
	if err == nil {
		return p.redirect(w, r, v, "settings/public", "settings_kept")
	}
	profile, e := p.Accounts.PublicProfile(r.Context(), v.Institution().ID)
	if e != nil {
		return e
	}
	if saved := profile.Public; errors.Is(err, errSettingsChanged) {
		typed = account.Public{
			HideName: merged(shown.HideName, typed.HideName, saved.HideName), AllowImage: merged(shown.AllowImage, typed.AllowImage, saved.AllowImage),
			AllowDownload: merged(shown.AllowDownload, typed.AllowDownload, saved.AllowDownload),
			Contact:       merged(shown.Contact, typed.Contact, saved.Contact), LinkedIn: merged(shown.LinkedIn, typed.LinkedIn, saved.LinkedIn),
		}
		shown = saved
	}
	return p.showAgain(w, r, "settings_public.html", &publicSettings{settingsPage{v, "settings/public"}, profile, typed, shown}, err)
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
