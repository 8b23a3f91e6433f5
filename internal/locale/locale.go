// Package locale implements the languages of pages and mails: the list of languages, the choice of
// a language for a visitor, the messages, and the formats of dates and numbers. Pages and mails select
// messages by key.
package locale

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/text/language"
)

//go:embed catalog
var catalogs embed.FS

// tags has the tags of the languages. The first language is the default for a visitor who reads
// none of the languages.
var tags = []string{"en", "es", "fr", "de", "pt", "ar", "hi", "zh"}

// Supported reports whether there is a language with the tag.
func Supported(tag string) bool { return slices.Contains(tags, tag) }

// monthsOfYear is the number of month names in a catalog.
const monthsOfYear = 12

// Catalog has all languages.
type Catalog struct {
	languages []*Language
	matcher   language.Matcher
}

// Language is one language of a catalog.
type Language struct {
	// Tag is the BCP 47 tag. Name is the name of the language, in that language.
	Tag, Name string
	// Direction is "ltr" or "rtl".
	Direction string

	date, month, time string
	// firstDay is the text for the first day of a month, such as "1er".
	firstDay string
	months   []string
	// read returns the messages. The first call parses them. If Check returns no error, read returns none.
	read func() (map[string]message, error)
}

// message is a text and its placeholders.
type message struct {
	text         string
	placeholders []string
}

// Load returns the catalog, which all callers share. The messages of a language are parsed when they are
// first used, because most vaults use few languages.
func Load() (*Catalog, error) { return load() }

// Check returns an error if the messages of a language are not valid, or if the languages do not have
// the same message keys with the same placeholders. Only a test calls Check, because the catalogs are
// embedded.
func (c *Catalog) Check() error {
	first, err := readMessages(c.languages[0].Tag)
	if err != nil {
		return err
	}
	for _, l := range c.languages[1:] {
		messages, err := readMessages(l.Tag)
		if err != nil {
			return err
		}
		if err := compare(l.Tag, messages, c.languages[0].Tag, first); err != nil {
			return err
		}
	}
	return nil
}

var load = sync.OnceValues(func() (*Catalog, error) {
	c := &Catalog{}
	known := make([]language.Tag, len(tags))
	for i, tag := range tags {
		l, err := read(tag)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog of %s: %w", tag, err)
		}
		c.languages = append(c.languages, l)
		known[i] = language.Make(tag)
	}
	c.matcher = language.NewMatcher(known)
	return c, nil
})

// read reads language.toml, which has the name, the direction and the date formats of a language.
func read(tag string) (*Language, error) {
	folder := "catalog/" + tag
	var meta struct {
		Name      string   `toml:"name"`
		Direction string   `toml:"direction"`
		Date      string   `toml:"date"`
		Month     string   `toml:"month"`
		Time      string   `toml:"time"`
		First     string   `toml:"first"`
		Months    []string `toml:"months"`
	}
	if _, err := toml.DecodeFS(catalogs, folder+"/language.toml", &meta); err != nil {
		return nil, err
	}
	l := &Language{
		Tag: tag, Name: meta.Name, Direction: meta.Direction, date: meta.Date, month: meta.Month, time: meta.Time, firstDay: cmp.Or(meta.First, "1"), months: meta.Months,
		read: sync.OnceValues(func() (map[string]message, error) { return readMessages(tag) }),
	}
	if l.Name == "" || l.Direction != "ltr" && l.Direction != "rtl" || len(l.months) != monthsOfYear ||
		!samePlaceholders(l.date, "{day}{month}{year}") || !samePlaceholders(l.month, "{month}{year}") || !samePlaceholders(l.time, "{clock}{date}") {
		return nil, errors.New("language.toml is incomplete or invalid")
	}
	return l, nil
}

