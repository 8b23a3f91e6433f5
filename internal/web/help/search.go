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
	titleWord = 10 // for each word of the query in the title
	mostWords = 5  // at most, for the occurrences of one word in the text
	guide     = 3  // added for a translated page, and subtracted for a hidden page
)

// index has the sections of all pages. A search scans all sections, so that it also finds parts of
// words, and words of languages that are written without spaces. A scan takes about a millisecond.
type index struct{ entries []entry }

// entry is a section. title and text are folded.
type entry struct {
	part, path, language, page string
	section                    *book.Section
	title, text                string
	// translated reports whether the page exists in every language. If not, it exists only in English, and a
	// search in any language finds it.
	translated bool
	// hidden reports whether the page is missing from the lists of pages.
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
	// The order of a map is random. A stable sort by language keeps the order of the book in each language.
	slices.SortStableFunc(x.entries, func(a, b entry) int { return cmp.Compare(a.language, b.language) })
	return x
}

// fold returns s in lower case and without combining marks, such as accents.
func fold(s string) string {
	t := transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC)
	folded, _, err := transform.String(t, s)
	if err != nil {
		folded = s // after an error, keep the marks
	}
	return strings.ToLower(folded)
}

// result is a section that contains all words of a query.
type result struct {
	// Part is the name of the part. Path is the address of the section.
	Part, Path, Page, Title, Language, Excerpt string

	score int
}

// search returns the sections that contain all words of the query, at most maxResults. It searches the
// pages in the given language, and the pages that exist only in English. The sections with the highest
// score are first.
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
		// Guides are translated and rank higher. Hidden pages are records of architecture decisions and rank
		// lower.
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

// excerpt returns at most maxExcerpt characters of text, and an ellipsis where it cuts the text. at is the
// position of a word in folded, in bytes. If at is len(folded), the excerpt is the beginning of text.
func excerpt(text, folded string, at int) string {
	all := []rune(text)
	// Folding can remove characters, so the position in text is an estimate.
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

type results struct {
	Query   string
	Results []result
}

var errQuery = fault.New(fault.BadRequest, "The search text is longer than 100 characters.")

// search shows the results for the query in the parameter q.
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
