package panel

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

// mailLanguage is a language on the page with the settings of mail.
type mailLanguage struct {
	*locale.Language

	// Has reports whether the institution has its own texts in this language. Default reports
	// whether mail in a language without texts uses the texts of this language. Current reports
	// whether the page shows this language.
	Has, Default, Current bool
	Path                  string
}

// mailKind is a mail that the preview can show.
type mailKind struct {
	About   recipient.Reason
	Current bool
	Path    string
}

// mailAbout returns the reason for mail that a query or a form names, or Approval for any other name.
func mailAbout(name string) recipient.Reason {
	if about := recipient.Reason(name); slices.Contains(recipient.SampleReasons, about) {
		return about
	}
	return recipient.Approval
}

// mailQuery returns the query of the page for a language and a reason for mail.
func mailQuery(tag string, about recipient.Reason) url.Values {
	q := url.Values{"language": {tag}}
	if about != recipient.Approval {
		q.Set("mail", string(about))
	}
	return q
}

type mailSettings struct {
	settingsPage

	From account.MailSender
	Text account.MailText
	// Language is the language of the texts.
	Language  *locale.Language
	Languages []mailLanguage
	// About is the reason for the mail that the preview shows. Kinds are all mails that a preview can show.
	About recipient.Reason
	Kinds []mailKind
	// Preview is a preview of the mail, or nil if the page shows the problems of a form. PreviewPath is
	// the address of the preview as a page. Unsaved reports whether the preview has texts that are
	// not saved.
	Preview     *mail.Message
	PreviewPath string
	Unsaved     bool
	// MaxParagraph and MaxClosing are the maximum lengths of the texts in characters.
	MaxParagraph, MaxClosing int
	// Expiry are the settings for certificates that expire. ExpiryDays is the saved or submitted number
	// of days, and MaxExpiryDays its maximum.
	Expiry        account.Expiry
	ExpiryDays    string
	MaxExpiryDays int
}

// mailPage returns the data of the page, without a preview, for the language of the tag. If the
// vault does not support that language, mailPage uses the default language of the institution.
func (p *Panel) mailPage(r *http.Request, v *Visit, tag string, about recipient.Reason) (*mailSettings, error) {
	ctx, id := r.Context(), v.Institution().ID
	from, err := p.Accounts.MailSender(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := p.Accounts.MailTexts(ctx, id)
	if err != nil {
		return nil, err
	}
	defaultTag, err := p.Accounts.MailLanguage(ctx, id)
	if err != nil {
		return nil, err
	}
	if !locale.Supported(tag) {
		tag = defaultTag
	}
	s := &mailSettings{
		settingsPage: settingsPage{v, "settings/mail"}, From: from, Text: all[tag], MaxParagraph: account.MaxParagraph, MaxClosing: account.MaxClosing,
		About: about,
	}
	if s.Expiry, err = p.Accounts.Expiry(ctx, id); err != nil {
		return nil, err
	}
	s.ExpiryDays, s.MaxExpiryDays = strconv.Itoa(s.Expiry.ExpiryDays), account.MaxExpiryDays
	for _, l := range p.Site.Catalog().Languages() {
		_, has := all[l.Tag]
		s.Languages = append(s.Languages, mailLanguage{l, has, l.Tag == defaultTag, l.Tag == tag, v.Path("settings/mail?" + mailQuery(l.Tag, about).Encode())})
		if l.Tag == tag {
			s.Language = l
		}
	}
	for _, kind := range recipient.SampleReasons {
		s.Kinds = append(s.Kinds, mailKind{kind, kind == about, v.Path("settings/mail?" + mailQuery(tag, kind).Encode())})
	}
	return s, nil
}

// sample returns a mail to the visitor about an example of a certificate. The mail has the given texts, or
// the saved texts if text is nil.
func (p *Panel) sample(r *http.Request, v *Visit, about recipient.Reason, tag string, text *account.MailText) (mail.Message, error) {
	return p.Mail.Sample(r.Context(), v.Institution().ID, about, tag, text, mail.Address{Name: v.Person.Name, Email: v.Person.Email})
}

// preview adds a preview of the mail to the data of the page. The mail has the given texts, or the
// saved texts if text is nil.
func (p *Panel) preview(r *http.Request, s *mailSettings, text *account.MailText) error {
	m, err := p.sample(r, s.Visit, s.About, s.Language.Tag, text)
	q := mailQuery(s.Language.Tag, s.About)
	if text != nil {
		q["paragraph"], q["closing"], q["draft"] = []string{text.Paragraph}, []string{text.Closing}, []string{"1"}
	}
	s.Preview, s.PreviewPath = &m, s.Visit.Path("settings/mail/preview?"+q.Encode())
	return err
}

// previewPolicy is the Content-Security-Policy of the preview of a mail. The preview loads no resources and
// runs no scripts. It has inline styles, and pictures in data URLs. Only pages of the vault can frame it.
const previewPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox"

// mailPreview writes the HTML of the mail as a page for a sandboxed frame. The query may contain unsaved
// texts. mailPreview ignores their problems, which the form shows when it is submitted.
func (p *Panel) mailPreview(w http.ResponseWriter, r *http.Request, v *Visit) error {
	q := r.URL.Query()
	var text *account.MailText
	if q.Get("draft") != "" {
		draft, _ := account.CheckMailText(account.MailText{
			Paragraph: firstRunes(q.Get("paragraph"), account.MaxParagraph), Closing: firstRunes(q.Get("closing"), account.MaxClosing),
		})
		text = &draft
	}
	m, err := p.sample(r, v, mailAbout(q.Get("mail")), q.Get("language"), text)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", previewPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	_, _ = io.WriteString(w, p.Mail.Page(r.Context(), &m)) //nolint:gosec // a template has escaped the texts; a failed write means that the client has disconnected
	return nil
}

// firstRunes returns the first n characters of a text.
func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n])
	}
	return text
}