// readMessages reads the files of a language except language.toml. Each file has the messages of one group
// of pages or mails.
func readMessages(tag string) (map[string]message, error) {
	folder := "catalog/" + tag
	list := map[string]message{}
	files, err := fs.Glob(catalogs, folder+"/*.toml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if path.Base(file) == "language.toml" {
			continue
		}
		var sections map[string]map[string]string
		if _, err := toml.DecodeFS(catalogs, file, &sections); err != nil {
			return nil, err
		}
		for section, messages := range sections {
			for key, text := range messages {
				key = section + "." + key
				if _, duplicate := list[key]; duplicate || strings.TrimSpace(text) == "" {
					return nil, fmt.Errorf("%s: %s is empty or a duplicate", file, key)
				}
				list[key] = message{text, placeholders(text)}
			}
		}
	}
	return list, nil
}

// compare returns an error if the messages of a language differ from those of the first language in
// keys or placeholders.
func compare(tag string, messages map[string]message, firstTag string, first map[string]message) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(first)) {
		m, ok := messages[key]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("the catalog of %s does not have %s", tag, key))
		case !slices.Equal(m.placeholders, first[key].placeholders):
			errs = append(errs, fmt.Errorf("the catalog of %s: the placeholders of %s differ from those in %s", tag, key, firstTag))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(messages)) {
		if _, ok := first[key]; !ok {
			errs = append(errs, fmt.Errorf("the catalog of %s has %s, which is missing in %s", tag, key, firstTag))
		}
	}
	return errors.Join(errs...)
}

// placeholders returns the names of the placeholders of a text, sorted.
func placeholders(text string) (list []string) {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			slices.Sort(list)
			return list
		}
		name, after, _ := strings.Cut(after, "}")
		list = append(list, name)
		rest = after
	}
}

func samePlaceholders(a, b string) bool { return slices.Equal(placeholders(a), placeholders(b)) }

// Languages returns all languages.
func (c *Catalog) Languages() []*Language { return slices.Clone(c.languages) }

// Get returns the language with the tag, and reports whether the language exists.
func (c *Catalog) Get(tag string) (*Language, bool) {
	i := slices.IndexFunc(c.languages, func(l *Language) bool { return l.Tag == tag })
	if i < 0 {
		return nil, false
	}
	return c.languages[i], true
}

// FirstOf returns the language of the first tag that the catalog has, or the first language if it has
// none of them.
func (c *Catalog) FirstOf(tags ...string) *Language {
	for _, tag := range tags {
		if l, ok := c.Get(tag); ok {
			return l
		}
	}
	return c.languages[0]
}

// maxAccept is the maximum number of bytes of an Accept-Language header that Match reads.
const maxAccept = 500

// Match returns the language that best matches an Accept-Language header (RFC 9110, 12.5.4). It
// returns the first language if no language matches or the header is not valid.
func (c *Catalog) Match(accept string) *Language {
	accepted, _, err := language.ParseAcceptLanguage(accept[:min(len(accept), maxAccept)])
	if err != nil || len(accepted) == 0 {
		return c.languages[0]
	}
	_, i, _ := c.matcher.Match(accepted...)
	return c.languages[i]
}

// messages returns the messages, or nil if they are not valid.
func (l *Language) messages() map[string]message {
	messages, err := l.read()
	if err != nil {
		return nil
	}
	return messages
}

// Keys returns the sorted keys of the messages.
func (l *Language) Keys() []string { return slices.Sorted(maps.Keys(l.messages())) }

// Has reports whether there is a message with the key.
func (l *Language) Has(key string) bool { return l.messages()[key].text != "" }

// Text returns a message. args has the name of each placeholder, followed by its value. Text
// returns an error if the message does not exist, or if args do not match its placeholders.
func (l *Language) Text(key string, args ...any) (string, error) {
	return l.fill(key, args, func(v any) string { return fmt.Sprint(v) })
}

// Texts returns two functions. say is like Text with the prefix before the key, but returns no error.
// failed returns the errors of all calls of say.
func (l *Language) Texts(prefix string) (say func(key string, args ...any) string, failed func() error) {
	var errs []error
	say = func(key string, args ...any) string {
		text, err := l.Text(prefix+key, args...)
		errs = append(errs, err)
		return text
	}
	return say, func() error { return errors.Join(errs...) }
}

