package mail

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"

	"golang.org/x/text/unicode/bidi"

	"github.com/certvault/certvault/internal/colour"
)

// Letter is the common form of all mails: a heading, paragraphs, a list, at most one button with
// its full link, and a line that explains why the receiver gets the mail. A letter is rendered as
// plain text and as HTML, without images and without requests to other hosts.
type Letter struct {
	// Language is a BCP 47 tag; empty is English.
	Language string
	// Direction is "ltr" or "rtl"; empty is "ltr".
	Direction  string
	Heading    string
	Paragraphs []string
	// List follows the first paragraph.
	List   []string
	Button *Button
	// After is the paragraph after the button. Why explains why the receiver gets the mail.
	After, Why string
	// Unsubscribe is a link that unsubscribes the receiver, or nil.
	Unsubscribe *Button
	// SenderText contains the texts of the institution in whose name the mail is sent, or is nil.
	SenderText *SenderText
	// Brand is the sender's colour for the band at the top and for the button. If it is nil, there
	// is no band and the button has the colour of DefaultBrand.
	Brand *colour.Brand
}

// DefaultBrand returns the vault's colour, for the button of a mail without a Brand.
func (Letter) DefaultBrand() *colour.Brand { return vaultBrand }

var vaultBrand = colour.Colour{R: 0x0b, G: 0x5d, B: 0x4b}.Brand()

// SenderText is plain text of an institution. The characters of the text determine its direction,
// and its line breaks are preserved. URLs in the text are not converted to links.
type SenderText struct {
	// Language is a BCP 47 tag.
	Language string
	// Paragraph follows the first paragraph and the list. Closing follows the text after the
	// button.
	Paragraph, Closing string
}

// Lines returns the lines of a text.
func (*SenderText) Lines(text string) []string { return strings.Split(text, "\n") }

// Button is a link with its label.
type Button struct{ Label, URL string }

// letterPage is the HTML form of a letter. Mail programs that support dark mode use the dark
// colours of the page; other programs always use the light colours.
var letterPage = template.Must(template.New("letter").Parse(`{{$brand := or .Brand .DefaultBrand}}<!doctype html>
<html lang="{{.Language}}" dir="{{.Direction}}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark"><title>{{.Heading}}</title>
<style>:root{color-scheme:light dark}@media(prefers-color-scheme:dark){.paper{background:#1b1f24!important;color:#e8eaed!important}.paper a{color:#8ab4f8}
.paper a.button{background:{{$brand.Night}}!important;color:{{$brand.TextOnNight}}!important}.paper .band{background:{{$brand.Night}}!important}}</style></head>
<body class="paper" style="margin:0;padding:24px;font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif">
<div dir="{{.Direction}}" style="max-width:36em;margin:0 auto">
{{if .Brand}}<div class="band" style="height:6px;margin-bottom:24px;border-radius:3px;background:{{$brand.Day}}"></div>
{{end}}<h1 style="font-size:22px;line-height:1.3;overflow-wrap:anywhere">{{.Heading}}</h1>
{{range $i, $p := .Paragraphs}}<p style="overflow-wrap:anywhere">{{$p}}</p>
{{if and (eq $i 0) $.List}}<ul style="padding-inline-start:20px">
{{range $.List}}<li style="overflow-wrap:anywhere">{{.}}</li>
{{end}}</ul>
{{end}}{{if and (eq $i 0) $.SenderText}}{{with $.SenderText.Paragraph}}<p dir="auto" lang="{{$.SenderText.Language}}" style="overflow-wrap:anywhere">
{{- range $n, $line := $.SenderText.Lines .}}{{if $n}}<br>
{{end}}{{$line}}{{end}}</p>
{{end}}{{end}}{{end}}{{with .Button}}<p style="margin:24px 0"><a class="button" href="{{.URL}}" style="display:inline-block;padding:12px 20px;border-radius:8px;
background:{{$brand.Day}};color:{{$brand.TextOnDay}};text-decoration:none;font-weight:600">{{.Label}}</a></p>
<p dir="ltr" style="font-size:14px;overflow-wrap:anywhere"><a href="{{.URL}}">{{.URL}}</a></p>
{{end}}{{with .After}}<p style="overflow-wrap:anywhere">{{.}}</p>
{{end}}{{with .SenderText}}{{if .Closing}}<p dir="auto" lang="{{.Language}}" style="overflow-wrap:anywhere">
{{- range $n, $line := .Lines .Closing}}{{if $n}}<br>
{{end}}{{$line}}{{end}}</p>
{{end}}{{end}}{{if or .Why .Unsubscribe}}<p style="font-size:14px;border-top:1px solid #8888;padding-top:12px;overflow-wrap:anywhere">{{.Why}}{{with .Unsubscribe}}
<a href="{{.URL}}">{{.Label}}</a>{{end}}</p>
{{end}}</div>
</body>
</html>
`))

// Message returns the letter as a message.
func (l Letter) Message(to Address, subject string) (Message, error) {
	l.Language, l.Direction = cmp.Or(l.Language, "en"), cmp.Or(l.Direction, "ltr")
	var html strings.Builder
	if err := letterPage.Execute(&html, l); err != nil {
		return Message{}, fmt.Errorf("rendering a letter: %w", err)
	}
	parts := []string{l.Heading}
	for i, p := range l.Paragraphs {
		parts = append(parts, p)
		if i == 0 && len(l.List) > 0 {
			parts = append(parts, "* "+strings.Join(l.List, "\n* "))
		}
		if i == 0 && l.SenderText != nil && l.SenderText.Paragraph != "" {
			parts = append(parts, l.SenderText.Paragraph)
		}
	}
	if l.Button != nil {
		parts = append(parts, l.Button.Label+":\n"+l.Button.URL)
	}
	if l.After != "" {
		parts = append(parts, l.After)
	}
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
	return Message{To: to, Subject: subject, Text: strings.Join(parts, "\n\n") + "\n", HTML: html.String()}, nil
}

const (
	firstStrongIsolate = "\u2068"
	popIsolate         = "\u2069"
)

// Quote returns untrusted text as one line of at most limit characters that cannot change the
// direction of the text around it (UAX 9, 2.4). It removes characters that control the direction,
// and isolates the text if its direction may differ from the given direction, which is "ltr" or
// "rtl".
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
