package typeset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-text/typesetting/language"
)

// ErrNoRoom reports that the text does not fit the width at the smallest size that the style allows.
var ErrNoRoom = errors.New("the text does not fit at the smallest size")

// ErrUnavailable reports that the binary was built without fonts.
var ErrUnavailable = errors.New("this binary was built without fonts: build it with `make build`")

// ErrFont reports a font file that is damaged, not supported, or may not be embedded.
var ErrFont = errors.New("the font cannot be used")

// MissingError reports characters that no font has.
type MissingError struct {
	// Runes are the characters, each once, in the order of the text.
	Runes []rune
}

// Error names the characters and the remedy.
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
	} else {
		b.WriteString(": write the text without it")
	}
	return b.String()
}

// Package returns the Debian package whose fonts have the first missing character, or "" if the
// character is of no script, such as an emoji. Fonts of the package are found in the folders of
// [New].
func (e *MissingError) Package() string {
	if len(e.Runes) == 0 {
		return ""
	}
	switch s := language.LookupScript(e.Runes[0]); {
	case isHan(s):
		return "fonts-noto-cjk"
	case !s.Strong():
		return ""
	}
	return "fonts-noto-core"
}
