package page

import (
	"html/template"
	"strconv"
)

// BadgeWidth and BadgeHeight are the size of the badge of a certificate in pixels.
const (
	BadgeWidth  = 260
	BadgeHeight = 64
)

// Badge is the data of the template part "embed", which offers the badge of a certificate for other
// websites.
type Badge struct {
	ReferenceID string
	// Address is the address of the certificate's public page.
	Address string
}

// Preview returns the path of the badge in the language of the page.
func (b *Badge) Preview(g *Page) string {
	return "/verify/" + b.ReferenceID + "/badge.svg?lang=" + g.Language.Tag
}

// Card returns the path of the certificate's card, which is the picture for previews of links.
func (b *Badge) Card() string { return "/verify/" + b.ReferenceID + "/card.png" }

// Alternative returns the alternative text of the badge.
func (b *Badge) Alternative(g *Page) (string, error) {
	return g.Message("badge.alternative", "reference", b.ReferenceID)
}

// Code returns the HTML that a person copies to another website.
func (b *Badge) Code(g *Page) (string, error) {
	text, err := b.Alternative(g)
	if err != nil {
		return "", err
	}
	address := template.HTMLEscapeString(b.Address)
	return `<a href="` + address + `"><img src="` + address + "/badge.svg?lang=" + g.Language.Tag + `" alt="` + template.HTMLEscapeString(text) +
		`" width="` + strconv.Itoa(BadgeWidth) + `" height="` + strconv.Itoa(BadgeHeight) + `"></a>`, nil
}
