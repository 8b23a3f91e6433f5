package design

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/language"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/typeset"
)

// plan is stored with a base, because Open needs it. It has object numbers of the base, and the fonts in
// the base. A variable field is a text with placeholders or a signature.
type plan struct {
	Version int    `json:"version"`
	Prefix  string `json:"prefix"`
	Space   bool   `json:"space,omitempty"` // colours are in the colour space of the resources, not in DeviceRGB
	// Opaque reports whether transparency is not allowed.
	Opaque bool                 `json:"opaque,omitempty"`
	Pages  []pagePlan           `json:"pages"`
	Fields map[string]fieldPlan `json:"fields"` // the variable fields by their ids
	// Document is the object number of the structure element Document, or 0 if the design has its own tags.
	// A certificate sets the language of this element.
	Document int             `json:"document,omitempty"`
	Fonts    *typeset.Shared `json:"fonts"`
}

// planVersion is the version of the format of plans.
const planVersion = 1

// pagePlan is a page with variable fields. Page is its index. Content is the object number of the content
// stream that a certificate replaces. Fonts and Images are the object numbers of the dictionaries to which a
// certificate adds its fonts and pictures. Images is 0 for a page without signatures.
type pagePlan struct {
	Page    int `json:"page"`
	Content int `json:"content"`
	Fonts   int `json:"fonts"`
	Images  int `json:"images,omitempty"`
}

// fieldPlan is a variable field. Mark is its MCID, or -1 without tags. Element is the object number of its
// structure element; it is 0 without tags and for a signature.
type fieldPlan struct {
	Mark    int `json:"mark"`
	Element int `json:"element,omitempty"`
}

// publisher writes a base.
type publisher struct {
	doc      *pdf.Document
	u        *pdf.Update
	l        *Layout
	fonts    *typeset.Fonts
	pictures Pictures

	subsets *typeset.Subsets
	plan    plan
	tags    *tags
	space   pdf.Object // the colour space of the fields; nil for DeviceRGB
	opaque  bool       // transparency is not allowed
	drawn   map[string]pdf.Ref
	// loaded is the picture that was read last. Other pictures are not kept, because each may need more than
	// 100 MB of memory. bytes and pixels are the total sizes of the pictures that were read.
	loaded        *picture
	loadedID      string
	bytes, pixels int

	problems Problems
}

// Publish draws everything that all certificates of a template share, and returns the base. The error
// is Problems if the layout cannot be published. It is a *Refusal if the design or the pictures cannot be used.
func Publish(d *Design, l *Layout, fonts *typeset.Fonts, pictures Pictures) (*Base, error) {
	if problems := l.Check(d.Pages); len(problems) > 0 {
		return nil, problems
	}
	doc, err := pdf.Open(bytes.NewReader(d.PDF), int64(len(d.PDF)))
	if err != nil {
		return nil, pdfError(err)
	}
	if err := doc.AvoidReferenced(); err != nil {
		return nil, pdfError(err)
	}
	if n := doc.PageCount(); n != len(d.Pages) {
		return nil, refuse("design_damaged", fmt.Sprintf("The PDF is damaged: it has %d pages for some readers and %d for others. Save or export it again.", n, len(d.Pages)))
	}
	p := &publisher{doc: doc, u: doc.Update(), l: l, fonts: fonts, pictures: pictures, drawn: map[string]pdf.Ref{}}
	tail, err := p.run()
	if err != nil {
		return nil, err
	}
	stored, err := json.Marshal(p.plan)
	if err != nil {
		return nil, fmt.Errorf("storing the plan of a template: %w", err)
	}
	return &Base{PDF: slices.Concat(d.PDF, tail), Plan: stored}, nil
}

