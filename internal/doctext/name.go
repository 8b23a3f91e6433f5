// Package doctext compares the text of a file with the data of its certificate. It reports whether a text
// contains a name, and suggests names, issue dates and addresses from the text. It does not read files.
package doctext

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Text is a text in which names are searched.
type Text struct {
	plain, reduced spelling // reduced has the result of umlauts; it is empty if it equals plain
	letters        int
}

// spelling is a text in one spelling.
type spelling struct {
	words []string
	// squeezed is all words without spaces. starts and ends are true at the positions in squeezed at which a
	// word starts or ends.
	squeezed     string
	starts, ends []bool
}

// NewText prepares a text for searches.
func NewText(text string) *Text {
	words := wordsOf(text)
	t := &Text{plain: newSpelling(words)}
	t.letters = utf8.RuneCountInString(t.plain.squeezed)
	reduced := make([]string, len(words))
	for i, w := range words {
		reduced[i] = umlauts.Replace(w)
	}
	if !slices.Equal(words, reduced) {
		t.reduced = newSpelling(reduced)
	}
	return t
}

func newSpelling(words []string) spelling {
	s := spelling{words: words, squeezed: strings.Join(words, "")}
	s.starts, s.ends = make([]bool, len(s.squeezed)+1), make([]bool, len(s.squeezed)+1)
	at := 0
	for _, w := range words {
		s.starts[at] = true
		at += len(w)
		s.ends[at] = true
	}
	return s
}

const (
	// minUnbounded is the minimum number of letters of a name that may be a part of a longer word.
	minUnbounded = 8
	// maxTokens is the maximum number of words of a name that are compared.
	maxTokens = 16
	// nameSpan is the maximum number of other words between the words of a name. A form may have labels such
	// as "Family name" and "Given names" between them.
	nameSpan = 10
)

// Lacks reports whether the text does not contain a name. It returns false if the text has fewer
// letters than the name, as in a scan whose only text is a page number.
func (t *Text) Lacks(name string) bool {
	return t.letters > 0 && t.letters >= utf8.RuneCountInString(strings.Join(tokensOf(name), "")) && !t.Contains(name)
}

// Contains reports whether the text contains a name. It returns true if the name has no letters.
//
// The comparison ignores case, marks, the spelling of letters such as ø, ß and ü, the order of given
// and family names, titles such as "Dr.", spaces and hyphens within words, and line ends. An initial
// matches each name that begins with the initial. A middle name may be missing in the text if the given and
// the family name are next to each other.
func (t *Text) Contains(name string) bool {
	tokens, all := firstTokens(tokensOf(name)), firstTokens(wordsOf(name))
	if len(all) == 0 {
		return true
	}
	for _, s := range []*spelling{&t.plain, &t.reduced} {
		if s.containsWhole(tokens) || s.containsWords(tokens) || len(all) > len(tokens) && s.containsWhole(all) {
			return true
		}
	}
	return false
}

func firstTokens(tokens []string) []string { return tokens[:min(len(tokens), maxTokens)] }

// containsWhole reports whether the text contains all words of a name without other words between them. The
// last words of the name may be first in the text, and the spaces may differ.
func (s *spelling) containsWhole(tokens []string) bool {
	for _, v := range spellings(tokens) {
		for k := range v {
			if s.containsPart(strings.Join(v[k:], "") + strings.Join(v[:k], "")) {
				return true
			}
		}
	}
	return false
}

// containsPart reports whether the squeezed text contains a name. A short name must start at the start of a
// word and end at the end of a word, except in a script that has no spaces between words.
func (s *spelling) containsPart(name string) bool {
	n := utf8.RuneCountInString(name)
	unbounded := n >= minUnbounded || n > 1 && strings.ContainsFunc(name, unspaced)
	for from := 0; from+len(name) <= len(s.squeezed); {
		i := strings.Index(s.squeezed[from:], name)
		if i < 0 {
			return false
		}
		i += from
		if unbounded || s.starts[i] && s.ends[i+len(name)] {
			return true
		}
		from = i + 1
	}
	return false
}

// containsWords reports whether the words of a name are near each other in the text, in any order. It ignores
// the initials of the name.
func (s *spelling) containsWords(tokens []string) bool {
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(w string) bool { return utf8.RuneCountInString(w) == 1 })
	if len(tokens) == 0 {
		return false
	}
	alternatives := spellings(tokens)
	matches := make([]uint, len(s.words)) // for each word of the text, the set of the words of the name that it matches
	for i, w := range s.words {
		for k := range tokens {
			if slices.ContainsFunc(alternatives, func(spelt []string) bool { return matchesToken(w, spelt[k]) }) {
				matches[i] |= 1 << k
			}
		}
	}
	s.dropSingleInitials(matches)
	return s.near(matches, len(tokens)) || s.adjacent(matches, len(tokens))
}

// dropSingleInitials removes each sequence of matches in which all words have only one letter, because such a
// word may be, for example, the article "a" and not an initial.
func (s *spelling) dropSingleInitials(matches []uint) {
	for i := 0; i < len(matches); i++ {
		start, whole := i, false
		for ; i < len(matches) && matches[i] != 0; i++ {
			whole = whole || s.isWhole(i)
		}
		if !whole {
			clear(matches[start:i])
		}
	}
}

// matchesToken reports whether a word of the text matches a word of a name.
func matchesToken(word, token string) bool {
	if word == token {
		return true
	}
	c, size := utf8.DecodeRuneInString(word)
	if size == len(word) {
		return !unspaced(c) && strings.HasPrefix(token, word)
	}
	return len(word) == len(token) && unicode.In(c, indic...) && sorted(word) == sorted(token)
}

