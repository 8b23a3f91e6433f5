package panel

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
)

// colourView is a preview of a colour: a band and a button on a light and on a dark page.
type colourView struct {
	*colour.Brand

	// ByDay and ByNight are the contrast ratios of the band and its background. TextByDay and
	// TextByNight are the contrast ratios of the button's text and the button.
	ByDay, ByNight, TextByDay, TextByNight string
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
		Brand: b,
		ByDay: ratio(b.Day, colour.White), ByNight: ratio(b.Night, colour.DarkBackground),
		TextByDay: ratio(b.TextOnDay, b.Day), TextByNight: ratio(b.TextOnNight, b.Night),
	}
}

// vaultColour is the vault's own colour. Pages use it if the institution has no colour.
const vaultColour = "#0b5d4b"

// PickerColour returns the initial value of the colour picker: the submitted or saved colour if it
// is valid, or else the vault's own colour.
func (s *institutionSettings) PickerColour() string {
	if c, err := colour.Parse(s.Colour); err == nil {
		return c.String()
	}
	return vaultColour
}

// publicSample is the data of one picture in the preview of the public page.
type publicSample struct {
	// Theme is "day" or "night".
	Theme, Institution string
	// Logo is the path of the logo, or "".
	Logo     string
	Fill, On colour.Colour
	// Branded reports whether the institution has a colour. Pages then show a band.
	Branded bool
}

// DaySample returns the picture of a light page.
func (s *institutionSettings) DaySample() publicSample {
	sample, v := s.sample("day")
	sample.Fill, sample.On = v.Day, v.TextOnDay
	return sample
}

// NightSample returns the picture of a dark page.
func (s *institutionSettings) NightSample() publicSample {
	sample, v := s.sample("night")
	sample.Fill, sample.On = v.Night, v.TextOnNight
	return sample
}

func (s *institutionSettings) sample(theme string) (publicSample, *colourView) {
	sample := publicSample{Theme: theme, Institution: s.Name, Branded: s.Preview != nil}
	if s.Profile.Logo != "" {
		sample.Logo = "/logos/" + s.Profile.Slug + "/" + s.Profile.Logo
	}
	if s.Preview != nil {
		return sample, s.Preview
	}
	return sample, viewColour(vaultColour)
}

// colourPreview contains the colours of public pages for a colour, and the problem of the colour, or "".
// If the text is not a colour, the colours are those of the vault.
type colourPreview struct {
	Problem   string `json:"problem"`
	Branded   bool   `json:"branded"`
	Lightened bool   `json:"lightened"`
	Day       string `json:"day"`
	Night     string `json:"night"`
	TextDay   string `json:"text_day"`
	TextNight string `json:"text_night"`
}

// previewColour responds with the colours of public pages for the colour in the query string. The
// script of the settings page requests them while the person chooses a colour.
func (p *Panel) previewColour(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	text := r.URL.Query().Get("colour")
	v := cmp.Or(viewColour(text), viewColour(vaultColour))
	answer := colourPreview{
		Branded: strings.TrimSpace(text) != "", Day: v.Day.String(), Night: v.Night.String(), TextDay: v.TextOnDay.String(), TextNight: v.TextOnNight.String(),
	}
	answer.Lightened = answer.Branded && v.Lightened()
	if _, err := account.CheckColour(text); err != nil {
		e, ok := errors.AsType[*fault.Error](err)
		if !ok {
			return err
		}
		answer.Problem = p.texts(r).domain(strings.Join(e.Fields[0].Messages, " "))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(answer)
}
