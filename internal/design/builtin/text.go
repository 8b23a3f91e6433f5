package builtin

import (
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/locale"
)

// section is the section of the catalogs with the texts of the designs: the texts of fields, their
// labels, the descriptions of the drawings and the texts that Sample returns.
const section = "design"

// words are the texts of a language by key.
type words map[string]string

// wordsIn returns the texts of a language of the vault, and the language. The error is ErrLanguage if
// there is no such language.
func wordsIn(tag string) (words, *locale.Language, error) {
	catalog, err := locale.Load()
	if err != nil {
		return nil, nil, err
	}
	l, ok := catalog.Get(tag)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %q", ErrLanguage, tag)
	}
	t := words{}
	for key, text := range l.Section(section) {
		t[strings.TrimPrefix(key, section+".")] = text
	}
	return t, l, nil
}

// label returns the label of a field.
func (t words) label(id string) string { return t["label_"+strings.ReplaceAll(id, "-", "_")] }

// tagOf returns the language tag for PDF readers and for the choice of fonts. The Chinese texts of the
// vault are in simplified characters.
func tagOf(l *locale.Language) string {
	if l.Tag == "zh" {
		return "zh-Hans"
	}
	return l.Tag
}

// mirror moves a field to the opposite side of a page, for a language that is written from right to
// left.
func mirror(f *design.Field, width float64) {
	f.Box[0] = round(width - f.Box[0] - f.Box[2])
	switch f.Align {
	case "", "left":
		f.Align = "right"
	case "right":
		f.Align = "left"
	default:
	}
}

// Capitals are readable at small sizes at which scripts without capitals are not. In those scripts, a
// text that other languages show in capitals is larger by the factor caseless, if its size is less than
// display and it is not the name of the institution.
const (
	caseless = 1.35
	display  = 20
)

// hasCase reports whether the script of a language has capitals.
func hasCase(tag string) bool { return tag != "ar" && tag != "hi" && tag != "zh" }

// Sample returns the title and the details of a certificate in a language, for pictures of the designs.
// Both are empty if the vault does not have the language.
func Sample(language string) (title, details string) {
	t, _, err := wordsIn(language)
	if err != nil {
		return "", ""
	}
	return t["sample_title"], t["sample_details"]
}
