package pdfium

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"

	"github.com/tetratelabs/wazero/api"
)

// PageText is the text of a page in the order of PDFium, which is usually the
// order in which the producer wrote it.
type PageText struct {
	Lines []Line
	// Complete reports whether Lines has all characters of the page. It is false
	// if a font does not map its glyphs to characters, or if PDFium cannot read
	// the text.
	Complete bool
}

// Line is a line of text.
type Line struct {
	Text string
	// Size is the font size of its first character in units of default user
	// space, or 0 if it is unknown or was not requested.
	Size float64
}

// Text returns the text of a page, at most limit characters. sizes selects
// whether lines have font sizes. The errors are those of Render.
func (d *Document) Text(ctx context.Context, page, limit int, sizes bool) (*PageText, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var t *PageText
	err := d.run(ctx, func(ctx context.Context) (err error) {
		if page < 0 || page >= d.pages {
			return fmt.Errorf("%w: the document has %d pages", ErrLoad, d.pages)
		}
		if err := d.openPage(ctx, page); err != nil {
			return err
		}
		t, err = d.text(ctx, limit, sizes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the text of page %d: %w", page, err)
	}
	return t, nil
}

// text reads the text of the open page.
func (d *Document) text(ctx context.Context, limit int, sizes bool) (t *PageText, err error) {
	i := d.instance
	p := textPage{instance: i}
	if p.handle, err = i.call(ctx, "FPDFText_LoadPage", d.page); err != nil {
		return nil, err
	}
	if p.handle == 0 {
		return &PageText{}, nil
	}
	defer func() {
		if errors.Is(err, errTrap) {
			return
		}
		if _, closeErr := i.call(ctx, "FPDFText_ClosePage", p.handle); err == nil && closeErr != nil {
			t, err = nil, closeErr
		}
	}()
	count, err := i.call(ctx, "FPDFText_CountChars", p.handle)
	if err != nil {
		return nil, err
	}
	total := int(int32(uint32(count))) // negative after an error
	n := min(total, limit)
	if n <= 0 {
		return &PageText{Complete: total == 0}, nil
	}
	units, err := p.read(ctx, n)
	if err != nil {
		return nil, err
	}
	t = &PageText{Complete: n == total}
	for start := 0; start < len(units); {
		end := start
		for end < len(units) && units[end] != '\r' && units[end] != '\n' {
			end++
		}
		if line := (Line{Text: strings.TrimSpace(string(utf16.Decode(units[start:end])))}); line.Text != "" {
			t.Complete = t.Complete && meaningful(line.Text)
			if sizes {
				if line.Size, err = p.size(ctx, start); err != nil {
					return nil, err
				}
			}
			t.Lines = append(t.Lines, line)
		}
		start = end + 1
	}
	return t, nil
}

// meaningful reports whether all characters of a text are known. For a glyph
// whose character is unknown, PDFium returns a control character, a private use
// character or U+FFFD. The control character 2 is a hyphen at the end of a line.
func meaningful(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		const hyphen = 2
		return c < ' ' && c != '\t' && c != hyphen || c >= 0xE000 && c <= 0xF8FF || c == 0xFFFD || c >= 0xF0000
	})
}

// textPage is a page that PDFium has prepared for reading its text.
type textPage struct {
	instance *instance
	handle   uint64 // FPDF_TEXTPAGE
}

// read returns the first n characters in UTF-16.
func (p *textPage) read(ctx context.Context, n int) ([]uint16, error) {
	i := p.instance
	// A character has up to two units of two bytes, and a unit 0 ends the text.
	buf, err := i.call(ctx, "malloc", uint64(4*(n+1)))
	if err != nil {
		return nil, err
	}
	if buf == 0 {
		return nil, ErrMemory
	}
	written, err := i.call(ctx, "FPDFText_GetText", p.handle, 0, uint64(n), buf)
	if err != nil {
		return nil, err
	}
	length := max(0, int(int32(uint32(written)))-1)
	raw, ok := i.module.Memory().Read(uint32(buf), uint32(2*min(length, 2*n)))
	if !ok {
		return nil, fmt.Errorf("%w: invalid address %#x", errTrap, buf)
	}
	units := make([]uint16, len(raw)/2)
	for k := range units {
		units[k] = uint16(raw[2*k]) | uint16(raw[2*k+1])<<8
	}
	_, err = i.call(ctx, "free", buf)
	return units, err
}

// size returns the font size of the character at a position in the text, as the
// page shows it, or 0 if it is unknown.
func (p *textPage) size(ctx context.Context, position int) (float64, error) {
	i := p.instance
	char, err := i.call(ctx, "FPDFText_GetCharIndexFromTextIndex", p.handle, uint64(position))
	if err != nil || int32(uint32(char)) < 0 {
		return 0, err
	}
	size, err := i.call(ctx, "FPDFText_GetFontSize", p.handle, char)
	if err != nil {
		return 0, err
	}
	out, err := i.copyIn(ctx, make([]byte, 4*6)) // FS_MATRIX
	if err != nil {
		return 0, err
	}
	ok, err := i.call(ctx, "FPDFText_GetMatrix", p.handle, char, out)
	if err != nil {
		return 0, err
	}
	matrix, err := i.floats(out, 6)
	if err != nil {
		return 0, err
	}
	if _, err := i.call(ctx, "free", out); err != nil {
		return 0, err
	}
	if ok == 0 {
		return 0, nil
	}
	if v := api.DecodeF64(size) * math.Hypot(matrix[2], matrix[3]); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, nil
	}
	return 0, nil
}
