package mail

import (
	"fmt"
	"html/template"
	"strings"
)

// Letter is the plain form that all our mail has: a heading, paragraphs, at most
// one button with its link in full, and a line about why it came. It becomes
// text and HTML. It has no image and asks no other host for anything.
type Letter struct {
	// Language is a BCP 47 tag; empty is English.
	Language   string
	Heading    string
	Paragraphs []string
	Button     *Button
	// Why says why the receiver has it.
	Why string
}

// Button is a link with its label.
type Button struct{ Label, URL string }

var page = template.Must(template.New("letter").Parse(`<!doctype html>
<html lang="{{.Language}}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>{{.Heading}}</title></head>
<body style="margin:0;padding:24px;font:16px/1.5 system-ui,sans-serif">
<div style="max-width:36em;margin:0 auto">
<h1 style="font-size:22px;line-height:1.3">{{.Heading}}</h1>
{{range .Paragraphs}}<p style="overflow-wrap:anywhere">{{.}}</p>
{{end}}{{with .Button}}<p><a href="{{.URL}}" style="display:inline-block;padding:10px 18px;border-radius:6px;
background:#174ea6;color:#ffffff;text-decoration:none">{{.Label}}</a></p>
<p style="overflow-wrap:anywhere"><a href="{{.URL}}">{{.URL}}</a></p>
{{end}}{{with .Why}}<p style="font-size:14px;border-top:1px solid #8888;padding-top:12px">{{.}}</p>
{{end}}</div>
</body>
</html>
`))

// Message gives the letter as a message.
func (l Letter) Message(to Address, subject string) (Message, error) {
	if l.Language == "" {
		l.Language = "en"
	}
	var html strings.Builder
	if err := page.Execute(&html, l); err != nil {
		return Message{}, fmt.Errorf("writing a letter: %w", err)
	}
	parts := append([]string{l.Heading}, l.Paragraphs...)
	if l.Button != nil {
		parts = append(parts, l.Button.Label+":\n"+l.Button.URL)
	}
	if l.Why != "" {
		parts = append(parts, "-- \n"+l.Why)
	}
	return Message{To: to, Subject: subject, Text: strings.Join(parts, "\n\n") + "\n", HTML: html.String()}, nil
}
