package design

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/certvault/certvault/internal/pdf"
)

// These are the limits of designs.
const (
	maxDesign    = 20 << 20 // bytes
	largeDesign  = 5 << 20  // a larger design has a warning
	maxPages     = 20
	minSide      = 50 * 72 / 25.4 // points
	maxSide      = 14_400
	lowDetail    = 150 // pixels per inch; a picture with fewer has a warning
	defaultScale = 96  // pixels per inch of a picture without a resolution
)

// refusals lists the errors of package pdf for files that cannot be a design.
var refusals = []struct {
	err          error
	code, reason string
}{
	{pdf.ErrEmpty, "design_empty", "The file is empty."},
	{pdf.ErrNotPDF, "design_type", "The file is not a PDF, PNG or JPEG. Save your design as PDF."},
	{pdf.ErrTruncated, "design_damaged", "The PDF is cut off: its end is missing. Save or export it again."},
	{pdf.ErrPassword, "design_password", "The PDF needs a password to be opened. Remove the password and upload it again."},
	{pdf.ErrEncryption, "design_password", "The PDF is encrypted in a way that is not supported. Save it without encryption."},
	{pdf.ErrNoPages, "design_damaged", "The PDF has no pages."},
	{pdf.ErrLimit, "design_complex", "The PDF expands to far more data than any design needs. Simplify it, or save it as a picture."},
	{pdf.ErrDamaged, "design_damaged", "The PDF is damaged and cannot be repaired. Save or export it again."},
}

// errFaulty means that the content of a page has errors. Some viewers stop at an error, and would not
// show the fields, which are drawn after the content.
var errFaulty = refuse("design_faulty", "The content of a page has errors at which some viewers stop. Open the PDF and print it to a new PDF.")

// pdfError returns a *Refusal for an error in the list refusals. It wraps any other error.
func pdfError(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return refuse(r.code, r.reason)
		}
	}
	return fmt.Errorf("reading the design: %w", err)
}

// Prepare checks an uploaded PDF and returns the design, without content such as scripts, forms, attachments
// and media. If the PDF has such content, or is damaged, Prepare copies the other content to a new file, so
// that certificates do not contain the removed content. The error is a *Refusal if the file cannot be a design.
func Prepare(ctx context.Context, file []byte) (*Design, error) {
	if err := refuseType(file); err != nil {
		return nil, err
	}
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, pdfError(err)
	}
	found := doc.Inspect()
	catalog, _ := doc.Catalog()
	switch {
	case len(found.Signatures) > 0 || found.UsageRights || found.Certified:
		return nil, refuse("design_signed", "The PDF is signed, and adding fields would break the signature. Save a copy without signatures.")
	case found.Portfolio:
		return nil, refuse("design_portfolio", "The PDF is a portfolio of other files. Upload one of these files.")
	case found.XFA && doc.Resolve(catalog.Get("NeedsRendering")) == pdf.Boolean(true):
		return nil, refuse("design_xfa", "The PDF is a form that only Adobe Acrobat shows. Print it to a new PDF.")
	case doc.PageCount() > maxPages:
		return nil, refuse("design_pages", fmt.Sprintf("The PDF has %d pages. A design can have at most %d.", doc.PageCount(), maxPages))
	}
	d := &Design{PDF: file}
	if d.Pages, err = measure(ctx, doc); err != nil {
		return nil, err
	}
	d.warn(found, doc)
	d.Fields = suggestions(doc)
	if doc.Repaired() || doc.FaultyPageTree() || found.AcroForm || found.XFA || found.JavaScript || found.Launch || found.OpenAction || found.AdditionalAction ||
		found.EmbeddedFiles || found.RichMedia || found.ExternalActions {
		if d.PDF, err = rewrite(doc); err != nil {
			return nil, pdfError(err)
		}
		if doc, err = pdf.Open(bytes.NewReader(d.PDF), int64(len(d.PDF))); err != nil {
			return nil, pdfError(err)
		}
		if d.Pages, err = measure(ctx, doc); err != nil {
			return nil, err
		}
	}
	// A PDF that was rewritten is no longer encrypted.
	if doc.Encrypted() {
		d.Warnings = append(d.Warnings, Warning{"encrypted", "The PDF is encrypted without a password. Its restrictions apply to every certificate."})
	}
	if len(d.PDF) > largeDesign {
		d.Warnings = append(d.Warnings, Warning{"design_large", fmt.Sprintf(
			"The size of the design is %.1f MB, and every download is at least as large. Reduce the pictures in it.", float64(len(d.PDF))/(1<<20))})
	}
	return d, nil
}

