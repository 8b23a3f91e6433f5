package pdfium

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
)

// Limits of the raster.
const (
	// maxSide is the longest side of the raster of a whole page, in pixels.
	maxSide = 1 << 20
	// margin is the number of pixels that are rendered around a part and then
	// removed. PDFium may omit glyphs that cross the edge of the bitmap, and may
	// draw adjacent glyphs differently.
	margin = 32
	// maxPixels is the maximum number of pixels in one image. An image of this
	// size uses about 64 MiB in the sandbox.
	maxPixels = 1 << 24
)

// Request selects what to render. MaxSide or Scale must be set. If both are
// set, MaxSide limits Scale, and MaxWidth limits both.
type Request struct {
	Page     int     // from 0
	MaxSide  int     // longer side of the whole page in pixels
	MaxWidth int     // width of the whole page in pixels; 0 means no limit
	Scale    float64 // pixels per unit of default user space
	// Clip is left, top, right and bottom as fractions of the page as shown, from its top left corner.
	// Zero means the whole page.
	Clip        [4]float64
	Annotations bool // draw annotations, including form fields
	Gray        bool // return an *image.Gray
}

// Page is a rendered page, or a part of it, on a white background.
type Page struct {
	Image         image.Image     // *image.RGBA, or *image.Gray if requested; its bounds start at 0, 0
	Box           image.Rectangle // position of Image in the raster of the whole page
	Raster        image.Point     // size of the raster of the whole page
	Width, Height float64         // size of the page as PageSize returns it
}

