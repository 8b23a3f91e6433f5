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
	w := img.Rect.Dx()
	for y := range img.Rect.Dy() {
		marked := ink[y*w : (y+1)*w]
		for x, v := range img.Pix[y*img.Stride:][:w] {
			if !marked[x] {
				low, high = min(low, v), max(high, v)
			}
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
	area := func(x0, y0, x1, y1 float64) image.Rectangle {
		return image.Rect(
			int(math.Floor(left+x0*px))-1, int(math.Floor(bottom-y1*py))-1,
			int(math.Ceil(left+x1*px))+1, int(math.Ceil(bottom-y0*py))+1).Intersect(r)
	}
	fill := func(x0, y0, x1, y1 float64) {
		a := area(x0, y0, x1, y1)
		for y := a.Min.Y; y < a.Max.Y; y++ {
			set(mask[y*r.Dx()+a.Min.X : y*r.Dx()+a.Max.X])
		}
	}
	mark := func(x0, y0, x1, y1 float64, inked func(x, y float64) bool) {
		a := area(x0, y0, x1, y1)
		for y := a.Min.Y; y < a.Max.Y; y++ {
			for x := a.Min.X; x < a.Max.X; x++ {
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
		fill(x, y, x+float64(m.w), y+float64(m.h))
	}
	s.figure.markLabels(mask, r, left, bottom, px, py)
	if edge := s.figure.border; edge > 0 {
		w, h := s.figure.width, s.figure.height
		fill(0, 0, w, edge)
		fill(0, h-edge, w, h)
		fill(0, 0, edge, h)
		fill(w-edge, 0, w, h)
	}
	t := &s.figure.text
	reach := strokeWidth/2 + 1.5/(min(px, py)*t.grid) // half a stroke and one and a half pixels, in grid units
	for i, row := range t.rows {
		lines, err := strokes(row)
		if err != nil {
			continue // cannot happen: newPlainFigure has drawn the row
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
		row := drawn.Pix[y*drawn.Stride:][:w]
		for x := 0; x < w; x++ {
			if row[x] == 0 {
				continue
			}
			first := x
			for x < w && row[x] != 0 {
				x++
			}
			for v := max(0, y-1); v <= min(h-1, y+1); v++ {
				set(mask[v*w+max(0, first-1) : v*w+min(w, x+1)])
			}
		}
	}
}

// set sets all elements of a part of a mask.
func set(mask []bool) {
	for i := range mask {
		mask[i] = true
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
