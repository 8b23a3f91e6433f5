package main

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
)

// mailFlags are the flags for mail to an institution's recipients.
type mailFlags struct {
	MailLanguage  *string `help:"Language of mail to recipients who have not chosen a language: en, es, fr, de, pt, ar, hi or zh." placeholder:"TAG"`
	MailSender    *string `help:"Sender name of mail to recipients; empty means the institution's name." placeholder:"NAME"`
	ReplyTo       *string `help:"E-mail address for recipients' replies; empty means the vault's address." placeholder:"EMAIL"`
	MailParagraph *string `help:"Paragraph in the mail about a new certificate; it may contain {name}, {title}, {institution}." placeholder:"TEXT"`
	MailClosing   *string `help:"Closing of that mail, for example the name and telephone number of your office." placeholder:"TEXT"`
	WordsLanguage *string `help:"Language of the paragraph and the closing. Default: the language of mail." placeholder:"TAG"`
}

// apply sets the values of the given flags in an institution's settings.
func (m *mailFlags) apply(c *account.Changes) {
	set(&c.MailLanguage, m.MailLanguage)
	set(&c.Sender, m.MailSender)
	set(&c.ReplyTo, m.ReplyTo)
	if m.MailParagraph == nil && m.MailClosing == nil {
		return
	}
	tag := c.MailLanguage
	set(&tag, m.WordsLanguage)
	w := c.MailTexts[tag]
	set(&w.Paragraph, m.MailParagraph)
	set(&w.Closing, m.MailClosing)
	c.MailTexts[tag] = w
}

// mailFields renames the fields of mail texts in an error, so that printError finds their flags.
func mailFields(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	renamed := *e
	renamed.Fields = slices.Clone(e.Fields)
	for i, f := range e.Fields {
		switch f.Name {
		case "paragraph", "closing":
			renamed.Fields[i].Name = "mail_" + f.Name
		case "language":
			renamed.Fields[i].Name = "words_language"
		}
	}
	return &renamed
}

// printMail prints the settings of mail as text.
func printMail(w io.Writer, a *account.Changes) {
	printf(w, "Language of mail to recipients who have not chosen a language: %s; sender: %s; replies to: %s.\n",
		a.MailLanguage, cmp.Or(a.Sender, "the institution"), cmp.Or(a.ReplyTo, "the vault"))
	var tags []string
	for tag := range a.MailTexts {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	for _, tag := range tags {
		printf(w, "Mail text in %s: %q, closing %q.\n", tag, a.MailTexts[tag].Paragraph, a.MailTexts[tag].Closing)
	}
}
