package design

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/typeset"
)

// Sample returns a complete PDF that shows how a certificate will look, with a mark, such as "SAMPLE", across
// each page. It shows the mark instead of the reference id, and a pale square instead of the QR code. base is
// Base.PDF of the template. The error is Problems if the certificate cannot be drawn.
func (t *Template) Sample(base []byte, v *Values, mark string) ([]byte, error) {
	if int64(len(base)) != t.size {
		return nil, fmt.Errorf("%w: it has %d bytes, want %d", errPlan, len(base), t.size)
	}
	shown := *v
	shown.Reference = mark
	fields, err := t.Draw(&shown)
	if err != nil {
		return nil, err
	}
	return t.marked(slices.Concat(base, fields), mark, true)
}

// MarkSample returns a certificate of the template with a mark across each page. file is the certificate,
// which may have a QR code.
func (t *Template) MarkSample(file []byte, mark string) ([]byte, error) {
	return t.marked(slices.Clip(file), mark, false)
}

// marked returns a file with a mark across each page. If noCode is true, a pale square is in the place of
// the QR code.
func (t *Template) marked(file []byte, mark string, noCode bool) ([]byte, error) {
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("reading a sample: %w", err)
	}
	u := doc.Update()
	subsets := typeset.NewSubsets(t.plan.Prefix + "M")
	pages := make([]*pdf.Page, doc.PageCount())
	contents := make([]bytes.Buffer, len(pages))
	for i := range pages {
		if pages[i], err = doc.Page(i); err != nil {
			return nil, fmt.Errorf("reading a sample: %w", err)
		}
		d := drawing{out: &contents[i], geometry: pages[i].Geometry()}
		if err := t.mark(&d, i, mark, noCode, subsets); err != nil {
			return nil, err
		}
	}
	fonts := subsets.Objects(u)
	state := u.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("ExtGState")}, pdf.Entry{Key: "ca", Value: pdf.Number(markOpacity)}))
	for i, p := range pages {
		balance, err := doc.ContentBalance(p)
		if err != nil {
			return nil, fmt.Errorf("reading a sample: %w", err)
		}
		list := pdf.Array{u.Add(pdf.NewStream(nil, balance.Prefix))}
		list = append(list, p.Contents()...)
		list = append(list, u.Add(pdf.NewStream(nil, slices.Concat(balance.Suffix, []byte("\n"), contents[i].Bytes()))))
		resources := p.Resources().Clone()
		all := doc.Dict(resources.Get("Font")).Clone()
		for name, ref := range fonts.All() {
			all.Set(name, ref)
		}
		states := doc.Dict(resources.Get("ExtGState")).Clone().Set(pdf.Name(t.plan.Prefix+"G"), state)
		resources.Set("Font", all).Set("ExtGState", states)
		u.SetPage(p, u.PageDict(p).Clone().Set("Contents", list).Set("Resources", resources))
	}
	tail, err := u.Bytes()
	if err != nil {
		return nil, fmt.Errorf("writing a sample: %w", err)
	}
	return append(file, tail...), nil
}

// These are the opacity of the mark, and its maximum length as a fraction of the diagonal of the page.
const (
	markOpacity = 0.22
	markLength  = 0.6
)

// mark draws the mark from the lower left to the upper right of a page. If noCode is true, it also draws a
// pale square in the place of the QR code. Both are artifacts (ISO 32000-2, 14.8.2.2).
func (t *Template) mark(d *drawing, page int, text string, noCode bool, subsets *typeset.Subsets) error {
	w, h := d.geometry.Size()
	code := &t.layout.Fields[t.code]
	d.out.WriteString("/Artifact BMC\n")
	if noCode && code.Page == page+1 {
		d.transform(code)
		d.out.WriteString("0.9 g 0 0 ")
		d.numbers(code.Box[2], code.Box[3])
		d.out.WriteString("re f\nQ\n")
	}
	length := math.Hypot(w, h) * markLength
	height := length / 4
	band := &Field{Box: Box{(w - length) / 2, (h - height) / 2, length, height}, Rotate: -math.Atan2(h, w) * 180 / math.Pi}
	style := typeset.Style{Font: typeset.Font{Family: typeset.Inter, Weight: 600}, Size: height, MinSize: 1, Align: typeset.Center}
	block, err := t.fonts.Layout(clean(text), style, length)
	if err != nil {
		return fmt.Errorf("drawing the mark of a sample: %w", err)
	}
	d.transform(band)
	d.out.WriteString("/" + t.plan.Prefix + "G gs 0.45 g\n")
	block.Draw(d.out, subsets, 0, height-band.baseline(block))
	d.out.WriteString("Q\nEMC\n")
	return nil
}
