package panel

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/seal"
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

type stampSettings struct {
	settingsPage

	Placement seal.Mode
	// Page and Box are the saved or submitted texts. Box contains the edges of the box in percent
	// of the page, measured from the top left corner of the page.
	Page         string
	Box          [4]string
	RefuseActive bool
}

// boxFields are the names of the box's edges, in the order of seal.Box.
var boxFields = [4]string{"left", "top", "right", "bottom"}

// Edges returns the field, the label and the text of each edge of the box.
func (s *stampSettings) Edges() [][3]string {
	var list [][3]string
	for i, name := range boxFields {
		list = append(list, [3]string{name, strings.ToUpper(name[:1]) + name[1:], s.Box[i]})
	}
	return list
}

// placements are the modes that can be chosen, with labels and descriptions.
var placements = []struct {
	Mode               seal.Mode
	Label, Description string
}{
	{seal.Auto, modes[seal.Auto], "The vault chooses a blank area, and uses the same place on the next file of the same size."},
	{seal.BottomRight, "Bottom right", "A strip below the page where the corner is not blank."},
	{seal.BottomLeft, "Bottom left", ""},
	{seal.TopRight, "Top right", ""},
	{seal.TopLeft, "Top left", ""},
	{seal.Exact, modes[seal.Exact], "Give its edges below. Whatever is printed there is covered."},
	{seal.Strip, "A strip below the page", "The page grows by a strip, and nothing is ever covered."},
	{seal.Appended, "A page of its own at the end", "The pages of your file stay as they are."},
}

// Placements returns the choices of the placement.
func (*stampSettings) Placements() any { return placements }

// stampSettings shows the placement of QR codes and which files are accepted.
func (p *Panel) stampSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	policy, err := p.Certs.Policy(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	s := &stampSettings{settingsPage: settingsPage{v, "settings/stamps"}, Placement: policy.Placement, Page: strconv.Itoa(policy.Page), RefuseActive: policy.RefuseActive}
	if policy.Box != nil {
		for i, edge := range policy.Box {
			s.Box[i] = strconv.FormatFloat(edge*100, 'f', -1, 64)
		}
	}
	return p.draw(w, r, "settings_stamps.html", s)
}

// setStamps saves the placement of QR codes and which files are accepted.
func (p *Panel) setStamps(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := r.PostForm
	s := &stampSettings{
		settingsPage: settingsPage{v, "settings/stamps"}, Placement: seal.Mode(f.Get("placement")), Page: f.Get("placement_page"),
		RefuseActive: f.Get("refuse_active") != "",
	}
	policy := &cert.Policy{Placement: s.Placement, RefuseActive: s.RefuseActive}
	var bad fault.Fields
	var err error
	if policy.Page, err = strconv.Atoi(strings.TrimSpace(s.Page)); err != nil {
		bad.Add("placement_page", "The page must be a number from 1.")
	}
	for i, name := range boxFields {
		s.Box[i] = f.Get(name)
	}
	if s.Placement == seal.Exact {
		policy.Box = new(seal.Box)
		for i, name := range boxFields {
			edge, err := percent(s.Box[i])
			if err != nil {
				bad.Add("placement_box", fmt.Sprintf("The %s edge must be a number of percent from 0 to 100.", name))
			}
			policy.Box[i] = edge / 100
		}
		if b := policy.Box; bad.Err() == nil && (!within(b[0], b[2]) || !within(b[1], b[3])) {
			bad.Add("placement_box", "The edges must lie on the page, from 0 to 100 percent: the right one to the right of the left one, the bottom below the top.")
		}
	}
	if err = bad.Err(); err == nil {
		err = p.Certs.SetPolicy(r.Context(), v.Institution().ID, policy)
	}
	if err != nil {
		return p.showAgain(w, r, "settings_stamps.html", s, err)
	}
	return p.redirect(w, r, v, "settings/stamps", "settings_kept")
}

// within reports whether two edges are on the page and in this order.
func within(from, to float64) bool { return 0 <= from && from < to && to <= 1 }

// percent parses a percentage. The text may have a decimal point or comma, and a percent sign.
func percent(text string) (float64, error) {
	text = strings.TrimSuffix(strings.TrimSpace(strings.ReplaceAll(text, ",", ".")), "%")
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
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
