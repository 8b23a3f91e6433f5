package design

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/bidi"

	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/typeset"
)

// piece is a part of a text: literal text, or a placeholder.
type piece struct {
	literal     string
	placeholder Placeholder
	source      string // of the placeholder, such as "{name}"
}

// parse divides the text of a field into pieces.
func parse(text string) (out []piece) {
	at := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			out = append(out, piece{literal: text[at:m[0]]})
		}
		out = append(out, piece{placeholder: parsePlaceholder(text[m[2]:m[3]]), source: text[m[0]:m[1]]})
		at = m[1]
	}
	if at < len(text) {
		out = append(out, piece{literal: text[at:]})
	}
	return out
}

// filled is the text of a field with its values.
type filled struct {
	// text has each value between isolate characters (UAX #9), unless the text is only one placeholder. plain
	// has no isolate characters.
	text, plain string
	direction   typeset.Direction
	language    string
}

// fill replaces the placeholders of a field. The problems are the required values that are missing.
func fill(f *Field, pieces []piece, l *Layout, v *Values) (filled, Problems) {
	out := filled{language: cmp.Or(f.Language, v.Language, l.Language, "en")}
	var problems Problems
	var text, plain strings.Builder
	variable, empty, letters := false, true, false
	for _, p := range pieces {
		if p.source == "" {
			text.WriteString(p.literal)
			plain.WriteString(p.literal)
			letters = letters || strings.ContainsFunc(p.literal, unicode.IsLetter)
			continue
		}
		variable = true
		value := clean(p.placeholder.value(f, v, out.language))
		if value == "" {
			if f.Required || p.placeholder.Name == "name" {
				problems = append(problems, Problem{f.ID, CodeValueMissing, p.source})
			}
			continue
		}
		empty = false
		plain.WriteString(value)
		if len(pieces) > 1 {
			value = typeset.Isolate(value)
		}
		text.WriteString(value)
	}
	if variable && empty {
		return out, problems
	}
	out.text, out.plain = recase(text.String(), f.Case, out.language), recase(plain.String(), f.Case, out.language)
	if !letters { // isolated values do not determine the direction of a text (UAX #9)
		out.direction = direction(out.plain)
	}
	return out, problems
}

// value returns the value of a placeholder.
func (p Placeholder) value(f *Field, v *Values, tag string) string {
	switch p.Name {
	case "name":
		return v.Name
	case "title":
		return v.Title
	case "date":
		return formatDate(v.IssueDate, f.Format, tag)
	case "expiry":
		return formatDate(v.ExpiresOn, f.Format, tag)
	case "reference":
		return v.Reference
	case "details":
		return v.Details
	case "institution":
		return v.Institution
	case "column":
		return v.Columns[p.Column]
	}
	if p.Signatory < 1 || p.Signatory > len(v.Signatories) {
		return ""
	}
	s := v.Signatories[p.Signatory-1]
	if p.Name == "designation" {
		return s.Designation
	}
	return s.Name
}

// clean returns a value without space around it and without isolate characters. An isolate character in the
// value could end the isolate that fill adds.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r >= '\u2066' && r <= '\u2069' {
			return -1
		}
		return r
	}, s))
}

// recase changes the case of a text by the rules of its language.
func recase(s, form, tag string) string {
	switch form {
	case "upper":
		return cases.Upper(language.Make(tag)).String(s)
	case "lower":
		return cases.Lower(language.Make(tag)).String(s)
	}
	return s
}

// direction returns the direction of the first letter of a text, or Auto if the text has no letter.
func direction(s string) typeset.Direction {
	for _, r := range s {
		p, _ := bidi.LookupRune(r)
		switch p.Class() { //nolint:exhaustive // the others have no direction
		case bidi.L:
			return typeset.LeftToRight
		case bidi.R, bidi.AL:
			return typeset.RightToLeft
		}
	}
	return typeset.Auto
}

