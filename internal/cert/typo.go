package cert

import (
	"strings"
	"unicode"
)

// Mistake is what is wrong with a typed reference id.
type Mistake string

const (
	// NoMistake is an id that could be one.
	NoMistake Mistake = ""
	// WrongCharacter is a character that no reference id has at its place.
	WrongCharacter Mistake = "character"
	// TooShort ids lack characters behind the prefix.
	TooShort Mistake = "short"
	// TooLong ids have more than sixteen behind the prefix.
	TooLong Mistake = "long"
)

// Typo says what cannot be right in a reference id as typed. It looks at the
// text alone.
type Typo struct {
	Mistake Mistake
	// Before, Character and After are the typed text around the character that
	// cannot be right; without one, all of it is Before.
	Before, Character, After string
	// Count is how many characters stand where sixteen must.
	Count int
}

// FindTypo looks for what cannot be right in a typed reference id.
func FindTypo(typed string) Typo {
	typed = strings.TrimSpace(strings.ToValidUTF8(typed, "\uFFFD"))
	runes := []rune(typed)
	if len(runes) > maxTyped {
		return Typo{Mistake: TooLong, Count: len(runes)}
	}
	at := func(i int) Typo {
		return Typo{Mistake: WrongCharacter, Before: string(runes[:i]), Character: string(runes[i]), After: string(runes[i+1:])}
	}
	// places are where the folded characters stand in what was typed.
	var places []int
	prefix := 0
	for i, c := range runes {
		folded, ok := foldCharacter(unicode.ToUpper(c))
		switch {
		case !ok:
			return at(i)
		case folded != 0:
			places = append(places, i)
		case isHyphen(c) && prefix == 0:
			prefix = len(places)
		}
	}
	t := Typo{Before: typed}
	if prefix < minPrefixLen || prefix > maxPrefixLen {
		// Without a hyphen the prefix ends somewhere.
		prefix = min(max(len(places)-codeLen, minPrefixLen), maxPrefixLen)
	}
	switch t.Count = max(0, len(places)-prefix); {
	case t.Count < codeLen:
		t.Mistake = TooShort
		return t
	case t.Count > codeLen:
		t.Mistake = TooLong
		return t
	}
	for _, i := range places[prefix:] {
		if unicode.ToUpper(runes[i]) == 'U' {
			return at(i)
		}
	}
	return t
}
