package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"image/png"
	"io"

	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/typeset"
)

// pictureSide is the longer side in pixels of the pictures that PNG returns.
const pictureSide = 1600

// Sealer seals originals. It is safe for concurrent use.
type Sealer struct {
	renderer  *pdfium.Renderer
	fonts     *typeset.Fonts
	lettering *lettering
}

// New returns a Sealer that renders pages with r and sets text with the fonts. Without fonts, stamps
// are plain.
func New(r *pdfium.Renderer, fonts *typeset.Fonts) *Sealer {
	return &Sealer{renderer: r, fonts: fonts, lettering: &lettering{fonts: fonts}}
}

// Seal returns the verified PDF of an original. An error is a *Refusal if the file can never be
// sealed. Any other error does not concern the file: ctx ended, the original cannot be read, the
// stamp is invalid, or the renderer or the signature failed.
func (s *Sealer) Seal(ctx context.Context, o Original, stamp Stamp) (*Verified, error) {
	j, err := s.newJob(o, stamp)
	if err != nil {
		return nil, err
	}
	if o.Type != PDF {
		return j.image(ctx, o)
	}
	run := j.run
	if stamp.Placement.Figure == CodeOnly {
		run = j.runCode
	}
	v, err := run(ctx)
	if err != nil || v.Whole {
		return v, err
	}
	return v, continueDigest(v, o)
}

// newJob returns a job with the figures of the stamp. For an image, the stamp is in a strip unless
// another place is requested.
func (s *Sealer) newJob(o Original, stamp Stamp) (*job, error) {
	symbol, err := newSymbol(stamp.VerifyURL)
	if err != nil {
		return nil, err
	}
	j := &job{
		sealer: s, stamp: stamp, r: o.R, size: o.Size, state: o.State, name: o.Name,
		original: pades.Original{Form: pades.Prefix, Length: o.Size, SHA256: o.SHA256, ReferenceID: stamp.ReferenceID},
	}
	if o.Type == PDF { // a picture has no text
		j.recipient = o.Recipient
	}
	if stamp.Placement.Figure == CodeOnly {
		j.figures = []*figure{newCodeFigure(symbol)}
		return j, nil
	}
	if s.fonts == nil {
		j.stamp.Plain = true
	}
	if j.figures, j.strips, err = newFigures(s.lettering, symbol, j.stamp); err != nil {
		return nil, err
	}
	if o.Type != PDF {
		j.original.Form, j.state = pades.Source, nil
		if stamp.Placement.Mode == "" || stamp.Placement.Mode == Auto {
			j.stamp.Placement.Mode = Strip
		}
	}
	return j, nil
}

// maxRenderedPixels is the maximum number of pixels of an image that is rendered to check the strip below
// it.
const maxRenderedPixels = 8_000_000

// image converts an image to a page and stamps the page.
func (j *job) image(ctx context.Context, o Original) (*Verified, error) {
	page, err := newPicture(ctx, o)
	if err != nil {
		return nil, err
	}
	if page.width*page.height > maxRenderedPixels && j.stamp.Placement.Mode == Strip {
		// The strip is the same below all images with this page size, and clipping keeps the image out
		// of the strip. Therefore check the strip below an image of one pixel, which is fast to render.
		trial := *j
		trial.stamp.Signature = nil
		if _, err := trial.runOn(ctx, page.onePixel(), 0); err != nil {
			return nil, err
		}
		j.stripProved = true
	}
	return j.runOn(ctx, page, o.Size)
}

// runOn stamps the page of a picture. size is the expected size of the page in bytes. In the
// result, Whole is true.
func (j *job) runOn(ctx context.Context, page *picture, size int64) (*Verified, error) {
	file, err := page.file(size)
	if err != nil {
		return nil, err
	}
	j.r, j.size = bytes.NewReader(file.Bytes()), int64(file.Len())
	v, err := j.run(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(file, v.Body); err != nil {
		return nil, fmt.Errorf("appending the tail: %w", err)
	}
	v.Notices = append(imageNotices(page.trailing), v.Notices...)
	v.setWhole(file.Bytes())
	return v, nil
}

// setWhole sets the entire verified PDF to file, and computes its digest.
func (v *Verified) setWhole(file []byte) {
	v.Whole = true
	v.Body = io.NewSectionReader(bytes.NewReader(file), 0, int64(len(file)))
	v.Size = int64(len(file))
	v.SHA256 = sha256.Sum256(file)
}

// continueDigest sets the digest and the size of v to those of the original followed by the tail.
func continueDigest(v *Verified, o Original) error {
	h := sha256.New()
	state, ok := h.(encoding.BinaryUnmarshaler)
	if len(o.State) == 0 || !ok || state.UnmarshalBinary(o.State) != nil {
		h.Reset()
		if _, err := io.Copy(h, io.NewSectionReader(o.R, 0, o.Size)); err != nil {
			return fmt.Errorf("reading the original: %w", err)
		}
	}
	if _, err := io.Copy(h, io.NewSectionReader(v.Body, 0, v.Body.Size())); err != nil {
		return fmt.Errorf("computing the digest of the verified PDF: %w", err)
	}
	h.Sum(v.SHA256[:0])
	v.Size = o.Size + v.Body.Size()
	return nil
}

// PNG renders page one of the verified PDF in r as PNG. The longer side has 1600 pixels.
func (s *Sealer) PNG(ctx context.Context, r io.ReaderAt, size int64) ([]byte, error) {
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	return s.draw(ctx, r, size, pdfium.Request{MaxSide: pictureSide, Annotations: true})
}

// draw returns a page of a PDF as PNG. If the page cannot be rendered, the error wraps a *Refusal.
func (s *Sealer) draw(ctx context.Context, r io.ReaderAt, size int64, want pdfium.Request) ([]byte, error) {
	return s.drawSource(ctx, pdfium.Source{Head: r, HeadSize: size}, want)
}

func (s *Sealer) drawSource(ctx context.Context, src pdfium.Source, want pdfium.Request) ([]byte, error) {
	page, err := s.renderer.Render(ctx, src, want)
	if errors.Is(err, pdfium.ErrPassword) {
		return nil, pdfError(pdf.ErrPassword)
	}
	if err != nil {
		if isPermanent(ctx, err) {
			return nil, errors.Join(refuse("not_rendered", "The page cannot be drawn. Save the PDF again with another program, and use the new file."), err)
		}
		return nil, err
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, page.Image); err != nil {
		return nil, fmt.Errorf("encoding a PNG image: %w", err)
	}
	return b.Bytes(), nil
}
