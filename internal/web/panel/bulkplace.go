package panel

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// placeView is the form for the placement of all stamps of a bulk upload. It shows a page of one
// file as an example.
type placeView struct {
	*draftPage
	*placing

	// File is the example. If no file can be used as an example, File and placing are nil.
	File *bulkimport.File
}

// example returns the file on which the placement is shown: the file of the first valid row that is not
// skipped. If there is none, it returns the first file that was not refused, or nil.
func (d *draftPage) example() *bulkimport.File {
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

// rowDefault returns the key of the text about the default placement on the page of a row.
func (d *draftPage) rowDefault() string {
	if d.Wanted != nil {
		return rowDefaultPlace
	}
	return defaultPlace
}

// PlaceOf returns the label of a row's own placement, or "" if the row has no placement of its own.
func (d *draftPage) PlaceOf(row *bulkimport.Row) string { return d.placeLabel(row.Wanted) }

// PlaceOfAll returns the label of the placement of all rows without a placement of their own.
func (d *dryRunView) PlaceOfAll() string {
	switch {
	case d.Wanted != nil:
		return d.placeLabel(d.Wanted)
	case d.Default == seal.Auto:
		return d.texts.of("bulk_summary.position_auto")
	default:
		return d.texts.of("bulk_summary.position_default", "position", d.texts.of(modes[d.Default]))
	}
}

func (d *draftPage) placeLabel(w *cert.RequestedPlacement) string {
	if w == nil {
		return ""
	}
	return d.texts.of(modes[w.Mode])
}

// PlacedRows returns the rows with a placement of their own, except skipped rows.
func (d *draftPage) PlacedRows() []*bulkimport.Row {
	var list []*bulkimport.Row
	for _, row := range d.Rows {
		if row.Wanted != nil && !row.Skipped {
			list = append(list, row)
		}
	}
	return list
}

// placingOf returns the possible placements of the stamp on a file of a bulk upload. The default is
// defaultWanted, or the institution's default if defaultWanted is nil.
func (p *Panel) placingOf(ctx context.Context, d *draftPage, f *bulkimport.File, defaultWanted *cert.RequestedPlacement, form url.Values) (*placing, error) {
	staged, err := p.Batches.Staged(ctx, d.InstitutionID, f.StagedUUID)
	if err != nil {
		return nil, err
	}
	l, err := p.placing(ctx, d.Visit, staged, defaultWanted, form)
	if err != nil {
		return nil, err
	}
	l.Base = d.Path("files/" + strconv.FormatInt(f.ID, 10))
	return l, nil
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
	if view.placing, err = p.placingOf(r.Context(), page, view.File, nil, form); err != nil {
		return nil, err
	}
	view.CanShow = true
	for _, row := range page.Rows {
		if row.File == view.File && !row.Skipped && len(row.Problems) == 0 {
			view.Sample = row.Text
			break
		}
	}
	return view, nil
}

// placement shows the form for the placement of all rows.
func (p *Panel) placement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.placeView(r, v, nil)
	if err != nil {
		return err
	}
	return p.draw(w, r, "bulk_placement.html", view)
}

// setPlacement saves the placement of all rows without a placement of their own. If the form has the value
// "look", setPlacement only shows the placement.
func (p *Panel) setPlacement(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	wanted, err := wantedOf(r.PostForm)
	look := r.PostForm.Get("look") != ""
	if err == nil && !look {
		err = p.BulkImports.PlaceAll(r.Context(), d, wanted)
	}
	if err != nil || look {
		view, e := p.placeView(r, v, r.PostForm)
		if e != nil {
			return e
		}
		if err == nil {
			return p.draw(w, r, "bulk_placement.html", view)
		}
		return p.showAgain(w, r, "bulk_placement.html", view, err)
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID+"/submit", "place_kept")
}

// draftPicture sends an image of a page of a file of a bulk upload.
func (p *Panel) draftPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	_, f, err := p.draftFile(r, v)
	if err != nil {
		return err
	}
	return p.picture(w, r, f)
}

// draftStamped sends an image of the stamped page of a file of a bulk upload.
func (p *Panel) draftStamped(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, f, err := p.draftFile(r, v)
	if err != nil {
		return err
	}
	var defaultWanted *cert.RequestedPlacement
	if queryOf(r).Get("row") != "" {
		defaultWanted = d.Wanted
	}
	return p.stamped(w, r, v, f, defaultWanted)
}

// draftInk sends an image that shows where a page of a file of a bulk upload has content.
func (p *Panel) draftInk(w http.ResponseWriter, r *http.Request, v *Visit) error {
	_, f, err := p.draftFile(r, v)
	if err != nil {
		return err
	}
	return p.ink(w, r, v, f)
}

// draftFile returns the bulk upload and the file that are in the path.
func (p *Panel) draftFile(r *http.Request, v *Visit) (*bulkimport.Draft, *cert.File, error) {
	d, err := p.draftOf(r, v)
	if err != nil {
		return nil, nil, err
	}
	id, err := strconv.ParseInt(r.PathValue("file"), 10, 64)
	if err != nil {
		return nil, nil, fault.New(fault.NotFound, "There is no such file.")
	}
	f, err := p.BulkImports.File(r.Context(), d, id)
	if err != nil {
		return nil, nil, err
	}
	staged, err := p.Batches.Staged(r.Context(), v.Institution().ID, f.StagedUUID)
	if err != nil {
		return nil, nil, err
	}
	return d, &staged.File, nil
}
