package panel

import (
	"net/http"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/colour"
)

// colourView is a preview of a colour: a band and a button on a light and on a dark page.
type colourView struct {
	*colour.Brand

	// Paper and NightPaper are the background colours.
	Paper, NightPaper colour.Colour
	// ByDay and ByNight are the contrasts of the band with its background. TextByDay and
	// TextByNight are the contrasts of the button's text with the button.
	ByDay, ByNight, TextByDay, TextByNight string
}

// colourSample is the data of one picture in the preview of a colour.
type colourSample struct {
	Name, Description    string
	Paper, Ink, Fill, On colour.Colour
}

// DaySample returns the picture on a white background.
func (v *colourView) DaySample() colourSample {
	return colourSample{"By day", "A band and a button on a white page", v.Paper, colour.Black, v.Day, v.TextOnDay}
}

// NightSample returns the picture on a dark background.
func (v *colourView) NightSample() colourSample {
	return colourSample{"By night", "A band and a button on a dark page", v.NightPaper, colour.White, v.Night, v.TextOnNight}
}

// Lightened reports whether the dark theme uses a lighter shade of the colour.
func (v *colourView) Lightened() bool { return v.Day != v.Night }

// viewColour returns the preview of a colour, or nil if text is not a colour.
func viewColour(text string) *colourView {
	b := account.BrandOf(text)
	if b == nil {
		return nil
	}
	ratio := func(x, y colour.Colour) string { return colour.Ratio(colour.Contrast(x, y)) }
	return &colourView{
		Brand: b, Paper: colour.White, NightPaper: colour.DarkBackground,
		ByDay: ratio(b.Day, colour.White), ByNight: ratio(b.Night, colour.DarkBackground),
		TextByDay: ratio(b.TextOnDay, b.Day), TextByNight: ratio(b.TextOnNight, b.Night),
	}
}

// vaultColour is the vault's own colour, which applies if an institution has none.
const vaultColour = "#0b5d4b"

// PickerColour returns the initial value of the colour picker: the submitted or saved colour if it
// is valid, or else the vault's own colour.
func (s *institutionSettings) PickerColour() string {
	if c, err := colour.Parse(s.Colour); err == nil {
		return c.String()
	}
	return vaultColour
}

// setColour saves the colour in the form. If the form requests a preview, setColour shows the
// preview and does not save the colour.
func (p *Panel) setColour(w http.ResponseWriter, r *http.Request, v *Visit) error {
	text := r.PostForm.Get("colour")
	preview := r.PostForm.Get("look") != ""
	var err error
	if preview {
		_, err = account.CheckColour(text)
	} else if err = p.Accounts.SetColour(r.Context(), v.Institution().ID, text); err == nil {
		return p.redirect(w, r, v, "settings", "colour_kept")
	}
	s, e := p.institutionPage(r, v)
	if e != nil {
		return e
	}
	s.Colour, s.Preview = text, nil
	if err != nil {
		return p.showAgain(w, r, "settings.html", s, err)
	}
	s.Preview = viewColour(text)
	s.Unsaved = true
	return p.draw(w, r, "settings.html", s)
}
