package vaulttest

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/doctext"
	"github.com/certvault/certvault/internal/seal"
)

// Picture is the content of the sealer's pictures. It is the first eight bytes of a PNG file.
const Picture = "\x89PNG\r\n\x1a\n"

// Sealer adds certtest.Tail to files. It refuses files whose name begins with "refuse".
type Sealer struct {
	// Notices are the notices of each verified PDF.
	Notices []seal.Notice
	// Pictured is the parameter page of the last call of Sealer.Picture.
	Pictured atomic.Int64

	done atomic.Int64
}

// Seal adds certtest.Tail to an original, or returns certtest.ErrRefused.
func (s *Sealer) Seal(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
	defer s.done.Add(1)
	if strings.HasPrefix(o.Name, "refuse") {
		return nil, certtest.ErrRefused
	}
	v, err := certtest.Seal(o)
	if err == nil {
		v.Notices = s.Notices
	}
	return v, err
}

// PNG returns Picture.
func (*Sealer) PNG(context.Context, io.ReaderAt, int64) ([]byte, error) { return []byte(Picture), nil }

// Picture returns the constant Picture, and stores the page in Pictured.
func (s *Sealer) Picture(_ context.Context, _ seal.Original, page int) ([]byte, error) {
	s.Pictured.Store(int64(page))
	return []byte(Picture), nil
}

// Page returns Picture.
func (*Sealer) Page(context.Context, io.ReaderAt, int64, int, int) ([]byte, error) {
	return []byte(Picture), nil
}

// Stamped returns Picture with the requested mode. The box is the requested box if the mode is seal.Exact,
// and otherwise constant. If the stamp is on an extra page, the name, the title and the date of the sheet
// follow the picture.
func (*Sealer) Stamped(ctx context.Context, _ seal.Original, stamp seal.Stamp) (*seal.Stamped, error) {
	picture := []byte(Picture)
	if stamp.Placement.Mode == seal.Appended && stamp.Sheet != nil {
		sheet, err := stamp.Sheet(ctx)
		if err != nil {
			return nil, err
		}
		picture = fmt.Appendf(picture, "\n%s|%s|%s", sheet.Name, sheet.Title, sheet.Texts[0].Date)
	}
	box := stamp.Placement.Box
	if stamp.Placement.Mode != seal.Exact {
		box = seal.Box{0.7, 0.8, 0.9, 0.9}
	}
	return &seal.Stamped{PNG: picture, Placement: stamp.Placement.Mode, Page: max(1, stamp.Placement.Page), Box: box}, nil
}

// Ink returns Picture.
func (*Sealer) Ink(context.Context, seal.Original, seal.Stamp) ([]byte, error) {
	return []byte(Picture), nil
}

// shown matches a text that a page of package pdftest shows.
var shown = regexp.MustCompile(`\(([^)]*)\) Tj`)

// Text returns the texts that the pages of a file show. The file must be from package pdftest.
func (*Sealer) Text(_ context.Context, o seal.Original) (*seal.Text, error) {
	data, err := io.ReadAll(io.NewSectionReader(o.R, 0, o.Size))
	if err != nil {
		return nil, err
	}
	var lines []doctext.Line
	for _, m := range shown.FindAllSubmatch(data, -1) {
		lines = append(lines, doctext.Line{Text: string(m[1])})
	}
	return seal.NewText(lines, true), nil
}

// Preview returns a preview with the requested mode and four candidates. The box is constant.
func (*Sealer) Preview(_ context.Context, _ seal.Original, stamp seal.Stamp) (*seal.Preview, error) {
	box := seal.Box{0.7, 0.8, 0.9, 0.9}
	return &seal.Preview{
		Page: 1, Pages: 1, Width: 595, Height: 842, Chosen: seal.Candidate{Mode: stamp.Placement.Mode, Box: &box, Remembered: len(stamp.Placement.EarlierLayouts) > 0},
		Candidates: []seal.Candidate{{Mode: seal.BottomRight, Box: &box}, {Mode: seal.TopLeft, NoRoom: true}, {Mode: seal.Strip}, {Mode: seal.Appended}},
	}, nil
}
