package typeset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// These are the rules of fitting. More lines are tried only while the size is below enough times
// Style.Size. They are used only if they make the text larger by more than the factor gain.
const (
	enough         = 0.8
	gain           = 1.2
	step           = 0.97 // factor by which the size of several lines is reduced at a time
	bisections     = 12   // steps of even
	smallest       = 0.01 // minimum size as a share of Style.Size, even if MinSize is smaller
	mostLines      = 100
	defaultLeading = 1.2
	tolerance      = 0.01 // points
)

// Layout sets text in a width in points. It reduces the size and breaks lines, as the style allows, until
// all of the text fits. The error is ErrNoRoom, a *MissingError or an error of a font. If the text is
// empty or consists of spaces, the Block has no lines.
func (f *Fonts) Layout(text string, style Style, width float64) (b *Block, err error) {
	defer func() { // the shaper may panic on a damaged font of a folder
		if r := recover(); r != nil {
			b, err = nil, fmt.Errorf("%w: its tables are damaged: %v", ErrFont, r)
		}
	}()
	preferred, err := f.load(f.preferred(style.Font))
	if err != nil {
		return nil, err
	}
	style.Lines = max(1, style.Lines)
	t := &setting{style: style, width: width, leading: cmp.Or(style.Leading, defaultLeading)}
	if t.paragraphs, err = f.paragraphs(clean(text), &style); err != nil {
		return nil, err
	}
	size, lines, err := t.fit()
	if err != nil {
		return nil, err
	}
	b = &Block{
		Size: size, Leading: t.leading * size, lines: lines,
		Ascent: preferred.ascent * size, Descent: preferred.descent * size, CapHeight: preferred.capHeight * size,
	}
	for i := range lines {
		b.Width = max(b.Width, lines[i].width*size)
	}
	if len(lines) > 0 {
		b.Height = b.CapHeight + float64(len(lines)-1)*b.Leading
		b.RightToLeft = t.paragraphs[0].level == 1
	}
	return b, nil
}

