package panel

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
)

// placing is the data of the form for the placement of a stamp. The template "placing" shows the form with a
// picture of the stamped page. With the script placement.js, a person sees each choice at once, and can move
// and resize the stamp on the page.
type placing struct {
	Preview *seal.Preview
	// Form is the saved or submitted placement.
	Form url.Values
	// Base is the path of the folder of the pictures stamped.png, page.png and ink.png. The query of
	// stamped.png has the chosen placement.
	Base string
	// Default is the key of the text about the default choice, or "" if the form has no default.
	Default string
	// ForRow reports whether the form is for a row of a bulk upload. The default is then the placement
	// of all rows, if they have one.
	ForRow bool
	// Sample has the texts of an extra page. Texts that the person enters in the form replace them.
	Sample cert.Text
	// Save is the key of the label of the button that saves only the placement, or "" if the form has
	// no such button.
	Save string
	// CanShow reports whether the form has a button that shows the chosen placement without a
	// script.
	CanShow bool
}

// defaultPlace is the key of the text about a default from the institution's settings. rowDefaultPlace is
// the key of the text about a default that is the placement of all rows of a bulk upload.
const (
	defaultPlace    = "placement.default_is"
	rowDefaultPlace = "placement.default_rows"
)

// cornerChoice is the value of the choice of a corner. The field "corner" contains the corner.
const cornerChoice = "corner"

// segment is a choice of the form. Key is the key of its label.
type segment struct {
	Value, Key string
	Chosen     bool
}

// ID returns the id of the control.
func (s segment) ID() string { return "place-" + s.Value }

// corner is a corner of the page. Key is the key of its label. NoRoom reports whether the corner has no
// blank place for the stamp.
type corner struct {
	Mode           seal.Mode
	Key            string
	Chosen, NoRoom bool
}

// placing returns the form for the placement of the stamp on a staged file, or on a blank page if f is nil.
// The default is defaultWanted, or the institution's default if defaultWanted is nil.
func (p *Panel) placing(ctx context.Context, v *Visit, f *batch.StagedFile, defaultWanted *cert.RequestedPlacement, form url.Values) (*placing, error) {
	var file *cert.File
	if f != nil {
		file = &f.File
	}
	preview, err := p.Certs.Preview(ctx, v.Institution().ID, file, defaultWanted)
	if err != nil {
		return nil, err
	}
	return &placing{Preview: preview, Form: form, Default: defaultPlace}, nil
}

// modeKey returns the key of the text for a mode. The prefix selects the kind of text, such as "at_".
func modeKey(prefix string, m seal.Mode) string {
	return "placement." + prefix + strings.ReplaceAll(string(m), "-", "_")
}

// DefaultKey returns the key of the text for the placement to which the default resolves.
func (l *placing) DefaultKey() string {
	if l.Preview.Chosen.Remembered {
		return "placement.at_remembered"
	}
	return modeKey("at_", l.Preview.Chosen.Mode)
}

// DefaultMode returns the mode to which the default resolves. It returns seal.Auto for seal.Cover, because
// only seal.Auto can result in a cover.
func (l *placing) DefaultMode() seal.Mode {
	if l.Preview.Chosen.Mode == seal.Cover {
		return seal.Auto
	}
	return cmp.Or(l.Preview.Chosen.Mode, seal.Auto)
}

// isCorner reports whether a mode is one of the four corners.
func isCorner(m seal.Mode) bool {
	return slices.Contains([]seal.Mode{seal.TopLeft, seal.TopRight, seal.BottomLeft, seal.BottomRight}, m)
}

// chosen returns the value of the chosen segment.
func (l *placing) chosen() string {
	mode := l.Form.Get("placement")
	if isCorner(seal.Mode(mode)) {
		return cornerChoice
	}
	if mode == "" && l.Default == "" {
		return string(seal.Auto)
	}
	return mode
}

// offers reports whether the file allows a mode.
func (l *placing) offers(m seal.Mode) bool {
	return slices.ContainsFunc(l.Preview.Candidates, func(c seal.Candidate) bool { return c.Mode == m })
}

