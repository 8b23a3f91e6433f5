package public

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"unicode"

	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/web/page"
)

// The badge is a small picture for other websites. It shows the state that a certificate has when the
// picture is loaded, and the institution, but never the name of the recipient.

// badgeTime is the time for which browsers and proxies may keep a badge, in seconds.
const badgeTime = "300"

// badgeStyle describes how a badge shows a state.
type badgeStyle struct {
	// key is the key of the text in the catalog.
	key string
	// colour is the colour of the symbol and of the text. Its contrast to white is at least 4.5:1.
	colour string
	// symbol is the SVG path of the symbol in a square of 24 units.
	symbol string
}

// badgeStyles are the styles for the verdicts of the public page. Other verdicts have the style badgeOpen,
// so that a badge says valid only if the page does.
var badgeStyles = map[string]badgeStyle{
	valid:      {"badge.valid", "#0b5d4b", "M6.5 12.5l4 4L17.5 8"},
	revoked:    {"badge.revoked", "#a3151d", "M8 8l8 8M16 8l-8 8"},
	"expired":  {"badge.expired", "#7a4d00", "M12 7v5.5l3.5 2"},
	"replaced": {"badge.replaced", "#7a4d00", "M7 12h9M12.5 8l4 4-4 4"},
}

var badgeOpen = badgeStyle{"badge.open", "#4d5b56", "M12 7v6M12 16.5v.2"}

const (
	// badgeText is the maximum width of the texts of a badge. badgeStart is the distance from the edge to
	// the beginning of the texts, and badgeEnd is the distance from their end to the opposite edge.
	badgeText  = 188.0
	badgeStart = 60.0
	badgeEnd   = page.BadgeWidth - badgeStart - badgeText
	badgeMuted = "#3f4b47"
)

// badge writes the badge of a certificate.
func (p *Pages) badge(w http.ResponseWriter, r *http.Request) error {
	v, err := p.find(r.Context(), r.PathValue("reference_id"))
	if err != nil {
		return err
	}
	if v.Status == processing {
		return errUnknown
	}
	reader := p.view.Reader(r)
	content, err := drawBadge(p.Fonts, v, reader.Language)
	if err != nil {
		return fmt.Errorf("drawing the badge: %w", err)
	}
	h := w.Header()
	assetHeaders(w, "image/svg+xml")
	h.Set("Cache-Control", "public, max-age="+badgeTime)
	// Websites with the header Cross-Origin-Embedder-Policy may then show the badge too.
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if !reader.Chosen {
		h.Add("Vary", "Accept-Language")
	}
	_, _ = w.Write([]byte(content)) // a failed write means that the client has disconnected
	return nil
}

// drawBadge returns the badge of a certificate as SVG. If fonts is nil, the texts are in a font of the
// reader's device.
func drawBadge(fonts *typeset.Fonts, v *verification, l *locale.Language) (string, error) {
	style, ok := badgeStyles[v.Verdict]
	if !ok {
		style = badgeOpen
	}
	state, err := l.Text(style.key)
	if err != nil {
		return "", err
	}
	label, err := l.Text("badge.label", "state", state, "institution", v.Profile.Name)
	if err != nil {
		return "", err
	}
	d := badgeDrawing{fonts: fonts, language: l}
	symbol := 30.0
	if l.Direction == "rtl" {
		symbol = page.BadgeWidth - symbol
	}
	escaped := template.HTMLEscapeString(label)
	fmt.Fprintf(&d.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%s" lang="%s"><title>%[3]s</title>`,
		page.BadgeWidth, page.BadgeHeight, escaped, l.Tag)
	fmt.Fprintf(&d.out, `<rect x=".75" y=".75" width="%.1f" height="%.1f" rx="10" fill="#fff" stroke="%s" stroke-width="1.5"/>`,
		page.BadgeWidth-1.5, page.BadgeHeight-1.5, style.colour)
	fmt.Fprintf(&d.out, `<g transform="translate(%g 32) scale(1.55) translate(-12 -12)"><circle cx="12" cy="12" r="11" fill="%s"/>`+
		`<path d="%s" fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"/></g>`, symbol, style.colour, style.symbol)
	d.line(state, 28, 15, 10, 600, style.colour)
	d.line(v.Profile.Name, 48, 12.5, 9, 400, badgeMuted)
	d.out.WriteString(`</svg>`)
	return d.out.String(), nil
}

// badgeDrawing writes the texts of a badge.
type badgeDrawing struct {
	out      strings.Builder
	fonts    *typeset.Fonts
	language *locale.Language
}

// line writes a text on one line with the baseline y. If the text is too wide, line reduces the font size,
// but not below least, and then shortens the text. It writes the text as a path, so that the text looks
// the same on every device. If the fonts of the vault lack a character, line writes an SVG text element
// in a font of the reader's device, with a computed width.
func (d *badgeDrawing) line(text string, y, size, least float64, weight int, colour string) {
	style := typeset.Style{
		Font: typeset.Font{Family: typeset.Inter, Weight: weight}, Size: size, MinSize: least, Language: d.language.Tag,
	}
	x := badgeStart
	if d.language.Direction == "rtl" {
		style.Align, style.Direction = typeset.Right, typeset.RightToLeft
		x = badgeEnd
	}
	if block := d.layout(text, style); block != nil {
		fmt.Fprintf(&d.out, `<path fill="%s" d="%s"/>`, colour, block.SVGPath(x, y))
		return
	}
	text = shorten(text, func(s string) bool { return ems(s)*least <= badgeText })
	size = min(size, badgeText/ems(text))
	direction := "ltr"
	if d.language.Direction == "rtl" {
		x, direction = page.BadgeWidth-badgeStart, "rtl"
	}
	fmt.Fprintf(&d.out, `<text x="%g" y="%g" font-family="system-ui, sans-serif" font-size="%.2f" font-weight="%d" fill="%s" `+
		`direction="%s" textLength="%.2f" lengthAdjust="spacingAndGlyphs">%s</text>`,
		x, y, size, weight, colour, direction, ems(text)*size, template.HTMLEscapeString(text))
}

// layout sets a text in the width badgeText. It shortens the text if necessary. It returns nil if d has
// no fonts, or if the fonts lack a character of the text.
func (d *badgeDrawing) layout(text string, style typeset.Style) *typeset.Block {
	if d.fonts == nil {
		return nil
	}
	block, err := d.fonts.Layout(text, style, badgeText)
	if errors.Is(err, typeset.ErrNoRoom) {
		shorten(text, func(s string) bool {
			shorter, err := d.fonts.Layout(s, style, badgeText)
			if err == nil {
				block = shorter
			}
			return err == nil
		})
	}
	return block
}

// ems returns the approximate width of a text in ems. The wide characters of East Asian scripts count as
// 1 em, combining marks and format characters as 0, and other characters as 0.58.
func ems(text string) float64 {
	width := 0.0
	for _, c := range text {
		switch {
		case unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), c >= 0x3000 && c <= 0x303f, c >= 0xff00 && c <= 0xff60:
			width++
		case unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf):
		default:
			width += 0.58
		}
	}
	return max(width, 0.01)
}
