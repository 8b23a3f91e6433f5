package design

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/typeset"
)

// Template is a published template. It can be used by several goroutines. It does not keep the base in
// memory.
type Template struct {
	layout  *Layout
	columns []ColumnUse
	fields  []variable
	// signatures are the places of the signatures, in the order of the fields.
	signatures []signaturePlace
	pages      []page
	fonts      *typeset.Fonts
	plan       plan
	updates    *pdf.Snapshot

	document pdf.Ref   // the structure element Document; zero if the design has its own tags
	root     *pdf.Dict // the dictionary of document
	common   commonTexts

	sha256 [32]byte
	state  []byte
	size   int64
	code   int // index of the QR code in the fields
	clean  bool
	shown  []Page
}

// variable is a field with a text that has placeholders.
type variable struct {
	*Field

	pieces []piece
	page   int // index in Template.pages
	mark   int
	ref    pdf.Ref   // of the structure element; zero without tags
	tag    string    // structure type
	dict   *pdf.Dict // the structure element
	common bool      // many certificates may have the same text
}

// signaturePlace is a field for the picture of a signature.
type signaturePlace struct {
	*Field

	signatory int // index in Values.Signatories
	page      int // index in Template.pages
	mark      int
}

// page is a page with placeholders or signatures.
type page struct {
	geometry       pdf.Geometry
	content, fonts pdf.Ref
	dict           *pdf.Dict // the fonts of the base
	images         pdf.Ref   // zero without signatures
	pictures       *pdf.Dict // the pictures of the base; nil or empty without signatures
}

// errPlan means that a base, a plan and a layout do not belong together.
var errPlan = errors.New("the plan of the template does not match its base")

// Open returns the template of a base. stored is Base.Plan, and l must be the layout that was published.
func Open(base, stored []byte, l *Layout, fonts *typeset.Fonts) (*Template, error) {
	t := &Template{layout: l, columns: l.Columns(), fonts: fonts, sha256: sha256.Sum256(base), size: int64(len(base))}
	if err := json.Unmarshal(stored, &t.plan); err != nil {
		return nil, fmt.Errorf("reading the plan of a template: %w", err)
	}
	if t.plan.Version != planVersion || t.plan.Fonts == nil {
		return nil, fmt.Errorf("%w: it has the version %d", errPlan, t.plan.Version)
	}
	doc, err := pdf.Open(bytes.NewReader(base), int64(len(base)))
	if err != nil {
		return nil, fmt.Errorf("reading the base of a template: %w", err)
	}
	if err := t.read(doc); err != nil {
		return nil, err
	}
	if t.clean, err = t.isClean(doc); err != nil {
		return nil, fmt.Errorf("reading the base of a template: %w", err)
	}
	if t.updates, err = doc.Snapshot(); err != nil {
		return nil, fmt.Errorf("reading the base of a template: %w", err)
	}
	hash := sha256.New()
	hash.Write(base)
	marshaler, ok := hash.(encoding.BinaryMarshaler)
	if !ok {
		return nil, errors.New("SHA-256 has no state")
	}
	if t.state, err = marshaler.MarshalBinary(); err != nil {
		return nil, fmt.Errorf("storing the state of SHA-256: %w", err)
	}
	return t, nil
}

// isClean computes the result of Clean from the base. The content that certificates add closes everything
// that it opens.
func (t *Template) isClean(base *pdf.Document) (bool, error) {
	page, err := base.Page(t.layout.Fields[t.code].Page - 1)
	if err != nil {
		return false, err
	}
	b, err := base.ContentBalance(page)
	return b.Clean && !b.Faulty && len(b.WrongLength) == 0, err
}

// Clean reports whether content can be appended to the page with the QR code without reading the page first.
// This is so if the content of the page closes everything that it opens and has no fault.
func (t *Template) Clean() bool { return t.clean }

