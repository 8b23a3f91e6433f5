package seal

import (
	"image"
	"math"

	"golang.org/x/image/vector"

	"github.com/certvault/certvault/internal/pdfium"
)

// lightBackground is the darkest grey value on which a stamp may be drawn without a white
// background.
const lightBackground = 200

// onUniformBackground reports whether the page around the marks of a stamp without a white background
// has only one light colour. In that case the stamp covers no visible content, so one picture proves
// both that the place was blank and that the stamp is readable. Content that the marks cover completely
// is not noticed.
func onUniformBackground(img *image.Gray, picture *pdfium.Page, f frame, s spot) bool {
	ink := inkMask(img.Rect, picture, f, s)
	low, high := byte(255), byte(0)
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			if ink[y*img.Rect.Dx()+x] {
				continue
			}
			v := img.Pix[y*img.Stride+x]
			low, high = min(low, v), max(high, v)
		}
	}
	return low >= lightBackground && low <= high && high-low <= placeTolerance
}

// inkMask returns a mask of the pixels in which the marks of the stamp are visible.
func inkMask(r image.Rectangle, picture *pdfium.Page, f frame, s spot) []bool {
	mask := make([]bool, r.Dx()*r.Dy())
	px := float64(picture.Raster.X) / f.width * s.scale // pixels per module
	py := float64(picture.Raster.Y) / f.height * s.scale
	left := s.x/f.width*float64(picture.Raster.X) - float64(picture.Box.Min.X)
	bottom := (1-s.y/f.height)*float64(picture.Raster.Y) - float64(picture.Box.Min.Y)
	mark := func(x0, y0, x1, y1 float64, inked func(x, y float64) bool) {
		area := image.Rect(
			int(math.Floor(left+x0*px))-1, int(math.Floor(bottom-y1*py))-1,
			int(math.Ceil(left+x1*px))+1, int(math.Ceil(bottom-y0*py))+1).Intersect(r)
		for y := area.Min.Y; y < area.Max.Y; y++ {
			for x := area.Min.X; x < area.Max.X; x++ {
				if !mask[y*r.Dx()+x] && inked((float64(x)+0.5-left)/px, (bottom-float64(y)-0.5)/py) {
					mask[y*r.Dx()+x] = true
				}
			}
		}
	}
	ox, oy := s.figure.codeX, s.figure.codeY
	full := float64(s.figure.symbol.full())
	for _, m := range s.figure.symbol.rects() {
		x := ox + float64(quietZone+m.x)
		y := oy + full - float64(quietZone+m.y+m.h)
		mark(x, y, x+float64(m.w), y+float64(m.h), func(float64, float64) bool { return true })
	}
	s.figure.markLabels(mask, r, left, bottom, px, py)
	if edge := s.figure.border; edge > 0 {
		all := func(float64, float64) bool { return true }
		w, h := s.figure.width, s.figure.height
		mark(0, 0, w, edge, all)
		mark(0, h-edge, w, h, all)
		mark(0, 0, edge, h, all)
		mark(w-edge, 0, w, h, all)
	}
	t := &s.figure.text
	reach := strokeWidth/2 + 1.5/(min(px, py)*t.grid) // half a stroke and one and a half pixels, in grid units
	for i, row := range t.rows {
		lines, err := strokes(row)
		if err != nil {
			continue // cannot happen: newFigure has drawn the row
		}
		for _, line := range lines {
			for j := 1; j < len(line); j++ {
				a, b := onGrid(line[j-1], t.baseline(i)), onGrid(line[j], t.baseline(i))
				mark(t.x+(min(a[0], b[0])-reach)*t.grid, t.y+(min(a[1], b[1])-reach)*t.grid,
					t.x+(max(a[0], b[0])+reach)*t.grid, t.y+(max(a[1], b[1])+reach)*t.grid,
					func(x, y float64) bool {
						return segmentDistance([2]float64{(x - t.x) / t.grid, (y - t.y) / t.grid}, a, b) <= reach
					})
			}
		}
	}
	return mask
}

// markLabels sets the mask for the pixels of the labels and for their neighbours.
func (f *figure) markLabels(mask []bool, r image.Rectangle, left, bottom, px, py float64) {
	if len(f.labels) == 0 {
		return
	}
	w, h := r.Dx(), r.Dy()
	z := vector.NewRasterizer(w, h)
	for i := range f.labels {
		f.labels[i].draw(z, left, bottom, px, py)
	}
	drawn := image.NewAlpha(image.Rect(0, 0, w, h))
	z.Draw(drawn, drawn.Rect, image.Opaque, image.Point{})
	for y := range h {
		for x := range w {
			if drawn.Pix[y*drawn.Stride+x] == 0 {
				continue
			}
			for v := max(0, y-1); v <= min(h-1, y+1); v++ {
				for u := max(0, x-1); u <= min(w-1, x+1); u++ {
					mask[v*w+u] = true
				}
			}
		}
	}
}

func onGrid(p [2]int, baseline int) [2]float64 {
	return [2]float64{float64(p[0]), float64(p[1] + baseline)}
}

// segmentDistance returns the distance of p from the line segment from a to b.
func segmentDistance(p, a, b [2]float64) float64 {
	dx, dy := b[0]-a[0], b[1]-a[1]
	t := 0.0
	if n := dx*dx + dy*dy; n > 0 {
		t = max(0, min(1, ((p[0]-a[0])*dx+(p[1]-a[1])*dy)/n))
	}
	x, y := p[0]-a[0]-t*dx, p[1]-a[1]-t*dy
	return math.Sqrt(x*x + y*y) // math.Hypot is slower, because it avoids overflow
}
