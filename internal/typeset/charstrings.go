package typeset

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	interpreter "github.com/go-text/typesetting/font/cff/interpreter"
)

// Limits of the steps of charstrings, which stepCounter counts. Subroutines can call each other, so drawing
// a glyph of a font of a few kilobytes may take years.
const (
	maxGlyphSteps = 1 << 16
	maxFileSteps  = 1 << 26
)

// charstrings checks the outlines of the CFF fonts of a file.
type charstrings struct {
	checked [][sha256.Size]byte // digests; the fonts of a collection may have the same outlines
	steps   int
}

// check runs the charstrings of a font (Adobe Technical Notes 5176 and 5177) without drawing. It returns
// errSteps if they exceed a limit.
func (s *charstrings) check(cff []byte) error {
	digest := sha256.Sum256(cff)
	if slices.Contains(s.checked, digest) {
		return nil
	}
	s.checked = append(s.checked, digest)
	font, err := readCFF(cff)
	if err != nil {
		return err
	}
	for glyph, charstring := range font.charstrings {
		var subrs [][]byte
		if i := font.choice(glyph); i < len(font.subrs) {
			subrs = font.subrs[i]
		}
		var machine interpreter.Machine
		counter := &stepCounter{}
		// A glyph with another error is drawn as empty. The other glyphs of the font can be used.
		if err := machine.Run(charstring, subrs, font.globals, counter); err == errSteps { //nolint:errorlint,err113 // it is not wrapped
			return err
		}
		if s.steps += counter.steps; s.steps > maxFileSteps {
			return errSteps
		}
	}
	return nil
}

// cffFont has the parts of a CFF font that are necessary to draw its glyphs.
type cffFont struct {
	charstrings, globals [][]byte
	subrs                [][][]byte // by font dictionary
	choices              []byte     // FDSelect
}

// readCFF reads the table "CFF ".
func readCFF(cff []byte) (*cffFont, error) {
	const header = 4
	if len(cff) < header || int(cff[2]) > len(cff) {
		return nil, errCFF
	}
	_, at, err := readIndex(cff, int(cff[2])) // names
	if err != nil {
		return nil, err
	}
	dicts, at, err := readIndex(cff, at)
	if err != nil {
		return nil, err
	}
	if _, at, err = readIndex(cff, at); err != nil { // strings
		return nil, err
	}
	f := &cffFont{}
	if f.globals, _, err = readIndex(cff, at); err != nil {
		return nil, err
	}
	if len(dicts) == 0 {
		return nil, errCFF
	}
	const charstrings, array, choice = 17, 12<<8 | 36, 12<<8 | 37
	top := readDict(dicts[0])
	if f.charstrings, _, err = readIndex(cff, first(top[charstrings])); err != nil {
		return nil, err
	}
	fonts := []map[int][]int{top}
	if at := first(top[array]); at > 0 {
		list, _, err := readIndex(cff, at)
		if err != nil {
			return nil, err
		}
		if len(list) > maxFontDicts {
			return nil, errCFF
		}
		fonts = nil
		for _, dict := range list {
			fonts = append(fonts, readDict(dict))
		}
		if at := first(top[choice]); at > 0 && at < len(cff) {
			f.choices = cff[at:]
		}
	}
	total := 0
	for _, dict := range fonts {
		subrs, err := readSubrs(cff, dict)
		if err != nil {
			return nil, err
		}
		if total += len(subrs); total > maxSubroutines {
			return nil, errCFF
		}
		f.subrs = append(f.subrs, subrs)
	}
	return f, nil
}

// readSubrs returns the subroutines of a font dictionary.
func readSubrs(cff []byte, dict map[int][]int) ([][]byte, error) {
	const private, subrs = 18, 19
	where := dict[private]
	if len(where) != 2 {
		return nil, nil
	}
	size, at := where[0], where[1]
	if size < 0 || at < 0 || at > len(cff) || size > len(cff)-at {
		return nil, errCFF
	}
	offset := first(readDict(cff[at : at+size])[subrs])
	if offset == 0 {
		return nil, nil
	}
	out, _, err := readIndex(cff, at+offset)
	return out, err
}

