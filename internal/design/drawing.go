package design

import (
	"bytes"
	"math"
	"strconv"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/typeset"
)

// drawing appends fields to a content stream (ISO 32000-2, 8.2).
type drawing struct {
	out      *bytes.Buffer
	geometry pdf.Geometry
	prefix   string
	space    bool // colours are in the colour space of the resources, not in DeviceRGB
}

// text draws a text as marked content.
func (d *drawing) text(f *Field, b *typeset.Block, subsets *typeset.Subsets, tag string, mark int) {
	d.open(tag, mark)
	if b.Lines() > 0 {
		d.transform(f)
		d.colour(f.Color)
		b.Draw(d.out, subsets, 0, f.Box[3]-f.baseline(b))
		d.close(mark)
		return
	}
	if mark >= 0 {
		d.out.WriteString("EMC\n")
	}
}

// open begins marked content with the MCID mark (14.6). It writes nothing if mark is negative.
func (d *drawing) open(tag string, mark int) {
	if mark >= 0 {
		d.out.WriteString("/" + tag + " <</MCID " + strconv.Itoa(mark) + ">> BDC\n")
	}
}

// close restores the graphics state that transform saved, and ends the marked content that open began.
func (d *drawing) close(mark int) {
	d.out.WriteString("\nQ\n")
	if mark >= 0 {
		d.out.WriteString("EMC\n")
	}
}

// transform saves the graphics state and moves the origin to the lower left corner of the box of a
// field. The box and the page may be rotated.
func (d *drawing) transform(f *Field) {
	_, height := d.geometry.Size()
	d.out.WriteString("q ")
	m := concat(f.matrix(height), d.geometry.Matrix())
	d.numbers(m[:]...)
	d.out.WriteString("cm\n")
}

// matrix maps coordinates from the lower left corner of the box to coordinates from the lower left corner
// of the page as displayed.
func (f *Field) matrix(height float64) [6]float64 {
	sin, cos := math.Sincos(-f.Rotate * math.Pi / 180)
	w, h := f.Box[2]/2, f.Box[3]/2
	x, y := f.Box[0]+w, height-f.Box[1]-h
	return [6]float64{cos, sin, -sin, cos, x - cos*w + sin*h, y - sin*w - cos*h}
}

// concat returns the matrix that applies a and then b (8.3.4).
func concat(a, b [6]float64) [6]float64 {
	return [6]float64{
		a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3],
		a[2]*b[0] + a[3]*b[2], a[2]*b[1] + a[3]*b[3],
		a[4]*b[0] + a[5]*b[2] + b[4], a[4]*b[1] + a[5]*b[3] + b[5],
	}
}

// numbers writes numbers, each followed by a space.
func (d *drawing) numbers(values ...float64) {
	for _, v := range values {
		const places = 1e5
		v = math.Round(v*places)/places + 0 // without a negative zero
		d.out.Write(strconv.AppendFloat(d.out.AvailableBuffer(), v, 'f', -1, 64))
		d.out.WriteByte(' ')
	}
}

// colour sets the fill colour to hex, which has the form "#rrggbb", or to black if hex is empty.
func (d *drawing) colour(hex string) {
	var rgb [3]float64
	if v, err := strconv.ParseUint(hex[min(1, len(hex)):], 16, 32); err == nil {
		for i := range rgb {
			rgb[i] = math.Round(float64(v>>(16-8*i)&0xFF)/0xFF*1e3) / 1e3
		}
	}
	if d.space {
		d.out.WriteString("/" + d.prefix + "C cs ")
		d.numbers(rgb[:]...)
		d.out.WriteString("sc ")
		return
	}
	d.numbers(rgb[:]...)
	d.out.WriteString("rg ")
}
