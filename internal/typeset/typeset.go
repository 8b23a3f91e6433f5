// Package typeset sets text in any script. It chooses fonts, shapes the text, breaks lines, fits the text
// to a width and writes the result as PDF content or as an SVG path. Both show the same glyphs at the same
// positions.
//
// [Fonts] contains the embedded fonts and the fonts in folders of the machine, which Chinese, Japanese and
// Korean need. For a font that an institution uploads, [Inspect] checks the file, and [Fonts.With] adds it.
// [Fonts.Layout] returns a [Block]. [Block.Draw] writes the operators of a content stream and records the
// glyphs in [Subsets], which then writes one font subset per face:
//
//	block, err := fonts.Layout("José 王", typeset.Style{Font: typeset.Font{Family: typeset.Inter}, Size: 12}, 200)
//	subsets := typeset.NewSubsets("CV")
//	block.Draw(&content, subsets, 72, 700)
//	resources.Set("Font", subsets.Objects(update))
//
// [Shared] describes the subsets in a PDF, so that later updates of the PDF can use them.
//
// Rules:
//
//   - A run of one script is drawn in one face, because a name in two faces looks wrong. It is split
//     between graphemes only if no face has all its characters.
//   - Text is never cut or abbreviated. The error is [ErrNoRoom] if it does not fit, and a [MissingError] if no
//     font has one of its characters.
//   - A letter and its marks are one glyph of the subset, so that readers extract exactly the text.
//   - The output depends only on the input and the fonts.
//
// The package does not handle pages, colours, boxes or tags. The caller sets the colour and writes the
// operators for tagged content.
package typeset

import "math"

// Font identifies the font that the caller prefers. Characters that this font does not have are drawn
// in other fonts.
type Font struct {
	// Family is the name of a family, such as Inter. An unknown family is treated as Inter.
	Family string
	// Weight is the weight from 100 to 900; 0 means 400. The nearest weight of the family is used.
	Weight int
	// Italic prefers the italic faces of the family, if it has any.
	Italic bool
}

// These families have Latin letters and are embedded. Inter and EB Garamond also have Greek, Cyrillic
// and Vietnamese.
const (
	Inter             = "Inter"              // sans serif, weights 400 and 600
	Jost              = "Jost"               // geometric sans serif, weights 400 and 600; with Cyrillic
	EBGaramond        = "EB Garamond"        // serif, weights 400, 400 italic and 600
	CormorantGaramond = "Cormorant Garamond" // light serif for large sizes, weights 600 and 500 italic; with Cyrillic
	PlayfairDisplay   = "Playfair Display"   // headlines, weight 700; with Cyrillic
	Cinzel            = "Cinzel"             // Roman capitals, weight 500
	GreatVibes        = "Great Vibes"        // script, weight 400; with Cyrillic
	PinyonScript      = "Pinyon Script"      // English round hand, weight 400
)

// Align is the alignment of lines.
type Align int

const (
	// Left aligns lines at the left in every script, so that a name in Arabic stays where the
	// design has it.
	Left Align = iota
	// Center centers lines.
	Center
	// Right aligns lines at the right in every script.
	Right
	// Start aligns lines at the left, or at the right if the paragraph runs from right to left.
	Start
)

// Direction is the direction of a paragraph.
type Direction int

const (
	// Auto takes the direction of the first letter outside isolates (UAX #9, P2).
	Auto Direction = iota
	// LeftToRight is the direction of Latin.
	LeftToRight
	// RightToLeft is the direction of Arabic and Hebrew.
	RightToLeft
)

// Unlimited is the value of Style.Lines for long texts: the text has as many lines as it needs, at the
// full size. A word that is wider than the width is broken.
const Unlimited = math.MaxInt

// Style describes the appearance of a text. Lengths are in points.
type Style struct {
	// Font is the preferred font.
	Font Font
	// Size is the font size.
	Size float64
	// MinSize is the minimum size to which the text is reduced to fit; 0 means Size.
	MinSize float64
	// Lines is the maximum number of lines; 0 means 1. A text of several lines is broken so that the widest
	// line is as short as possible, except with Unlimited. If Lines is 1, a line feed in the text is a
	// space. Otherwise it begins a new line.
	Lines int
	// Height is the maximum height of several lines; 0 means no maximum.
	Height float64
	// Leading is the distance between two baselines as a multiple of the size; 0 means 1.2.
	Leading float64
	// Align is the alignment of the lines in the width of the layout.
	Align Align
	// Direction is the direction of the paragraphs.
	Direction Direction
	// Tracking is additional space between letters in thousandths of the size. It is not applied
	// in scripts whose letters join.
	Tracking float64
	// Language is the BCP 47 tag of the text. It selects the forms of letters, and the font of Han
	// characters. "" means "en".
	Language string
}

// Block is text that is shaped and broken into lines. It does not change and can be used by several
// goroutines.
type Block struct {
	// Size is the font size, which is Style.Size or smaller.
	Size float64
	// Width is the width of the widest line. Height is the distance from the top of the capitals of the
	// first line to the baseline of the last line.
	Width, Height float64
	// Ascent, Descent and CapHeight are the metrics of the preferred font at Size. Ascent and CapHeight are
	// distances above the baseline, and Descent is a distance below it. They depend on the text only
	// because Size does.
	Ascent, Descent, CapHeight float64
	// Leading is the distance between two baselines.
	Leading float64
	// RightToLeft reports whether the first paragraph runs from right to left.
	RightToLeft bool

	lines []line
}

// line is a line in visual order, from left to right. Lengths are in ems.
type line struct {
	clusters []cluster
	x, width float64
	rtl      bool // the paragraph runs from right to left
}

// cluster is one or more glyphs that stand for text and cannot be divided: a letter with its marks,
// a ligature, a syllable.
type cluster struct {
	face       *face
	parts      []part
	advance    float64 // in ems
	wide       int16   // kerning in font units that is a part of the width in the PDF, or 0; see wideKerning
	text       string
	start, end int   // in the runes of the paragraph
	level      uint8 // of UAX #9
	space      bool  // consists of spaces
	breakAfter bool  // a line may end after it
}

// part is a glyph of the face at an offset from the origin of its cluster, in font units.
type part struct {
	glyph uint16
	x, y  int16
}

// Lines returns the number of lines.
func (b *Block) Lines() int { return len(b.lines) }

// Isolate returns value between the characters U+2068 and U+2069, so that its direction does not
// reorder the sentence around it (UAX #9, FSI and PDI). Use it for each value that is inserted into
// a sentence.
func Isolate(value string) string { return "\u2068" + value + "\u2069" }