// indic are scripts in which the order of glyphs may differ from the order of letters.
var indic = []*unicode.RangeTable{
	unicode.Devanagari, unicode.Bengali, unicode.Gujarati, unicode.Gurmukhi, unicode.Kannada, unicode.Malayalam, unicode.Oriya, unicode.Sinhala,
	unicode.Tamil, unicode.Telugu,
}

func sorted(word string) string {
	runes := []rune(word)
	slices.Sort(runes)
	return string(runes)
}

// near reports whether a part of the text with at most n+nameSpan words has all n words of a name.
func (s *spelling) near(matches []uint, n int) bool {
	all := uint(1)<<n - 1
	for i, m := range matches {
		if m == 0 {
			continue
		}
		var seen uint
		for j := i; j < min(len(matches), i+n+nameSpan); j++ {
			if seen |= matches[j]; seen == all {
				return true
			}
		}
	}
	return false
}

// adjacent reports whether the first and the last of at least three words of a name are next to
// each other in the text, in any order, and neither is an initial.
func (s *spelling) adjacent(matches []uint, n int) bool {
	if n < 3 {
		return false
	}
	first, last := uint(1), uint(1)<<(n-1)
	for i := 1; i < len(matches); i++ {
		a, b := matches[i-1], matches[i]
		if (a&first != 0 && b&last != 0 || a&last != 0 && b&first != 0) && s.isWhole(i-1) && s.isWhole(i) {
			return true
		}
	}
	return false
}

// isWhole reports whether a word is more than an initial.
func (s *spelling) isWhole(i int) bool { return utf8.RuneCountInString(s.words[i]) > 1 }

// titles are words that are not part of a name.
var titles = map[string]bool{
	"dr": true, "mr": true, "mrs": true, "ms": true, "miss": true, "mx": true, "prof": true, "professor": true, "sir": true, "madam": true,
	"herr": true, "frau": true, "mme": true, "mlle": true, "sr": true, "sra": true, "srta": true, "ing": true, "dipl": true, "mag": true,
	"phd": true, "msc": true, "bsc": true, "mba": true, "jr": true, "ii": true, "iii": true, "iv": true, "esq": true,
	fold("श्री"): true, fold("श्रीमती"): true, fold("السيد"): true, fold("السيدة"): true,
}

// tokensOf returns the folded words of a name without titles. A name that consists only of titles
// keeps them.
func tokensOf(name string) []string {
	words := wordsOf(name)
	if rest := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return titles[w] }); len(rest) > 0 {
		return rest
	}
	return words
}

// wordsOf returns the words of a text, folded. A word consists of letters.
func wordsOf(text string) []string {
	return strings.FieldsFunc(fold(text), func(c rune) bool { return !unicode.IsLetter(c) })
}

// letters replaces Latin letters that have no decomposition, and Arabic letters that PDFs often have in place
// of each other.
var letters = strings.NewReplacer(
	"ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "æ", "ae", "œ", "oe", "ı", "i", "ħ", "h", "ŋ", "n", "ŧ", "t", "ə", "e", "ƒ", "f", "ĸ", "k",
	"ى", "ي", "ی", "ي", "ک", "ك", "ة", "ه", "ہ", "ه", "ھ", "ه", "ـ", "",
)

// fold returns a text with folded case, without marks and without invisible characters. It replaces letters
// that have no decomposition, such as ø.
func fold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	s = cases.Fold().String(norm.NFKD.String(strings.ToValidUTF8(s, " ")))
	s = strings.Map(func(c rune) rune {
		switch {
		case unicode.Is(unicode.M, c), unicode.Is(unicode.Cf, c):
			return -1
		case c == '’' || c == '‘' || c == 'ʼ' || c == 'ʻ':
			return '\''
		}
		return c
	}, norm.NFKD.String(s))
	return letters.Replace(s)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// unspaced reports whether a letter belongs to a script that has no spaces between words.
func unspaced(c rune) bool {
	return unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// umlauts replaces spellings such as "ue" for "ü" with the letter without its mark, such as "u".
var umlauts = strings.NewReplacer("ae", "a", "oe", "o", "ue", "u", "aa", "a")

// losses change a word to forms that the text of a PDF may have. Umlauts may have another spelling. Ligatures
// or a part of them may be missing, if the font does not map them to characters.
var losses = []*strings.Replacer{
	umlauts,
	strings.NewReplacer("ffi", "", "ffl", "", "ff", "", "fi", "", "fl", ""),
	strings.NewReplacer("لا", "ل"),
	strings.NewReplacer("لا", "ا"),
	strings.NewReplacer("لا", ""),
}

// spellings returns the words of a name in the spellings that a text may have. The first spelling is tokens.
// For a script that is written from right to left, a PDF may have the letters of a word in reverse order.
func spellings(tokens []string) [][]string {
	list := [][]string{tokens}
	add := func(change func(string) string) {
		spelt := make([]string, len(tokens))
		for i, w := range tokens {
			if spelt[i] = change(w); utf8.RuneCountInString(spelt[i]) < 2 {
				spelt[i] = w
			}
		}
		if !slices.Equal(spelt, tokens) {
			list = append(list, spelt)
		}
	}
	for _, r := range losses {
		add(r.Replace)
	}
	if strings.ContainsFunc(tokens[0], func(c rune) bool { return unicode.In(c, unicode.Arabic, unicode.Hebrew) }) {
		add(func(w string) string {
			runes := []rune(w)
			slices.Reverse(runes)
			return string(runes)
		})
	}
	return list
}
