package locale_test

import (
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/locale"
)

func load(t *testing.T) *locale.Catalog {
	t.Helper()
	c, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	placeholder = regexp.MustCompile(`\{[^}]*\}`)
	letter      = regexp.MustCompile(`\pL`)
	word        = regexp.MustCompile(`\pL{2,}`)
)

// texts returns the texts of all messages of a language, with their placeholders.
func texts(l *locale.Language) map[string]string {
	all := map[string]string{}
	for _, key := range l.Keys() {
		if _, ok := all[key]; !ok {
			name, _, _ := strings.Cut(key, ".")
			maps.Copy(all, l.Section(name))
		}
	}
	return all
}

// isSentence reports whether a message has more than one word. A message with one word, such
// as "page" or "{n} min", can be the same in two languages.
func isSentence(text string) bool {
	words := placeholder.ReplaceAllString(text, "")
	if words == text {
		return strings.Contains(text, " ") && letter.MatchString(text)
	}
	return len(word.FindAllString(words, -1)) > 1
}

// TestCatalogsAgree checks that all languages have the same keys of messages, that messages are
// translated, and that only Arabic is written from right to left.
func TestCatalogsAgree(t *testing.T) {
	t.Parallel()
	if err := load(t).Check(); err != nil {
		t.Fatal(err)
	}
	var tags []string
	first := load(t).Languages()[0]
	english := texts(first)
	for _, l := range load(t).Languages() {
		tags = append(tags, l.Tag)
		if !slices.Equal(l.Keys(), first.Keys()) {
			t.Errorf("the keys of the messages of %s and %s differ, want the same keys", l.Tag, first.Tag)
		}
		if (l.Direction == "rtl") != (l.Tag == "ar") {
			t.Errorf("direction of %s = %s, want rtl only for ar", l.Tag, l.Direction)
		}
		// A message that equals the English message was probably not translated.
		for key, text := range texts(l) {
			if l.Tag != first.Tag && text == english[key] && isSentence(text) {
				t.Errorf("the message %s is in English in the catalog of %s: %q", key, l.Tag, text)
			}
		}
	}
	if !slices.Equal(tags, []string{"en", "es", "fr", "de", "pt", "ar", "hi", "zh"}) {
		t.Errorf("languages = %v, want en, es, fr, de, pt, ar, hi and zh", tags)
	}
}

func TestMatchSelectsLanguage(t *testing.T) {
	t.Parallel()
	c := load(t)
	for accept, want := range map[string]string{
		"": "en", "*": "en", "xx": "en", "sv, tlh": "en", "nonsense;;q=": "en", "de-CH, fr;q=0.5": "de", "fr-CA": "fr", "sv;q=1, ar-EG;q=0.9": "ar",
		"zh-Hans-CN": "zh", "zh-CN,zh;q=0.9,en;q=0.8": "zh", "pt-BR": "pt", "hi-IN,en;q=0.2": "hi", "en;q=0.1, es-MX;q=0.9": "es", strings.Repeat("x", 10_000): "en",
	} {
		if got := c.Match(accept).Tag; got != want {
			t.Errorf("Match(%.40q) = %s, want %s", accept, got, want)
		}
	}
	if _, ok := c.Get("xx"); ok {
		t.Error("Get(xx) returned a language, want none")
	}
}

func TestFirstOfPrefersEarlierTags(t *testing.T) {
	t.Parallel()
	c := load(t)
	for want, tags := range map[string][]string{"de": {"", "xx", "de", "fr"}, "fr": {"fr", "de"}, "en": {"xx", ""}} {
		if got := c.FirstOf(tags...).Tag; got != want {
			t.Errorf("FirstOf(%q) = %s, want %s", tags, got, want)
		}
	}
}

func TestDatesAndTimesInEachLanguage(t *testing.T) {
	t.Parallel()
	c := load(t)
	day := time.Date(2026, 3, 1, 23, 5, 0, 0, time.FixedZone("", -3600))
	for tag, want := range map[string][3]string{
		"en": {"1 March 2026", "2 March 2026, 00:05 UTC", "March 2026"}, "es": {"1 de marzo de 2026", "2 de marzo de 2026, 00:05 UTC", "marzo de 2026"},
		"fr": {"1er mars 2026", "2 mars 2026 à 00:05 UTC", "mars 2026"}, "de": {"1. März 2026", "2. März 2026, 00:05 UTC", "März 2026"},
		"pt": {"1 de março de 2026", "2 de março de 2026, 00:05 UTC", "março de 2026"}, "ar": {"1 مارس 2026", "2 مارس 2026، 00:05 UTC", "مارس 2026"},
		"hi": {"1 मार्च 2026", "2 मार्च 2026, 00:05 UTC", "मार्च 2026"}, "zh": {"2026年3月1日", "2026年3月2日 00:05 UTC", "2026年3月"},
	} {
		l, _ := c.Get(tag)
		if got := [3]string{l.Date(day), l.Time(day), l.Month(day)}; got != want {
			t.Errorf("date, time and month in %s = %q, want %q", tag, got, want)
		}
	}
}

func TestMessagesReplacePlaceholders(t *testing.T) {
	t.Parallel()
	en, _ := load(t).Get("en")
	if got, err := en.Text("revoked.text", "institution", "A & B"); err != nil || got != "A & B has revoked this certificate. It is no longer valid." {
		t.Errorf("message with a value = %q, err = %v, want the value unchanged in the text", got, err)
	}
	if got, err := en.Text("signatures.range", "from", "{end}", "end", "x"); err != nil || got != "{end} to x" {
		t.Errorf("message whose value has a placeholder = %q, err = %v, want the value unchanged", got, err)
	}
	if got, err := en.HTML("revoked.text", "institution", "<b>"); err != nil || !strings.HasPrefix(string(got), "<bdi>&lt;b&gt;</bdi> has") {
		t.Errorf("markup of a message with a value = %q, err = %v, want the value escaped and isolated", got, err)
	}
	if got, err := en.HTML("unknown.near", "link", template.HTML("<a>x</a>")); err != nil || got != "Did you mean <a>x</a>?" {
		t.Errorf("markup of a message with a value of type template.HTML = %q, err = %v, want the value unchanged", got, err)
	}
	for name, args := range map[string][]any{
		"unknown message": {"no.such"}, "missing argument": {"revoked.text"}, "name without value": {"revoked.text", "institution"},
		"unknown name": {"revoked.text", "name", "x"}, "extra argument": {"valid.title", "name", "x"},
	} {
		if got, err := en.Text(args[0].(string), args[1:]...); err == nil {
			t.Errorf("%s: Text = %q, want an error", name, got)
		}
	}
}
