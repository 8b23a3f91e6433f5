package panel

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
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

type mailSettings struct {
	settingsPage

	From account.MailSender
	Text account.MailText
	// Language is the language of the texts.
	Language  *locale.Language
	Languages []mailLanguage
	// Preview is a preview of the mail, or nil if the page shows a problem of a form. Unsaved
	// reports whether the preview has texts that are not saved.
	Preview *mail.Message
	Unsaved bool
	// MaxParagraph and MaxClosing are the maximum lengths of the texts.
	MaxParagraph, MaxClosing int
}

// mailPage returns the data of the page, without a preview, for the language of the tag. If the
// vault does not support that language, mailPage uses the default language of the institution.
func (p *Panel) mailPage(r *http.Request, v *Visit, tag string) (*mailSettings, error) {
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
	}
	for _, l := range p.Site.Catalog().Languages() {
		_, has := all[l.Tag]
		s.Languages = append(s.Languages, mailLanguage{l, has, l.Tag == defaultTag, l.Tag == tag, v.Path("settings/mail?language=" + url.QueryEscape(l.Tag))})
		if l.Tag == tag {
			s.Language = l
		}
	}
	return s, nil
}

// preview adds a preview of the mail to the data of the page. The mail has the given texts, or the
// saved texts if text is nil.
func (p *Panel) preview(r *http.Request, s *mailSettings, text *account.MailText) error {
	person := s.Visit.Person
	m, err := p.Mail.Sample(r.Context(), s.Visit.Institution().ID, s.Language.Tag, text, mail.Address{Name: person.Name, Email: person.Email})
	s.Preview = &m
	return err
}

// mailSettings shows the sender of mail and the institution's texts.
func (p *Panel) mailSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	s, err := p.mailPage(r, v, r.URL.Query().Get("language"))
	if err != nil {
		return err
	}
	if err := p.preview(r, s, nil); err != nil {
		return err
	}
	return p.draw(w, r, "settings_mail.html", s)
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
	s, e := p.mailPage(r, v, "")
	if e != nil {
		return e
	}
	s.From = from
	return p.showAgain(w, r, "settings_mail.html", s, err)
}

// setMailText saves the texts, or shows a preview of the mail with the texts and does not save the
// texts.
func (p *Panel) setMailText(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := r.PostForm
	tag, text, preview := f.Get("language"), account.MailText{Paragraph: f.Get("paragraph"), Closing: f.Get("closing")}, f.Get("look") != ""
	var err error
	if preview {
		text, err = account.CheckMailText(text)
	} else if err = p.Accounts.SetMailText(r.Context(), v.Institution().ID, tag, text); err == nil {
		return p.redirect(w, r, v, "settings/mail?language="+url.QueryEscape(tag), "words_kept")
	}
	s, e := p.mailPage(r, v, tag)
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
	return p.draw(w, r, "settings_mail.html", s)
}

// tryMailText mails a test message with the saved texts to the signed-in person.
func (p *Panel) tryMailText(w http.ResponseWriter, r *http.Request, v *Visit) error {
	tag := r.PostForm.Get("language")
	err := p.Mail.Try(r.Context(), v.Institution().ID, tag, v.Person.ID, mail.Address{Name: v.Person.Name, Email: v.Person.Email})
	if err == nil {
		return p.redirect(w, r, v, "settings/mail?language="+url.QueryEscape(tag), "sample_mailed")
	}
	if fault.Is(err, fault.Internal) {
		return err
	}
	s, e := p.mailPage(r, v, tag)
	if e != nil {
		return e
	}
	return p.showAgain(w, r, "settings_mail.html", s, err)
}
