package pdf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// contentReader reads the operators of a content stream and skips their
// operands. It keeps only a buffer of the stream in memory.
type contentReader struct {
	in       *bufio.Reader
	word     [16]byte
	image    inlineImage
	operands int    // operands read since the last operator
	faulty   bool   // an operator had too few operands, or a number had an exponent
	nesting  []byte // closing delimiters of the open arrays and dictionaries
	unclosed []byte // bytes that close the token or container in which the data ended
}

// inlineImage holds the entries of an inline image's dictionary (8.9.7) that
// determine the length of its data.
type inlineImage struct {
	within bool // after BI
	key    string
	filter bool
	first  string // the first filter
	width  int
	height int
	bits   int
	colors int // components; 0 if not stated, -1 if the colour space is a resource
	mask   bool
	length int // PDF 2.0 /Length, 0 if absent
}

const contentBuffer = 8 << 10

func newContentReader(r io.Reader) contentReader {
	return contentReader{in: bufio.NewReaderSize(r, contentBuffer)}
}

// isFatal reports whether err must end the scan with an error. The end of the
// data, damaged data and an unknown filter only end the content.
func isFatal(err error) bool {
	return !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrFilter) && !errors.Is(err, ErrDamaged)
}

// next returns the next operator, or "" at the end.
func (r *contentReader) next() (string, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return "", r.end(err, nil)
		}
		if len(r.nesting) == 0 && !isSpace(c) && c != '%' {
			r.operands++ // for an operator, the method operator subtracts 1 again
		}
		switch {
		case isSpace(c):
		case c == '%':
			err = r.skipComment()
		case c == '(':
			err = r.skipString()
		case c == '<':
			err = r.openAngle()
		case c == '>':
			r.pop('>')
		case c == '[':
			err = r.push(']')
		case c == ']':
			r.pop(']')
		case c == '/':
			err = r.name()
		case isDigit(c) || c == '+' || c == '-' || c == '.':
			err = r.number(c)
		case isRegular(c):
			operator, err := r.operator(c)
			if err != nil || operator != "" {
				return operator, err
			}
		}
		if err != nil {
			return "", r.end(err, nil)
		}
	}
}

// end returns err if err is fatal. Any other error ends the data: end returns nil and records
// closing, which closes the current token, followed by the bytes that close the open containers.
func (r *contentReader) end(err error, closing []byte) error {
	if isFatal(err) {
		return err
	}
	if len(r.unclosed) == 0 {
		r.unclosed = append(r.unclosed, closing...)
		for _, closing := range slices.Backward(r.nesting) {
			r.unclosed = append(r.unclosed, closing)
			if closing == '>' {
				r.unclosed = append(r.unclosed, '>')
			}
		}
		r.nesting = nil
	}
	return nil
}

var errContentDepth = fmt.Errorf("%w: strings or arrays are nested too deeply", ErrLimit)

// push records an opened container. An operator closes all open containers,
// because containers contain no operators.
func (r *contentReader) push(closing byte) error {
	if len(r.nesting) >= maxOpen {
		return errContentDepth
	}
	r.nesting = append(r.nesting, closing)
	return nil
}

func (r *contentReader) pop(closing byte) {
	if closing == '>' {
		if next, err := r.in.Peek(1); err == nil && next[0] == '>' {
			_, _ = r.in.Discard(1)
		}
	}
	if n := len(r.nesting); n > 0 && r.nesting[n-1] == closing {
		r.nesting = r.nesting[:n-1]
	}
}

func (r *contentReader) skipComment() error {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return r.end(err, nil)
		}
		if c == '\n' || c == '\r' {
			return nil
		}
	}
}

// skipString skips the rest of a literal string.
func (r *contentReader) skipString() error {
	for depth := 1; depth > 0; {
		if depth > maxOpen {
			return errContentDepth
		}
		c, err := r.in.ReadByte()
		if err != nil {
			return r.end(err, bytes.Repeat([]byte{')'}, depth))
		}
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case '\\':
			if _, err := r.in.ReadByte(); err != nil {
				// Add a space, so that the escape is followed by a character.
				return r.end(err, append([]byte{' '}, bytes.Repeat([]byte{')'}, depth)...))
			}
		}
	}
	return nil
}