// Segments returns the choices. If the form has a default, the default is first. It is labelled as the
// automatic placement if it is the institution's default and resolves to the automatic placement.
func (l *placing) Segments() []segment {
	var list []segment
	add := func(value, key string) { list = append(list, segment{value, "placement." + key, l.chosen() == value}) }
	if l.Default != "" {
		key := "default"
		if l.Default == defaultPlace && l.DefaultMode() == seal.Auto {
			key = "auto"
		}
		add("", key)
	}
	onPage := slices.ContainsFunc(l.Preview.Candidates, func(c seal.Candidate) bool { return isCorner(c.Mode) })
	if onPage && (len(list) == 0 || list[0].Key != "placement.auto") {
		add(string(seal.Auto), "auto")
	}
	if onPage {
		add(cornerChoice, cornerChoice)
	}
	if l.offers(seal.Strip) {
		add(string(seal.Strip), "strip")
	}
	if l.offers(seal.Appended) {
		add(string(seal.Appended), "appended")
	}
	if onPage && !l.Preview.Signed {
		add(string(seal.Exact), "exact")
	}
	return list
}

// Corners returns the corners that the file allows. If no corner is chosen, the bottom right one is
// selected.
func (l *placing) Corners() []corner {
	var list []corner
	chosen := cmp.Or(l.Form.Get("corner"), string(seal.BottomRight))
	if mode := l.Form.Get("placement"); isCorner(seal.Mode(mode)) {
		chosen = mode
	}
	for _, mode := range []seal.Mode{seal.TopLeft, seal.TopRight, seal.BottomLeft, seal.BottomRight} {
		for _, c := range l.Preview.Candidates {
			if c.Mode == mode {
				list = append(list, corner{mode, modeKey("corner_", mode), chosen == string(mode), c.NoRoom})
			}
		}
	}
	return list
}

// Number returns the text of a field of an exact box: the number in Form, or else the number for the box of
// the default placement. If that placement has no box, Number uses a box at the bottom right.
func (l *placing) Number(name string) string {
	if text := l.Form.Get(name); text != "" {
		if n, err := percent(text); err == nil {
			return strconv.FormatFloat(n, 'f', 1, 64)
		}
	}
	box := l.Preview.Chosen.Box
	if box == nil {
		box = &seal.Box{0.7, 0.8, 0.92, 0.9}
	}
	return formOf(&cert.RequestedPlacement{Mode: seal.Exact, Page: 1, Box: box}).Get(name)
}

// Page returns the chosen page.
func (l *placing) Page() int {
	if n, err := strconv.Atoi(l.Form.Get("placement_page")); err == nil && n > 0 {
		return n
	}
	return l.Preview.Page
}

// MaxPage returns the last page that can be chosen.
func (l *placing) MaxPage() int {
	if l.Default == "" {
		return maxSettingsPage
	}
	return l.Preview.Pages
}

// maxSettingsPage is the last page that can be chosen in the settings. cert.Policy has the same limit.
const maxSettingsPage = 10_000

// ManyPages reports whether the page can be chosen.
func (l *placing) ManyPages() bool { return l.MaxPage() > 1 }

// placementFields are the fields of the form, which are also the query of a stamped page.
var placementFields = append([]string{"placement", "corner", "placement_page", "default_page", "default_mode"}, edges...)

// Stamped returns the address of the picture of the stamped page with the chosen placement.
func (l *placing) Stamped() string {
	q := url.Values{}
	if _, err := wantedOf(l.Form); err == nil {
		for _, name := range placementFields {
			if value := l.Form.Get(name); value != "" {
				q.Set(name, value)
			}
		}
	}
	if l.ForRow {
		q.Set("row", "1")
	}
	return l.Base + "/stamped.png?" + q.Encode()
}

// edges are the names of the fields of an exact box.
var edges = []string{"x", "y", "width", "height"}

// wantedOf parses the chosen placement. It returns nil for the default, and an error if the page or the
// four numbers of an exact box are not valid. If the default is chosen for a page other than default_page,
// wantedOf returns the mode in default_mode for the chosen page.
func wantedOf(form url.Values) (*cert.RequestedPlacement, error) {
	mode := seal.Mode(form.Get("placement"))
	page := 1
	if text := strings.TrimSpace(form.Get("placement_page")); text != "" {
		var err error
		if page, err = strconv.Atoi(text); err != nil || page < 1 {
			return nil, fault.OfField("placement_page", "placement.bad_page")
		}
	}
	switch mode {
	case cornerChoice:
		mode = seal.Mode(cmp.Or(form.Get("corner"), string(seal.BottomRight)))
	case "":
		if other := form.Get("default_page"); other == "" || other == strconv.Itoa(page) {
			return nil, nil //nolint:nilnil // nil is the default placement
		}
		mode = seal.Mode(cmp.Or(form.Get("default_mode"), string(seal.Auto)))
	default:
	}
	w := &cert.RequestedPlacement{Mode: mode, Page: page}
	if mode != seal.Exact {
		return w, nil
	}
	var at [4]float64
	for i, name := range edges {
		n, err := percent(form.Get(name))
		if err != nil || n < 0 || n > 100 || i > 1 && n == 0 {
			return nil, fault.OfField("placement_box", "placement.bad_box")
		}
		at[i] = n
	}
	w.Box = &seal.Box{share(at[0]), share(at[1]), share(at[0] + at[2]), share(at[1] + at[3])}
	if w.Box[0] >= w.Box[2] || w.Box[1] >= w.Box[3] {
		return nil, fault.OfField("placement_box", "placement.bad_box")
	}
	return w, nil
}

