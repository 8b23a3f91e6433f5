// Package builtin has the designs that every institution can start a template from: vector drawings
// with their fields, in A4 and US Letter.
//
// A design is drawn by code and stored as a PDF, which `go generate` writes. Its colours are in streams
// of the PDF that are not compressed, so that [Builtin.With] can use the colours of an institution by
// replacing bytes. All texts are fields.
//
// The package does not draw texts and does not store templates.
package builtin

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/design"
)

//go:generate go run ./gen pdf

// These are the paper sizes of a design.
const (
	A4     = "a4"
	Letter = "letter"
)

// ErrPaper means that a design does not exist in a paper size, and ErrLanguage that the vault does not
// have a language.
var (
	ErrPaper    = errors.New("the paper is not a4 or letter")
	ErrLanguage = errors.New("the vault does not have this language")
)

// Builtin is a design with its fields.
type Builtin struct {
	Name        string // identifies the design
	Title       string
	Description string // in English
	Landscape   bool
	// Accent is the colour of the design for an institution without a colour.
	Accent  colour.Colour
	Formats []Format

	heading string // key of the default title
	colours func(hue) palette
	draw    func(*canvas)
	fields  func(w, h float64, p palette, t words) []design.Field
}

// Format is a paper size of a design. Lengths are in points of 1/72 inch.
type Format struct {
	Paper         string // A4 or Letter
	Width, Height float64
}

// All returns the designs.
func All() []Builtin {
	list := []Builtin{meridian(), heritage(), aurora(), letterpress(), guild(), token()}
	for i := range list {
		list[i].Formats = []Format{{A4, 595.28, 841.89}, {Letter, 612, 792}}
		if list[i].Landscape {
			for j := range list[i].Formats {
				f := &list[i].Formats[j]
				f.Width, f.Height = f.Height, f.Width
			}
		}
	}
	return list
}

// Find returns the design with the name, and reports whether it exists.
func Find(name string) (Builtin, bool) {
	list := All()
	if i := slices.IndexFunc(list, func(b Builtin) bool { return b.Name == name }); i >= 0 {
		return list[i], true
	}
	return Builtin{}, false
}

// With returns the design and its fields in colours that are derived from the accent, with the texts of
// a language of the vault. For a language that is written from right to left, the design is mirrored.
// All texts have a contrast of at least 4.5 to the drawing behind them (WCAG 2.2, 1.4.3), with every
// accent. The error is ErrPaper or ErrLanguage if the paper or the language is unknown.
func (b *Builtin) With(accent colour.Colour, paper, language string) ([]byte, design.Layout, error) {
	f, err := b.format(paper)
	if err != nil {
		return nil, design.Layout{}, err
	}
	t, l, err := wordsIn(language)
	if err != nil {
		return nil, design.Layout{}, err
	}
	all, err := index()
	if err != nil {
		return nil, design.Layout{}, err
	}
	name := b.file(f)
	data, err := embedded.ReadFile("pdf/" + name)
	if err != nil {
		return nil, design.Layout{}, fmt.Errorf("reading a built-in design: %w", err)
	}
	colours, mirrored := b.colours(hueOf(accent)), l.Direction == "rtl"
	for _, p := range all[name] {
		switch {
		case len(p.Slots) > 0:
			copy(data[p.At:], colours.bytes(p.Slots))
		case mirrored:
			copy(data[p.At:], matrix(-1, p.Mirror))
		}
	}
	out := design.Layout{
		Fields:   b.fields(f.Width, f.Height, colours, t),
		Language: tagOf(l),
		Title:    t[b.heading],
		Alt:      t["alt_"+b.Name],
	}
	for i := range out.Fields {
		one := &out.Fields[i]
		one.Label = t.label(one.ID)
		if !hasCase(l.Tag) && one.Case == "upper" && one.ID != "institution" && one.Size < display {
			one.Size, one.MinSize = round(one.Size*caseless), round(one.MinSize*caseless)
		}
		if mirrored {
			mirror(one, f.Width)
		}
	}
	return data, out, nil
}

func (b *Builtin) format(paper string) (Format, error) {
	for _, f := range b.Formats {
		if f.Paper == paper {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("%w: %q", ErrPaper, paper)
}

func (b *Builtin) file(f Format) string { return b.Name + "-" + f.Paper + ".pdf" }

//go:embed pdf
var embedded embed.FS

// indexFile contains the positions of the colours, and of the matrices that mirror a design, in the PDF
// files.
const indexFile = "colours.json"

// index returns the content of indexFile. Its keys are the names of the PDF files.
var index = sync.OnceValues(func() (map[string][]place, error) {
	data, err := embedded.ReadFile("pdf/" + indexFile)
	if err != nil {
		return nil, fmt.Errorf("reading the colours of the built-in designs: %w", err)
	}
	var all map[string][]place
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading the colours of the built-in designs: %w", err)
	}
	return all, nil
})

// Generate draws all designs and returns the files of the folder pdf by name.
func Generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	all := map[string][]place{}
	for _, b := range All() {
		for _, f := range b.Formats {
			c := newCanvas(f.Width, f.Height)
			b.draw(c)
			out, err := c.file(b.colours(hueOf(b.Accent)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", b.file(f), err)
			}
			files[b.file(f)] = out.pdf
			all[b.file(f)] = out.places
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	files[indexFile] = append(text, '\n')
	return files, nil
}
