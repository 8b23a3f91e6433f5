package public

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web/page"
)

// The card is the preview picture of a link in social networks and messengers (Open Graph). It
// never states that a certificate is valid, because networks keep copies of the card after a
// revocation.
const (
	cardWidth, cardHeight = 1200, 630
	cardMargin            = 80
	cardText              = cardWidth - 2*cardMargin
)

var (
	cardInk     = color.NRGBA{0x16, 0x21, 0x1e, 0xff}
	cardMuted   = color.NRGBA{0x4d, 0x5b, 0x56, 0xff}
	cardAccent  = color.NRGBA{0x0b, 0x5d, 0x4b, 0xff}
	cardRevoked = color.NRGBA{0xa3, 0x15, 0x1d, 0xff}
	cardWaiting = color.NRGBA{0x8a, 0x55, 0x00, 0xff}
)

// cardFonts are the regular and the bold Go font, which cover Latin, Greek and Cyrillic letters.
var cardFonts = sync.OnceValues(func() (fonts [2]*opentype.Font, err error) {
	for i, file := range [][]byte{goregular.TTF, gobold.TTF} {
		if fonts[i], err = opentype.Parse(file); err != nil {
			return fonts, fmt.Errorf("reading the card's font: %w", err)
		}
	}
	return fonts, nil
})

