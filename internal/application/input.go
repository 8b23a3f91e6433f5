package application

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
)

// Yes is the stored value of a field of type Check that is checked.
const Yes = "yes"

// checkText returns a text without surrounding space, or the code of its problem. Lengths are in code
// points.
func checkText(text string, limit int) (string, cert.Code) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	switch {
	case !account.CleanText(text):
		return "", cert.CodeNotText
	case utf8.RuneCountInString(text) > limit:
		return "", cert.CodeTooLong
	}
	return text, ""
}

var numberRule = regexp.MustCompile(`^[+-]?\d{1,30}([.,]\d{1,30})?$`)

// limit returns the maximum length of a value in code points.
func (f *Field) limit() int {
	switch {
	case f.Type != Area:
		return maxLine
	case f.Column != "":
		return maxColumn
	}
	return maxArea
}

// read returns a value in its stored form, or the code of its problem.
func (f *Field) read(value string) (string, cert.Code) {
	value, code := checkText(value, f.limit())
	if value == "" || code != "" {
		return value, code
	}
	switch f.Type {
	case Line:
		value = strings.Join(strings.Fields(value), " ")
	case Date:
		if at, err := time.Parse(time.DateOnly, value); err != nil || at.Year() < 1 {
			return "", cert.CodeNotDate
		}
	case Number:
		if !numberRule.MatchString(value) {
			return "", CodeNumber
		}
		value = strings.ReplaceAll(value, ",", ".")
	case Choice:
		if !slices.Contains(f.Choices, value) {
			return "", CodeChoice
		}
	case Check:
		switch strings.ToLower(value) {
		case "yes", "true", "on", "1":
			return Yes, ""
		case "no", "false", "off", "0":
			return "", ""
		}
		return "", CodeCheck
	case Upload:
		return "", CodeField
	case Area:
	}
	return value, ""
}

// readValues maps the keys of fields to the values in their stored form. It adds the problems of the values to
// bad.
func readValues(bad *cert.Problems, fields []Field, values map[string]string) map[string]string {
	stored := map[string]string{}
	for i := range fields {
		f := &fields[i]
		if f.Type == Upload {
			continue
		}
		value, code := f.read(values[f.Key])
		switch {
		case code != "":
			add(bad, FieldOf(f.Key), code, limitOf(code, f.limit()))
		case value != "":
			stored[f.Key] = value
		case f.Required:
			add(bad, FieldOf(f.Key), cert.CodeRequired, 0)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if f := fieldOf(fields, key); (f == nil || f.Type == Upload) && values[key] != "" {
			add(bad, FieldOf(strings.ToValidUTF8(key[:min(len(key), maxKey)], "")), CodeField, 0)
		}
	}
	return stored
}

// checkFiles checks counts, which maps the keys of fields to the numbers of their files, and adds the problems
// to bad.
func checkFiles(bad *cert.Problems, o *Offer, counts map[string]int) {
	total := 0
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		total += counts[key]
		if f := fieldOf(o.Fields, key); f == nil || f.Type != Upload {
			add(bad, FileOf(strings.ToValidUTF8(key[:min(len(key), maxKey)], "")), CodeField, 0)
		}
	}
	for i := range o.Fields {
		if f := &o.Fields[i]; f.Type == Upload && f.Required && counts[f.Key] == 0 {
			add(bad, FileOf(f.Key), cert.CodeRequired, 0)
		}
	}
	if total > o.MaxFiles {
		add(bad, "files", CodeFiles, o.MaxFiles)
	}
}