// choice returns the font dictionary of a glyph.
func (f *cffFont) choice(glyph int) int {
	b := f.choices
	if len(b) == 0 {
		return 0
	}
	if b[0] == 0 && 1+glyph < len(b) {
		return int(b[1+glyph])
	}
	const header, record = 3, 3
	if b[0] != 3 || len(b) < header {
		return 0
	}
	low, high := 0, min(int(be16(b, 1)), (len(b)-header)/record)
	for high-low > 1 {
		if middle := (low + high) / 2; int(be16(b, header+record*middle)) <= glyph {
			low = middle
		} else {
			high = middle
		}
	}
	if high == 0 {
		return 0
	}
	return int(b[header+record*low+2])
}

// readIndex returns the items of an INDEX and the position after it.
func readIndex(cff []byte, at int) ([][]byte, int, error) {
	if at < 0 || at+2 > len(cff) {
		return nil, 0, errCFF
	}
	n := int(be16(cff, at))
	if n == 0 {
		return nil, at + 2, nil
	}
	if at+3 > len(cff) {
		return nil, 0, errCFF
	}
	size := int(cff[at+2])
	offsets := at + 3
	data := offsets + (n+1)*size - 1 // offsets begin at 1
	if size < 1 || size > 4 || data >= len(cff) {
		return nil, 0, errCFF
	}
	offset := func(i int) int {
		var b [4]byte
		copy(b[4-size:], cff[offsets+i*size:][:size])
		return int(binary.BigEndian.Uint32(b[:]))
	}
	out := make([][]byte, n)
	for i := range out {
		from, to := offset(i), offset(i+1)
		if from < 1 || to < from || data+to > len(cff) {
			return nil, 0, errCFF
		}
		out[i] = cff[data+from : data+to]
	}
	return out, data + offset(n), nil
}

// readDict returns the integer operands of a DICT by operator. The key of an escaped operator is 12<<8
// plus its second byte. Real operands are 0.
func readDict(b []byte) map[int][]int {
	out := map[int][]int{}
	var operands []int
	for len(b) > 0 {
		v := int(b[0])
		length := 1
		switch {
		case v == 12 && len(b) > 1:
			out[v<<8|int(b[1])], operands, length = operands, nil, 2
		case v <= 21:
			out[v], operands = operands, nil
		case v == 28 && len(b) >= 3:
			operands, length = append(operands, int(int16(be16(b, 1)))), 3 //nolint:gosec // a signed number
		case v == 29 && len(b) >= 5:
			operands, length = append(operands, int(int32(binary.BigEndian.Uint32(b[1:])))), 5 //nolint:gosec // a signed number
		case v == 30: // real
			for length < len(b) && b[length]&15 != 15 && b[length]>>4 != 15 {
				length++
			}
			operands, length = append(operands, 0), min(len(b), length+1)
		case v >= 32 && v <= 246:
			operands = append(operands, v-139)
		case v >= 247 && v <= 250 && len(b) >= 2:
			operands, length = append(operands, (v-247)*256+int(b[1])+108), 2
		case v >= 251 && v <= 254 && len(b) >= 2:
			operands, length = append(operands, -(v-251)*256-int(b[1])-108), 2
		default:
			return out
		}
		b = b[length:]
	}
	return out
}

// first returns the first operand, or 0.
func first(operands []int) int {
	if len(operands) == 0 {
		return 0
	}
	return operands[0]
}

// stepCounter counts the operators and operands of a charstring.
type stepCounter struct {
	interpreter.CharstringReader // counts the hints, which determine the length of hint masks

	steps int
}

// Context returns the type of charstrings.
func (*stepCounter) Context() interpreter.Context { return interpreter.Type2Charstring }

// Apply counts an operator and its operands. It executes calls, returns and hints, but draws nothing.
func (c *stepCounter) Apply(state *interpreter.Machine, op interpreter.Operator) error {
	if c.steps += 1 + int(state.ArgStack.Top); c.steps > maxGlyphSteps {
		return errSteps
	}
	if !op.IsEscaped {
		const hstem, vstem, call, ret, end, hstemhm, hintmask, cntrmask, vstemhm, callGlobal = 1, 3, 10, 11, 14, 18, 19, 20, 23, 29
		switch op.Operator {
		case call:
			return interpreter.LocalSubr(state) //nolint:wrapcheck // check does not return it
		case callGlobal:
			return interpreter.GlobalSubr(state) //nolint:wrapcheck // check does not return it
		case ret:
			return state.Return() //nolint:wrapcheck // check does not return it
		case end:
			return interpreter.ErrInterrupt
		case hstem, hstemhm:
			c.Hstem(state)
		case vstem, vstemhm:
			c.Vstem(state)
		case hintmask, cntrmask:
			c.Hintmask(state)
		}
	}
	state.ArgStack.Clear()
	return nil
}
