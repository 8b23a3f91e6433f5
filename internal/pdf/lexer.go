package pdf

import (
	"errors"
	"fmt"
	"strconv"
)

// lexer parses objects from a buffer (7.2, 7.3). Like viewers, it accepts damaged
// objects: an unclosed container ends with the data or at the end of the object,
// and an unexpected token in a container is skipped or counts as null.
type lexer struct {
	buf    []byte
	pos    int
	short  bool // the lexer reached the end of buf: more data might change the result
	open   bool // a string or container was still open at the end of buf
	nodes  int  // number of parsed objects
	maxRef int  // the highest referenced object number up to maxReference
}

var errEnd = errors.New("end of data")

// keyword is a token that is not an object: obj, endobj, R, an operator, or a
// delimiter that does not begin an object.
type keyword string

func (keyword) object() {}

// Character classes (7.2.3).
const (
	classRegular = iota
	classSpace
	classDelimiter
)

var class = func() (table [256]byte) {
	for _, c := range []byte("\x00\t\n\f\r ") {
		table[c] = classSpace
	}
	for _, c := range []byte("()<>[]{}/%") {
		table[c] = classDelimiter
	}
	return table
}()

func isSpace(c byte) bool   { return class[c] == classSpace }
func isRegular(c byte) bool { return class[c] == classRegular }
func isDigit(c byte) bool   { return c >= '0' && c <= '9' }

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() {
	for l.pos < len(l.buf) {
		switch c := l.buf[l.pos]; {
		case isSpace(c):
			l.pos++
		case c == '%':
			for l.pos < len(l.buf) && l.buf[l.pos] != '\n' && l.buf[l.pos] != '\r' {
				l.pos++
			}
		default:
			return
		}
	}
	l.short = true
}

// hasPrefix reports whether the text at the position begins with word.
func (l *lexer) hasPrefix(word string) bool {
	if len(l.buf)-l.pos < len(word) {
		l.short = true
		return false
	}
	return string(l.buf[l.pos:l.pos+len(word)]) == word
}

// object parses the next object or keyword. If refs is true, "n g R" is parsed as a
// reference. Content streams have no references.
func (l *lexer) object(depth int, refs bool) (Object, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: objects are nested too deeply", ErrLimit)
	}
	if l.nodes++; l.nodes > maxNodes {
		return nil, fmt.Errorf("%w: an object contains too many objects", ErrLimit)
	}
	l.skipSpace()
	if l.pos >= len(l.buf) {
		return nil, errEnd
	}
	switch c := l.buf[l.pos]; {
	case c == '/':
		return l.name(), nil
	case c == '(':
		return l.literalString(), nil
	case c == '<':
		if l.pos+1 < len(l.buf) && l.buf[l.pos+1] == '<' {
			return l.dict(depth, refs)
		}
		return l.hexString(), nil
	case c == '[':
		return l.array(depth, refs)
	case isDigit(c) || c == '+' || c == '-' || c == '.':
		return l.number(refs), nil
	case isRegular(c):
		return l.word(), nil
	default: // an unexpected delimiter
		l.pos++
		return keyword(c), nil
	}
}

// word parses a run of regular characters: true, false, null or a keyword.
func (l *lexer) word() Object {
	switch w := string(l.regular()); w {
	case "true":
		return Boolean(true)
	case "false":
		return Boolean(false)
	case "null":
		return nil
	default:
		return keyword(w)
	}
}

// regular returns a run of regular characters.
func (l *lexer) regular() []byte {
	start := l.pos
	for l.pos < len(l.buf) && isRegular(l.buf[l.pos]) {
		l.pos++
	}
	if l.pos >= len(l.buf) {
		l.short = true
	}
	return l.buf[start:l.pos]
}

// name parses a name (7.3.5). A # without two hexadecimal digits after it is
// literal.
func (l *lexer) name() Name {
	l.pos++
	text := l.regular()
	escaped := false
	for _, c := range text {
		escaped = escaped || c == '#'
	}
	if !escaped {
		return internName(text)
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '#' && i+2 < len(text) && hexDigit(text[i+1]) >= 0 && hexDigit(text[i+2]) >= 0 {
			out = append(out, byte(hexDigit(text[i+1])<<4|hexDigit(text[i+2]))) //nolint:gosec // two nibbles
			i += 2
			continue
		}
		out = append(out, text[i])
	}
	return Name(out)
}

