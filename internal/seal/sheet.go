package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"

	xdraw "golang.org/x/image/draw"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/typeset"
)

// Sheet has the contents of the verification sheet: the page that is added at the end of a
// certificate, or that carries an original as an attachment. A title, name or date that is empty is left out.
type Sheet struct {
	Title, Name string
	// Logo is the institution's logo as PNG, or nil.
	Logo []byte
	// Texts are the texts in the recipient's language, followed by those in English if the recipient's
	// language is not English.
	Texts []SheetTexts
}

// both returns a text in all languages of the sheet.
func (s *Sheet) both(text func(*SheetTexts) string) string {
	var texts []string
	for i := range s.Texts {
		texts = append(texts, typeset.Isolate(text(&s.Texts[i])))
	}
	return strings.Join(texts, " · ")
}

// SheetTexts are the texts of a verification sheet in one language. Each label is above its value.
type SheetTexts struct {
	// Language is a BCP 47 tag. RightToLeft reports whether the language is written from right to left.
	Language    string
	RightToLeft bool
	// Heading is the title of the sheet. Page explains the purpose of a sheet at the end of a
	// certificate, and Cover the purpose of a sheet that has the original as an attachment.
	Heading, Page, Cover string
	// NameLabel, IssuerLabel, DateLabel, IDLabel and DigestLabel are labels. Date is the issue date.
	NameLabel, IssuerLabel, DateLabel, IDLabel, DigestLabel, Date string
	// Steps is the heading of the steps Phone, Web and Offline, which explain how to check the
	// certificate.
	Steps, Phone, Web, Offline string
}

// These are dimensions of the sheet in points. The sheet is an A4 or Letter page in portrait format.
const (
	sheetMargin  = 56
	sheetBar     = 8               // height of the bar at the top
	sheetCode    = 40 * millimetre // side of the QR code without its quiet zone
	sheetGutter  = 24              // between two columns
	sheetGap     = 3               // between the quiet zone of the QR code and the address
	letterWidth  = 612
	letterHeight = 792
	logoWidth    = 170
	logoHeight   = 56
	logoPixels   = 3 // maximum number of pixels of the logo per point
)

// These are the sizes of the text of the sheet.
const (
	sheetTitle = 22
	sheetName  = 16
	sheetText  = 10
	sheetSmall = 8.5
)

// sheetPage draws a verification sheet. In its methods except rectangle, y is the distance from the
// top of the page.
type sheetPage struct {
	fonts   *typeset.Fonts
	subsets *typeset.Subsets
	content bytes.Buffer
	frame   frame
	// rtl reports whether the first language is written from right to left. The sheet is then mirrored.
	rtl bool
	// incomplete reports whether a text is left out because no font has its characters.
	incomplete bool
	logo       *pdf.Stream
	palette    []byte // the colours of the logo; nil if it has no palette
}

// loadSheet reads the contents of the verification sheet, if the stamp has one.
func (j *job) loadSheet(ctx context.Context) (err error) {
	if j.sheet != nil || j.stamp.Sheet == nil || j.stamp.Plain {
		return nil
	}
	if j.sheet, err = j.stamp.Sheet(ctx); err != nil {
		return fmt.Errorf("reading the contents of the verification sheet: %w", err)
	}
	return nil
}

// language returns the BCP 47 tag of the language of a cover.
func (j *job) language() string {
	if j.sheet != nil {
		return j.sheet.Texts[0].Language
	}
	return "en"
}

// drawSheet draws the verification sheet with the QR code. cover reports whether the sheet has the
// original as an attachment.
func (j *job) drawSheet(f frame, cover bool) (*sheetPage, spot, error) {
	p := &sheetPage{fonts: j.sealer.fonts, subsets: typeset.NewSubsets("CV"), frame: f, rtl: j.sheet.Texts[0].RightToLeft}
	p.content.WriteString("/Artifact BMC\nq\n")
	place, err := p.draw(j, cover)
	if err != nil {
		return nil, spot{}, err
	}
	p.content.WriteString("Q\nEMC\n")
	drawArtifact(&p.content, f, place)
	if p.incomplete && !slices.ContainsFunc(j.notices, func(n Notice) bool { return n.Code == "sheet_incomplete" }) {
		j.note("sheet_incomplete", "The verification sheet leaves out a text, because the vault has no font with all of its characters.")
	}
	return p, place, nil
}