// card writes the preview picture of a certificate.
func (p *Pages) card(w http.ResponseWriter, r *http.Request) error {
	v, err := p.find(r.Context(), r.PathValue("reference_id"))
	if err != nil {
		return err
	}
	if v.Status == processing {
		return errUnknown
	}
	select {
	case p.cards <- struct{}{}:
		defer func() { <-p.cards }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	content, err := drawCard(v, p.cardLanguage(r))
	if err != nil {
		return fmt.Errorf("drawing the card: %w", err)
	}
	h := w.Header()
	assetHeaders(w, "image/png")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // a failed write means that the client has disconnected
	return nil
}

// cardLanguage returns the language of the request, or English if the fonts do not cover this
// language.
func (p *Pages) cardLanguage(r *http.Request) *locale.Language {
	l := p.view.Reader(r).Language
	if name, err := l.Text("card.verify"); err == nil && drawable(name) {
		return l
	}
	return p.view.Languages()[0]
}

// drawable reports whether a text is not blank and the fonts have all its characters. The card omits other
// texts completely, because a partial name would be wrong.
func drawable(text string) bool {
	fonts, err := cardFonts()
	if err != nil {
		return false
	}
	var b sfnt.Buffer
	for _, c := range text {
		if i, err := fonts[0].GlyphIndex(&b, c); err != nil || i == 0 {
			return false
		}
	}
	return strings.TrimSpace(text) != ""
}

// drawCard returns the preview picture of a certificate as PNG.
func drawCard(v *verification, l *locale.Language) ([]byte, error) {
	d := &drawing{Image: image.NewNRGBA(image.Rect(0, 0, cardWidth, cardHeight))}
	accent := cardAccent
	action, err := l.Text("card.verify")
	switch v.Status {
	case replaced:
		accent = cardWaiting
		action, err = l.Text("replaced.title")
	case expired:
		accent = cardWaiting
		action, err = l.Text("expiry.heading", "date", (&page.Page{Language: l}).Day(v.ExpiresOn))
	case revoked:
		accent = cardRevoked
		action, err = l.Text("card.revoked", "date", (&page.Page{Language: l}).Day(v.RevokedAt))
	}
	if err != nil {
		return nil, err
	}
	draw.Draw(d, d.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(d, image.Rect(0, 0, cardWidth, 20), image.NewUniform(accent), image.Point{}, draw.Src)
	d.emblem(cardMargin, 76, 72)
	d.text(cardMargin+92, 126, cardText, 36, true, cardInk, "Certvault")
	y := 250
	if drawable(*v.CertificateTitle) {
		for _, line := range d.wrap(*v.CertificateTitle, 60, true, cardText, 2) {
			d.text(cardMargin, y, cardText, 60, true, cardInk, line)
			y += 74
		}
	}
	y += 4
	if v.FullName != nil && drawable(*v.FullName) {
		d.text(cardMargin, y, cardText, 44, false, cardInk, *v.FullName)
		y += 60
	}
	if drawable(v.Profile.Name) {
		d.text(cardMargin, y, cardText, 34, false, cardMuted, v.Profile.Name)
	}
	draw.Draw(d, image.Rect(cardMargin, 522, cardWidth-cardMargin, 524), image.NewUniform(color.NRGBA{0xd5, 0xde, 0xdb, 0xff}), image.Point{}, draw.Src)
	d.text(cardMargin, 576, cardText, 34, true, accent, action)
	width := d.width(v.ReferenceID, 28, false)
	d.text(cardWidth-cardMargin-width, 576, width+1, 28, false, cardMuted, v.ReferenceID)
	if d.err != nil {
		return nil, d.err
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, d); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// drawing is the picture that drawCard draws. Its methods store an error in err, so that drawCard need not
// check for an error after each call.
type drawing struct {
	draw.Image

	faces map[faceKey]font.Face
	err   error
}

type faceKey struct {
	size int
	bold bool
}

func (d *drawing) face(size int, bold bool) font.Face {
	key := faceKey{size, bold}
	if f, ok := d.faces[key]; ok {
		return f
	}
	fonts, err := cardFonts()
	var f font.Face
	if err == nil {
		f, err = opentype.NewFace(fonts[map[bool]int{true: 1}[bold]], &opentype.FaceOptions{Size: float64(size), DPI: 72, Hinting: font.HintingNone})
	}
	if err != nil {
		d.err = err
		return nil
	}
	if d.faces == nil {
		d.faces = map[faceKey]font.Face{}
	}
	d.faces[key] = f
	return f
}

func (d *drawing) width(text string, size int, bold bool) int {
	f := d.face(size, bold)
	if f == nil {
		return 0
	}
	return font.MeasureString(f, text).Ceil()
}

// text draws a line of text from x on the baseline y. It shortens a text that is wider than width.
func (d *drawing) text(x, y, width, size int, bold bool, c color.Color, text string) {
	f := d.face(size, bold)
	if f == nil {
		return
	}
	text = shorten(text, func(s string) bool { return d.width(s, size, bold) <= width })
	(&font.Drawer{Dst: d, Src: image.NewUniform(c), Face: f, Dot: fixed.P(x, y)}).DrawString(text)
}

// shorten returns a text that fits: the text itself, or its beginning with an ellipsis.
func shorten(text string, fits func(string) bool) string {
	if fits(text) {
		return text
	}
	runes := []rune(text)
	low, high := 0, len(runes)
	for low < high {
		mid := (low + high + 1) / 2
		if fits(string(runes[:mid]) + "…") {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return strings.TrimRight(string(runes[:low]), " ") + "…"
}

// wrap breaks a text between words into at most maxLines lines. The last line, or a line with one long
// word, may be wider than width.
func (d *drawing) wrap(text string, size int, bold bool, width, maxLines int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && len(lines) < maxLines-1 && d.width(longer, size, bold) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	return append(lines, line)
}

// emblem draws the shield of the vault's icon at x and y. The coordinates in the code are those of the
// icon, which is 48 units wide and high.
func (d *drawing) emblem(x, y, size int) {
	at := func(px, py float32) (float32, float32) { return px * float32(size) / 48, py * float32(size) / 48 }
	shape := func(c color.Color, path func(r *vector.Rasterizer)) {
		r := vector.NewRasterizer(size, size)
		path(r)
		r.Draw(d, image.Rect(x, y, x+size, y+size), image.NewUniform(c), image.Point{})
	}
	line := func(r *vector.Rasterizer, points ...float32) {
		for i := 0; i < len(points); i += 2 {
			px, py := at(points[i], points[i+1])
			if i == 0 {
				r.MoveTo(px, py)
			} else {
				r.LineTo(px, py)
			}
		}
	}
	shape(cardAccent, func(r *vector.Rasterizer) {
		line(r, 24, 3, 42, 9, 42, 23)
		x1, y1 := at(42, 34)
		x2, y2 := at(35, 41.5)
		x3, y3 := at(24, 45)
		r.CubeTo(x1, y1, x2, y2, x3, y3)
		x1, y1 = at(13.5, 41.5)
		x2, y2 = at(6, 34)
		x3, y3 = at(6, 23)
		r.CubeTo(x1, y1, x2, y2, x3, y3)
		r.LineTo(at(6, 9))
		r.ClosePath()
	})
	shape(color.White, func(r *vector.Rasterizer) {
		line(r, 13.4, 25.6, 16.6, 22.4, 21.5, 27.4, 32.4, 15.4, 35.6, 18.2, 21.6, 33.7)
		r.ClosePath()
	})
}