// HTML is like Text, but returns markup. Values are escaped, and enclosed in bdi elements, so that a
// value does not change the direction of the surrounding text. A value of type template.HTML is used
// unchanged.
func (l *Language) HTML(key string, args ...any) (template.HTML, error) {
	text, err := l.fill(key, args, func(v any) string {
		if markup, ok := v.(template.HTML); ok {
			return string(markup)
		}
		return "<bdi>" + template.HTMLEscapeString(fmt.Sprint(v)) + "</bdi>"
	})
	return template.HTML(text), err //nolint:gosec // messages are embedded and values are escaped
}

func (l *Language) fill(key string, args []any, format func(any) string) (string, error) {
	messages, err := l.read()
	if err != nil {
		return "", err
	}
	m, ok := messages[key]
	if !ok {
		return "", fmt.Errorf("unknown message %s", key)
	}
	if len(args)%2 != 0 || len(args)/2 != len(m.placeholders) {
		return "", fmt.Errorf("the message %s requires the values %v", key, m.placeholders)
	}
	if len(args) == 0 {
		return m.text, nil
	}
	values := make(map[string]string, len(args)/2)
	for i := 0; i < len(args); i += 2 {
		name := fmt.Sprint(args[i])
		if !slices.Contains(m.placeholders, name) {
			return "", fmt.Errorf("the message %s has no placeholder %s", key, name)
		}
		values[name] = format(args[i+1])
	}
	return expand(m.text, func(name string) string { return values[name] }), nil
}

// expand replaces each placeholder of a text with its value. It does not replace placeholders in
// values.
func expand(text string, value func(name string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(value(name))
		text = after
	}
}

// Date formats the date of a time in the location of the time.
func (l *Language) Date(t time.Time) string {
	day := strconv.Itoa(t.Day())
	if t.Day() == 1 {
		day = l.firstDay
	}
	return expand(l.date, func(name string) string {
		switch name {
		case "day":
			return day
		case "month":
			return l.months[t.Month()-1]
		default:
			return strconv.Itoa(t.Year())
		}
	})
}

// Month formats the month and the year of a time in the location of the time.
func (l *Language) Month(t time.Time) string {
	return expand(l.month, func(name string) string {
		if name == "month" {
			return l.months[t.Month()-1]
		}
		return strconv.Itoa(t.Year())
	})
}

// Time formats the date and the time of day in UTC.
func (l *Language) Time(t time.Time) string {
	t = t.UTC()
	return expand(l.time, func(name string) string {
		if name == "date" {
			return l.Date(t)
		}
		return t.Format("15:04")
	})
}

// separators are the characters between groups of digits and before the decimals. The languages without
// an entry use a comma and a point.
var separators = map[string][2]string{"de": {".", ","}, "es": {".", ","}, "fr": {"\u202f", ","}, "pt": {".", ","}}

// Number formats a number with groups of three digits.
func (l *Language) Number(n int) string {
	separator := ","
	if own, ok := separators[l.Tag]; ok {
		separator = own[0]
	}
	text := strconv.Itoa(n)
	var b strings.Builder
	for i, c := range text {
		if i > 0 && (len(text)-i)%3 == 0 && text[i-1] != '-' {
			b.WriteString(separator)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Decimal formats a number with one decimal.
func (l *Language) Decimal(n float64) string {
	text := strconv.FormatFloat(n, 'f', 1, 64)
	if own, ok := separators[l.Tag]; ok {
		return strings.Replace(text, ".", own[1], 1)
	}
	return text
}

// Section returns the texts of the messages of a section by key. Placeholders are not replaced.
func (l *Language) Section(name string) map[string]string {
	section := map[string]string{}
	for key, m := range l.messages() {
		if strings.HasPrefix(key, name+".") {
			section[key] = m.text
		}
	}
	return section
}
