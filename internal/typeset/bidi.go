package typeset

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
)

// This file computes embedding levels (UAX #9). Package bidi of x/text returns only the direction of each
// run, without levels, and puts a number between Arabic and Latin at the wrong end. Isolates are supported.
// Explicit embeddings and overrides are not: clean removes them.

// maxLevel is max_depth (BD2).
const maxLevel = 125

// bidiLevels returns the level of each rune of a paragraph and the level of the paragraph.
func bidiLevels(text []rune, dir Direction) ([]uint8, uint8) {
	p := &bidiParagraph{text: text, levels: make([]uint8, len(text)), types: make([]bidi.Class, len(text)), match: make([]int, len(text))}
	simple := true
	var open []int
	for i, r := range text {
		c := classOf(r)
		p.types[i], p.match[i] = c, -1
		switch c { //nolint:exhaustive // the others need nothing
		case bidi.R, bidi.AL, bidi.AN:
			simple = false
		case bidi.LRI, bidi.RLI, bidi.FSI:
			simple = simple && c != bidi.RLI
			open = append(open, i)
		case bidi.PDI: // BD9
			if n := len(open); n > 0 {
				p.match[open[n-1]] = i
				open = open[:n-1]
			}
		}
	}
	level := uint8(0)
	if dir == RightToLeft || dir == Auto && p.first(0, len(text)) == bidi.R {
		level = 1
	}
	if simple && level == 0 {
		return p.levels, 0 // most texts
	}
	p.resolve(0, len(text), level)
	return p.levels, level
}

type bidiParagraph struct {
	text   []rune
	types  []bidi.Class
	match  []int // by isolate initiator: the index of its PDI, or -1
	levels []uint8
}

func classOf(r rune) bidi.Class {
	props, _ := bidi.LookupRune(r)
	return props.Class()
}

// first returns the direction of the first strong character of text[from:to] outside isolates
// (P2, P3): R or L.
func (p *bidiParagraph) first(from, to int) bidi.Class {
	for i := from; i < to; i++ {
		switch p.types[i] { //nolint:exhaustive // the others are not strong
		case bidi.L:
			return bidi.L
		case bidi.R, bidi.AL:
			return bidi.R
		case bidi.LRI, bidi.RLI, bidi.FSI:
			if p.match[i] < 0 {
				return bidi.L
			}
			i = p.match[i]
		}
	}
	return bidi.L
}

// resolve sets the levels of text[from:to], the content of a paragraph or isolate at a level.
// Because there are no embeddings, the characters outside inner isolates are one isolating run sequence
// (BD13).
func (p *bidiParagraph) resolve(from, to int, level uint8) {
	var sequence []int
	for i := from; i < to; i++ {
		p.levels[i] = level
		c := p.types[i]
		if c == bidi.BN { // X9: a BN gets the level of the character before it
			if i > from {
				p.levels[i] = p.levels[i-1]
			}
			continue
		}
		sequence = append(sequence, i)
		if c != bidi.LRI && c != bidi.RLI && c != bidi.FSI || level+2 > maxLevel {
			continue
		}
		end := to
		if m := p.match[i]; m >= 0 && m < to {
			end = m
		}
		rtl := c == bidi.RLI || c == bidi.FSI && p.first(i+1, end) == bidi.R
		inner := level + 1 // X5a to X5c: the next odd or even level
		if rtl != (inner%2 == 1) {
			inner++
		}
		p.resolve(i+1, end, inner)
		i = end - 1
	}
	p.implicit(sequence, level)
	for i := from + 1; i < to; i++ {
		if p.types[i] == bidi.BN {
			p.levels[i] = p.levels[i-1]
		}
	}
}

// implicit applies the rules W1 to W7, N0 to N2, I1 and I2 to a sequence.
func (p *bidiParagraph) implicit(sequence []int, level uint8) {
	own := bidi.L
	if level%2 == 1 {
		own = bidi.R
	}
	t := make([]bidi.Class, len(sequence))
	for k, i := range sequence {
		t[k] = p.types[i]
		switch t[k] { //nolint:exhaustive // the others stay
		case bidi.NSM: // W1
			switch {
			case k == 0:
				t[k] = own
			case isIsolate(p.types[sequence[k-1]]):
				t[k] = bidi.ON
			default:
				t[k] = t[k-1]
			}
		case bidi.LRI, bidi.RLI, bidi.FSI, bidi.PDI, bidi.B, bidi.S, bidi.WS, bidi.Control:
			t[k] = bidi.ON
		}
	}
	weak(t, own)
	p.brackets(sequence, t, own)
	neutral(t, own)
	for k, i := range sequence {
		switch {
		case level%2 == 0 && t[k] == bidi.R: // I1
			p.levels[i] = level + 1
		case level%2 == 0 && (t[k] == bidi.EN || t[k] == bidi.AN):
			p.levels[i] = level + 2
		case level%2 == 1 && t[k] != bidi.R: // I2
			p.levels[i] = level + 1
		}
	}
}

