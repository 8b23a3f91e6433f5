package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/certvault/certvault/internal/account"
)

// mailFlags are the settings of mail to an institution's recipients.
type mailFlags struct {
	MailLanguage  *string `help:"Language of mail to recipients who chose none: en, es, fr, de, pt, ar, hi or zh."       placeholder:"TAG"`
	MailSender    *string `help:"Name shown as sender of mail to recipients; empty is the vault's."                      placeholder:"NAME"`
	ReplyTo       *string `help:"E-mail address that recipients answer to; empty is the vault's."                        placeholder:"EMAIL"`
	MailParagraph *string `help:"Own paragraph in the mail of a new certificate; it may name {name}, {title}, {institution}." placeholder:"TEXT"`
	MailClosing   *string `help:"Own closing of that mail, such as your office and its telephone."                       placeholder:"TEXT"`
	WordsLanguage *string `help:"Language that paragraph and closing are in; that of mail by default."                   placeholder:"TAG"`
}

// apply puts the flags given into an institution's settings.
func (m *mailFlags) apply(c *account.Changes) {
	set(&c.MailLanguage, m.MailLanguage)
	set(&c.Letterhead.Sender, m.MailSender)
	set(&c.ReplyTo, m.ReplyTo)
	if m.MailParagraph == nil && m.MailClosing == nil {
		return
	}
	tag := c.MailLanguage
	set(&tag, m.WordsLanguage)
	w := c.Words[tag]
	set(&w.Paragraph, m.MailParagraph)
	set(&w.Closing, m.MailClosing)
	c.Words[tag] = w
}

// sayMail writes the settings of mail for people.
func sayMail(w io.Writer, a *account.Changes) {
	_, _ = fmt.Fprintf(w, "Recipients who chose no language are written to in: %s; sender: %s; answers to: %s.\n",
		a.MailLanguage, cmp.Or(a.Sender, "the vault"), cmp.Or(a.ReplyTo, "the vault"))
	var tags []string
	for tag := range a.Words {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	for _, tag := range tags {
		_, _ = fmt.Fprintf(w, "Own words in %s: %q, closing %q.\n", tag, a.Words[tag].Paragraph, a.Words[tag].Closing)
	}
}