// Render renders one page or a part of it. A part has the same pixel grid as the
// whole page and nearly the same pixels: rounding at its border changes samples
// by up to 4 of 255 levels, and a few pixels of downscaled images and large
// glyphs differ more. The error wraps an error of this package, the cause of ctx,
// or an error of reading the source. After a timeout, a cancellation, ErrAborted
// or a read error, or if PDFium exceeded the memory limit, all further calls for
// the document return the same error.
func (d *Document) Render(ctx context.Context, req Request) (*Page, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var p *Page
	err := d.run(ctx, func(ctx context.Context) error {
		var err error
		p, err = d.render(ctx, req)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rendering page %d: %w", req.Page, err)
	}
	return p, nil
}

func (d *Document) render(ctx context.Context, req Request) (*Page, error) {
	width, height, err := d.size(ctx, req.Page)
	if err != nil {
		return nil, err
	}
	raster, box, err := layout(req, width, height)
	if err != nil {
		return nil, err
	}
	if req.Annotations {
		if err := d.openForm(ctx); err != nil {
			return nil, err
		}
	}
	if err := d.openPage(ctx, req.Page); err != nil {
		return nil, err
	}
	img, err := d.draw(ctx, req, raster, box)
	if err != nil {
		return nil, err
	}
	return &Page{Image: img, Box: box, Raster: raster, Width: width, Height: height}, nil
}

// layout returns the size of a page in pixels and the requested part.
func layout(req Request, width, height float64) (raster image.Point, box image.Rectangle, err error) {
	scale := req.Scale
	long := max(width, height)
	switch {
	case req.MaxSide < 0 || req.MaxSide > maxSide || req.MaxWidth < 0 || !(scale >= 0) || math.IsInf(scale, 0):
		return raster, box, fmt.Errorf("%w: MaxSide %d, MaxWidth %d, Scale %v", ErrRequest, req.MaxSide, req.MaxWidth, scale)
	case req.MaxSide == 0 && scale == 0:
		return raster, box, fmt.Errorf("%w: neither MaxSide nor Scale is set", ErrRequest)
	case scale == 0 || req.MaxSide > 0 && scale*long > float64(req.MaxSide):
		scale = float64(req.MaxSide) / long
	}
	if req.MaxWidth > 0 {
		scale = min(scale, float64(req.MaxWidth)/width)
	}
	if scale*long > maxSide {
		return raster, box, fmt.Errorf("%w: the page has %v by %v units at %v pixels per unit", ErrMemory, width, height, scale)
	}
	side := func(units float64) int { return max(1, int(math.Round(units*scale))) }
	raster = image.Pt(side(width), side(height))

	clip := req.Clip
	if clip == [4]float64{} {
		clip = [4]float64{0, 0, 1, 1}
	}
	if !(0 <= clip[0] && clip[0] < clip[2] && clip[2] <= 1 && 0 <= clip[1] && clip[1] < clip[3] && clip[3] <= 1) {
		return raster, box, fmt.Errorf("%w: clip %v", ErrRequest, req.Clip)
	}
	from := func(f float64, n int) int { return min(n-1, int(math.Floor(f*float64(n)))) }
	to := func(f float64, n int) int { return min(n, max(1, int(math.Ceil(f*float64(n))))) }
	box = image.Rect(from(clip[0], raster.X), from(clip[1], raster.Y), to(clip[2], raster.X), to(clip[3], raster.Y))
	if box.Dx()*box.Dy() > maxPixels {
		return raster, box, fmt.Errorf("%w: the image has %d by %d pixels", ErrMemory, box.Dx(), box.Dy())
	}
	return raster, box, nil
}

// openPage loads a page unless it is already open. PDFium therefore interprets
// the content of a page only once for several parts of the page.
func (d *Document) openPage(ctx context.Context, index int) error {
	i := d.instance
	if d.page != 0 && d.index == index {
		return nil
	}
	if err := d.closePage(ctx); err != nil {
		return err
	}
	page, err := i.call(ctx, "FPDF_LoadPage", d.handle, uint64(index))
	if err != nil {
		return err
	}
	if page == 0 {
		return i.lastError(ctx)
	}
	d.page, d.index = page, index
	if d.form == 0 {
		return nil
	}
	_, err = i.call(ctx, "FORM_OnAfterLoadPage", d.page, d.form)
	return err
}

func (d *Document) closePage(ctx context.Context) error {
	if d.page == 0 {
		return nil
	}
	if d.form != 0 {
		if _, err := d.instance.call(ctx, "FORM_OnBeforeClosePage", d.page, d.form); err != nil {
			return err
		}
	}
	_, err := d.instance.call(ctx, "FPDF_ClosePage", d.page)
	d.page = 0
	return err
}

// openForm prepares the drawing of form fields (including signatures), for
// which PDFium needs a form fill environment. This build of PDFium has no
// JavaScript engine, and runs no actions of the document.
func (d *Document) openForm(ctx context.Context) error {
	if d.form != 0 {
		return nil
	}
	if err := d.closePage(ctx); err != nil { // the page must be loaded again with the environment
		return err
	}
	i := d.instance
	info, err := i.call(ctx, "PDFiumExt_OpenFormFillInfo")
	if err != nil {
		return err
	}
	form, err := i.call(ctx, "PDFiumExt_InitFormFillEnvironment", d.handle, info)
	if err != nil {
		return err
	}
	if form == 0 {
		return fmt.Errorf("%w: its form cannot be read", ErrLoad)
	}
	// Draw fields as on paper, without the highlight of interactive viewers.
	if _, err := i.call(ctx, "FPDF_SetFormFieldHighlightAlpha", form, 0); err != nil {
		return err
	}
	d.form = form
	return nil
}

// Numbers of fpdfview.h.
const (
	bitmapBGRx       = 3    // FPDFBitmap_BGRx: 4 bytes per pixel, the last one unused
	flagAnnotations  = 0x01 // FPDF_ANNOT
	flagReverseBytes = 0x10 // FPDF_REVERSE_BYTE_ORDER: R, G, B order
	white            = 0xFFFFFFFF
)

// draw renders the part box of the open page; raster is the size of the whole
// page.
//
// PDFium lays out the page at full size, shifted so that the part is on the
// bitmap. The shift preserves the pixel grid of the whole page.
func (d *Document) draw(ctx context.Context, req Request, raster image.Point, box image.Rectangle) (img image.Image, err error) {
	i := d.instance
	drawn := box.Inset(-margin).Intersect(image.Rectangle{Max: raster})
	w, h := drawn.Dx(), drawn.Dy()
	bitmap, err := i.call(ctx, "FPDFBitmap_CreateEx", uint64(w), uint64(h), bitmapBGRx, 0, 0)
	if err != nil {
		return nil, err
	}
	if bitmap == 0 {
		return nil, ErrMemory
	}
	defer func() {
		if errors.Is(err, errTrap) {
			return
		}
		if _, destroyErr := i.call(ctx, "FPDFBitmap_Destroy", bitmap); err == nil && destroyErr != nil {
			img, err = nil, destroyErr
		}
	}()
	if _, err := i.call(ctx, "FPDFBitmap_FillRect", bitmap, 0, 0, uint64(w), uint64(h), white); err != nil {
		return nil, err
	}
	flags := uint64(flagReverseBytes)
	if req.Annotations {
		flags |= flagAnnotations
	}
	place := []uint64{
		uint64(uint32(int32(-drawn.Min.X))), uint64(uint32(int32(-drawn.Min.Y))),
		uint64(raster.X), uint64(raster.Y), 0, flags,
	}
	if _, err := i.call(ctx, "FPDF_RenderPageBitmap", append([]uint64{bitmap, d.page}, place...)...); err != nil {
		return nil, err
	}
	if req.Annotations {
		if _, err := i.call(ctx, "FPDF_FFLDraw", append([]uint64{d.form, bitmap, d.page}, place...)...); err != nil {
			return nil, err
		}
	}
	addr, err := i.call(ctx, "FPDFBitmap_GetBuffer", bitmap)
	if err != nil {
		return nil, err
	}
	stride, err := i.call(ctx, "FPDFBitmap_GetStride", bitmap)
	if err != nil {
		return nil, err
	}
	src, ok := i.module.Memory().Read(uint32(addr), uint32(stride)*uint32(h))
	if !ok || stride < uint64(4*w) {
		return nil, fmt.Errorf("%w: the bitmap is out of bounds", errTrap)
	}
	offset := box.Min.Sub(drawn.Min)
	src = src[offset.Y*int(stride)+4*offset.X:]
	if req.Gray {
		return grayImage(src, int(stride), box.Dx(), box.Dy()), nil
	}
	return colorImage(src, int(stride), box.Dx(), box.Dy()), nil
}

// colorImage returns an opaque image. Its type is the one that package draw and the encoders of JPEG
// and PNG process fastest.
func colorImage(src []byte, stride, w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		row := img.Pix[y*img.Stride : y*img.Stride+4*w]
		copy(row, src[y*stride:])
		for x := 3; x < len(row); x += 4 {
			row[x] = 0xFF
		}
	}
	return img
}

// grayImage converts to grey with the weights of color.GrayModel.
func grayImage(src []byte, stride, w, h int) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		in, out := src[y*stride:y*stride+4*w], img.Pix[y*img.Stride:y*img.Stride+w]
		for x := range out {
			r, g, b := uint32(in[4*x]), uint32(in[4*x+1]), uint32(in[4*x+2])
			out[x] = byte((19595*r + 38470*g + 7471*b + 1<<15) >> 16)
		}
	}
	return img
}
