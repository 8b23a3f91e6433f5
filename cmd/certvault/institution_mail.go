package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/certvault/certvault/internal/account"
)

// mailFlags are the settings of mail to an institution's recipients.
type mailFlags struct {
	MailLanguage  *string `help:"Language of mail to recipients who have chosen none: en, es, fr, de, pt, ar, hi or zh."       placeholder:"TAG"`
	MailSender    *string `help:"Sender name of mail to recipients; empty means the vault's."                      placeholder:"NAME"`
	ReplyTo       *string `help:"E-mail address for recipients' replies; empty means the vault's."                        placeholder:"EMAIL"`
	MailParagraph *string `help:"Paragraph in the mail about a new certificate; it may contain {name}, {title}, {institution}." placeholder:"TEXT"`
	MailClosing   *string `help:"Closing of that mail, such as your office and its telephone number."                       placeholder:"TEXT"`
	WordsLanguage *string `help:"Language of paragraph and closing. Default: the language of mail."                   placeholder:"TAG"`
}

// mailAnswer is the current state of the settings.
type mailAnswer struct {
	MailLanguage string `json:"mail_language"`
	account.Letterhead
	// Words are the texts by language.
	Words map[string]account.Words `json:"mail_words"`
}

// set changes the given values and returns all of them.
func (m *mailFlags) set(ctx context.Context, accounts *account.Service, id int64) (a *mailAnswer, err error) {
	if m.MailLanguage != nil {
		if err := accounts.SetMailLanguage(ctx, id, *m.MailLanguage); err != nil {
			return nil, err
		}
	}
	a = &mailAnswer{}
	if a.MailLanguage, err = accounts.MailLanguage(ctx, id); err != nil {
		return nil, err
	}
	if a.Letterhead, err = accounts.Letterhead(ctx, id); err != nil {
		return nil, err
	}
	set(&a.Sender, m.MailSender)
	set(&a.ReplyTo, m.ReplyTo)
	if err := accounts.SetLetterhead(ctx, id, a.Letterhead); err != nil {
		return nil, err
	}
	if a.Words, err = accounts.AllWords(ctx, id); err != nil {
		return nil, err
	}
	if m.MailParagraph != nil || m.MailClosing != nil {
		tag := a.MailLanguage
		set(&tag, m.WordsLanguage)
		w := a.Words[tag]
		set(&w.Paragraph, m.MailParagraph)
		set(&w.Closing, m.MailClosing)
		if err := accounts.SetWords(ctx, id, tag, w); err != nil {
			return nil, err
		}
		if a.Words, err = accounts.AllWords(ctx, id); err != nil {
			return nil, err
		}
	}
	a.Letterhead, err = accounts.Letterhead(ctx, id)
	return a, err
}

// say prints the settings as text.
func (a *mailAnswer) say(w io.Writer) {
	_, _ = fmt.Fprintf(w, "Language of mail to recipients who have chosen none: %s; sender: %s; replies to: %s.\n",
		a.MailLanguage, cmp.Or(a.Sender, "the vault"), cmp.Or(a.ReplyTo, "the vault"))
	var tags []string
	for tag := range a.Words {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	for _, tag := range tags {
		_, _ = fmt.Fprintf(w, "Mail text in %s: %q, closing %q.\n", tag, a.Words[tag].Paragraph, a.Words[tag].Closing)
	}
}
