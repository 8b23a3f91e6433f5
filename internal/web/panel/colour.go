package panel

import (
	"net/http"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/colour"
)

// colourView is what the page shows of a colour: a band and a button, on light and dark.
type colourView struct {
	*colour.Brand

	// Paper and NightPaper are the background colours.
	Paper, NightPaper colour.Colour
	// ByDay and ByNight are the contrasts of the band with its background. TextByDay and
	// TextByNight are the contrasts of the text on the button.
	ByDay, ByNight, TextByDay, TextByNight string
}

// lookView is one picture of a colour.
type lookView struct {
	Name, Description    string
	Paper, Ink, Fill, On colour.Colour
}

// ByDayLook is the picture on white.
func (v *colourView) ByDayLook() lookView {
	return lookView{"By day", "A band and a button on a white page", v.Paper, colour.Black, v.Day, v.OnDay}
}

// ByNightLook is the picture on a dark background.
func (v *colourView) ByNightLook() lookView {
	return lookView{"By night", "A band and a button on a dark page", v.NightPaper, colour.White, v.Night, v.OnNight}
}

// Lightened reports whether the dark theme uses another shade.
func (v *colourView) Lightened() bool { return v.Day != v.Night }

// viewColour returns the view of a colour, nil for no colour.
func viewColour(text string) *colourView {
	b := account.BrandOf(text)
	if b == nil {
		return nil
	}
	ratio := func(x, y colour.Colour) string { return colour.Ratio(colour.Contrast(x, y)) }
	return &colourView{
		Brand: b, Paper: colour.White, NightPaper: colour.Night,
		ByDay: ratio(b.Day, colour.White), ByNight: ratio(b.Night, colour.Night),
		TextByDay: ratio(b.OnDay, b.Day), TextByNight: ratio(b.OnNight, b.Night),
	}
}

// ownColour is the vault's own colour, which applies if an institution has none.
const ownColour = "#0b5d4b"

// Picked is the initial value of the colour picker: the institution's colour, or the vault's own.
func (s *institutionSettings) Picked() string {
	if c, err := colour.Parse(s.Colour); err == nil {
		return c.String()
	}
	return ownColour
}

// setColour saves a colour, or shows a preview of it.
func (p *Panel) setColour(w http.ResponseWriter, r *http.Request, v *Visit) error {
	text := r.PostForm.Get("colour")
	look := r.PostForm.Get("look") != ""
	var err error
	if look {
		_, err = account.CheckColour(text)
	} else if err = p.Accounts.SetColour(r.Context(), v.Institution().ID, text); err == nil {
		return p.redirect(w, r, v, "settings", "colour_kept")
	}
	s, e := p.institutionPage(r, v)
	if e != nil {
		return e
	}
	s.Colour, s.Look = text, nil
	if err != nil {
		return p.showAgain(w, r, "settings.html", s, err)
	}
	s.Look = viewColour(text)
	s.Tried = true
	return p.draw(w, r, "settings.html", s)
}
