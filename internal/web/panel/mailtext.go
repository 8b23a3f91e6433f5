package panel

import (
	"net/http"
	"net/url"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// spoken is a language on the page of mail.
type spoken struct {
	*locale.Language

	// Has reports whether the institution has its own texts in this language. Default reports
	// whether these texts are used for languages that have none.
	Has, Default, Current bool
	Path                  string
}

type mailSettings struct {
	settingsPage

	Head  account.MailSender
	Words account.MailText
	// Language is the language of the texts.
	Language  *locale.Language
	Languages []spoken
	// Preview is a preview of the mail. Tried reports that its texts are not saved.
	Preview *mail.Message
	Tried   bool
	// MaxParagraph and MaxClosing are the limits of the texts.
	MaxParagraph, MaxClosing int
}

// mailPage returns the page of mail in the language that the address selects.
func (p *Panel) mailPage(r *http.Request, v *Visit, tag string) (*mailSettings, error) {
	ctx, id := r.Context(), v.Institution().ID
	head, err := p.Accounts.MailSender(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := p.Accounts.MailTexts(ctx, id)
	if err != nil {
		return nil, err
	}
	usual, err := p.Accounts.MailLanguage(ctx, id)
	if err != nil {
		return nil, err
	}
	if !locale.Supported(tag) {
		tag = usual
	}
	s := &mailSettings{
		settingsPage: settingsPage{v, "settings/mail"}, Head: head, Words: all[tag], MaxParagraph: account.MaxParagraph, MaxClosing: account.MaxClosing,
	}
	for _, l := range p.Site.Catalog().Languages() {
		_, has := all[l.Tag]
		s.Languages = append(s.Languages, spoken{l, has, l.Tag == usual, l.Tag == tag, v.Path("settings/mail?language=" + url.QueryEscape(l.Tag))})
		if l.Tag == tag {
			s.Language = l
		}
	}
	return s, nil
}

// preview adds a preview of the mail, with the saved texts or with others.
func (p *Panel) preview(r *http.Request, s *mailSettings, words *account.MailText) error {
	person := s.Visit.Person
	m, err := p.Mail.Sample(r.Context(), s.Visit.Institution().ID, s.Language.Tag, words, mail.Address{Name: person.Name, Email: person.Email})
	s.Preview = &m
	return err
}

// mailSettings shows the sender of mail and the institution's texts in it.
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

// setMailSender saves the sender of mail.
func (p *Panel) setMailSender(w http.ResponseWriter, r *http.Request, v *Visit) error {
	head := account.MailSender{Sender: r.PostForm.Get("mail_sender"), ReplyTo: r.PostForm.Get("reply_to")}
	err := p.Accounts.SetMailSender(r.Context(), v.Institution().ID, head)
	if err == nil {
		return p.redirect(w, r, v, "settings/mail", "settings_kept")
	}
	s, e := p.mailPage(r, v, "")
	if e != nil {
		return e
	}
	s.Head = head
	return p.showAgain(w, r, "settings_mail.html", s, err)
}

// setMailText saves the texts, or shows a preview of them.
func (p *Panel) setMailText(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := r.PostForm
	tag, words, look := f.Get("language"), account.MailText{Paragraph: f.Get("paragraph"), Closing: f.Get("closing")}, f.Get("look") != ""
	var err error
	if look {
		words, err = account.CheckMailText(words)
	} else if err = p.Accounts.SetMailText(r.Context(), v.Institution().ID, tag, words); err == nil {
		return p.redirect(w, r, v, "settings/mail?language="+url.QueryEscape(tag), "words_kept")
	}
	s, e := p.mailPage(r, v, tag)
	if e != nil {
		return e
	}
	s.Words = words
	if err != nil {
		return p.showAgain(w, r, "settings_mail.html", s, err)
	}
	s.Tried = true
	if err := p.preview(r, s, &words); err != nil {
		return err
	}
	return p.draw(w, r, "settings_mail.html", s)
}

// tryMailText mails a sample to the signed-in person.
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
