package cert

import (
	"strings"
	"unicode"
)

// Mistake is a kind of mistake in a typed reference id.
type Mistake string

const (
	// NoMistake means that the id has a valid form.
	NoMistake Mistake = ""
	// WrongCharacter means that a character is not allowed at its position.
	WrongCharacter Mistake = "character"
	// TooShort means that characters are missing after the prefix.
	TooShort Mistake = "short"
	// TooLong means that the id has more than sixteen characters after the prefix, or that the
	// whole text is longer than a typed id can be.
	TooLong Mistake = "long"
)

// Typo describes a mistake in a typed reference id.
type Typo struct {
	Mistake Mistake
	// Character is the wrong character, and Before and After are the typed text before and after it. If
	// there is no wrong character, Before is the whole text, or "" for a text of more than 128 characters.
	Before, Character, After string
	// Count is the number of characters after the prefix, which must be sixteen. It is 0 if there is a
	// wrong character, and the length of the whole text if the text has more than 128 characters.
	Count int
}

// FindTypo finds a mistake in the form of a typed reference id. It does not read the database.
func FindTypo(typed string) Typo {
	typed = strings.TrimSpace(strings.ToValidUTF8(typed, "\uFFFD"))
	runes := []rune(typed)
	if len(runes) > maxTyped {
		return Typo{Mistake: TooLong, Count: len(runes)}
	}
	at := func(i int) Typo {
		return Typo{Mistake: WrongCharacter, Before: string(runes[:i]), Character: string(runes[i]), After: string(runes[i+1:])}
	}
	// places has the positions of the folded characters in the typed text.
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
		// Without a hyphen after a prefix of a valid length, the end of the prefix is not known.
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