// refuseType refuses files that are too large, and SVG drawings.
func refuseType(file []byte) error {
	head := bytes.TrimLeft(bytes.TrimPrefix(file[:min(len(file), 1024)], []byte("\xEF\xBB\xBF")), " \t\r\n")
	switch {
	case len(file) > maxDesign:
		return refuse("design_size", fmt.Sprintf(
			"The size of the file is %.1f MB. The limit for a design is %d MB. Reduce the pictures in it.", float64(len(file))/(1<<20), maxDesign>>20))
	case bytes.HasPrefix(head, []byte("<svg")), bytes.HasPrefix(head, []byte("<?xml")) && bytes.Contains(head, []byte("<svg")):
		return refuse("design_svg", "The file is an SVG drawing. Open it in the program that made it, or in a browser, and save or print it as PDF: "+
			"the PDF keeps its lines and letters sharp.")
	}
	return nil
}

// warn adds a warning for each kind of content that is removed, and for layers, an author, PDF/A-1 and
// damage.
func (d *Design) warn(found pdf.Findings, doc *pdf.Document) {
	add := func(ok bool, code, text string) {
		if ok {
			d.Warnings = append(d.Warnings, Warning{code, text})
		}
	}
	add(found.AcroForm || found.XFA, "form_removed", "The form fields of the PDF were removed. Their places are offered as fields of the template.")
	add(found.JavaScript || found.Launch || found.OpenAction || found.AdditionalAction || found.ExternalActions, "actions_removed", "Scripts and actions of the PDF were removed.")
	add(found.EmbeddedFiles, "attachments_removed", "The attachments of the PDF were removed.")
	add(found.RichMedia, "media_removed", "Video, sound and 3D content of the PDF were removed.")
	add(found.Layers, "layers", "The PDF has layers. Every certificate contains them, even those that are hidden.")
	author := doc.Text(doc.Dict(doc.Trailer().Get("Info")).Get("Author"))
	add(author != "", "author", fmt.Sprintf("The properties of the PDF name the author “%s”. Every certificate shows this name.", author))
	catalog, _ := doc.Catalog()
	claim := pdfaPart.FindStringSubmatch(readMetadata(doc, catalog))
	add(len(claim) > 1 && claim[1] == "1", "archival", "The design claims PDF/A-1, whose rules for fonts the certificates do not follow. Save it as PDF/A-2.")
	add(doc.Repaired() || doc.FaultyPageTree(), "repaired", "The PDF was damaged and has been repaired. Check how it looks.")
}

// measure returns the sizes of the pages. It refuses pages that are too small or too large, and pages
// whose content has errors.
func measure(ctx context.Context, doc *pdf.Document) (out []Page, err error) {
	for i := range doc.PageCount() {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("checking the design: %w", err)
		}
		p, err := doc.Page(i)
		if err != nil {
			return nil, pdfError(err)
		}
		w, h := p.Geometry().Size()
		switch {
		case min(w, h) < minSide:
			return nil, refuse("design_small", fmt.Sprintf("Page %d is %.0f × %.0f mm; a page has at least 50 × 50 mm.", i+1, millimetres(w), millimetres(h)))
		case max(w, h) > maxSide:
			return nil, refuse("design_page_large", fmt.Sprintf("Page %d is %.1f × %.1f m, more than viewers support.", i+1, millimetres(w)/1000, millimetres(h)/1000))
		}
		balance, err := doc.ContentBalance(p)
		if err != nil {
			return nil, pdfError(err)
		}
		if balance.Faulty {
			return nil, errFaulty
		}
		out = append(out, Page{w, h})
	}
	if err := doc.Err(); err != nil {
		return nil, pdfError(err)
	}
	return out, nil
}

