package main

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plain returns text with each non-printable character replaced by its escape sequence in Go, so
// that the text can neither move the cursor nor change the direction of letters. Commands print
// names and messages from other people only through plain, plainLines, plainJSON or csvLines.
func plain(text string) string {
	if isPlain(text) {
		return text
	}
	var out strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[n:]
	}
	return out.String()
}

func isPlain(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// plainLines escapes text as plain does, but does not change line feeds and tabs.
func plainLines(text string) string {
	for _, keep := range []string{"\n", "\t"} {
		if before, after, found := strings.Cut(text, keep); found {
			return plainLines(before) + keep + plainLines(after)
		}
	}
	return plain(text)
}

// plainJSON returns a JSON text with all non-printable characters escaped, except the line feed at
// the end. The characters must be in strings, as in the output of json.Encoder.
func plainJSON(text []byte) []byte {
	body := bytes.TrimRight(text, "\n")
	if isPlain(string(body)) {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(body) {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// jsonLines escapes JSON. Each Write must contain one line, as json.Encoder writes it.
type jsonLines struct{ w io.Writer }

func (j jsonLines) Write(line []byte) (int, error) {
	_, err := j.w.Write(plainJSON(line))
	return len(line), err
}

// csvLines escapes CSV, except the ends of lines and a byte order mark at the beginning.
type csvLines struct {
	w     io.Writer
	begun bool
	// rest is the incomplete end of the previous Write: the first bytes of a character, or a carriage
	// return.
	rest []byte
}

const byteOrderMark = '\uFEFF'

func (c *csvLines) Write(p []byte) (int, error) {
	text := append(c.rest, p...) //nolint:gocritic // rest is replaced below
	var out bytes.Buffer
	for len(text) > 0 && utf8.FullRune(text) && string(text) != "\r" {
		r, n := utf8.DecodeRune(text)
		switch {
		case bytes.HasPrefix(text, []byte("\r\n")):
			n = len("\r\n")
			out.Write(text[:n])
		case r == '\n', r == byteOrderMark && !c.begun:
			out.Write(text[:n])
		default:
			out.WriteString(plain(string(text[:n])))
		}
		c.begun, text = true, text[n:]
	}
	c.rest = bytes.Clone(text)
	_, err := c.w.Write(out.Bytes())
	return len(p), err
}

// printf prints text for people. It escapes the arguments that are strings, errors or
// fmt.Stringers.
func printf(w io.Writer, format string, args ...any) {
	for i, a := range args {
		args[i] = plainValue(a)
	}
	_, _ = fmt.Fprintf(w, format, args...)
}

// plainValue returns the escaped text of an error, a fmt.Stringer or a string. It returns other
// values unchanged.
func plainValue(a any) any {
	switch v := a.(type) {
	case error:
		return plain(v.Error())
	case fmt.Stringer:
		return plain(v.String())
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.String {
		return plain(v.String())
	}
	return a
}

// table prints rows in aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, headers ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(t.w, strings.Join(headers, "\t"))
	return t
}

// row adds a row. It escapes each cell, so that no text adds a column or a row.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = plain(fmt.Sprint(cell))
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// flush prints the table.
func (t table) flush() { _ = t.w.Flush() }
