// Package locale owns the languages in which the vault speaks to people: which
// there are, which of them a visitor reads, what each message is in them, and
// how they write dates. It knows no page and no mail; those name the messages
// they want.
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
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/text/language"
)

//go:embed catalog
var catalogs embed.FS

// tags are the languages, the first of which is taken for a visitor who reads
// none of them.
var tags = []string{"en", "es", "fr", "de", "pt", "ar", "hi", "zh"}

// Speaks tells whether there is a language of a tag.
func Speaks(tag string) bool { return slices.Contains(tags, tag) }

// monthsOfYear is how many names of months a catalog has.
const monthsOfYear = 12

// Catalog is all languages.
type Catalog struct {
	languages []*Language
	matcher   language.Matcher
}

// Language is one of them.
type Language struct {
	// Tag is its BCP 47 tag, Name what it calls itself.
	Tag, Name string
	// Direction is "ltr" or "rtl".
	Direction string

	date, time string
	// first is how the first day of a month is written.
	first    string
	months   []string
	messages map[string]message
}

// message is a text, and the placeholders in it.
type message struct {
	text  string
	words []string
}

// Load reads the catalogs. One that lacks a message of another, or has other
// placeholders in it, is an error.
func Load() (*Catalog, error) {
	c := &Catalog{}
	known := make([]language.Tag, len(tags))
	for i, tag := range tags {
		l, err := read(tag)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog of %s: %w", tag, err)
		}
		if i > 0 {
			if err := l.agrees(c.languages[0]); err != nil {
				return nil, err
			}
		}
		c.languages = append(c.languages, l)
		known[i] = language.Make(tag)
	}
	c.matcher = language.NewMatcher(known)
	return c, nil
}

// read reads the files of a language: language.toml says how it is written, each
// of the others has the messages of one surface.
func read(tag string) (*Language, error) {
	folder := "catalog/" + tag
	var says struct {
		Name      string   `toml:"name"`
		Direction string   `toml:"direction"`
		Date      string   `toml:"date"`
		Time      string   `toml:"time"`
		First     string   `toml:"first"`
		Months    []string `toml:"months"`
	}
	if _, err := toml.DecodeFS(catalogs, folder+"/language.toml", &says); err != nil {
		return nil, err
	}
	l := &Language{
		Tag: tag, Name: says.Name, Direction: says.Direction, date: says.Date, time: says.Time, first: cmp.Or(says.First, "1"), months: says.Months,
		messages: map[string]message{},
	}
	if l.Name == "" || l.Direction != "ltr" && l.Direction != "rtl" || len(l.months) != monthsOfYear ||
		!sameWords(l.date, "{day}{month}{year}") || !sameWords(l.time, "{clock}{date}") {
		return nil, errors.New("it does not say how the language is written")
	}
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
				if _, twice := l.messages[key]; twice || strings.TrimSpace(text) == "" {
					return nil, fmt.Errorf("%s has %s empty or for the second time", file, key)
				}
				l.messages[key] = message{text, words(text)}
			}
		}
	}
	return l, nil
}

// agrees tells in what a catalog differs from the first.
func (l *Language) agrees(first *Language) error {
	var errs []error
	for _, key := range first.Keys() {
		m, ok := l.messages[key]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("the catalog of %s lacks %s", l.Tag, key))
		case !slices.Equal(m.words, first.messages[key].words):
			errs = append(errs, fmt.Errorf("the catalog of %s has other placeholders in %s than that of %s", l.Tag, key, first.Tag))
		}
	}
	for _, key := range l.Keys() {
		if _, ok := first.messages[key]; !ok {
			errs = append(errs, fmt.Errorf("the catalog of %s has %s, that of %s does not", l.Tag, key, first.Tag))
		}
	}
	return errors.Join(errs...)
}

// words lists the placeholders of a text, sorted.
func words(text string) (list []string) {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			slices.Sort(list)
			return list
		}
		word, after, _ := strings.Cut(after, "}")
		list = append(list, word)
		rest = after
	}
}

func sameWords(a, b string) bool { return slices.Equal(words(a), words(b)) }

// Languages lists all languages.
func (c *Catalog) Languages() []*Language { return slices.Clone(c.languages) }

// Get gives the language of a tag.
func (c *Catalog) Get(tag string) (*Language, bool) {
	i := slices.IndexFunc(c.languages, func(l *Language) bool { return l.Tag == tag })
	if i < 0 {
		return nil, false
	}
	return c.languages[i], true
}

// maxAccept bounds how much of an Accept-Language header is read.
const maxAccept = 500

// Match gives the language that fits an Accept-Language header best (RFC 9110,
// 12.5.4).
func (c *Catalog) Match(accept string) *Language {
	wanted, _, err := language.ParseAcceptLanguage(accept[:min(len(accept), maxAccept)])
	if err != nil || len(wanted) == 0 {
		return c.languages[0]
	}
	_, i, _ := c.matcher.Match(wanted...)
	return c.languages[i]
}

// Keys lists the messages, sorted.
func (l *Language) Keys() []string { return slices.Sorted(maps.Keys(l.messages)) }

// Has tells whether there is a message.
func (l *Language) Has(key string) bool { return l.messages[key].text != "" }

// Text gives a message. args are the names of its placeholders, each followed by
// its value.
func (l *Language) Text(key string, args ...any) (string, error) {
	return l.fill(key, args, func(v any) string { return fmt.Sprint(v) })
}

// HTML gives a message as markup. Values are escaped and kept from turning the
// direction of the text around them; template.HTML is taken as it is.
func (l *Language) HTML(key string, args ...any) (template.HTML, error) {
	text, err := l.fill(key, args, func(v any) string {
		if markup, ok := v.(template.HTML); ok {
			return string(markup)
		}
		return "<bdi>" + template.HTMLEscapeString(fmt.Sprint(v)) + "</bdi>"
	})
	return template.HTML(text), err //nolint:gosec // messages are ours and their values escaped
}

func (l *Language) fill(key string, args []any, show func(any) string) (string, error) {
	m, ok := l.messages[key]
	if !ok {
		return "", fmt.Errorf("there is no message %s", key)
	}
	if len(args)%2 != 0 || len(args)/2 != len(m.words) {
		return "", fmt.Errorf("the message %s takes %v", key, m.words)
	}
	if len(args) == 0 {
		return m.text, nil
	}
	values := make(map[string]string, len(args)/2)
	for i := 0; i < len(args); i += 2 {
		word := fmt.Sprint(args[i])
		if !slices.Contains(m.words, word) {
			return "", fmt.Errorf("the message %s has no %s", key, word)
		}
		values[word] = show(args[i+1])
	}
	return expand(m.text, func(word string) string { return values[word] }), nil
}

// expand writes values in place of the placeholders of a text, each once: what
// looks like one in a value is left.
func expand(text string, value func(word string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		word, after, _ := strings.Cut(rest, "}")
		b.WriteString(value(word))
		text = after
	}
}

// Date writes a day.
func (l *Language) Date(t time.Time) string {
	day := strconv.Itoa(t.Day())
	if t.Day() == 1 {
		day = l.first
	}
	return expand(l.date, func(word string) string {
		switch word {
		case "day":
			return day
		case "month":
			return l.months[t.Month()-1]
		default:
			return strconv.Itoa(t.Year())
		}
	})
}

// Time writes a moment, in UTC.
func (l *Language) Time(t time.Time) string {
	t = t.UTC()
	return expand(l.time, func(word string) string {
		if word == "date" {
			return l.Date(t)
		}
		return t.Format("15:04")
	})
}