// adder adds an object to a file.
type adder interface{ Add(obj pdf.Object) pdf.Ref }

// resources adds the fonts and the logo of the sheet to a file, and returns the resources of the page.
func (p *sheetPage) resources(to adder) *pdf.Dict {
	dict := pdf.NewDict(pdf.Entry{Key: "Font", Value: p.subsets.Objects(to)})
	if p.logo != nil {
		if p.palette != nil {
			last, colours := pdf.Integer(len(p.palette)/3-1), to.Add(pdf.NewStream(nil, p.palette))
			p.logo.Dict.Set("ColorSpace", pdf.Array{pdf.Name("Indexed"), pdf.Name("DeviceRGB"), last, colours})
		}
		dict.Set("XObject", pdf.NewDict(pdf.Entry{Key: "Logo", Value: to.Add(p.logo)}))
	}
	return dict
}

// newSheetFrame returns the frame of a sheet in a document with the given page: Letter if the page has
// that size, otherwise A4.
func newSheetFrame(page frame) frame {
	f := frame{width: coverWidth, height: coverHeight, matrix: [6]float64{1, 0, 0, 1, 0, 0}}
	if short, long := min(page.width, page.height), max(page.width, page.height); wholePoints(short) == letterWidth && wholePoints(long) == letterHeight {
		f.width, f.height = letterWidth, letterHeight
	}
	return f
}

// draw draws the sheet and returns the place of the QR code.
func (p *sheetPage) draw(j *job, cover bool) (spot, error) {
	f, s, sheet := p.frame, &j.stamp, j.sheet
	figure := newCodeFigure(j.figures[0].symbol)
	place := spot{scale: sheetCode / float64(figure.symbol.side), figure: figure}
	place.x = p.atEnd(sheetCode) - quietZone*place.scale

	c := s.Colour
	writeColour(&p.content, c)
	p.content.WriteString("rg 0 ")
	p.rectangle(f.height-sheetBar, f.width, sheetBar)
	p.gray(0)

	y := float64(sheetMargin)
	if err := p.drawLogo(sheet.Logo, &y); err != nil {
		return spot{}, err
	}
	inner := f.width - 2*sheetMargin
	first := sheet.Texts[0]
	p.gray(0.4)
	if err := p.both(&y, inner, sheet, sheetText, func(t *SheetTexts) string { return t.Heading }); err != nil {
		return spot{}, err
	}
	y += 10
	p.gray(0)
	p.bold(sheetTitle)
	if err := p.set(&y, inner, sheet.Title, typeset.Style{Size: sheetTitle, MinSize: 12, Lines: 3}); err != nil {
		return spot{}, err
	}
	p.regular()
	y += 24
	// The labels and values are beside the QR code.
	top := y
	place.y = f.height - top - place.height() + quietZone*place.scale
	column := inner - sheetCode - sheetGutter
	for _, fact := range []struct {
		label func(*SheetTexts) string
		value string
		size  float64
	}{
		{func(t *SheetTexts) string { return t.NameLabel }, sheet.Name, sheetName},
		{func(t *SheetTexts) string { return t.IssuerLabel }, s.Institution, sheetText + 1},
		{func(t *SheetTexts) string { return t.DateLabel }, first.Date, sheetText + 1},
		{func(t *SheetTexts) string { return t.IDLabel }, strings.Join(idGroups(s.ReferenceID), " "), sheetText + 1},
	} {
		if fact.value == "" {
			continue
		}
		p.gray(0.4)
		if err := p.both(&y, column, sheet, sheetSmall, fact.label); err != nil {
			return spot{}, err
		}
		y += 5
		p.gray(0)
		p.bold(fact.size)
		if err := p.set(&y, column, fact.value, typeset.Style{Size: fact.size, MinSize: 8, Lines: 3}); err != nil {
			return spot{}, err
		}
		p.regular()
		y += 14
	}
	below := top + sheetCode + quietZone*place.scale + sheetGap
	_, address, _ := strings.Cut(s.VerifyURL, "://")
	if i := strings.LastIndexByte(address, '/'); i > 0 { // the reference id on a line of its own
		address = address[:i+1] + "\n" + address[i+1:]
	}
	if err := p.setAt(p.atEnd(sheetCode), &below, sheetCode, address, typeset.Style{Size: 7, MinSize: 4, Lines: 4}); err != nil {
		return spot{}, err
	}
	y = max(y, below+14)
	p.line(y)
	y += 20
	if err := p.drawSteps(&y, sheet.Texts, cover); err != nil {
		return spot{}, err
	}
	y += 6
	p.line(y)
	y += 16
	p.gray(0.4)
	if err := p.both(&y, inner, sheet, sheetSmall, func(t *SheetTexts) string { return t.DigestLabel }); err != nil {
		return spot{}, err
	}
	y += 4
	p.gray(0)
	err := p.set(&y, inner, groupedDigest(j.original.SHA256[:]), typeset.Style{Size: sheetText, MinSize: 6})
	return place, err
}

