package pdf

import (
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// pdfDoc maps the codes of PDFDocEncoding (Annex D.3) to characters. The codes
// 0x7F, 0x9F and 0xAD have no character and map to U+FFFD.
var pdfDoc = func() (table [256]rune) {
	for i := range table {
		table[i] = rune(i)
	}
	special := []rune("\u02d8\u02c7\u02c6\u02d9\u02dd\u02db\u02da\u02dc")
	copy(table[0x18:], special)
	copy(table[0x80:], []rune("\u2022\u2020\u2021\u2026\u2014\u2013\u0192\u2044\u2039\u203a\u2212\u2030\u201e\u201c\u201d\u2018"+
		"\u2019\u201a\u2122\ufb01\ufb02\u0141\u0152\u0160\u0178\u017d\u0131\u0142\u0153\u0161\u017e\ufffd\u20ac"))
	table[0x7f], table[0xad] = utf8.RuneError, utf8.RuneError
	return table
}()

// pdfDocCodes is the inverse of pdfDoc.
var pdfDocCodes = func() map[rune]byte {
	codes := make(map[rune]byte, len(pdfDoc))
	for i, r := range pdfDoc {
		if r != utf8.RuneError {
			codes[r] = byte(i)
		}
	}
	return codes
}()

// TextString returns s as a text string object (7.9.2.2): in PDFDocEncoding if
// possible, otherwise in UTF-16BE with its byte order mark.
func TextString(s string) String {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		code, ok := pdfDocCodes[r]
		if !ok {
			return utf16String(s)
		}
		out = append(out, code)
	}
	// If a string begins with the byte order mark of another encoding, readers
	// decode the string in that encoding.
	if text := string(out); strings.HasPrefix(text, "\xfe\xff") || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xef\xbb\xbf") {
		return utf16String(s)
	}
	return String(out)
}

func utf16String(s string) String {
	out := []byte{0xfe, 0xff}
	for _, unit := range utf16.Encode([]rune(s)) {
		out = append(out, byte(unit>>8), byte(unit)) //nolint:gosec // its two bytes
	}
	return String(out)
}

// Date returns t in UTC as a date string (7.9.4) that ends with Z.
func Date(t time.Time) String { return String(t.UTC().Format("D:20060102150405Z")) }

// Text decodes a text string in PDFDocEncoding, UTF-16BE, UTF-8, or UTF-16LE. The
// standard does not define UTF-16LE, but viewers support it. Text removes the
// language escapes (14.9.2.2) of Unicode strings.
func (s String) Text() string {
	text := string(s)
	switch {
	case strings.HasPrefix(text, "\xfe\xff"):
		return decodeUTF16(text[2:], 0, 1)
	case strings.HasPrefix(text, "\xff\xfe"):
		return decodeUTF16(text[2:], 1, 0)
	case strings.HasPrefix(text, "\xef\xbb\xbf"):
		return strings.ToValidUTF8(dropEscapes(text[3:]), string(utf8.RuneError))
	}
	var out strings.Builder
	for i := range len(text) {
		out.WriteRune(pdfDoc[text[i]])
	}
	return out.String()
}

// decodeUTF16 decodes UTF-16. high and low are the indices of the high byte and the
// low byte in each pair of bytes.
func decodeUTF16(text string, high, low int) string {
	units := make([]uint16, 0, len(text)/2)
	for ; len(text) >= 2; text = text[2:] {
		units = append(units, uint16(text[high])<<8|uint16(text[low]))
	}
	return dropEscapes(string(utf16.Decode(units)))
}

// dropEscapes removes language escapes, which begin and end with U+001B.
func dropEscapes(text string) string {
	before, rest, found := strings.Cut(text, "\x1b")
	if !found {
		return text
	}
	var out strings.Builder
	for found {
		out.WriteString(before)
		_, after, closed := strings.Cut(rest, "\x1b")
		if !closed {
			break // not a language escape: the rest is text
		}
		before, rest, found = strings.Cut(after, "\x1b")
		if !found {
			rest = before
		}
	}
	out.WriteString(rest)
	return out.String()
}
