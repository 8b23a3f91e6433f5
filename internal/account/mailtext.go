package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxSender = 100
	// MaxParagraph is the maximum length of an institution's paragraph in mail, in characters.
	MaxParagraph = 600
	// MaxClosing is the maximum length of the closing, in characters.
	MaxClosing = 200
	// maxPlaces is the maximum number of placeholders in both texts together, and maxLines is the
	// maximum number of lines of each text. Some mail programs do not show long mail completely.
	maxPlaces = 4
	maxLines  = 12
	// maxLoggedText is the maximum length of a text in the audit log.
	maxLoggedText = 200
)

// Places has the names of the placeholders. In texts, they are in braces.
var Places = []string{"name", "title", "institution"}

// MailText has the texts that an institution adds to mail about new certificates, in one language
// and without markup.
type MailText struct {
	// Paragraph is before the button of the mail, and Closing is after the other paragraphs.
	Paragraph string `json:"paragraph"`
	Closing   string `json:"closing"`
}

// MailSender is the sender of mail to an institution's recipients.
type MailSender struct { //nolint:recvcheck // check changes the sender to its stored form
	// Sender is the displayed name of the sender, or "" for the institution's name. The address is
	// always the vault's.
	Sender string `json:"mail_sender"`
	// ReplyTo is the address for replies, or "" for the vault's address.
	ReplyTo string `json:"reply_to"`
}

// DisplayName returns the displayed name of the sender: the chosen name, or the first maxSender
// characters of the institution's name, with spaces for the characters that a chosen name must not have.
func (l MailSender) DisplayName(institution string) string {
	if l.Sender != "" {
		return l.Sender
	}
	name := []rune(strings.Map(func(r rune) rune {
		if strings.ContainsRune("@<>", r) || !plain(string(r)) {
			return ' '
		}
		return r
	}, institution))
	return strings.Join(strings.Fields(string(name[:min(len(name), maxSender)])), " ")
}

// MailSender returns the sender of an institution's mail.
func (s *Service) MailSender(ctx context.Context, id int64) (l MailSender, err error) {
	v, err := ReadSettings(ctx, s.db, id)
	if err != nil {
		return l, err
	}
	return v.MailSender, nil
}

// SetMailSender changes the sender of future mail.
func (s *Service) SetMailSender(ctx context.Context, id int64, l MailSender) error {
	return s.set(ctx, id, func(c *Changes) { c.MailSender = l })
}

func (l *MailSender) check() error {
	l.Sender, l.ReplyTo = strings.TrimSpace(l.Sender), strings.TrimSpace(l.ReplyTo)
	var bad fault.Fields
	if utf8.RuneCountInString(l.Sender) > maxSender || !plain(l.Sender) || strings.ContainsAny(l.Sender, "\n@<>") {
		bad.Add("mail_sender", fmt.Sprintf("The sender's name must be one line of at most %d characters, without @, < and >: the address is the vault's own.", maxSender))
	}
	if l.ReplyTo != "" {
		if e, err := ParseEmail(l.ReplyTo); err != nil {
			bad.Add("reply_to", err.Error())
		} else {
			l.ReplyTo = e.Text
		}
	}
	return bad.Err()
}

// MailTexts returns an institution's texts by language.
func (s *Service) MailTexts(ctx context.Context, id int64) (map[string]MailText, error) {
	return MailTexts(ctx, s.db, id)
}

// MailTexts returns an institution's texts by language.
func MailTexts(ctx context.Context, q db.Queryer, id int64) (all map[string]MailText, err error) {
	rows, err := q.QueryContext(ctx, `SELECT language, paragraph, closing FROM institution_words WHERE institution_id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("reading an institution's mail texts: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = map[string]MailText{}
	for rows.Next() {
		var tag string
		var w MailText
		if err := rows.Scan(&tag, &w.Paragraph, &w.Closing); err != nil {
			return nil, fmt.Errorf("reading an institution's mail texts: %w", err)
		}
		all[tag] = w
	}
	return all, rows.Err()
}

// CheckMailText returns texts in their stored form, or fault.Invalid.
func CheckMailText(w MailText) (MailText, error) {
	w = MailText{Paragraph: tidy(w.Paragraph), Closing: tidy(w.Closing)}
	var bad fault.Fields
	places := 0
	for _, f := range []struct {
		field, name, text string
		max               int
	}{{"paragraph", "paragraph", w.Paragraph, MaxParagraph}, {"closing", "closing", w.Closing, MaxClosing}} {
		if utf8.RuneCountInString(f.text) > f.max || strings.Count(f.text, "\n") >= maxLines {
			bad.Add(f.field, fmt.Sprintf("The %s must have at most %d characters on %d lines.", f.name, f.max, maxLines))
		}
		if !plain(f.text) {
			bad.Add(f.field, fmt.Sprintf("The %s must be plain text, without invisible characters.", f.name))
		}
		for _, m := range place.FindAllStringSubmatch(f.text, -1) {
			if places++; !slices.Contains(Places, m[1]) {
				bad.Add(f.field, fmt.Sprintf("{%s} is not a placeholder. The placeholders are {%s}.", m[1], strings.Join(Places, "}, {")))
			}
		}
	}
	if places > maxPlaces {
		bad.Add("paragraph", fmt.Sprintf("The texts may contain at most %d placeholders in braces.", maxPlaces))
	}
	return w, bad.Err()
}

// place matches a placeholder in braces.
var place = regexp.MustCompile(`\{([^{}\n]{0,40})\}`)

// Fill replaces each placeholder in Places with its value.
func (w MailText) Fill(value func(place string) string) MailText {
	fill := func(text string) string {
		return place.ReplaceAllStringFunc(text, func(m string) string {
			if name := m[1 : len(m)-1]; slices.Contains(Places, name) {
				return value(name)
			}
			return m
		})
	}
	return MailText{fill(w.Paragraph), fill(w.Closing)}
}

// tidy returns text without surrounding white space and with LF as line ends. Forms send CRLF.
func tidy(text string) string {
	return strings.TrimSpace(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text))
}

// plain reports whether text is valid UTF-8 and has no control characters except LF, no other line
// separators, no byte order marks, and no marks that change the direction of text.
func plain(text string) bool {
	return CleanText(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == '\ufeff'
	})
}

// SetMailText changes an institution's texts in one language, for future mail. An empty MailText
// removes them.
func (s *Service) SetMailText(ctx context.Context, id int64, tag string, w MailText) error {
	return s.set(ctx, id, func(c *Changes) { c.MailTexts[tag] = w })
}

// forLog returns the texts for the audit log, each cut off after maxLoggedText characters.
func (w MailText) forLog() MailText {
	short := func(text string) string {
		if r := []rune(text); len(r) > maxLoggedText {
			return string(r[:maxLoggedText]) + "…"
		}
		return text
	}
	return MailText{short(w.Paragraph), short(w.Closing)}
}