// openAngle skips a hexadecimal string, or opens a dictionary.
func (r *contentReader) openAngle() error {
	if next, err := r.in.Peek(1); err == nil && next[0] == '<' {
		_, _ = r.in.Discard(1)
		return r.push('>')
	}
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return r.end(err, []byte{'>'})
		}
		if c == '>' {
			return nil
		}
	}
}

// regular reads the rest of a run of regular characters, whose first n bytes are
// already in word. It truncates a run that does not fit in word.
func (r *contentReader) regular(n int) ([]byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			if isFatal(err) {
				return nil, err
			}
			return r.word[:n], nil
		}
		if !isRegular(c) {
			return r.word[:n], r.in.UnreadByte()
		}
		if n < len(r.word) {
			r.word[n] = c
			n++
		}
	}
}

// skipRegular skips the rest of a run of regular characters.
func (r *contentReader) skipRegular() error {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return r.end(err, nil)
		}
		if !isRegular(c) {
			return r.in.UnreadByte()
		}
	}
}

func (r *contentReader) name() error {
	if !r.image.within {
		return r.skipRegular()
	}
	name, err := r.regular(0)
	r.image.name(string(name))
	return err
}

// number reads a number. The number ends where another token begins, as in "0g".
// A number with an exponent is a fault: the standard does not define exponents,
// and some viewers reject such a number.
func (r *contentReader) number(first byte) error {
	r.word[0] = first
	n := 1
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return r.end(err, nil)
		}
		switch {
		case isDigit(c) || c == '.' || c == '-' || c == '+':
			if n < len(r.word) {
				r.word[n] = c
				n++
			}
			continue
		case c == 'e' || c == 'E':
			r.faulty = true
			continue
		}
		if v, ok := parseInt(r.word[:n]); ok && r.image.within {
			r.image.number(v)
		}
		return r.in.UnreadByte()
	}
}

// operator reads a keyword. It returns "" if the keyword is an operand: true,
// false or null.
func (r *contentReader) operator(first byte) (string, error) {
	r.word[0] = first
	text, err := r.regular(1)
	if err != nil {
		return "", err
	}
	word, ok := operators[string(text)]
	if !ok {
		word = string(text)
	}
	switch word {
	case "true", "false", "null":
		r.image.boolean(word == "true")
		return "", nil
	case "BI":
		r.image = inlineImage{within: true}
	}
	if len(r.nesting) == 0 {
		r.operands--
	}
	r.nesting = r.nesting[:0]
	return word, nil
}

// name processes a name in the dictionary: a key or a value (tables 91 and 92).
func (i *inlineImage) name(name string) {
	switch i.key {
	case "F", "Filter":
		if !i.filter {
			i.filter, i.first = true, name
			return
		}
	case "CS", "ColorSpace":
		if i.colors == 0 {
			switch name {
			case "G", "DeviceGray", "CalGray", "I", "Indexed":
				i.colors = 1
			case "RGB", "DeviceRGB", "CalRGB":
				i.colors = 3
			case "CMYK", "DeviceCMYK":
				i.colors = 4
			default:
				i.colors = -1 // the name of a resource, which is not available here
			}
			return
		}
	}
	i.key = name
}

func (i *inlineImage) number(v int64) {
	n := int(min(max(v, 0), maxDecoded))
	switch i.key {
	case "W", "Width":
		i.width = n
	case "H", "Height":
		i.height = n
	case "BPC", "BitsPerComponent":
		i.bits = n
	case "L", "Length":
		i.length = n
	}
}

func (i *inlineImage) boolean(v bool) {
	if i.key == "IM" || i.key == "ImageMask" {
		i.mask = v
	}
}

// size returns the number of bytes of the data, and reports whether the
// dictionary determines that number.
func (i *inlineImage) size() (int, bool) {
	if i.length > 0 {
		return i.length, true
	}
	if i.filter {
		return 0, false
	}
	bits, colors := i.bits, i.colors
	if i.mask {
		bits, colors = 1, 1
	}
	if bits <= 0 || bits > 16 || colors <= 0 || i.width <= 0 || i.height <= 0 {
		return 0, false
	}
	row := (i.width*bits*colors + 7) / 8
	if row > maxDecoded/i.height {
		return 0, false
	}
	return row * i.height, true
}