func (p *publisher) run() ([]byte, error) {
	p.plan = plan{Version: planVersion, Prefix: p.prefix(), Pages: []pagePlan{}, Fields: map[string]fieldPlan{}}
	p.subsets = typeset.NewSubsets(p.plan.Prefix + "B")
	packet := readMetadata(p.doc, p.u.Catalog())
	p.colours(packet)
	p.tags = newTags(p)
	if err := p.preload(); err != nil {
		return nil, err
	}
	pages := make([]*pageEdit, p.doc.PageCount())
	for i := range pages {
		edit, err := p.page(i)
		if err != nil {
			return nil, err
		}
		pages[i] = edit
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	shared := p.subsets.Objects(p.u) // after the last drawing
	for _, edit := range pages {
		if edit != nil {
			p.finishPage(edit, shared)
		}
	}
	p.plan.Fonts = p.subsets.Share()
	p.catalog(packet, !slices.Contains(pages, nil))
	tail, err := p.u.Bytes()
	if err != nil {
		return nil, pdfError(err)
	}
	return tail, nil
}

// prefix returns a prefix that no name in the resources of the pages has.
func (p *publisher) prefix() string {
	prefix := "Cv"
	for i := 0; i < p.doc.PageCount(); i++ {
		page, err := p.doc.Page(i)
		if err != nil {
			continue
		}
		for _, kind := range []pdf.Name{"Font", "XObject", "ColorSpace", "ExtGState"} {
			for name := range p.doc.Dict(page.Resources().Get(kind)).All() {
				if strings.HasPrefix(string(name), prefix) {
					prefix += "x"
					i = -1 // begin again: an earlier page may have a name with the longer prefix
				}
			}
		}
	}
	return prefix
}

// colours sets the colour space of the fields, and whether they may be transparent. A design that claims
// PDF/A allows DeviceRGB only with an output intent for RGB (ISO 19005-2, 6.2.4.3). PDF/A-1 allows no
// transparency (ISO 19005-1, 6.4).
func (p *publisher) colours(packet string) {
	claim := pdfaPart.FindStringSubmatch(packet)
	if claim == nil {
		return
	}
	p.opaque = claim[1] == "1"
	p.plan.Opaque = p.opaque
	for _, intent := range p.doc.Array(p.u.Catalog().Get("OutputIntents")) {
		profile := p.doc.Dict(p.doc.Dict(intent).Get("DestOutputProfile"))
		if n, _ := p.doc.Int(profile.Get("N")); n == 3 {
			return
		}
	}
	p.plan.Space = true
	p.space = pdf.Array{pdf.Name("ICCBased"), p.u.Add(profileStream(sRGB(), "DeviceRGB"))}
}

// inContext has punctuation next to capital letters and digits. Some fonts have special forms of punctuation
// for these places.
const inContext = "NWU-7QF2-0123-AB-CD 0-1-2-3-4-5-6-7-8-9 2026-03-12 A–B 1–2 10:30 9:41 A:B 1/2 A/B 94 % 100% " +
	"(A) (12) [A] {1} A·B 1·2 A @ 1 +1 1×2 #1 A_1 A&B <1> A→B «A» ‹1› ¿A? ¡A!"

// alphabet returns the letters of the script of a language if the script is Cyrillic or Greek, and
// otherwise "". Many fonts have these scripts besides Latin.
func alphabet(tag string) string {
	script, _ := language.Make(tag).Script()
	var first, last rune
	switch script.String() {
	case "Cyrl":
		first, last = 'Ѐ', 'ґ'
	case "Grek":
		first, last = 'Ά', 'ώ'
	default:
		return ""
	}
	var b strings.Builder
	for r := first; r <= last; r++ {
		if unicode.IsLetter(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// preload adds letters to the fonts of the variable fields: the Latin letters, and the alphabet of the
// language of the template. The set of letters does not depend on names, so the base reveals no names.
func (p *publisher) preload() error {
	done := map[typeset.Font]bool{}
	for i := range p.l.Fields {
		f := &p.l.Fields[i]
		font := f.Font.typeset()
		if !f.isVariable() || done[font] {
			continue
		}
		done[font] = true
		for _, characters := range []string{typeset.Latin, alphabet(p.l.Language)} {
			if err := p.subsets.Preload(p.fonts, font, characters); err != nil {
				return fmt.Errorf("reading the font of field %s: %w", f.ID, err)
			}
		}
		block, err := p.fonts.Layout(inContext, typeset.Style{Font: font, Size: 1, Lines: typeset.Unlimited}, maxCoordinate)
		if err == nil { // an error means that the font has no Latin letters
			block.Draw(&bytes.Buffer{}, p.subsets, 0, 0)
		}
	}
	return nil
}

// isVariable reports whether the field is a text with placeholders. It returns false for a signature.
func (f *Field) isVariable() bool { return f.isText() && placeholder.MatchString(f.Text) }

// pageEdit is a page to which fields are added.
type pageEdit struct {
	page     *pdf.Page
	balance  pdf.Balance
	static   bytes.Buffer
	images   *pdf.Dict
	variable bool
	signed   bool // the page has signatures
	tags     *pageTags
}

// page draws the fields of a page that are the same on all certificates. It returns nil for a page without
// fields other than the QR code.
func (p *publisher) page(index int) (*pageEdit, error) {
	if !slices.ContainsFunc(p.l.Fields, func(f Field) bool { return f.Page == index+1 && f.Kind != QR }) {
		return nil, nil //nolint:nilnil // a page without fields is not an error
	}
	page, err := p.doc.Page(index)
	if err != nil {
		return nil, pdfError(err)
	}
	edit := &pageEdit{page: page, images: pdf.NewDict()}
	if edit.balance, err = p.doc.ContentBalance(page); err != nil {
		return nil, pdfError(err)
	}
	if edit.balance.Faulty {
		return nil, errFaulty
	}
	edit.tags = p.tags.page(page)
	g := page.Geometry()
	for i := range p.l.Fields {
		f := &p.l.Fields[i]
		switch {
		case f.Page != index+1 || f.Kind == QR:
		case f.Kind == Signature:
			edit.variable, edit.signed = true, true
			p.plan.Fields[f.ID] = fieldPlan{Mark: edit.tags.picture(f)}
		case f.isPicture():
			err = p.picture(edit, f, g)
		case f.isVariable():
			edit.variable = true
			mark, element := edit.tags.field(p.heading() == f, f.Language)
			p.plan.Fields[f.ID] = fieldPlan{mark, element.Number}
		default:
			err = p.text(edit, f, g)
		}
		if err != nil {
			return nil, err
		}
	}
	return edit, nil
}

// heading returns the field that is the heading of the document: the first field of kind Title, or else of
// kind Name.
func (p *publisher) heading() *Field {
	for _, kind := range []Kind{Title, Name} {
		for i := range p.l.Fields {
			if p.l.Fields[i].Kind == kind {
				return &p.l.Fields[i]
			}
		}
	}
	return nil
}

// text draws a text that is the same on all certificates.
func (p *publisher) text(edit *pageEdit, f *Field, g pdf.Geometry) error {
	text, _ := fill(f, parse(f.Text), p.l, &Values{})
	block, err := set(f, text, p.fonts)
	if err != nil {
		if problem, ok := f.problem(err); ok {
			p.problems = append(p.problems, problem)
			return nil
		}
		return fmt.Errorf("field %s: %w", f.ID, err)
	}
	mark, _ := edit.tags.field(p.heading() == f, cmp.Or(f.Language, p.l.Language))
	d := drawing{out: &edit.static, geometry: g, prefix: p.plan.Prefix, space: p.plan.Space}
	d.text(f, block, p.subsets, edit.tags.tag(p.heading() == f), mark)
	return nil
}

// resolution is the resolution in pixels per inch to which pictures are reduced.
const resolution = 300

// These are the limits of the pictures of a template in total.
const (
	maxPictureBytes  = 20 << 20 // of the files, in bytes
	maxPicturePixels = 100_000_000
)

// errPictures means that the pictures of a template are too large in total. Each certificate contains the pictures.
var errPictures = refuse("pictures_large", "The pictures of the template have more than 20 MB or 100 megapixels in total. Use fewer or smaller pictures.")

// errUnusable means that the file of a field is not a usable picture.
var errUnusable = errors.New("the picture cannot be used")

// load returns a picture. It keeps the last picture, because the next field may show the same picture.
func (p *publisher) load(id string) (*picture, error) {
	if id == p.loadedID {
		return p.loaded, nil
	}
	data, err := p.pictures(id)
	if err != nil {
		return nil, err
	}
	pic, err := readPicture(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnusable, err)
	}
	p.bytes, p.pixels = p.bytes+len(data), p.pixels+pic.width*pic.height
	if p.bytes > maxPictureBytes || p.pixels > maxPicturePixels {
		return nil, errPictures
	}
	p.loaded, p.loadedID = pic, id
	return pic, nil
}

// picture draws a picture as large as its box permits.
func (p *publisher) picture(edit *pageEdit, f *Field, g pdf.Geometry) error {
	pic, err := p.load(f.Image)
	switch {
	case errors.Is(err, ErrNoPicture) && f.Image == logo:
		return nil
	case errors.Is(err, errPictures):
		return err
	case errors.Is(err, ErrNoPicture), errors.Is(err, errUnusable):
		p.problems = append(p.problems, Problem{f.ID, CodeFieldInvalid, "image"})
		return nil
	case err != nil:
		return fmt.Errorf("reading the picture of field %s: %w", f.ID, err)
	}
	scale := min(f.Box[2]/float64(pic.width), f.Box[3]/float64(pic.height))
	w, h := float64(pic.width)*scale, float64(pic.height)*scale
	width := int(math.Ceil(w * resolution / 72))
	if pic.width < 2*width { // a reduction would save little space and lose detail
		width = pic.width
	}
	key := f.Image + " " + strconv.Itoa(width)
	ref, ok := p.drawn[key]
	if !ok {
		ref = pic.add(p.u, width, p.space, p.opaque)
		p.drawn[key] = ref
	}
	name := p.plan.Prefix + "I" + strconv.Itoa(edit.images.Len())
	edit.images.Set(pdf.Name(name), ref)
	x, y := aligned(f, w, h)
	mark := edit.tags.picture(f)
	d := drawing{out: &edit.static, geometry: g}
	d.open("Figure", mark)
	d.transform(f)
	d.numbers(w, 0, 0, h, x, y)
	edit.static.WriteString("cm /" + name + " Do")
	d.close(mark)
	return nil
}

// aligned returns the lower left corner of an object with the width w and the height h, relative to the
// lower left corner of the box of the field.
func aligned(f *Field, w, h float64) (x, y float64) {
	switch f.Align {
	case "center":
		x = (f.Box[2] - w) / 2
	case "right":
		x = f.Box[2] - w
	}
	switch f.VAlign {
	case "top":
		y = f.Box[3] - h
	case "", "middle":
		y = (f.Box[3] - h) / 2
	}
	return x, y
}

// finishPage sets the content and the resources of a page.
func (p *publisher) finishPage(edit *pageEdit, shared *pdf.Dict) {
	for _, ref := range edit.balance.WrongLength {
		p.u.Set(ref, p.doc.Object(ref))
	}
	before := slices.Concat(edit.tags.begin(), edit.balance.Prefix)
	after := slices.Concat(edit.balance.Suffix, []byte("\n"), edit.tags.end(), edit.static.Bytes())
	contents := pdf.Array{p.u.Add(pdf.NewStream(nil, before))}
	contents = append(contents, edit.page.Contents()...)
	contents = append(contents, p.u.Add(pdf.NewStream(nil, after)))

	resources := edit.page.Resources().Clone()
	fonts := p.doc.Dict(resources.Get("Font")).Clone()
	for name, ref := range shared.All() {
		fonts.Set(name, ref)
	}
	resources.Set("Font", fonts)
	if edit.variable {
		plan := pagePlan{Page: edit.page.Index}
		content := p.u.Add(pdf.NewRawStream(nil, nil))
		dict := p.u.Add(fonts)
		plan.Content, plan.Fonts = content.Number, dict.Number
		p.plan.Pages = append(p.plan.Pages, plan)
		contents = append(contents, content)
		resources.Set("Font", dict)
	}
	merge := func(key pdf.Name, more *pdf.Dict) {
		if more.Len() == 0 {
			return
		}
		all := p.doc.Dict(resources.Get(key)).Clone()
		for name, value := range more.All() {
			all.Set(name, value)
		}
		resources.Set(key, all)
	}
	if edit.signed {
		all := p.doc.Dict(resources.Get("XObject")).Clone()
		for name, value := range edit.images.All() {
			all.Set(name, value)
		}
		ref := p.u.Add(all)
		p.plan.Pages[len(p.plan.Pages)-1].Images = ref.Number
		resources.Set("XObject", ref)
	} else {
		merge("XObject", edit.images)
	}
	if p.space != nil {
		merge("ColorSpace", pdf.NewDict(pdf.Entry{Key: pdf.Name(p.plan.Prefix + "C"), Value: p.space}))
	}
	dict := p.u.PageDict(edit.page).Clone()
	dict.Set("Contents", contents)
	dict.Set("Resources", p.u.Add(resources))
	edit.tags.finish(dict)
	p.u.SetPage(edit.page, dict)
}

// catalog sets the language, the title and the structure tree of the document. all reports whether each
// page has fields other than the QR code.
func (p *publisher) catalog(packet string, all bool) {
	catalog := p.u.Catalog().Clone()
	if language := p.tags.language(); language != "" {
		catalog.Set("Lang", pdf.TextString(language))
	}
	p.tags.write(catalog, all)
	info := p.doc.Dict(p.doc.Trailer().Get("Info")).Clone()
	if title := p.l.Title; title != "" {
		changed, ok := withTitle(packet, title)
		// PDF/A-1 requires the same title in Info as in the XMP metadata (ISO 19005-1, 6.7.3).
		if ok || pdfaPart.FindStringSubmatch(packet) == nil {
			info.Set("Title", pdf.TextString(title))
			p.u.SetTrailer("Info", p.u.Add(info))
		}
		if old, isRef := catalog.Get("Metadata").(pdf.Ref); ok && isRef {
			p.u.Set(old, pdf.NewRawStream(metadataDict(), []byte(changed)))
		}
	}
	if info.Has("Title") {
		preferences := p.doc.Dict(catalog.Get("ViewerPreferences")).Clone()
		catalog.Set("ViewerPreferences", preferences.Set("DisplayDocTitle", pdf.Boolean(true)))
	}
	p.u.SetCatalog(catalog)
}