// drawSteps draws the purpose of the sheet and the steps, in one column for each language.
func (p *sheetPage) drawSteps(y *float64, languages []SheetTexts, cover bool) error {
	n := float64(len(languages))
	width := (p.frame.width - 2*sheetMargin - (n-1)*sheetGutter) / n
	top, bottom := *y, *y
	for i, t := range languages {
		at := top
		column := i
		if p.rtl {
			column = len(languages) - 1 - i
		}
		x := sheetMargin + float64(column)*(width+sheetGutter)
		purpose := t.Page
		if cover {
			purpose = t.Cover
		}
		style := typeset.Style{Size: sheetText, Lines: typeset.Unlimited, Leading: 1.4, Align: typeset.Start, Language: t.Language}
		if err := p.setAt(x, &at, width, purpose, style); err != nil {
			return err
		}
		at += 16
		p.bold(style.Size)
		if err := p.setAt(x, &at, width, t.Steps, style); err != nil {
			return err
		}
		p.regular()
		for _, step := range []string{"1. " + t.Phone, "2. " + t.Web, "3. " + t.Offline} {
			at += 8
			if err := p.setAt(x, &at, width, step, style); err != nil {
				return err
			}
		}
		bottom = max(bottom, at+8)
	}
	*y = bottom
	return nil
}

// set draws a text at the margin at which lines begin, and moves y below it.
func (p *sheetPage) set(y *float64, width float64, text string, style typeset.Style) error {
	x := float64(sheetMargin)
	if p.rtl {
		x, style.Align = p.frame.width-sheetMargin-width, typeset.Right
	}
	return p.setAt(x, y, width, text, style)
}

// both draws a text in all languages, in the direction of the first language.
func (p *sheetPage) both(y *float64, width float64, sheet *Sheet, size float64, text func(*SheetTexts) string) error {
	style := typeset.Style{Size: size, Lines: 2, Language: sheet.Texts[0].Language}
	if p.rtl {
		style.Direction = typeset.RightToLeft
	}
	return p.set(y, width, sheet.both(text), style)
}

// atEnd returns the left edge of an area at the margin at which lines end.
func (p *sheetPage) atEnd(width float64) float64 {
	if p.rtl {
		return sheetMargin
	}
	return p.frame.width - sheetMargin - width
}

// setAt draws a text and moves y below it. A text with characters that no font has is left out. A
// text that does not fit is drawn smaller. If it does not fit even in style.MinSize, it is drawn in
// style.Size with more lines.
func (p *sheetPage) setAt(x float64, y *float64, width float64, text string, style typeset.Style) error {
	if text == "" {
		return nil
	}
	block, err := p.fonts.Layout(text, style, width)
	if errors.Is(err, typeset.ErrNoRoom) {
		style.MinSize, style.Lines = style.Size, typeset.Unlimited
		block, err = p.fonts.Layout(text, style, width)
	}
	if _, missing := errors.AsType[*typeset.MissingError](err); missing {
		p.incomplete = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("setting a text of the verification sheet: %w", err)
	}
	block.Draw(&p.content, p.subsets, x, p.frame.height-*y-block.CapHeight)
	*y += block.Height + block.Descent
	return nil
}

// bold begins bold black text of the given size. The text is bold because its outlines are stroked. A
// second weight of the font would make each file 4 kB larger, and the fonts of most scripts have only
// one weight.
func (p *sheetPage) bold(size float64) {
	fmt.Fprintf(&p.content, "q 2 Tr %.2f w 1 j 0 G\n", size/30)
}

// regular ends bold text.
func (p *sheetPage) regular() { p.content.WriteString("Q\n") }

func (p *sheetPage) gray(v float64) {
	writeNumber(&p.content, v)
	p.content.WriteString(" g\n")
}

