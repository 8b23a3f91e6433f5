package mail

import (
	"cmp"
	_ "embed" // letterHTML is embedded
	"fmt"
	"html/template"
	"net/netip"
	"strings"

	"golang.org/x/text/unicode/bidi"

	"github.com/certvault/certvault/internal/colour"
)

// Letter is the common form of all mails. It has a head in the sender's colour, with a heading, and
// paragraphs. It may have a logo, a list, a certificate, and a button with its full link. A line explains
// why the receiver gets the mail. A letter is rendered as plain text and as HTML, which loads nothing from
// other hosts. Its texts contain all information, because some mail programs do not show pictures.
type Letter struct {
	// Language is a BCP 47 tag; empty is English.
	Language string
	// Direction is "ltr" or "rtl"; empty is "ltr".
	Direction string
	// From is the name of the sender, which is the institution or the vault. The head shows the name
	// if it is not empty.
	From string
	// Logo is the source of the sender's logo, or "".
	Logo       string
	Heading    string
	Paragraphs []string
	// List and Certificate follow the first paragraph.
	List        []string
	Certificate *Certificate
	Button      *Button
	// Links follow the button.
	Links []Button
	// After has the paragraphs after the links. Why explains why the receiver gets the mail.
	After []string
	Why   string
	// Unsubscribe is a link that unsubscribes the receiver, or nil.
	Unsubscribe *Button
	// SenderText contains the texts of the institution in whose name the mail is sent, or is nil.
	SenderText *SenderText
	// Brand is the sender's colour for the head and for the button, or nil for DefaultBrand.
	Brand *colour.Brand
}

// Certificate is the certificate that a letter shows.
type Certificate struct {
	// Title, Name and Issued are lines of text.
	Title, Name, Issued string
	// Picture is the source of a picture of the first page, or "". PictureText describes the
	// picture.
	Picture, PictureText string
}

// DefaultBrand returns the vault's colour, for a mail without a Brand.
func (Letter) DefaultBrand() *colour.Brand { return vaultBrand }

var vaultBrand = colour.Colour{R: 0x0b, G: 0x5d, B: 0x4b}.Brand()

// SenderText is plain text of an institution. The characters of the text determine its direction,
// and its line breaks are preserved. URLs in the text are not converted to links.
type SenderText struct {
	// Language is a BCP 47 tag.
	Language string
	// Paragraph precedes the button. Closing follows the text after the button.
	Paragraph, Closing string
}

// Lines returns the lines of a text.
func (*SenderText) Lines(text string) []string { return strings.Split(text, "\n") }

// Button is a link with its label.
type Button struct{ Label, URL string }

// Host returns the name of the vault in mails for the host of its base URL. The name is the host, or
// "Certvault" if the host is empty, localhost, a name under localhost, or an IP address.
func Host(host string) string {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "Certvault"
	}
	return host
}

// letterHTML is the template of the HTML of a letter. It uses tables, because some mail programs support
// no other layout. In dark mode, mail programs that support it use the dark colours; other programs always
// use the light colours. The logo always has a white background, because most logos are designed for one.
// The functions open and close mark the elements of a picture; see fillPictures.
//
//go:embed letter.html
var letterHTML string

var letterPage = template.Must(template.New("letter").Funcs(template.FuncMap{"open": openPicture, "close": closePicture}).Parse(letterHTML))

// Message returns the letter as a message.
func (l Letter) Message(to Address, subject string) (Message, error) {
	l.Language, l.Direction = cmp.Or(l.Language, "en"), cmp.Or(l.Direction, "ltr")
	var html strings.Builder
	if err := letterPage.Execute(&html, l); err != nil {
		return Message{}, fmt.Errorf("rendering a letter: %w", err)
	}
	m := Message{To: to, Subject: subject, Text: l.text(), HTML: html.String()}
	if l.Logo != "" {
		m.Pictures = append(m.Pictures, Picture{logoPicture, l.Logo})
	}
	if l.Certificate != nil && l.Certificate.Picture != "" {
		m.Pictures = append(m.Pictures, Picture{pagePicture, l.Certificate.Picture})
	}
	return m, nil
}

// text returns the letter as plain text.
func (l Letter) text() string {
	parts := []string{l.Heading}
	for i, p := range l.Paragraphs {
		parts = append(parts, p)
		if i == 0 && l.Certificate != nil {
			c := l.Certificate
			parts = append(parts, strings.TrimSpace(c.Title+"\n"+c.Name+"\n"+c.Issued))
		}
		if i == 0 && len(l.List) > 0 {
			parts = append(parts, "* "+strings.Join(l.List, "\n* "))
		}
	}
	if l.SenderText != nil && l.SenderText.Paragraph != "" {
		parts = append(parts, l.SenderText.Paragraph)
	}
	if l.Button != nil {
		parts = append(parts, l.Button.Label+":\n"+l.Button.URL)
	}
	for _, link := range l.Links {
		parts = append(parts, link.Label+":\n"+link.URL)
	}
	parts = append(parts, l.After...)
	if l.SenderText != nil && l.SenderText.Closing != "" {
		parts = append(parts, l.SenderText.Closing)
	}
	footer := l.Why
	if l.Unsubscribe != nil {
		footer = strings.TrimSpace(footer + "\n" + l.Unsubscribe.Label + ": " + l.Unsubscribe.URL)
	}
	if footer != "" {
		parts = append(parts, "-- \n"+footer)
	}
	return strings.Join(parts, "\n\n") + "\n"
}

const (
	firstStrongIsolate = "\u2068"
	popIsolate         = "\u2069"
)

// Quote returns untrusted text as one line of at most limit characters, which does not change the
// direction of the surrounding text (UAX 9, 2.4). It removes characters that control the direction. If
// the direction of the text may differ from the parameter direction, "ltr" or "rtl", Quote adds isolates,
// which do not count towards the limit.
func Quote(s string, limit int, direction string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", r) {
			return -1
		}
		return r
	}, oneLine(s))
	if r := []rune(s); len(r) > limit {
		s = strings.TrimSpace(string(r[:limit-1])) + "…"
	}
	mayDiffer := direction == "rtl" || strings.ContainsFunc(s, func(r rune) bool {
		p, _ := bidi.LookupRune(r)
		return p.Class() == bidi.R || p.Class() == bidi.AL
	})
	if mayDiffer {
		return firstStrongIsolate + s + popIsolate
	}
	return s
}
