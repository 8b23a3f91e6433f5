package panel

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/intake"
)

// placeView asks where the QR codes of a bulk upload go, on the page of one of its
// files.
type placeView struct {
	*draftPage
	*placing

	// File is the example, nil where there is none.
	File *intake.File
}

// example gives a file to show the place on: of the first row that is in order, or
// any that can be used.
func (d *draftPage) example() *intake.File {
	for _, row := range d.Rows {
		if !row.Skipped && len(row.Problems) == 0 && row.File != nil {
			return row.File
		}
	}
	for _, f := range d.Files {
		if f.StagedUUID != "" {
			return f
		}
	}
	return nil
}

// usual says where the QR code of a row goes that does not say it itself.
func (d *draftPage) usual() string {
	if d.Wanted != nil {
		return "As for all rows"
	}
	return usualPlace
}

// PlaceOf names the place that a row wants for itself, "" for none.
func (*draftPage) PlaceOf(row *intake.Row) string { return nameOf(row.Wanted) }

// PlaceOfAll names the place that all rows have that want none for themselves.
func (d *draftPage) PlaceOfAll() string {
	if d.Wanted == nil {
		return usualPlace
	}
	return nameOf(d.Wanted)
}

func nameOf(w *cert.Wanted) string {
	if w == nil {
		return ""
	}
	return modes[w.Mode]
}

// Own gives the rows that want a place for themselves.
func (d *draftPage) Own() []*intake.Row {
	var list []*intake.Row
	for _, row := range d.Rows {
		if row.Wanted != nil && !row.Skipped {
			list = append(list, row)
		}
	}
	return list
}

// placingOf looks at a file of a bulk upload.
func (p *Panel) placingOf(ctx context.Context, d *draftPage, f *intake.File, usual *cert.Wanted, form url.Values) (*placing, error) {
	staged, err := p.Batches.Staged(ctx, d.InstitutionID, f.StagedUUID)
	if err != nil {
		return nil, err
	}
	l, err := p.placing(ctx, d.Visit, staged, usual, form)
	if err != nil {
		return nil, err
	}
	l.Picture = d.Path("files/" + strconv.FormatInt(f.ID, 10) + "/page.png")
	return l, p.withAuto(ctx, d.Visit, staged, l)
}

func (p *Panel) placeView(r *http.Request, v *Visit, form url.Values) (*placeView, error) {
	page, err := p.draftPage(r, v, "placement")
	if err != nil {
		return nil, err
	}
	view := &placeView{draftPage: page, File: page.example()}
	if view.File == nil {
		return view, nil
	}
	if form == nil {
		form = formOf(page.Wanted)
	}
	view.placing, err = p.placingOf(r.Context(), page, view.File, nil, form)
	return view, err
}

// placement asks where the QR codes of all rows go.
func (p *Panel) placement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.placeView(r, v, nil)
	if err != nil {
		return err
	}
	return p.draw(w, r, "bulk_placement.html", view)
}

// setPlacement says where they go.
func (p *Panel) setPlacement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	wanted, err := wantedOf(r.PostForm)
	if err == nil {
		err = p.Intake.PlaceAll(r.Context(), d, wanted)
	}
	if err != nil {
		view, e := p.placeView(r, v, r.PostForm)
		if e != nil {
			return e
		}
		return p.again(w, r, "bulk_placement.html", view, err)
	}
	return p.lead(w, r, v, "bulk/"+d.UUID+"/submit", "place_kept")
}

// draftPicture draws the first page of a file of a bulk upload.
func (p *Panel) draftPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(r.PathValue("file"), 10, 64)
	if err != nil {
		return fault.New(fault.NotFound, "No such file.")
	}
	f, err := p.Intake.File(r.Context(), d, id)
	if err != nil {
		return err
	}
	staged, err := p.Batches.Staged(r.Context(), v.Institution().ID, f.StagedUUID)
	if err != nil {
		return err
	}
	return p.picture(w, r, staged)
}