// paragraphs shapes the paragraphs of a text.
func (f *Fonts) paragraphs(text string, style *Style) ([]*paragraph, error) {
	if style.Lines == 1 {
		text = strings.ReplaceAll(text, "\n", " ")
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var out []*paragraph
	var first error
	s := f.shaper()
	for part := range strings.SplitSeq(text, "\n") {
		p, err := s.shape(strings.TrimSpace(part), style)
		if err != nil && first == nil {
			first = err
		}
		out = append(out, p)
	}
	f.shapers.Put(s) // after a panic, the shaper is not used again
	if first != nil {
		return nil, first
	}
	return out, nil
}

// setting is a text to fit, with its style and the width.
type setting struct {
	paragraphs []*paragraph
	style      Style
	width      float64
	leading    float64
}

// fit returns the size and the lines.
func (t *setting) fit() (float64, []line, error) {
	style := &t.style
	if len(t.paragraphs) == 0 {
		return style.Size, nil, nil
	}
	if !(style.Size > 0 && t.width > 0) || math.IsInf(style.Size, 1) { // the first condition includes NaN
		return 0, nil, ErrNoRoom
	}
	if style.Lines == Unlimited {
		lines, ok := t.at(style.Size, Unlimited)
		if !ok {
			return 0, nil, ErrNoRoom
		}
		return style.Size, t.aligned(lines, style.Size), nil
	}
	size, lines := t.largest(max(cmp.Or(min(style.MinSize, style.Size), style.Size), smallest*style.Size))
	if lines == nil {
		return 0, nil, ErrNoRoom
	}
	if len(lines) > len(t.paragraphs) {
		lines = t.even(lines, size)
	}
	return size, t.aligned(lines, size), nil
}

// largest returns the size, which is at least low, and the lines. It returns no lines if the text does not
// fit.
func (t *setting) largest(low float64) (size float64, best []line) {
	style := &t.style
	most := min(style.Lines, mostLines)
	fewest, ok := t.at(low, most)
	if !ok {
		return 0, nil
	}
	for n := len(fewest); n <= most; n++ {
		at := style.Size
		var lines []line
		ok := false
		if n == 1 { // the size of one line can be computed
			if w := t.widest(); w*at > t.width {
				at = t.width / w
			}
			if at >= low {
				lines, ok = t.at(at, 1)
			}
		} else {
			for ; at >= low; at *= step {
				if lines, ok = t.at(at, n); ok {
					break
				}
			}
		}
		if ok && at > size*gain {
			size, best = at, lines
		}
		if ok && at >= style.Size*enough {
			break
		}
	}
	return size, best
}

// at returns the lines at a size, and reports whether there are at most n and all of them fit.
func (t *setting) at(size float64, n int) ([]line, bool) {
	lines := t.wrap(t.width / size)
	if len(lines) > n {
		return nil, false
	}
	if h := t.style.Height; h > 0 && len(lines) > 1 && (float64(len(lines)-1)*t.leading+1)*size > h+tolerance {
		return nil, false
	}
	for i := range lines {
		if lines[i].width*size > t.width+tolerance {
			return nil, false
		}
	}
	return lines, true
}

// widest returns the width of the widest paragraph in ems.
func (t *setting) widest() (w float64) {
	for _, p := range t.paragraphs {
		w = max(w, widthOf(p.clusters))
	}
	return w
}

// even returns the same number of lines, broken so that the widest line is as short as possible.
func (t *setting) even(lines []line, size float64) []line {
	high := t.width / size
	low := high / 2
	for range bisections {
		middle := (low + high) / 2
		tried := t.wrap(middle)
		fits := !slices.ContainsFunc(tried, func(l line) bool { return l.width > middle })
		if len(tried) == len(lines) && fits {
			lines, high = tried, middle
		} else {
			low = middle
		}
	}
	return lines
}

// wrap breaks the paragraphs into lines of a width in ems. A line without an opportunity to break may be
// wider.
func (t *setting) wrap(width float64) []line {
	var out []line
	for _, p := range t.paragraphs {
		for rest := p.clusters; ; {
			n := fitting(rest, width, t.style.Lines == Unlimited)
			out = append(out, line{clusters: rest[:n], width: widthOf(rest[:n]), rtl: p.level == 1})
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	return out
}

// fitting returns the number of clusters of the next line, with the spaces at its end. If anywhere is true,
// a line without an opportunity to break ends after the last cluster that fits.
func fitting(clusters []cluster, width float64, anywhere bool) int {
	end, pen := 0, 0.0
	for i := range clusters {
		c := &clusters[i]
		pen += c.advance
		if !c.space && pen > width+tolerance/100 {
			if end > 0 {
				return end
			}
			if anywhere && i > 0 {
				return i
			}
		}
		if c.breakAfter {
			end = i + 1
		}
	}
	return len(clusters)
}

// widthOf returns the width of a line in ems, without spaces at its end.
func widthOf(clusters []cluster) (w float64) {
	for _, c := range trimmed(clusters) {
		w += c.advance
	}
	return w
}

// trimmed returns the clusters without the spaces at the end of the line (UAX #9, L1).
func trimmed(clusters []cluster) []cluster {
	for len(clusters) > 0 && clusters[len(clusters)-1].space {
		clusters = clusters[:len(clusters)-1]
	}
	return clusters
}

// aligned returns the lines with their clusters in visual order and with their horizontal positions.
func (t *setting) aligned(lines []line, size float64) []line {
	for i := range lines {
		l := &lines[i]
		l.clusters = visual(trimmed(l.clusters))
		free := t.width/size - l.width
		switch align := t.style.Align; {
		case align == Center:
			l.x = free / 2
		case align == Right, align == Start && l.rtl:
			l.x = free
		}
	}
	return lines
}

// visual returns a copy of the clusters of a line in the order from left to right (UAX #9, L2).
func visual(clusters []cluster) []cluster {
	out := slices.Clone(clusters)
	highest := uint8(0)
	for i := range out {
		highest = max(highest, out[i].level)
	}
	for level := highest; level > 0; level-- {
		for i := 0; i < len(out); i++ {
			j := i
			for j < len(out) && out[j].level >= level {
				j++
			}
			if j > i {
				slices.Reverse(out[i:j])
				i = j
			}
		}
	}
	return out
}