func millimetres(points float64) float64 { return points * 25.4 / 72 }

// suggestions returns a field for each text field of the form, at most maxFields/2.
func suggestions(doc *pdf.Document) (out []Field) {
	used := map[string]bool{}
	for i := range min(doc.PageCount(), maxPages) {
		page, err := doc.Page(i)
		if err != nil {
			return out
		}
		annotations, _ := page.Annotations()
		for _, a := range annotations {
			widget := doc.Dict(a)
			if doc.Name(widget.Get("Subtype")) != "Widget" || len(out) >= maxFields/2 || doc.Name(inherited(doc, widget, "FT")) != "Tx" {
				continue
			}
			r, ok := doc.Rectangle(widget.Get("Rect"))
			if !ok {
				continue
			}
			f := Field{ID: fmt.Sprintf("f%d", len(out)+1), Page: i + 1, Box: shownBox(page.Geometry(), r)}
			f.Label = strings.NewReplacer("{", "(", "}", ")").Replace(doc.Text(inherited(doc, widget, "TU")))
			if f.Label == "" {
				f.Label = strings.NewReplacer("{", "(", "}", ")").Replace(doc.Text(inherited(doc, widget, "T")))
			}
			if f.Label == "" || len(f.Label) > 100 {
				f.Label = fmt.Sprintf("Field %d", len(out)+1)
			}
			f.guess(used)
			if align, _ := doc.Int(inherited(doc, widget, "Q")); align == 1 {
				f.Align = "center"
			} else if align == 2 {
				f.Align = "right"
			}
			const multiline = 1 << 12 // ISO 32000-2, 12.7.5.3
			flags, _ := doc.Int(inherited(doc, widget, "Ff"))
			f.Lines, f.Size = 1, max(8, min(36, math.Round(f.Box[3]*0.7)))
			if flags&multiline != 0 {
				f.Lines, f.Size = 4, 12
			}
			f.MinSize, f.Font = max(5, math.Round(f.Size*0.5)), Font{Family: "Inter"}
			if f.Box.valid() {
				out = append(out, f)
			}
		}
	}
	return out
}

// guess chooses the kind of a suggested field by its label. It chooses Name, Date and Title at most once
// each, and otherwise Column.
func (f *Field) guess(used map[string]bool) {
	label := strings.ToLower(f.Label)
	for _, g := range []struct {
		kind  Kind
		words []string
	}{
		{Name, []string{"name", "recipient", "nombre", "nom"}},
		{Date, []string{"date", "fecha", "datum"}},
		{Title, []string{"title", "course", "award", "programme", "program"}},
	} {
		for _, word := range g.words {
			if strings.Contains(label, word) && !used[string(g.kind)] {
				used[string(g.kind)] = true
				f.Kind, f.Text = g.kind, "{"+string(g.kind)+"}"
				return
			}
		}
	}
	f.Kind, f.Text = Column, "{column:"+f.Label+"}"
}

// inherited returns the value of a form field or of its nearest ancestor with a value (ISO 32000-2, 12.7.4.1).
func inherited(doc *pdf.Document, field *pdf.Dict, key pdf.Name) pdf.Object {
	for range maxDepth {
		if v := field.Get(key); v != nil {
			return v
		}
		if field = doc.Dict(field.Get("Parent")); field == nil {
			return nil
		}
	}
	return nil
}

// shownBox returns a rectangle of a page as the box of a field, rounded to hundredths of a point.
func shownBox(g pdf.Geometry, r pdf.Rectangle) Box {
	m := g.Matrix()
	_, height := g.Size()
	determinant := m[0]*m[3] - m[1]*m[2]
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, c := range [][2]float64{{r.X0, r.Y0}, {r.X1, r.Y1}} {
		dx, dy := c[0]-m[4], c[1]-m[5]
		x, y := (dx*m[3]-dy*m[2])/determinant, height-(dy*m[0]-dx*m[1])/determinant
		x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
	}
	var out Box
	for i, v := range []float64{x0, y0, x1 - x0, y1 - y0} {
		out[i] = math.Round(v*100) / 100
	}
	return out
}
