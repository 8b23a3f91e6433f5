package panel

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

// texts returns messages in one language. Go code uses it for messages whose keys are not in a template.
type texts struct{ language *locale.Language }

func (p *Panel) texts(r *http.Request) texts { return texts{p.view.Reader(r).Language} }

// languageFuncs returns the template functions whose results depend on the language.
func (p *Panel) languageFuncs(l *locale.Language) template.FuncMap {
	t := texts{l}
	return template.FuncMap{
		"ago":   func(at any) (template.HTML, error) { return t.ago(p.Now(), at) },
		"exact": t.exact,
		"date":  t.date, "number": l.Number, "size": t.size, "upTo": t.upTo, "say": t.domain, "warning": t.warning,
		"storage": t.storage, "number64": func(n int64) string { return l.Number(int(n)) },
	}
}

// of returns the message with the key. On an error, it returns the key, so that the page can still be
// shown.
func (t texts) of(key string, args ...any) string {
	text, err := t.language.Text(key, args...)
	if err != nil {
		return key
	}
	return text
}

// count returns a message about a number: the message with the key and the ending _one or _many.
func (t texts) count(key string, n int, args ...any) string {
	if n == 1 {
		return t.of(key+"_one", args...)
	}
	return t.of(key+"_many", append([]any{"n", t.language.Number(n)}, args...)...)
}

// date formats a date that is written as YYYY-MM-DD. It returns any other text unchanged.
func (t texts) date(text string) string {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	return t.language.Date(at)
}

// size formats a number of bytes in bytes, kB or MB. 1 MB is 10^6 bytes.
func (t texts) size(n int64) string {
	switch {
	case n < 1000:
		return t.count("size.bytes", int(n))
	case n < 1_000_000:
		return t.of("size.kilobytes", "n", t.language.Number(int((n+500)/1000)))
	default:
		return t.of("size.megabytes", "n", t.language.Decimal(float64(n)/1e6))
	}
}

// storage formats a number of bytes in the units of limits: 1 MB is 2^20 bytes, as in account.ParseSize.
func (t texts) storage(n int64) string {
	switch {
	case n < 1<<10:
		return t.count("size.bytes", int(n))
	case n < 1<<20:
		return t.of("size.kilobytes", "n", t.language.Number(int((n+512)>>10)))
	case n < 1<<30:
		return t.of("size.megabytes", "n", t.language.Decimal(float64(n)/(1<<20)))
	default:
		return t.of("size.gigabytes", "n", t.language.Decimal(float64(n)/(1<<30)))
	}
}

// upTo formats a number of deliveries. Deliveries are counted only up to maxCounted.
func (t texts) upTo(n int) string {
	if n >= maxCounted {
		return t.of("size.max", "n", t.language.Number(maxCounted))
	}
	return t.language.Number(n)
}

// domainPattern matches a text of a domain package that contains values.
type domainPattern struct {
	key        string
	expression *regexp.Regexp
	// names are the names of the placeholders, in the order of the groups of the expression.
	names []string
}

// domainTexts returns a map from the English texts of the section "domain" to their keys, and the patterns of
// the texts with values, the longest first. Both include otherTexts.
var domainTexts = sync.OnceValues(func() (map[string]string, []domainPattern) {
	c, err := locale.Load()
	if err != nil {
		return nil, nil // the vault does not start with a catalog that cannot be loaded
	}
	exact := map[string]string{}
	var patterns []domainPattern
	for key, text := range c.Languages()[0].Section("domain") {
		for _, text := range append([]string{text}, otherTexts[key]...) {
			if strings.Contains(text, "{") {
				patterns = append(patterns, newDomainPattern(key, text))
			} else {
				exact[text] = key
			}
		}
	}
	slices.SortFunc(patterns, func(a, b domainPattern) int {
		return cmp.Or(cmp.Compare(len(b.expression.String()), len(a.expression.String())), cmp.Compare(a.key, b.key))
	})
	return exact, patterns
})