// framingResponse is the response with the page that shows the preview. It allows this page to frame
// pages of the vault, which the default policy forbids.
type framingResponse struct{ http.ResponseWriter }

// WriteHeader adds the permission to the policy of the page.
func (f framingResponse) WriteHeader(status int) {
	const policy = "Content-Security-Policy"
	f.Header().Set(policy, f.Header().Get(policy)+"; frame-src 'self'")
	f.ResponseWriter.WriteHeader(status)
}

// mailSettings shows the sender of mail and the institution's texts.
func (p *Panel) mailSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	s, err := p.mailPage(r, v, r.URL.Query().Get("language"), mailAbout(r.URL.Query().Get("mail")))
	if err != nil {
		return err
	}
	if err := p.preview(r, s, nil); err != nil {
		return err
	}
	return p.draw(framingResponse{w}, r, "settings_mail.html", s)
}

// setMailSender saves the sender of mail and the address for replies. A change of this address
// requires a recent sign-in, because replies of recipients may be confidential.
func (p *Panel) setMailSender(w http.ResponseWriter, r *http.Request, v *Visit) error {
	from := account.MailSender{Sender: r.PostForm.Get("mail_sender"), ReplyTo: r.PostForm.Get("reply_to")}
	saved, err := p.Accounts.MailSender(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	if strings.TrimSpace(from.ReplyTo) == saved.ReplyTo {
		return p.saveMailSender(w, r, v, from)
	}
	return p.afterRecentSignIn(w, r, func() error { return p.saveMailSender(w, r, v, from) })
}

func (p *Panel) saveMailSender(w http.ResponseWriter, r *http.Request, v *Visit, from account.MailSender) error {
	err := p.Accounts.SetMailSender(r.Context(), v.Institution().ID, from)
	if err == nil {
		return p.redirect(w, r, v, "settings/mail", "settings_kept")
	}
	s, e := p.mailPage(r, v, "", recipient.Approval)
	if e != nil {
		return e
	}
	s.From = from
	return p.showAgain(w, r, "settings_mail.html", s, err)
}

// setMailText saves the texts. If the form requests a preview, setMailText shows the preview and saves
// nothing.
func (p *Panel) setMailText(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := r.PostForm
	tag, text, preview := f.Get("language"), account.MailText{Paragraph: f.Get("paragraph"), Closing: f.Get("closing")}, f.Get("look") != ""
	about := mailAbout(f.Get("mail"))
	var err error
	if preview {
		text, err = account.CheckMailText(text)
	} else if err = p.Accounts.SetMailText(r.Context(), v.Institution().ID, tag, text); err == nil {
		return p.redirect(w, r, v, "settings/mail?"+mailQuery(tag, about).Encode(), "words_kept")
	}
	s, e := p.mailPage(r, v, tag, about)
	if e != nil {
		return e
	}
	s.Text = text
	if err != nil {
		return p.showAgain(w, r, "settings_mail.html", s, err)
	}
	s.Unsaved = true
	if err := p.preview(r, s, &text); err != nil {
		return err
	}
	return p.draw(framingResponse{w}, r, "settings_mail.html", s)
}

// tryMailText mails a test message with the saved texts to the signed-in person.
func (p *Panel) tryMailText(w http.ResponseWriter, r *http.Request, v *Visit) error {
	tag, about := r.PostForm.Get("language"), mailAbout(r.PostForm.Get("mail"))
	err := p.Mail.Try(r.Context(), v.Institution().ID, about, tag, v.Person.ID, mail.Address{Name: v.Person.Name, Email: v.Person.Email})
	if err == nil {
		return p.redirect(w, r, v, "settings/mail?"+mailQuery(tag, about).Encode(), "sample_mailed")
	}
	if fault.Is(err, fault.Internal) {
		return err
	}
	s, e := p.mailPage(r, v, tag, about)
	if e != nil {
		return e
	}
	return p.showAgain(w, r, "settings_mail.html", s, err)
}
