package builtin

import (
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/design"
)

// style is the appearance of the text of a field.
type style struct {
	font      design.Font
	size, min float64
	lines     int
	leading   float64
	color     colour.Colour
	align     string
	valign    string
	tracking  float64
	upper     bool
}

// box returns a rectangle with rounded coordinates.
func box(x, y, w, h float64) design.Box { return design.Box{round(x), round(y), round(w), round(h)} }

// centered returns a rectangle whose middle is the vertical line at x.
func centered(x, y, w, h float64) design.Box { return box(x-w/2, y, w, h) }

// round rounds a positive number to two decimal places, as in the coordinates of layouts.
func round(v float64) float64 { return float64(int(v*100+0.5)) / 100 }

// text returns a field with a text. The default of min is 60 % of size.
func (s style) text(id string, kind design.Kind, text string, at design.Box) design.Field {
	f := design.Field{
		ID: id, Kind: kind, Page: 1, Box: at, Text: text,
		Font: s.font, Size: s.size, MinSize: s.min, Lines: s.lines, Leading: s.leading,
		Align: s.align, VAlign: s.valign, Color: s.color.String(), Tracking: s.tracking,
	}
	if f.MinSize == 0 {
		f.MinSize = round(0.6 * f.Size)
	}
	if s.upper {
		f.Case = "upper"
	}
	return f
}

// name returns the field of the recipient's name.
func (s style) name(at design.Box) design.Field {
	f := s.text("name", design.Name, "{name}", at)
	f.Required = true
	return f
}

// title returns the field of the title of the certificate, such as the name of a course.
func (s style) title(at design.Box) design.Field {
	f := s.text("title", design.Title, "{title}", at)
	f.Required = true
	return f
}

// logo returns the field of the institution's logo.
func logo(at design.Box, align string) design.Field {
	return design.Field{ID: "logo", Kind: design.Image, Page: 1, Box: at, Image: "logo", Align: align}
}

// code returns the field of the QR code.
func code(x, y, side float64) design.Field {
	return design.Field{ID: "qr", Kind: design.QR, Page: 1, Box: box(x, y, side, side)}
}

// These are the fonts of the designs.
var (
	cormorant       = design.Font{Family: "Cormorant Garamond", Weight: 600}
	cormorantItalic = design.Font{Family: "Cormorant Garamond", Weight: 500, Italic: true}
	garamond        = design.Font{Family: "EB Garamond"}
	garamondItalic  = design.Font{Family: "EB Garamond", Italic: true}
	garamondSemi    = design.Font{Family: "EB Garamond", Weight: 600}
	cinzel          = design.Font{Family: "Cinzel", Weight: 500}
	playfair        = design.Font{Family: "Playfair Display", Weight: 700}
	inter           = design.Font{Family: "Inter"}
	interSemi       = design.Font{Family: "Inter", Weight: 600}
	jost            = design.Font{Family: "Jost"}
	jostSemi        = design.Font{Family: "Jost", Weight: 600}
	greatVibes      = design.Font{Family: "Great Vibes"}
)