func isIsolate(c bidi.Class) bool {
	return c == bidi.LRI || c == bidi.RLI || c == bidi.FSI || c == bidi.PDI
}

// weak applies the rules W2 to W7.
func weak(t []bidi.Class, own bidi.Class) {
	strong := own
	for k, c := range t { // W2, W3
		switch c { //nolint:exhaustive // the others are not affected
		case bidi.L, bidi.R, bidi.AL:
			strong = c
		case bidi.EN:
			if strong == bidi.AL {
				t[k] = bidi.AN
			}
		}
	}
	for k := range t {
		if t[k] == bidi.AL {
			t[k] = bidi.R
		}
	}
	for k := 1; k+1 < len(t); k++ { // W4
		if before, after := t[k-1], t[k+1]; before == after && (before == bidi.EN && (t[k] == bidi.ES || t[k] == bidi.CS) || before == bidi.AN && t[k] == bidi.CS) {
			t[k] = before
		}
	}
	for k := 0; k < len(t); k++ { // W5
		if t[k] != bidi.ET {
			continue
		}
		end := k
		for end < len(t) && t[end] == bidi.ET {
			end++
		}
		if k > 0 && t[k-1] == bidi.EN || end < len(t) && t[end] == bidi.EN {
			for j := k; j < end; j++ {
				t[j] = bidi.EN
			}
		}
		k = end - 1
	}
	strong = own
	for k, c := range t { // W6, W7
		switch c { //nolint:exhaustive // the others are not affected
		case bidi.ES, bidi.ET, bidi.CS:
			t[k] = bidi.ON
		case bidi.L, bidi.R:
			strong = c
		case bidi.EN:
			if strong == bidi.L {
				t[k] = bidi.L
			}
		}
	}
}

// neutral applies the rules N1 and N2.
func neutral(t []bidi.Class, own bidi.Class) {
	before := own
	for k := 0; k < len(t); k++ {
		if t[k] != bidi.ON {
			before = directionOf(t[k])
			continue
		}
		end := k
		for end < len(t) && t[end] == bidi.ON {
			end++
		}
		after := own
		if end < len(t) {
			after = directionOf(t[end])
		}
		resolved := own
		if before == after {
			resolved = before
		}
		for j := k; j < end; j++ {
			t[j] = resolved
		}
		k = end - 1
	}
}

// directionOf returns the direction of a resolved type: L, or R for R and for numbers (N1).
func directionOf(c bidi.Class) bidi.Class {
	if c == bidi.L {
		return bidi.L
	}
	return bidi.R
}

// maxBrackets is the size of the stack of BD16.
const maxBrackets = 63

// brackets applies the rule N0.
func (p *bidiParagraph) brackets(sequence []int, t []bidi.Class, own bidi.Class) {
	type opening struct {
		closing rune
		k       int
	}
	var stack []opening
	pairs := make([]int, len(t)) // by opening bracket: the closing bracket, or 0
	found := false
	for k, i := range sequence { // BD16
		props, _ := bidi.LookupRune(p.text[i])
		if t[k] != bidi.ON || !props.IsBracket() {
			continue
		}
		if props.IsOpeningBracket() {
			if len(stack) == maxBrackets {
				return
			}
			closing, _ := utf8.DecodeRuneInString(bidi.ReverseString(string(p.text[i])))
			stack = append(stack, opening{closing, k})
			continue
		}
		for n, o := range slices.Backward(stack) {
			if o.closing == p.text[i] {
				pairs[o.k], found = k, true
				stack = stack[:n]
				break
			}
		}
	}
	if !found {
		return
	}
	for k, end := range pairs {
		if end == 0 {
			continue
		}
		c := enclosed(t, k, end, own)
		if c == bidi.ON {
			continue
		}
		for _, at := range []int{k, end} {
			t[at] = c
			for j := at + 1; j < len(t) && p.types[sequence[j]] == bidi.NSM; j++ {
				t[j] = c
			}
		}
	}
}

// enclosed returns the type of a pair of brackets, or ON if the rules N1 and N2 decide.
func enclosed(t []bidi.Class, from, to int, own bidi.Class) bidi.Class {
	opposite := false
	for _, c := range t[from+1 : to] {
		if c == bidi.ON {
			continue
		}
		if directionOf(c) == own {
			return own // N0 b
		}
		opposite = true
	}
	if !opposite {
		return bidi.ON // N0 d
	}
	before := own
	for k := from - 1; k >= 0; k-- {
		if c := t[k]; c != bidi.ON {
			before = directionOf(c)
			break
		}
	}
	return before // N0 c: the opposite direction if the text before has it, otherwise own
}
