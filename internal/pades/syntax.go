package pades

import (
	"errors"
	"strconv"
)

// errSyntax reports bytes that violate the syntax. This parser is strict; package pdf
// also accepts the errors that viewers accept.
var errSyntax = errors.New("not a valid object")

// kind is the type of an object.
type kind int

const (
	kindKeyword kind = iota // true, false, null
	kindNumber
	kindName
	kindString // literal string
	kindHex    // hexadecimal string
	kindArray
	kindDict
	kindRef
)

// node is an object with its position.
type node struct {
	kind       kind
	start, end int // offsets in the buffer
	// text is a name with #xx decoded, an unchanged number or keyword, or the object number of a
	// reference.
	text  string
	keys  []node // of a dictionary, parallel to items
	items []node // of an array or a dictionary
}

// get returns the value of a key of a dictionary, and reports whether the
// dictionary has the key.
func (n *node) get(key string) (*node, bool) {
	for i := range n.keys {
		if n.keys[i].text == key {
			return &n.items[i], true
		}
	}
	return nil, false
}

// name returns the value of a key if the value is a name, otherwise "".
func (n *node) name(key string) string {
	if v, ok := n.get(key); ok && v.kind == kindName {
		return v.text
	}
	return ""
}

// integer returns the value of a number. It reports false if the object is not a
// number, or has a sign, a fraction or more than 15 digits.
func (n *node) integer() (int64, bool) {
	if n.kind != kindNumber || len(n.text) > 15 {
		return 0, false
	}
	for i := range len(n.text) {
		if n.text[i] < '0' || n.text[i] > '9' {
			return 0, false
		}
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	return v, err == nil
}

// Limits of an object.
const (
	maxNesting = 32
	maxNodes   = 1 << 14
	maxKeys    = 256 // of a dictionary
)

// syntax parses objects from a buffer (ISO 32000-2, 7.2 and 7.3).
type syntax struct {
	buf   []byte
	at    int
	nodes int
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

// space skips white space and comments.
func (s *syntax) space() {
	for s.at < len(s.buf) {
		switch c := s.buf[s.at]; {
		case isSpace(c):
			s.at++
		case c == '%':
			for s.at < len(s.buf) && s.buf[s.at] != '\n' && s.buf[s.at] != '\r' {
				s.at++
			}
		default:
			return
		}
	}
}

// peek returns the byte that is i bytes after the current position, or 0 at the
// end.
func (s *syntax) peek(i int) byte {
	if s.at+i < len(s.buf) {
		return s.buf[s.at+i]
	}
	return 0
}

// object parses the next object.
func (s *syntax) object(depth int) (node, error) {
	s.space()
	if s.nodes++; depth > maxNesting || s.nodes > maxNodes || s.at >= len(s.buf) {
		return node{}, errSyntax
	}
	n := node{start: s.at}
	var err error
	switch c := s.buf[s.at]; {
	case c == '/':
		n.kind = kindName
		n.text, err = s.name()
	case c == '(':
		n.kind = kindString
		err = s.literal()
	case c == '<' && s.peek(1) == '<':
		n.kind = kindDict
		err = s.dict(&n, depth)
	case c == '<':
		n.kind = kindHex
		err = s.hexadecimal()
	case c == '[':
		n.kind = kindArray
		err = s.array(&n, depth)
	case isDelimiter(c):
		err = errSyntax
	default:
		err = s.regular(&n)
	}
	n.end = s.at
	return n, err
}

// word reads regular characters.
func (s *syntax) word() string {
	from := s.at
	for s.at < len(s.buf) && !isSpace(s.buf[s.at]) && !isDelimiter(s.buf[s.at]) {
		s.at++
	}
	return string(s.buf[from:s.at])
}

// regular parses a number, a keyword or a reference.
func (s *syntax) regular(n *node) error {
	n.text = s.word()
	switch n.text {
	case "true", "false", "null":
		return nil
	}
	n.kind = kindNumber
	if _, err := strconv.ParseFloat(n.text, 64); err != nil || len(n.text) > 32 {
		return errSyntax
	}
	if _, ok := n.integer(); !ok {
		return nil
	}
	// A reference is two numbers and R (7.3.10).
	after := s.at
	s.space()
	generation := node{kind: kindNumber, text: s.word()}
	_, ok := generation.integer()
	s.space()
	if ok && s.word() == "R" {
		n.kind = kindRef
		return nil
	}
	s.at = after
	return nil
}

func (s *syntax) name() (string, error) {
	s.at++
	raw := s.word()
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '#' {
			out = append(out, raw[i])
			continue
		}
		if i+2 >= len(raw) {
			return "", errSyntax
		}
		v, err := strconv.ParseUint(raw[i+1:i+3], 16, 8)
		if err != nil {
			return "", errSyntax
		}
		out = append(out, byte(v))
		i += 2
	}
	return string(out), nil
}

func (s *syntax) literal() error {
	for depth := 0; s.at < len(s.buf); s.at++ {
		switch s.buf[s.at] {
		case '\\':
			s.at++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				s.at++
				return nil
			}
		}
	}
	s.at = len(s.buf)
	return errSyntax
}

func (s *syntax) hexadecimal() error {
	for s.at++; s.at < len(s.buf); s.at++ {
		switch c := s.buf[s.at]; {
		case c == '>':
			s.at++
			return nil
		case !isHex(c) && !isSpace(c):
			return errSyntax
		}
	}
	return errSyntax
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *syntax) array(n *node, depth int) error {
	s.at++
	for {
		s.space()
		if s.peek(0) == ']' {
			s.at++
			return nil
		}
		item, err := s.object(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
}

// dict parses a dictionary. A key must not occur twice, because readers differ
// in which occurrence they use.
func (s *syntax) dict(n *node, depth int) error {
	s.at += 2
	for {
		s.space()
		if s.peek(0) == '>' && s.peek(1) == '>' {
			s.at += 2
			return nil
		}
		key, err := s.object(depth + 1)
		if err != nil || key.kind != kindName {
			return errSyntax
		}
		if _, ok := n.get(key.text); ok || len(n.keys) >= maxKeys {
			return errSyntax
		}
		value, err := s.object(depth + 1)
		if err != nil {
			return err
		}
		n.keys, n.items = append(n.keys, key), append(n.items, value)
	}
}
