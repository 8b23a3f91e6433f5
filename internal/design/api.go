package design

import (
	"context"
	"errors"

	"github.com/certvault/certvault/internal/typeset"
)

var errLater = errors.New("not available yet")

// Prepare checks an uploaded PDF and returns the design to build on: without JavaScript, forms and
// attachments. The error is a *Refusal if the file cannot be a design.
func Prepare(ctx context.Context, file []byte) (*Design, error) { return nil, errLater }

// FromPicture returns a design of one page that shows a picture, PNG or JPEG. The format is "a4",
// "letter" or "16:9", in the orientation of the picture; "" is a page of the size of the picture. The
// picture is never cut. The error is a *Refusal if the file cannot be a design.
func FromPicture(ctx context.Context, picture []byte, format string) (*Design, error) {
	return nil, errLater
}

// Check returns the problems of a layout on the pages of a design.
func (l *Layout) Check(pages []Page) Problems { return nil }

// Publish draws everything that all certificates of a template share, and returns the base. The error
// is Problems if the layout cannot be published.
func Publish(d *Design, l *Layout, fonts *typeset.Fonts, pictures Pictures) (*Base, error) {
	return nil, errLater
}

// Template is a published template. It can be used by several goroutines.
type Template struct{}

// Open returns the template of a base. The layout must be the one that was published.
func Open(base, plan []byte, l *Layout, fonts *typeset.Fonts) (*Template, error) {
	return nil, errLater
}

// Check reports whether a certificate can be drawn: whether it has all required values, and each text
// fits its field and has a font. It draws nothing.
func (t *Template) Check(v *Values) Problems { return nil }

// Draw returns the fields tail of a certificate: the original is the base followed by it. The same
// values yield the same bytes. The error is Problems if the certificate cannot be drawn.
func (t *Template) Draw(v *Values) ([]byte, error) { return nil, errLater }

// Sample returns a complete PDF that shows how a certificate will look, with a mark across each page
// such as "SAMPLE". It has no reference id and no QR code: their places show the mark and a pale
// square. The error is Problems if the certificate could not be drawn.
func (t *Template) Sample(v *Values, mark string) ([]byte, error) { return nil, errLater }

// QR returns the page of the QR code, from 1, and its place: x0, y0, x1 and y1 in fractions of the page
// as displayed, from the top left.
func (t *Template) QR() (page int, box [4]float64) { return 0, box }

// SHA256 returns the digest of the base.
func (t *Template) SHA256() [32]byte { return [32]byte{} }

// State returns the state of SHA-256 after the base, as encoding.BinaryMarshaler writes it.
func (t *Template) State() []byte { return nil }

// Size returns the size of the base in bytes.
func (t *Template) Size() int64 { return 0 }

// Worst returns values that fill the fields of the template as far as possible, for the proof that the
// QR code can be read.
func (t *Template) Worst() []*Values { return nil }

// Shaped is the text of a field as it will be drawn.
type Shaped struct {
	// Path is the data of an SVG path in points from the top left of the box, before its rotation.
	Path string
	// Size is the font size, Lines the number of lines and Text the text with its values.
	Size  float64
	Lines int
	Text  string
	// Problem is the reason why the text cannot be drawn, or nil. If it has no room, Path shows it at
	// the smallest size beyond the box.
	Problem *Problem
}

// Shape sets the text of a field for the designer, in the same way as Draw.
func Shape(f *Field, l *Layout, v *Values, fonts *typeset.Fonts) Shaped { return Shaped{} }

// Sample are values that show how a template looks, for the designer. Name is "typical", "long" or the
// English name of a script in lower case.
type Sample struct {
	Name   string
	Values Values
}

// Samples returns typical values in several scripts.
func Samples() []Sample { return nil }

// Archival appends what PDF/A-2b requires of a file as a whole: an sRGB output intent and XMP metadata
// with the title. The content of the file must already follow the rules: embedded fonts, and colours
// in DeviceRGB or DeviceGray.
func Archival(file []byte, title string) ([]byte, error) { return nil, errLater }