// skipInlineImage skips the data of an inline image and its EI. If the length is unknown, wrong or
// too large for the buffer, the data ends at the first EI for which endsImage reports true.
func (r *contentReader) skipInlineImage() error {
	image := r.image
	r.image = inlineImage{}
	if !image.within { // ID without BI
		return nil
	}
	// ID is followed by one white-space character. The LF of a CR LF counts as a
	// part of the data.
	c, err := r.in.ReadByte()
	if err != nil {
		return r.end(err, []byte("\nEI"))
	}
	if !isSpace(c) {
		if err := r.in.UnreadByte(); err != nil {
			return err
		}
	}
	if n, ok := image.size(); ok {
		if done, err := r.skipExact(n); err != nil || done {
			return err
		}
	}
	previous := byte('\n')
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return r.end(err, []byte("\nEI"))
		}
		if c == 'E' && isSpace(previous) && r.endsImage() {
			_, err := r.in.Discard(1)
			return err
		}
		previous = c
	}
}

// skipExact skips n bytes of an image and the EI after them, and reports true. If
// no EI follows the bytes, or the bytes do not fit in the buffer, it skips
// nothing and reports false.
func (r *contentReader) skipExact(n int) (bool, error) {
	const slack = 4
	if n+slack > contentBuffer {
		return false, nil
	}
	text, err := r.in.Peek(n + slack)
	if isFatal(eofIfNil(err)) {
		return false, err
	}
	if len(text) < n {
		return false, nil
	}
	rest := text[n:]
	for len(rest) > 0 && isSpace(rest[0]) {
		rest = rest[1:]
	}
	if !bytes.HasPrefix(rest, []byte("EI")) || len(rest) > 2 && isRegular(rest[2]) {
		return false, nil
	}
	_, err = r.in.Discard(len(text) - len(rest) + 2)
	return true, err
}

// eofIfNil returns err, or io.EOF if err is nil. io.EOF is never fatal.
func eofIfNil(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// endsImage reports whether the E that was just read begins the EI at the end of
// an image: EI must be followed by the end of the data, or by white space and
// text that begins with an operand, a comment or an operator.
func (r *contentReader) endsImage() bool {
	const ahead = 24
	text, _ := r.in.Peek(ahead) // shorter at the end of the data
	if len(text) == 0 || text[0] != 'I' {
		return false
	}
	text = text[1:]
	if len(text) > 0 && !isSpace(text[0]) {
		return false
	}
	for _, c := range text {
		if c == '(' { // a string may contain any byte
			break
		}
		if c >= 0x7f || c < ' ' && (c == 0 || !isSpace(c)) {
			return false
		}
	}
	text = bytes.TrimLeft(text, "\t\n\f\r ")
	if len(text) == 0 {
		return true
	}
	if c := text[0]; isDigit(c) || c == '-' || c == '.' || c == '+' || c == '/' || c == '(' || c == '<' || c == '[' || c == '%' {
		return true
	}
	end := 0
	for end < len(text) && isRegular(text[end]) {
		end++
	}
	_, ok := operators[string(text[:end])]
	return ok
}

// minOperands maps operators to their minimum numbers of operands (Annex A).
var minOperands = map[string]int{
	"\"": 3, "'": 1, "BDC": 2, "BMC": 1, "c": 6, "cm": 6, "CS": 1, "cs": 1, "d": 2, "d0": 2, "d1": 6, "Do": 1, "DP": 2, "G": 1, "g": 1,
	"gs": 1, "i": 1, "J": 1, "j": 1, "K": 4, "k": 4, "l": 2, "M": 1, "m": 2, "MP": 1, "re": 4, "RG": 3, "rg": 3, "ri": 1, "sh": 1,
	"Tc": 1, "TD": 2, "Td": 2, "Tf": 2, "TJ": 1, "Tj": 1, "TL": 1, "Tm": 6, "Tr": 1, "Ts": 1, "Tw": 1, "Tz": 1, "v": 4, "w": 1, "y": 4,
}

// operators maps each operator of content streams (Annex A) to itself. A lookup
// with a []byte returns a string without an allocation.
var operators = func() map[string]string {
	set := map[string]string{}
	for word := range bytes.FieldsSeq([]byte("b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EI EMC ET EX f F f* G g gs h i ID j J K k " +
		"l M m MP n q Q re RG rg ri s S SC sc SCN scn sh T* Tc Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' \"")) {
		set[string(word)] = string(word)
	}
	return set
}()