// read reads the objects that certificates replace.
func (t *Template) read(doc *pdf.Document) error {
	for i := range doc.PageCount() {
		p, err := doc.Page(i)
		if err != nil {
			return fmt.Errorf("reading the base of a template: %w", err)
		}
		w, h := p.Geometry().Size()
		t.shown = append(t.shown, Page{w, h})
	}
	index := map[int]int{}
	for _, p := range t.plan.Pages {
		from, err := doc.Page(p.Page)
		if err != nil {
			return fmt.Errorf("reading the base of a template: %w", err)
		}
		next := page{geometry: from.Geometry(), content: pdf.Ref{Number: p.Content}, fonts: pdf.Ref{Number: p.Fonts}}
		_, isStream := doc.Object(next.content).(*pdf.Stream)
		dict, isDict := doc.Object(next.fonts).(*pdf.Dict)
		if !isStream || !isDict {
			return fmt.Errorf("%w: page %d", errPlan, p.Page+1)
		}
		next.dict = dict
		next.images, next.pictures = pdf.Ref{Number: p.Images}, doc.Dict(pdf.Ref{Number: p.Images})
		index[p.Page] = len(t.pages)
		t.pages = append(t.pages, next)
	}
	if t.plan.Document > 0 {
		t.document = pdf.Ref{Number: t.plan.Document}
		if t.root = doc.Dict(t.document); t.root == nil {
			return fmt.Errorf("%w: no structure", errPlan)
		}
	}
	t.code = -1
	for i := range t.layout.Fields {
		f := &t.layout.Fields[i]
		if f.Kind == QR {
			t.code = i
		}
		if !f.isVariable() && f.Kind != Signature {
			continue
		}
		where, ok := t.plan.Fields[f.ID]
		at, found := index[f.Page-1]
		if !ok || !found {
			return fmt.Errorf("%w: field %s", errPlan, f.ID)
		}
		if f.Kind == Signature {
			t.signatures = append(t.signatures, signaturePlace{Field: f, signatory: f.signatory() - 1, page: at, mark: where.Mark})
			continue
		}
		v := variable{Field: f, pieces: parse(f.Text), page: at, mark: where.Mark, tag: "P", common: true}
		for _, p := range v.pieces {
			if n := p.placeholder.Name; n == "name" || n == "reference" {
				v.common = false
			}
		}
		if where.Element > 0 {
			v.ref = pdf.Ref{Number: where.Element}
			if v.dict = doc.Dict(v.ref); v.dict == nil {
				return fmt.Errorf("%w: field %s", errPlan, f.ID)
			}
			v.tag = string(doc.Name(v.dict.Get("S")))
		}
		t.fields = append(t.fields, v)
	}
	if t.code < 0 || t.layout.Fields[t.code].Page > len(t.shown) {
		return fmt.Errorf("%w: no QR code", errPlan)
	}
	return nil
}

// QR returns the page of the QR code, from 1, and its place: x0, y0, x1 and y1 in fractions of the page
// as displayed, from the top left.
func (t *Template) QR() (page int, box [4]float64) {
	f := &t.layout.Fields[t.code]
	size := t.shown[f.Page-1]
	x, y, w, h := f.Box[0], f.Box[1], f.Box[2], f.Box[3]
	return f.Page, [4]float64{x / size.Width, y / size.Height, (x + w) / size.Width, (y + h) / size.Height}
}

// SHA256 returns the digest of the base.
func (t *Template) SHA256() [32]byte { return t.sha256 }

// State returns the state of SHA-256 after the base, as encoding.BinaryMarshaler writes it.
func (t *Template) State() []byte { return slices.Clone(t.state) }

// Size returns the size of the base in bytes.
func (t *Template) Size() int64 { return t.size }

// Pages returns the sizes of the pages.
func (t *Template) Pages() []Page { return slices.Clone(t.shown) }

// Check returns the reasons why a certificate cannot be drawn: required values that are missing, values of
// unknown columns, and texts that do not fit their fields or have characters without a font.
func (t *Template) Check(v *Values) Problems {
	_, problems, err := t.setAll(v)
	if err != nil {
		return append(problems, Problem{Code: CodeFieldInvalid, Detail: "font"})
	}
	return problems
}

// ready is a text that fits its field.
type ready struct {
	block *typeset.Block
	plain string
}