// literalString parses a literal string (7.3.4.2).
func (l *lexer) literalString() String {
	l.pos++
	var out []byte
	for depth := 1; ; {
		if l.pos >= len(l.buf) {
			l.short, l.open = true, true
			return String(out)
		}
		c := l.buf[l.pos]
		l.pos++
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return String(out)
			}
		case '\r':
			l.skipByte('\n')
			c = '\n'
		case '\\':
			var ok bool
			if c, ok = l.escape(); !ok {
				continue
			}
		}
		out = append(out, c)
	}
}

// escape parses an escape sequence after its reverse solidus. It reports false if
// the sequence produces no byte.
func (l *lexer) escape() (byte, bool) {
	if l.pos >= len(l.buf) {
		l.short = true
		return 0, false
	}
	c := l.buf[l.pos]
	l.pos++
	switch c {
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case '\r':
		l.skipByte('\n')
		return 0, false
	case '\n':
		return 0, false
	}
	if c < '0' || c > '7' {
		return c, true
	}
	value := int(c - '0')
	for i := 0; i < 2 && l.pos < len(l.buf) && l.buf[l.pos] >= '0' && l.buf[l.pos] <= '7'; i++ {
		value = value<<3 | int(l.buf[l.pos]-'0')
		l.pos++
	}
	return byte(value), true // high-order overflow is ignored
}

func (l *lexer) skipByte(c byte) {
	if l.pos < len(l.buf) && l.buf[l.pos] == c {
		l.pos++
	}
}

// hexString parses a hexadecimal string (7.3.4.3).
func (l *lexer) hexString() String {
	l.pos++
	var out []byte
	high := -1
	for {
		if l.pos >= len(l.buf) {
			l.short, l.open = true, true
			break
		}
		c := l.buf[l.pos]
		l.pos++
		if c == '>' {
			break
		}
		v := hexDigit(c)
		if v < 0 {
			continue
		}
		if high < 0 {
			high = v
			continue
		}
		out = append(out, byte(high<<4|v)) //nolint:gosec // two nibbles
		high = -1
	}
	if high >= 0 {
		out = append(out, byte(high<<4)) //nolint:gosec // one nibble
	}
	return String(out)
}

// endsObject reports whether obj is a keyword that ends an object, or begins or
// ends its stream. It unreads the keyword, so that the enclosing containers end too.
func (l *lexer) endsObject(obj Object) bool {
	if w, ok := obj.(keyword); ok && (w == "endobj" || w == "stream" || w == "endstream") {
		l.pos -= len(w)
		return true
	}
	return false
}

// dict parses a dictionary (7.3.7).
func (l *lexer) dict(depth int, refs bool) (Object, error) {
	l.pos += 2
	d := &Dict{}
	for {
		key, err := l.object(depth+1, refs)
		if errors.Is(err, errEnd) {
			l.open = true
			return d, nil
		}
		if err != nil {
			return nil, err
		}
		if key == keyword(">") {
			l.skipByte('>')
			return d, nil
		}
		if l.endsObject(key) {
			return d, nil
		}
		name, ok := key.(Name)
		if !ok {
			continue
		}
		value, err := l.object(depth+1, refs)
		if errors.Is(err, errEnd) {
			l.open = true
			return d, nil
		}
		if err != nil {
			return nil, err
		}
		if value == keyword(">") {
			l.skipByte('>')
			return d, nil
		}
		if l.endsObject(value) {
			return d, nil
		}
		if _, ok := value.(keyword); ok {
			value = nil
		}
		if d.entries == nil {
			d.entries = make([]Entry, 0, 8)
		}
		d.entries = append(d.entries, Entry{name, value})
	}
}

