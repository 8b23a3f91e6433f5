package typeset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-text/typesetting/language"
)

// ErrNoRoom reports that the text does not fit the width or the height at the smallest size that the style
// allows, that it has too many characters, or that a letter has too many marks.
var ErrNoRoom = errors.New("the text does not fit at the smallest size, or has too many characters")

// ErrUnavailable reports that the binary was built without fonts.
var ErrUnavailable = errors.New("this binary was built without fonts: build it with `make build`")

// ErrFont reports a font file that is damaged, is not supported or must not be embedded. Most errors that
// wrap ErrFont are a *FontError.
var ErrFont = errors.New("the font cannot be used")

// These are the codes of FontError.
const (
	FontFormat        = "font_format"         // the format of the file is not supported
	FontTooLarge      = "font_too_large"      // the file has too many bytes or faces
	FontDamaged       = "font_damaged"        // the file breaks the rules of its format
	FontNotEmbeddable = "font_not_embeddable" // the licence bits forbid subsets of the font in documents
	FontNoOutlines    = "font_no_outlines"    // the font has only pictures of characters
)

// FontError is the reason why a font cannot be used. It wraps ErrFont.
type FontError struct {
	// Code is one of the codes above.
	Code string
	// Reason says what is wrong with the font and how to correct it, for the person who chose the font.
	Reason string
}

// Error returns the reason.
func (e *FontError) Error() string { return ErrFont.Error() + ": " + e.Reason }

// Unwrap returns ErrFont.
func (e *FontError) Unwrap() error { return ErrFont }

func fontError(code, format string, args ...any) error {
	return &FontError{code, fmt.Sprintf(format, args...)}
}

// MissingError reports characters that no font has.
type MissingError struct {
	// Runes are the characters, each once, in the order of the text.
	Runes []rune
}

// Error lists the characters and says how to avoid the error.
func (e *MissingError) Error() string {
	var b strings.Builder
	b.WriteString("no font has ")
	for i, r := range e.Runes {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%c (U+%04X)", r, r)
	}
	if p := e.Package(); p != "" {
		b.WriteString(": install the fonts of the Debian package " + p + " or set the folder of such fonts")
	} else if len(e.Runes) == 1 {
		b.WriteString(": write the text without it")
	} else {
		b.WriteString(": write the text without them")
	}
	return b.String()
}

// Package returns the Debian package whose fonts have the first missing character, or "" if the
// character is of no script, such as an emoji. [New] finds the fonts of the package if the folder in
// which they are installed is one of its arguments.
func (e *MissingError) Package() string {
	if len(e.Runes) == 0 {
		return ""
	}
	return Package(e.Runes[0])
}

// Package returns the Debian package whose fonts have a character, or "" if the character is of no
// script.
func Package(r rune) string {
	switch s := language.LookupScript(r); {
	case isHan(s):
		return "fonts-noto-cjk"
	case !s.Strong():
		return ""
	}
	return "fonts-noto-core"
}