// newDomainPattern returns the pattern of a text with placeholders.
func newDomainPattern(key, text string) domainPattern {
	pattern := domainPattern{key: key}
	var b strings.Builder
	for i, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '{' || r == '}' }) {
		if (i%2 == 1) != strings.HasPrefix(text, "{") {
			pattern.names = append(pattern.names, part)
			if part == "n" {
				b.WriteString(`(\d+)`)
			} else {
				b.WriteString("(.+?)")
			}
		} else {
			b.WriteString(regexp.QuoteMeta(part))
		}
	}
	pattern.expression = regexp.MustCompile("^(?s:" + b.String() + ")$")
	return pattern
}

// findDomain returns the key of a text of a domain package, with the names and values of its
// placeholders. The key is "" if neither the section "domain" nor otherTexts has the text.
func findDomain(text string) (key string, names, values []string) {
	exact, patterns := domainTexts()
	for _, form := range []string{text, sentence(text)} {
		if key, ok := exact[form]; ok {
			return key, nil, nil
		}
		for _, p := range patterns {
			if values := p.expression.FindStringSubmatch(form); values != nil {
				return p.key, p.names, values[1:]
			}
		}
	}
	return "", nil, nil
}

var (
	// phrases are the placeholders whose values are texts of the section "domain", such as a number
	// with a noun.
	phrases = []string{"without", "expiring", "messages", "endpoints", "declared", "found"}
	// sizes are the placeholders whose values are numbers of bytes.
	sizes = []string{"limit_size", "used_size"}
)

// domain translates a key of the catalog, or an English text of the section "domain" or of otherTexts. It
// returns any other text unchanged. The domain packages return English texts, because the API, the
// command line and the database use them too.
func (t texts) domain(text string) string {
	if translated, err := t.language.Text(text); err == nil {
		return translated
	}
	key, names, values := findDomain(text)
	if key == "" {
		return text
	}
	var args []any
	for i, name := range names {
		value := values[i]
		if slices.Contains(phrases, name) {
			value = t.domain(value)
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && slices.Contains(sizes, name) {
			value = t.storage(n)
		}
		args = append(args, name, value)
	}
	return t.of(key, args...)
}

// sentence returns a text with a capital letter at the beginning and a full stop, question mark or
// exclamation mark at the end.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if first >= 'a' && first <= 'z' {
		text = string(first-'a'+'A') + text[size:]
	}
	if text != "" && !strings.ContainsAny(text[len(text)-1:], ".?!") {
		text += "."
	}
	return text
}

// translated returns an error with translated messages. If err does not wrap a *fault.Error, translated
// returns err unchanged.
func (t texts) translated(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	changed := &fault.Error{Kind: e.Kind, Message: t.domain(e.Message), RetryAfter: e.RetryAfter, Err: err}
	for _, f := range e.Fields {
		field := fault.Field{Name: f.Name}
		for _, m := range f.Messages {
			field.Messages = append(field.Messages, t.domain(m))
		}
		changed.Fields = append(changed.Fields, field)
	}
	return changed
}

// render writes the page or the JSON of an error in the language of the request.
func (p *Panel) render(w http.ResponseWriter, r *http.Request, err error) {
	t := p.texts(r)
	translated := t.translated(err)
	if e, ok := translated.(*fault.Error); ok && e.Message == "" && len(e.Fields) > 0 { //nolint:errorlint // translated returns this type
		// The page of an error has no form controls, so it shows the messages of the first field.
		e.Message = strings.Join(e.Fields[0].Messages, " ")
	}
	p.view.Render(w, r, translated)
}

// breaks splits an e-mail address, a URL or a path at the positions where a line may break: after each @,
// / and _.
func breaks(text string) []string { return splitAfter(text, "@/_") }

// addressBreaks splits an e-mail address at the positions where a line may break: after each @ and
// each dot.
func addressBreaks(text string) []string { return splitAfter(text, "@.") }

// splitAfter splits a text after each of the characters.
func splitAfter(text, characters string) (parts []string) {
	for {
		at := strings.IndexAny(text, characters) + 1
		if at == 0 || at == len(text) {
			return append(parts, text)
		}
		parts, text = append(parts, text[:at]), text[at:]
	}
}