// array parses an array (7.3.6). A keyword that does not end the array counts as
// null, so that later elements keep their indices.
func (l *lexer) array(depth int, refs bool) (Object, error) {
	l.pos++
	a := Array{}
	for {
		value, err := l.object(depth+1, refs)
		if errors.Is(err, errEnd) {
			l.open = true
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		if value == keyword("]") {
			return a, nil
		}
		if l.endsObject(value) {
			return a, nil
		}
		if w, ok := value.(keyword); ok {
			if w == ">" { // the end of the dictionary that contains the array
				l.pos--
				return a, nil
			}
			value = nil
		}
		a = append(a, value)
	}
}

// number parses a number (7.3.3) or, if refs is true, a reference (7.3.10).
func (l *lexer) number(refs bool) Object {
	start := l.pos
	digits := isDigit(l.buf[l.pos])
	plain := digits || l.buf[l.pos] != '.'
	for l.pos++; l.pos < len(l.buf); l.pos++ {
		c := l.buf[l.pos]
		if isDigit(c) {
			continue
		}
		if c != '.' && c != '-' && c != 'e' && c != 'E' {
			break
		}
		digits, plain = false, false
	}
	if l.pos >= len(l.buf) {
		l.short = true
	}
	text := l.buf[start:l.pos]
	if digits && refs && len(text) <= 10 {
		if ref, ok := l.reference(text); ok {
			return ref
		}
	}
	if plain {
		if v, ok := parseInt(text); ok {
			return Integer(v)
		}
	}
	return Real(text)
}

// reference parses "g R" after the object number in text.
func (l *lexer) reference(text []byte) (Ref, bool) {
	rest := l.buf[l.pos:]
	i := 0
	for i < len(rest) && isSpace(rest[i]) {
		i++
	}
	from := i
	for i < len(rest) && isDigit(rest[i]) && i-from < 6 {
		i++
	}
	to := i
	for i < len(rest) && isSpace(rest[i]) {
		i++
	}
	if i+1 >= len(rest) {
		l.short = true
	}
	if from == 0 || to == from || i == to || i >= len(rest) || rest[i] != 'R' || i+1 < len(rest) && isRegular(rest[i+1]) {
		return Ref{}, false
	}
	number, ok := parseInt(text)
	if !ok || number > maxNumber {
		number = 0 // object 0 is always free
	}
	generation, _ := parseInt(rest[from:to])
	l.pos += i + 1
	if number <= maxReference {
		l.maxRef = max(l.maxRef, int(number))
	}
	return Ref{int(number), int(generation)}, true
}

// parseInt parses an optional sign and digits.
func parseInt(text []byte) (int64, bool) {
	if len(text) == 0 {
		return 0, false
	}
	if len(text) > 18 {
		v, err := strconv.ParseInt(string(text), 10, 64)
		return v, err == nil
	}
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	var v int64
	for _, c := range text {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, true
}

// commonNames contains frequent names, so that the lexer does not allocate memory
// for each occurrence of these names.
var commonNames = func() map[string]Name {
	names := map[string]Name{}
	for _, n := range []Name{
		"Type", "Subtype", "Page", "Pages", "Parent", "Kids", "Count", "Resources", "MediaBox", "CropBox", "Rotate", "Contents",
		"Annots", "Annot", "Font", "XObject", "ExtGState", "ColorSpace", "ProcSet", "PDF", "Text", "ImageB", "ImageC", "ImageI",
		"Length", "Filter", "FlateDecode", "DecodeParms", "Columns", "Predictor", "Size", "Root", "Info", "ID", "Prev", "W", "Index",
		"XRef", "ObjStm", "N", "First", "Group", "S", "Transparency", "CS", "DeviceRGB", "StructParents", "Tabs", "Catalog", "Metadata",
		"Names", "Outlines", "Rect", "Border", "A", "F", "P", "AP", "URI", "Link", "Widget", "Lang", "MarkInfo", "StructTreeRoot",
		"BleedBox", "TrimBox", "ArtBox", "Dest", "XYZ", "Pattern", "Shading", "Properties",
	} {
		names[string(n)] = n
	}
	return names
}()

func internName(text []byte) Name {
	if n, ok := commonNames[string(text)]; ok {
		return n
	}
	return Name(text)
}