// formatDate formats a date such as "2026-03-12" in a language. Text that is not a date stays as it is.
// If the names of months in the language are not known, the date has the form of ISO 8601.
func formatDate(date, format, tag string) string {
	t, err := time.Parse(time.DateOnly, strings.TrimSpace(date))
	if err != nil {
		return date
	}
	switch format {
	case "iso":
		return t.Format(time.DateOnly)
	case "year":
		return t.Format("2006")
	}
	month := format == "month"
	base, _ := language.Make(tag).Base()
	catalog, err := locale.Load()
	if err == nil {
		if l, ok := catalog.Get(base.String()); ok {
			if month {
				return l.Month(t)
			}
			return l.Date(t)
		}
	}
	if month {
		return t.Format("2006-01")
	}
	return t.Format(time.DateOnly)
}

// set fits the text of a field into its box.
func set(f *Field, text filled, fonts *typeset.Fonts) (*typeset.Block, error) {
	style := f.style(text)
	if style.MinSize > style.Size {
		return nil, typeset.ErrNoRoom
	}
	return fonts.Layout(text.text, style, f.Box[2])
}

// inkHeight is the height of capitals and descenders as a multiple of the size.
const inkHeight = 0.95

// style returns the style of a text. It reduces the size if a line would be higher than the box.
func (f *Field) style(text filled) typeset.Style {
	s := typeset.Style{
		Font: f.Font.typeset(),
		Size: min(f.Size, f.Box[3]/inkHeight), MinSize: cmp.Or(f.MinSize, f.Size),
		Lines: f.Lines, Height: f.Box[3], Leading: f.Leading,
		Direction: text.direction, Tracking: f.Tracking, Language: text.language,
	}
	switch f.Align {
	case "center":
		s.Align = typeset.Center
	case "right":
		s.Align = typeset.Right
	}
	return s
}

// typeset returns the font as package typeset names it.
func (f Font) typeset() typeset.Font {
	return typeset.Font{Family: f.Family, Weight: f.Weight, Italic: f.Italic}
}

// baseline returns the distance from the top of the box to the first baseline. The distance does not depend on
// the letters of the text, so that the certificates of a list look alike.
func (f *Field) baseline(b *typeset.Block) float64 {
	h, rest := f.Box[3], float64(b.Lines()-1)*b.Leading
	switch f.VAlign {
	case "top":
		return min(b.Ascent, max(b.CapHeight, h-b.Descent-rest))
	case "bottom":
		return max(h-b.Descent-rest, min(b.Ascent, h-rest))
	}
	return (h-b.Height)/2 + b.CapHeight
}

// problem returns the problem of a text that cannot be set, or false if the text is not the cause of the error.
func (f *Field) problem(err error) (Problem, bool) {
	if missing := (*typeset.MissingError)(nil); errors.As(err, &missing) {
		names := make([]string, 0, len(missing.Runes))
		for _, r := range missing.Runes[:min(len(missing.Runes), maxNamed)] {
			names = append(names, fmt.Sprintf("%c (U+%04X)", r, r))
		}
		return Problem{f.ID, CodeMissingCharacters, strings.Join(names, ", ")}, true
	}
	if errors.Is(err, typeset.ErrNoRoom) {
		return Problem{Field: f.ID, Code: CodeNoRoom}, true
	}
	return Problem{}, false
}

// MissingCharacters returns the text for a problem of the code CodeMissingCharacters, with the remedy.
// characters is the detail of the problem.
func MissingCharacters(characters string) string {
	text := "No font of this template has the characters " + characters + ". "
	first, _ := utf8.DecodeRuneInString(characters)
	if name := typeset.Package(first); name != "" {
		return text + "Upload a font that has them, or ask the operator to install the package " + name + " on the server or to start the vault with --fonts DIR."
	}
	return text + "Upload a font that has them, or write the text in another way."
}

// maxNamed is the maximum number of missing characters that a problem names.
const maxNamed = 5

// unknown returns a problem for each column that the layout does not use.
func (v *Values) unknown(columns []ColumnUse) (out Problems) {
	for name := range v.Columns {
		if !slices.ContainsFunc(columns, func(c ColumnUse) bool { return c.Name == name }) {
			out = append(out, Problem{Code: CodeValueUnknown, Detail: name})
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Detail, b.Detail) })
	return out
}
