package pdf

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Balance holds the content to add before and after a page's content, so that
// more content can be appended safely. It also reports faults of the page's content.
type Balance struct {
	// Prefix is content to insert before the existing content: a q for each
	// unmatched Q, and one more q that encloses everything.
	Prefix []byte
	// Suffix is content to append to the existing content. It closes the open
	// constructs, such as strings, paths, text objects and graphics states, and
	// then the graphics state that Prefix opened.
	Suffix []byte
	// Clean reports whether the content leaves nothing open and has no unmatched
	// Q. Clean content may still have changed the matrix or the colour, so Prefix
	// and Suffix are always needed.
	Clean bool
	// Faulty reports whether an operator has too few operands or a number has an
	// exponent. Some viewers stop at such a fault and do not show appended
	// content.
	Faulty bool
	// WrongLength lists the content streams of the page whose /Length is wrong.
	// Some viewers do not find the end of such a stream. Update.Set with the same
	// stream rewrites the stream with its actual length. ScanContent does not set
	// WrongLength.
	WrongLength []Ref
}

// CleanBalance returns the balance of clean content without faults.
func CleanBalance() Balance {
	return Balance{Prefix: []byte("q\n"), Suffix: []byte("\nQ\n"), Clean: true}
}

// ContentBalance reads the decoded content of the page, at most 32 MiB, and
// returns its balance. The error wraps ErrLimit if the content is larger or nested
// too deeply, or the error of the reader.
func (d *Document) ContentBalance(p *Page) (Balance, error) {
	streams := make([]io.Reader, 0, 8)
	for _, part := range p.Contents() {
		s, ok := d.Resolve(part).(*Stream)
		if !ok {
			continue
		}
		// No token spans two streams (7.8.2), so a newline separates them.
		streams = append(streams, &contentPart{stream: s}, bytes.NewReader([]byte{'\n'}))
	}
	if d.src.err != nil {
		return Balance{}, d.src.err
	}
	in := &limitedReader{r: io.MultiReader(streams...), src: d.src, left: maxDecoded}
	b, err := ScanContent(in)
	if err != nil {
		return Balance{}, d.src.fail(fmt.Errorf("reading the content of page %d: %w", p.Index+1, err))
	}
	for _, part := range p.Contents() {
		ref, ok := part.(Ref)
		if s, isStream := d.Resolve(part).(*Stream); ok && isStream && s.searched {
			b.WrongLength = append(b.WrongLength, d.currentRef(ref))
		}
	}
	return b, nil
}

// contentPart is a content stream that is opened at the first read. As in
// viewers, a stream that cannot be decoded counts as empty.
type contentPart struct {
	stream *Stream
	in     io.Reader
}

func (c *contentPart) Read(p []byte) (int, error) {
	if c.in == nil {
		in, err := c.stream.Decoded()
		if err != nil {
			if isFatal(err) {
				return 0, err
			}
			return 0, io.EOF
		}
		c.in = in
	}
	return c.in.Read(p)
}

// construct is the kind of an open construct: a graphics state (q, 8.4.2), a text
// object (BT, 9.4), marked content (BMC, 14.6) or a compatibility section (BX,
// 7.8.2).
type construct int

const (
	openState construct = iota
	openText
	openMarked
	openCompatibility
	openKinds
)

// maxOpen is the maximum number of open constructs of one kind, of unmatched Q,
// of open containers and of nested parentheses in a string. Real files have at most
// a few dozen levels.
const maxOpen = 1 << 14

// contentScanner tracks what a content stream opens and closes.
type contentScanner struct {
	contentReader
	open       [openKinds][]int // sequence numbers of the open constructs, by kind
	opened     int              // number of constructs opened so far
	pathOpen   bool             // a path is being constructed (8.5.2)
	unmatchedQ int              // number of Q without a matching q
}

// ScanContent reads a content stream (7.8.2) to its end and returns its balance.
// The error wraps ErrLimit if a limit is exceeded, or the error of r. If r reports
// damaged data or an unknown filter, the content ends there without an error.
func ScanContent(r io.Reader) (Balance, error) {
	s := contentScanner{contentReader: newContentReader(r)}
	for {
		operator, err := s.next()
		if err != nil {
			return Balance{}, err
		}
		if operator == "" {
			return s.balance(), nil
		}
		if err := s.apply(operator); err != nil {
			return Balance{}, err
		}
	}
}

// apply processes one operator (Annex A).
func (s *contentScanner) apply(operator string) error {
	if s.operands < minOperands[operator] {
		s.faulty = true
	}
	s.operands = 0
	switch operator {
	case "q":
		return s.begin(openState)
	case "Q":
		if !s.end(openState) {
			s.unmatchedQ++
		}
	case "BT":
		if len(s.open[openText]) == 0 { // text objects do not nest
			return s.begin(openText)
		}
	case "ET":
		s.end(openText)
	case "BMC", "BDC":
		return s.begin(openMarked)
	case "EMC":
		s.end(openMarked)
	case "BX":
		return s.begin(openCompatibility)
	case "EX":
		s.end(openCompatibility)
	case "m", "l", "c", "v", "y", "h", "re":
		s.pathOpen = true
	case "S", "s", "f", "F", "f*", "B", "B*", "b", "b*", "n":
		s.pathOpen = false
	case "ID":
		return s.skipInlineImage()
	}
	if s.unmatchedQ > maxOpen {
		return fmt.Errorf("%w: too many unbalanced graphics states", ErrLimit)
	}
	return nil
}

func (s *contentScanner) begin(kind construct) error {
	if len(s.open[kind]) >= maxOpen {
		return fmt.Errorf("%w: graphics states, marked content or compatibility sections are nested too deeply", ErrLimit)
	}
	s.open[kind] = append(s.open[kind], s.opened)
	s.opened++
	return nil
}

// end closes the innermost open construct of the kind, even if constructs of
// other kinds within that construct are still open. It reports whether a
// construct of the kind was open.
func (s *contentScanner) end(kind construct) bool {
	n := len(s.open[kind])
	if n == 0 {
		return false
	}
	s.open[kind] = s.open[kind][:n-1]
	return true
}

// closing returns the kinds of the open constructs, the innermost first.
func (s *contentScanner) closing() []construct {
	kinds := map[int]construct{}
	for kind, numbers := range s.open {
		for _, n := range numbers {
			kinds[n] = construct(kind)
		}
	}
	var out []construct
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(kinds))) {
		out = append(out, kinds[n])
	}
	return out
}

// balance returns the content that must precede and follow the content stream.
func (s *contentScanner) balance() Balance {
	open := s.closing()
	b := Balance{Faulty: s.faulty, Clean: len(s.unclosed) == 0 && len(open) == 0 && s.unmatchedQ == 0 && !s.pathOpen}
	b.Prefix = bytes.Repeat([]byte("q\n"), s.unmatchedQ+1)
	var out bytes.Buffer
	out.Write(s.unclosed)
	out.WriteByte('\n')
	if s.pathOpen {
		out.WriteString("n\n")
	}
	for _, o := range open {
		switch o {
		case openState:
			out.WriteString("Q\n")
		case openText:
			out.WriteString("ET\n")
		case openMarked:
			out.WriteString("EMC\n")
		case openCompatibility:
			out.WriteString("EX\n")
		case openKinds:
		}
	}
	out.WriteString("Q\n")
	b.Suffix = out.Bytes()
	return b
}
