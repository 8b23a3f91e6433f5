package panel

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
)

// placing is the data of the form for the placement of a stamp: a page of a file and the possible
// placements.
type placing struct {
	Preview *seal.Preview
	// Form is the submitted choice.
	Form url.Values
	// DefaultLabel is the label of the default choice. The form shows this label before the label
	// of the placement to which the default resolves. Picture is the address of the page's picture.
	DefaultLabel, Picture string
	// Width and Height are the size of the page in the units of the drawing. The longer side has
	// 1000 units.
	Width, Height float64

	auto *seal.Candidate
}

// place is a choice of the form.
type place struct {
	Mode, Label    string
	Box            *drawnBox
	Chosen, Covers bool
	Missing        bool
}

// drawnBox is a box in the units of the drawing.
type drawnBox struct{ X, Y, Width, Height float64 }

const sheetSide = 1000

// defaultPlace is the label of the default, which follows the institution's settings.
const defaultPlace = "As your settings say"

// placing returns the possible placements of the stamp on a staged file. The default is
// defaultWanted, or the institution's default if defaultWanted is nil.
func (p *Panel) placing(ctx context.Context, v *Visit, f *batch.StagedFile, defaultWanted *cert.RequestedPlacement, form url.Values) (*placing, error) {
	preview, err := p.Certs.Preview(ctx, v.Institution().ID, &f.File, defaultWanted)
	if err != nil {
		return nil, err
	}
	l := &placing{Preview: preview, Form: form, DefaultLabel: defaultPlace}
	scale := sheetSide / max(preview.Width, preview.Height)
	l.Width, l.Height = preview.Width*scale, preview.Height*scale
	return l, nil
}

// withAuto adds the automatic placement as a separate choice.
func (p *Panel) withAuto(ctx context.Context, v *Visit, f *batch.StagedFile, l *placing) error {
	auto, err := p.Certs.Preview(ctx, v.Institution().ID, &f.File, &cert.RequestedPlacement{Mode: seal.Auto, Page: 1})
	if err != nil {
		return err
	}
	l.auto = &auto.Chosen
	return nil
}

func (l *placing) drawn(b *seal.Box) *drawnBox {
	if b == nil {
		return nil
	}
	return &drawnBox{b[0] * l.Width, b[1] * l.Height, (b[2] - b[0]) * l.Width, (b[3] - b[1]) * l.Height}
}

// resolvedLabel returns the label of the placement to which the default resolves, with a lower-case
// first letter.
func (l *placing) resolvedLabel() string {
	name := modes[l.Preview.Chosen.Mode]
	if l.Preview.Chosen.Remembered {
		name = "Where it was on your last upload of this size"
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// Places returns the choices. The first is the default.
func (l *placing) Places() []place {
	chosen := l.Form.Get("placement")
	defaultChoice := place{Mode: "", Label: l.DefaultLabel + ": " + l.resolvedLabel(), Box: l.drawn(l.Preview.Chosen.Box), Chosen: chosen == ""}
	list := []place{defaultChoice}
	if l.auto != nil && !l.Preview.Signed {
		list = append(list, place{Mode: string(seal.Auto), Label: modes[seal.Auto], Box: l.drawn(l.auto.Box), Chosen: chosen == string(seal.Auto)})
	}
	for _, c := range l.Preview.Candidates {
		list = append(list, place{Mode: string(c.Mode), Label: modes[c.Mode], Box: l.drawn(c.Box), Chosen: chosen == string(c.Mode), Covers: c.Covers, Missing: c.NoRoom})
	}
	if !l.Preview.Signed {
		exact := place{Mode: string(seal.Exact), Label: modes[seal.Exact], Chosen: chosen == string(seal.Exact)}
		if w, err := wantedOf(l.Form); err == nil && w != nil {
			exact.Box = l.drawn(w.Box)
		}
		list = append(list, exact)
	}
	return list
}

// Spot returns the box of the chosen placement, or nil if the chosen placement has no box on this
// page.
func (l *placing) Spot() *drawnBox {
	for _, choice := range l.Places() {
		if choice.Chosen {
			return choice.Box
		}
	}
	return nil
}

// edges are the names of the fields of an exact box.
var edges = []string{"x", "y", "width", "height"}

// wantedOf parses the chosen placement. It returns nil for the default, and an error if the four
// numbers of an exact box are not valid.
func wantedOf(form url.Values) (*cert.RequestedPlacement, error) {
	mode := seal.Mode(form.Get("placement"))
	if mode == "" {
		return nil, nil //nolint:nilnil // nil is the default placement
	}
	w := &cert.RequestedPlacement{Mode: mode, Page: 1}
	if mode != seal.Exact {
		return w, nil
	}
	var at [4]float64
	for i, name := range edges {
		n, err := strconv.ParseFloat(form.Get(name), 64)
		if err != nil || n < 0 || n > 100 {
			return nil, fault.OfField("placement", "Say where the QR code goes by four numbers from 0 to 100: left, top, width and height, in percent of the page.")
		}
		at[i] = n
	}
	w.Box = &seal.Box{share(at[0]), share(at[1]), share(at[0] + at[2]), share(at[1] + at[3])}
	return w, nil
}

// share converts percent to a fraction of at most 1, rounded to a hundredth of a percent.
func share(percent float64) float64 { return min(1, math.Round(100*percent)/10_000) }

// formOf returns the fields of the form for a placement. It rounds the numbers of a box to a tenth
// of a percent.
func formOf(w *cert.RequestedPlacement) url.Values {
	form := url.Values{}
	if w == nil {
		return form
	}
	form.Set("placement", string(w.Mode))
	if w.Box != nil {
		for i, n := range []float64{w.Box[0], w.Box[1], w.Box[2] - w.Box[0], w.Box[3] - w.Box[1]} {
			form.Set(edges[i], strconv.FormatFloat(100*n, 'f', 1, 64))
		}
	}
	return form
}

// picture sends an image of the first page of a staged file.
func (p *Panel) picture(w http.ResponseWriter, r *http.Request, f *batch.StagedFile) error {
	picture, err := p.Certs.Picture(r.Context(), &f.File, 1)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", filePolicy)
	return web.ServeContent(w, r, bytes.NewReader(picture), f.UUID+"-preview")
}
