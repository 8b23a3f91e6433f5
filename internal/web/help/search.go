package help

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/help/book"
)

// Limits of a search.
const (
	maxQuery   = 100 // characters
	maxResults = 30
	maxExcerpt = 180 // characters
)

// Weights of a result.
const (
	titleWord = 10
	mostWords = 5
	guide     = 3
)

// index has the sections of all pages. A search scans all of them, so that it also finds parts of
// words, and words of languages that are written without spaces. A scan takes about a millisecond.
type index struct{ entries []entry }

// entry is a section in the form in which it is searched.
type entry struct {
	part, path, language, page string
	section                    *book.Section
	title, text                string
	// translated reports whether the page exists in every language. If it does not, a search in any language
	// also finds the English page.
	translated bool
	// hidden reports whether the page is left out of lists of pages.
	hidden bool
}

func newIndex(b *book.Book) *index {
	x := &index{}
	for i := range b.Parts {
		part := &b.Parts[i]
		for _, e := range part.Entries {
			for tag, p := range e.Pages {
				for j := range p.Sections {
					s := &p.Sections[j]
					x.entries = append(x.entries, entry{
						part: part.Name, path: Root + "/" + part.Name + "/" + e.Name, language: tag, page: p.Title, section: s,
						title: fold(s.Title), text: fold(s.Text), translated: part.Translated, hidden: e.Hidden,
					})
				}
			}
		}
	}
	// The order of the languages in a map is random. Within a language, keep the order of the book.
	slices.SortStableFunc(x.entries, func(a, b entry) int { return cmp.Compare(a.language, b.language) })
	return x
}

// fold returns a text in lower case and without marks, such as accents.
func fold(s string) string {
	t := transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC)
	folded, _, err := transform.String(t, s)
	if err != nil {
		folded = s // it is not valid UTF-8
	}
	return strings.ToLower(folded)
}

// result is a section that has all words of a search.
type result struct {
	// Part is the name of the part, and Path the address of the section.
	Part, Path, Page, Title, Language, Excerpt string

	score int
}

// search returns the sections with all words, in the reader's language and, where pages are not
// translated, in English. The sections with the highest score are first: a word in the title counts
// more than a word in the text.
func (x *index) search(query, language string) (list []result) {
	words := strings.Fields(fold(query))
	if len(words) == 0 {
		return nil
	}
	for i := range x.entries {
		e := &x.entries[i]
		if e.language != language && (e.translated || e.language != english) {
			continue
		}
		score, at, all := 0, len(e.text), true
		for _, word := range words {
			inTitle := strings.Contains(e.title, word)
			found := strings.Index(e.text, word)
			if all = inTitle || found >= 0; !all {
				break
			}
			score += min(mostWords, strings.Count(e.text, word))
			if inTitle {
				score += titleWord
			}
			if found >= 0 {
				at = min(at, found)
			}
		}
		if !all {
			continue
		}
		// Guides, which are translated, come before references. Hidden pages, which are the records of
		// architecture decisions, come last.
		switch {
		case e.translated:
			score += guide
		case e.hidden:
			score -= guide
		}
		to := e.path
		if e.section.Level > 1 {
			to += "#" + e.section.ID
		}
		list = append(list, result{e.part, to, e.page, e.section.Title, e.language, excerpt(e.section.Text, e.text, at), score})
	}
	slices.SortStableFunc(list, func(a, b result) int { return b.score - a.score })
	return list[:min(len(list), maxResults)]
}

// excerpt returns the part of a text around a position in its folded form.
func excerpt(text, folded string, at int) string {
	all := []rune(text)
	// Folding removes characters, so the position is an estimate.
	first := 0
	if at < len(folded) {
		first = max(0, utf8.RuneCountInString(folded[:at])-maxExcerpt/3)
	}
	first = min(first, max(0, len(all)-maxExcerpt))
	end := min(len(all), first+maxExcerpt)
	part := string(all[first:end])
	if first > 0 {
		if _, rest, found := strings.Cut(part, " "); found {
			part = rest
		}
		part = "… " + part
	}
	if end < len(all) {
		part += " …"
	}
	return part
}

// results is the data of the page of results.
type results struct {
	Query   string
	Results []result
}

var errQuery = fault.New(fault.BadRequest, "The search text is longer than 100 characters.")

// search shows the sections with the words in the parameter q.
func (p *Pages) search(w http.ResponseWriter, r *http.Request) error {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	if utf8.RuneCountInString(query) > maxQuery || !utf8.ValidString(query) {
		return errQuery
	}
	x, err := p.find()
	if err != nil {
		return err
	}
	return p.view.Draw(w, r, http.StatusOK, "results.html", results{query, x.search(query, p.view.Reader(r).Language.Tag)})
}
