package seal

import (
	"bytes"
	"context"
	"io"

	"github.com/certvault/certvault/internal/pdfium"
)

// previewSide is the longer side in pixels of the pictures that Picture and Stamped return.
const previewSide = 1000

// Preview describes an original and the possible places of its stamp.
type Preview struct {
	// Page is the page to stamp, from 1. Pages is the number of pages. Width and Height are the
	// size of the page in points as displayed.
	Page, Pages   int
	Width, Height float64
	// Signed reports whether the file has signatures. A signed file can be stamped only in a blank
	// place.
	Signed bool
	// Chosen is the place of the stamp for the requested placement. Its Box is nil for a strip, an
	// appended page, a cover, and a place on another page of a signed file.
	Chosen Candidate
	// Candidates are the places that a user can choose: the four corners and, if the file is not
	// signed, a strip and an appended page. If the page cannot be rendered, Candidates has only the
	// appended page, or is empty for a signed file. It is empty if the file allows no change.
	Candidates []Candidate
	Notices    []Notice
}

// Candidate is a place for the stamp.
type Candidate struct {
	Mode Mode
	Box  *Box
	// Covers reports whether the stamp would cover content. NoRoom reports whether the page has no
	// blank place in this corner.
	Covers, NoRoom bool
	// Remembered reports whether this is the place of an earlier stamp on a page of this size.
	Remembered bool
}

// previewModes lists the corners in the order in which a user sees them.
var previewModes = []Mode{BottomRight, BottomLeft, TopRight, TopLeft}

// Preview returns the place of a stamp and the other possible places. It searches for blank places like
// Seal, but does not check that the stamp is readable. Seal uses another place if the stamp is not
// readable. If the original cannot be opened, Preview returns the same *Refusal as Seal.
func (s *Sealer) Preview(ctx context.Context, o Original, stamp Stamp) (*Preview, error) {
	j, err := s.openOriginal(ctx, o, stamp)
	if err != nil {
		return nil, err
	}
	p := &Preview{Page: j.page.Index + 1, Pages: j.doc.PageCount(), Width: j.frame.width, Height: j.frame.height, Signed: j.signed(), Notices: j.notices}
	if j.closed() != "" {
		p.Chosen = Candidate{Mode: Cover}
		return p, nil
	}
	p.Candidates, err = j.corners(ctx)
	if err != nil && !isPermanent(ctx, err) {
		return nil, err
	}
	if err != nil {
		j.note("page_not_rendered", "The page could not be drawn, so no place on it can be chosen.")
		p.Notices = j.notices
		if !p.Signed {
			p.Candidates, p.Chosen = []Candidate{{Mode: Appended}}, Candidate{Mode: Appended}
			return p, nil
		}
	}
	if !p.Signed {
		p.Candidates = append(p.Candidates, Candidate{Mode: Strip}, Candidate{Mode: Appended})
	}
	if p.Chosen, err = j.chosenCandidate(ctx); err != nil {
		return nil, err
	}
	p.Notices = j.notices // with those of chosenCandidate
	return p, nil
}

// corners returns the candidates in the corners of the page.
func (j *job) corners(ctx context.Context) ([]Candidate, error) {
	p, err := j.newPageSearch(ctx, j.page, j.frame)
	if err != nil {
		return nil, err
	}
	defer p.close(ctx)
	var list []Candidate
	for _, mode := range previewModes {
		c := Candidate{Mode: mode, NoRoom: true}
		spots, err := p.places(ctx, j.sides(j.frame), mode, 1)
		if err != nil {
			return nil, err
		}
		if len(spots) > 0 {
			box := spots[0].box(j.frame)
			c.Box, c.NoRoom = &box, false
		}
		list = append(list, c)
	}
	return list, nil
}

// chosenCandidate returns the place that Seal tries first.
func (j *job) chosenCandidate(ctx context.Context) (Candidate, error) {
	for _, a := range j.remembered() {
		covers, err := j.covers(ctx, a.spot)
		if err != nil && !isPermanent(ctx, err) {
			return Candidate{}, err
		}
		if err == nil && !covers {
			box := a.spot.box(j.frame)
			return Candidate{Mode: Auto, Box: &box, Remembered: true}, nil
		}
	}
	attempts, err := j.attempts(ctx)
	if err != nil {
		return Candidate{}, err
	}
	for _, a := range attempts {
		if j.skips(a) {
			continue
		}
		c := Candidate{Mode: a.mode, Covers: a.mode == Exact && j.coversContent}
		if a.mode == Annotation {
			c.Mode = j.blankMode()
		}
		if a.mode != Strip && a.mode != Appended && a.page.Index == j.page.Index {
			box := a.spot.box(a.frame)
			c.Box = &box
		}
		return c, nil
	}
	return Candidate{Mode: Cover}, nil
}

// openOriginal returns a job for an original, with the document open. For an image, the document is a
// PDF of one page that shows the image.
func (s *Sealer) openOriginal(ctx context.Context, o Original, stamp Stamp) (*job, error) {
	j, err := s.newJob(o, stamp)
	if err != nil {
		return nil, err
	}
	if j.r, j.size, err = asPDF(ctx, o); err != nil {
		return nil, err
	}
	if err := j.open(); err != nil {
		return nil, err
	}
	return j, nil
}

// asPDF returns a PDF and its size: the original, or a PDF of one page that shows the image.
func asPDF(ctx context.Context, o Original) (io.ReaderAt, int64, error) {
	if o.Type == PDF {
		return o.R, o.Size, nil
	}
	page, err := newPicture(ctx, o)
	if err != nil {
		return nil, 0, err
	}
	file, err := page.file(o.Size)
	if err != nil {
		return nil, 0, err
	}
	return bytes.NewReader(file.Bytes()), int64(file.Len()), nil
}

// Picture renders a page of an original as PNG, without a stamp. The first page is page 1.
func (s *Sealer) Picture(ctx context.Context, o Original, page int) ([]byte, error) {
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	r, size, err := asPDF(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.draw(ctx, r, size, pdfium.Request{Page: max(0, page-1), MaxSide: previewSide, Annotations: true})
}

// Page renders a page of a PDF as PNG. The first page is page 1, and the longer side has side pixels.
func (s *Sealer) Page(ctx context.Context, r io.ReaderAt, size int64, page, side int) ([]byte, error) {
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	return s.draw(ctx, r, size, pdfium.Request{Page: max(0, page-1), MaxSide: side, Annotations: true})
}