// rectangle fills a rectangle. y is the distance from the bottom of the page to the lower edge. The caller
// must already have written the x of the left edge.
func (p *sheetPage) rectangle(y, width, height float64) {
	for _, v := range []float64{y, width, height} {
		writeNumber(&p.content, v)
		p.content.WriteByte(' ')
	}
	p.content.WriteString("re f\n")
}

// line draws a hairline between the margins.
func (p *sheetPage) line(y float64) {
	fmt.Fprintf(&p.content, "0.8 G 0.5 w %d %.2f m %.2f %.2f l S\n", sheetMargin, p.frame.height-y, p.frame.width-sheetMargin, p.frame.height-y)
}

// drawLogo draws the logo at the top, and moves y below it.
func (p *sheetPage) drawLogo(file []byte, y *float64) error {
	if len(file) == 0 {
		return nil
	}
	img, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("reading the logo: %w", err)
	}
	size := img.Bounds().Size()
	scale := min(logoWidth/float64(size.X), logoHeight/float64(size.Y))
	w, h := float64(size.X)*scale, float64(size.Y)*scale
	pixels := image.Rect(0, 0, min(size.X, int(w*logoPixels)), min(size.Y, int(h*logoPixels)))
	small := image.NewRGBA(pixels)
	xdraw.Draw(small, pixels, image.NewUniform(color.White), image.Point{}, xdraw.Src)
	xdraw.CatmullRom.Scale(small, pixels, img, img.Bounds(), xdraw.Over, nil)
	p.logo, p.palette = logoImage(small)
	x := float64(sheetMargin)
	if p.rtl {
		x = p.frame.width - sheetMargin - w
	}
	fmt.Fprintf(&p.content, "q %.2f 0 0 %.2f %.2f %.2f cm /Logo Do Q\n", w, h, x, p.frame.height-*y-h)
	*y += h + 24
	return nil
}

// A logo with at most maxLogoColours groups of similar colours has a palette. In a group, the components
// of the colours differ by less than logoStep.
const (
	maxLogoColours = 256
	logoStep       = 16
)

// logoImage returns the image of a logo without transparency, and its palette if it has few groups of
// similar colours, as most logos have.
func logoImage(img *image.RGBA) (logo *pdf.Stream, palette []byte) {
	type rgb = [3]byte
	counts := map[rgb]int{}
	for i := 0; i < len(img.Pix); i += 4 {
		counts[rgb(img.Pix[i:i+3])]++
	}
	// Each group of similar colours is drawn in the most frequent colour of the group.
	group := func(c rgb) rgb { return rgb{c[0] / logoStep, c[1] / logoStep, c[2] / logoStep} }
	best := map[rgb]rgb{}
	for c, n := range counts {
		old, ok := best[group(c)]
		if !ok || n > counts[old] || n == counts[old] && bytes.Compare(c[:], old[:]) < 0 {
			best[group(c)] = c
		}
	}
	dict := pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("XObject")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Image")},
		pdf.Entry{Key: "Width", Value: pdf.Integer(img.Rect.Dx())},
		pdf.Entry{Key: "Height", Value: pdf.Integer(img.Rect.Dy())},
		pdf.Entry{Key: "BitsPerComponent", Value: pdf.Integer(8)},
	)
	var samples []byte
	if len(best) > maxLogoColours {
		for i := 0; i < len(img.Pix); i += 4 {
			samples = append(samples, img.Pix[i:i+3]...)
		}
		return pdf.NewStream(dict.Set("ColorSpace", pdf.Name("DeviceRGB")), samples), nil
	}
	indices := map[rgb]byte{}
	for i := 0; i < len(img.Pix); i += 4 {
		g := group(rgb(img.Pix[i : i+3]))
		index, ok := indices[g]
		if !ok {
			index = byte(len(indices) & 0xFF)
			indices[g] = index
			c := best[g]
			palette = append(palette, c[:]...)
		}
		samples = append(samples, index)
	}
	return pdf.NewStream(dict, samples), palette
}

// groupedDigest returns a hexadecimal digest in groups of eight digits.
func groupedDigest(sum []byte) string {
	text := fmt.Sprintf("%x", sum)
	var groups []string
	for len(text) > 8 {
		groups, text = append(groups, text[:8]), text[8:]
	}
	return strings.Join(append(groups, text), " ")
}