// setAll sets the texts of all fields. The problems of columns precede those of fields.
func (t *Template) setAll(v *Values) ([]ready, Problems, error) {
	problems := v.unknown(t.columns)
	out := make([]ready, len(t.fields))
	for i := range t.fields {
		f := &t.fields[i]
		text, missing := fill(f.Field, f.pieces, t.layout, v)
		if len(missing) > 0 {
			problems = append(problems, missing...)
			continue
		}
		block, err := t.block(i, text)
		if err != nil {
			problem, ok := f.problem(err)
			if !ok {
				return nil, problems, fmt.Errorf("field %s: %w", f.ID, err)
			}
			problems = append(problems, problem)
			continue
		}
		out[i] = ready{block, text.plain}
	}
	return out, problems, nil
}

// block sets the text of a field. It keeps the blocks of texts that many certificates may have.
func (t *Template) block(field int, text filled) (*typeset.Block, error) {
	f := &t.fields[field]
	if !f.common || !isSmall(text.text) {
		return set(f.Field, text, t.fonts)
	}
	key := commonText{field, text.text, text.language}
	if b, ok := t.common.get(key); ok {
		return b, nil
	}
	b, err := set(f.Field, text, t.fonts)
	if err == nil {
		t.common.put(key, b)
	}
	return b, err
}

// isSmall reports whether a text needs no large font, such as a font for Han characters. A stored block would
// keep the font in memory.
func isSmall(text string) bool {
	const firstHan = 0x2E80
	for _, r := range text {
		if r >= firstHan {
			return false
		}
	}
	return true
}

// commonTexts has the texts that were set recently, in two generations.
type commonTexts struct {
	mu           sync.Mutex
	young, older map[commonText]*typeset.Block
}

type commonText struct {
	field          int
	text, language string
}

// maxCommon is the maximum number of texts of a generation. A block has a few kilobytes.
const maxCommon = 64

func (c *commonTexts) get(key commonText) (*typeset.Block, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.young[key]; ok {
		return b, true
	}
	b, ok := c.older[key]
	if ok {
		c.store(key, b)
	}
	return b, ok
}

func (c *commonTexts) put(key commonText, b *typeset.Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(key, b)
}

func (c *commonTexts) store(key commonText, b *typeset.Block) {
	if c.young == nil || len(c.young) >= maxCommon {
		c.older, c.young = c.young, make(map[commonText]*typeset.Block, maxCommon)
	}
	c.young[key] = b
}

// Draw returns the fields tail of a certificate. The original is the base followed by the fields tail. The
// same values yield the same bytes. The error is Problems if the certificate cannot be drawn.
func (t *Template) Draw(v *Values) ([]byte, error) {
	texts, problems, err := t.setAll(v)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, problems
	}
	u := t.updates.Update()
	subsets := t.plan.Fonts.NewSubsets(t.plan.Prefix + "V")
	contents := make([]bytes.Buffer, len(t.pages))
	for i, text := range texts {
		f := &t.fields[i]
		d := drawing{out: &contents[f.page], geometry: t.pages[f.page].geometry, prefix: t.plan.Prefix, space: t.plan.Space}
		d.text(f.Field, text.block, subsets, f.tag, f.mark)
		if f.dict != nil && text.block.RightToLeft {
			// Without ActualText, some readers return the letters of a text from right to left in reverse order.
			u.Set(f.ref, f.dict.Clone().Set("ActualText", pdf.TextString(text.plain)))
		}
	}
	if t.root != nil && v.Language != "" && v.Language != t.layout.Language {
		u.Set(t.document, t.root.Clone().Set("Lang", pdf.TextString(v.Language)))
	}
	t.drawSignatures(u, v, contents)
	own := subsets.Objects(u)
	for i := range t.pages {
		p := &t.pages[i]
		u.Set(p.content, pdf.NewStream(nil, contents[i].Bytes()))
		if own.Len() > 0 {
			fonts := p.dict.Clone()
			for name, ref := range own.All() {
				fonts.Set(name, ref)
			}
			u.Set(p.fonts, fonts)
		}
	}
	tail, err := u.Bytes()
	if err != nil {
		return nil, fmt.Errorf("drawing a certificate: %w", err)
	}
	return tail, nil
}
