package design

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/certvault/certvault/internal/pdf"
)

// formats are the sizes of pages in points, the shorter side first.
var formats = map[string][2]float64{"a4": {595.28, 841.89}, "letter": {612, 792}, "16:9": {540, 960}}

// FromPicture returns a design of one page that shows a picture, PNG or JPEG. The format is "a4",
// "letter" or "16:9", in the orientation of the picture; with "", the page has the size of the picture.
// The picture is never cut: if its shape differs from that of the page, the rest of the page is white.
// The error is a *Refusal if the file cannot be a design.
func FromPicture(ctx context.Context, file []byte, format string) (*Design, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the design: %w", err)
	}
	if err := refuseType(file); err != nil {
		return nil, err
	}
	p, err := readPicture(file)
	if err != nil {
		return nil, refuse("design_picture", "The picture cannot be used: "+err.Error()+".")
	}
	page, err := p.page(format)
	if err != nil {
		return nil, err
	}
	scale := min(page.Width/float64(p.width), page.Height/float64(p.height))
	w, h := float64(p.width)*scale, float64(p.height)*scale
	const tolerance = 0.01 // a picture of the whole page may differ from its shape by a few pixels
	if w > page.Width*(1-tolerance) && h > page.Height*(1-tolerance) {
		w, h = page.Width, page.Height
	}
	out, err := p.file(page, w, h)
	if err != nil {
		return nil, err
	}
	d := &Design{PDF: out, Pages: []Page{page}}
	if found := float64(p.width) * 72 / w; found < lowDetail {
		d.Warnings = append(d.Warnings, Warning{"low_resolution", fmt.Sprintf(
			"The picture has %.0f pixels per inch and will look blurred in print. Use a picture with at least %d, or a PDF.", found, lowDetail)})
	}
	if len(out) > largeDesign {
		d.Warnings = append(d.Warnings, Warning{"design_large", fmt.Sprintf(
			"The size of the design is %.1f MB, and every download is at least as large. Reduce the picture.", float64(len(out))/(1<<20))})
	}
	return d, nil
}

// page returns the page for a format.
func (p *picture) page(format string) (Page, error) {
	if format == "" {
		v := p.resolution
		if v == 0 {
			v = defaultScale
		}
		page := Page{round(float64(p.width) * 72 / v), round(float64(p.height) * 72 / v)}
		if min(page.Width, page.Height) < minSide || max(page.Width, page.Height) > maxSide {
			return page, refuse("design_small", fmt.Sprintf(
				"At its resolution, the picture is %.0f × %.0f mm, but the sides of a page must be 50 to 5080 mm. Choose a paper size for the picture.",
				millimetres(page.Width), millimetres(page.Height)))
		}
		return page, nil
	}
	sides, ok := formats[format]
	if !ok {
		return Page{}, refuse("design_format", fmt.Sprintf("There is no page format %q: use a4, letter or 16:9.", format))
	}
	if p.width > p.height {
		return Page{sides[1], sides[0]}, nil
	}
	return Page{sides[0], sides[1]}, nil
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// file returns a PDF of one page with the picture in its center, as PDF/A-2b.
func (p *picture) file(page Page, w, h float64) ([]byte, error) {
	var out bytes.Buffer
	writer := pdf.NewWriter(&out)
	name := p.add(writer, p.width, nil, false)
	var content bytes.Buffer
	d := drawing{out: &content}
	content.WriteString("q ")
	d.numbers(w, 0, 0, h, (page.Width-w)/2, (page.Height-h)/2)
	content.WriteString("cm /Im0 Do Q")
	tree := writer.Reserve()
	ref := writer.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
		pdf.Entry{Key: "Parent", Value: tree},
		pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: page.Width, Y1: page.Height}.Array()},
		pdf.Entry{Key: "Resources", Value: pdf.NewDict(pdf.Entry{Key: "XObject", Value: pdf.NewDict(pdf.Entry{Key: "Im0", Value: name})})},
		pdf.Entry{Key: "Contents", Value: writer.Add(pdf.NewStream(nil, content.Bytes()))},
	))
	writer.Set(tree, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Pages")},
		pdf.Entry{Key: "Kids", Value: pdf.Array{ref}},
		pdf.Entry{Key: "Count", Value: pdf.Integer(1)},
	))
	root := writer.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: tree}))
	if err := writer.Close(root, pdf.Ref{}); err != nil {
		return nil, fmt.Errorf("writing the page of a picture: %w", err)
	}
	return Archival(out.Bytes(), "")
}