// percent parses a percentage. The text may have a decimal point or comma, and a percent sign.
func percent(text string) (float64, error) {
	text = strings.TrimSuffix(strings.TrimSpace(strings.ReplaceAll(text, ",", ".")), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err == nil && math.IsNaN(n) {
		err = strconv.ErrRange
	}
	return n, err
}

// share converts a percentage to a fraction of at most 1, rounded to a hundredth of a percent.
func share(percent float64) float64 { return min(1, math.Round(100*percent)/10_000) }

// formOf returns the fields of the form for a placement. It rounds the numbers of a box to a tenth
// of a percent.
func formOf(w *cert.RequestedPlacement) url.Values {
	form := url.Values{}
	if w == nil {
		return form
	}
	form.Set("placement", string(w.Mode))
	form.Set("placement_page", strconv.Itoa(w.Page))
	if w.Box != nil {
		for i, n := range []float64{w.Box[0], w.Box[1], w.Box[2] - w.Box[0], w.Box[3] - w.Box[1]} {
			form.Set(edges[i], strconv.FormatFloat(100*n, 'f', 1, 64))
		}
	}
	return form
}

// queryOf returns the query of a GET request for a picture, or the form of a POST request by a script.
func queryOf(r *http.Request) url.Values {
	if r.Method == http.MethodPost {
		return r.PostForm
	}
	return r.URL.Query()
}

// pageOf returns the page in the query of a picture.
func pageOf(r *http.Request) int { return queryNumber(r, "placement_page") }

// queryNumber returns a parameter of a query as a number of at least 1. The default is 1.
func queryNumber(r *http.Request, name string) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil {
		return 1
	}
	return max(1, n)
}

// picture sends an image of a page of a staged file, or of a blank page if f is nil.
func (p *Panel) picture(w http.ResponseWriter, r *http.Request, f *cert.File) error {
	picture, err := p.Certs.Picture(r.Context(), f, pageOf(r))
	if err != nil {
		return err
	}
	return sendPicture(w, r, picture)
}

// stamped sends an image of the stamped page of a staged file, or of a blank page if f is nil. The
// placement is in the query, or is defaultWanted if the query selects the default. The script of the page
// sends a form instead of a query, because an address must not contain the texts of an extra page. Headers
// describe the placement of the stamp, which may differ from the requested placement.
func (p *Panel) stamped(w http.ResponseWriter, r *http.Request, v *Visit, f *cert.File, defaultWanted *cert.RequestedPlacement) error {
	q := queryOf(r)
	wanted, err := wantedOf(q)
	if err != nil {
		return err
	}
	if wanted == nil {
		wanted = defaultWanted
	}
	text := cert.Text{Title: q.Get("title"), FullName: q.Get("full_name"), IssueDate: q.Get("issue_date")}
	s, err := p.Certs.Stamped(r.Context(), v.Institution().ID, f, wanted, text)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Stamp-Placement", string(s.Placement))
	h.Set("Stamp-Page", strconv.Itoa(s.Page))
	h.Set("Stamp-Box", fmt.Sprintf("%.4f,%.4f,%.4f,%.4f", s.Box[0], s.Box[1], s.Box[2], s.Box[3]))
	for _, n := range s.Notices {
		h.Add("Stamp-Notice", n.Code)
	}
	return sendPicture(w, r, s.PNG)
}

// ink sends an image of the content of a page of a staged file, or of a blank page if f is nil.
func (p *Panel) ink(w http.ResponseWriter, r *http.Request, v *Visit, f *cert.File) error {
	picture, err := p.Certs.Ink(r.Context(), v.Institution().ID, f, pageOf(r))
	if err != nil {
		return err
	}
	return sendPicture(w, r, picture)
}

func sendPicture(w http.ResponseWriter, r *http.Request, picture []byte) error {
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", web.FilePolicy)
	digest := sha256.Sum256(picture)
	return web.ServeContent(w, r, bytes.NewReader(picture), hex.EncodeToString(digest[:12]))
}
