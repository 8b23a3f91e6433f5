package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/sheet"
)

// changeRows corrects, accepts or skips several rows, or takes back the acceptance of all rows.
func (p *Panel) changeRows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	switch r.PostForm.Get("do") {
	case "fix":
		return p.fixRows(w, r, v)
	case "accept":
		return p.acceptRows(w, r, v)
	case "reopen":
		return p.reopenRows(w, r, v)
	default:
		return p.skipRows(w, r, v)
	}
}

// fixRows saves the corrections of a form with several rows, and skips or accepts the rows marked there.
func (p *Panel) fixRows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return err
	}
	texts, skip := fixesOf(r.PostForm)
	if err := p.BulkImports.FixAll(r.Context(), page.Draft, texts, skip); err != nil {
		l := page.rowsView(r.PostForm)
		l.form = r.PostForm
		return p.showAgain(w, r, "bulk_rows.html", l, err)
	}
	if page, err = p.draftPage(r, v, "rows"); err != nil {
		return err
	}
	if fine := page.numbered(r.PostForm["fine_row"]); len(fine) > 0 {
		if _, err := p.BulkImports.CompareNames(r.Context(), page.Review, fine, compareTime); err != nil {
			return err
		}
		if err := p.BulkImports.Accept(r.Context(), page.Review, "", fine); err != nil {
			return err
		}
		if page, err = p.draftPage(r, v, "rows"); err != nil {
			return err
		}
	}
	l := page.rowsView(r.PostForm)
	to := strings.TrimPrefix(l.at(l.Page), v.Path("")+"/")
	if left := len(page.ToCorrect); left > 0 {
		return p.redirect(w, r, v, to, "rows_saved_left", left)
	}
	return p.redirect(w, r, v, to, "rows_saved")
}

// fixesOf returns the corrections in a form with several rows, by row number, and the numbers of the rows
// to skip.
func fixesOf(form url.Values) (texts map[int]map[sheet.Column]string, skip []int) {
	texts = map[int]map[sheet.Column]string{}
	for _, text := range form["skip_row"] {
		if number, err := strconv.Atoi(text); err == nil {
			skip = append(skip, number)
		}
	}
	for control, values := range form {
		if accepted := form.Get("use-" + control); accepted != "" {
			values = []string{accepted}
		}
		number, column, ok := strings.Cut(strings.TrimPrefix(control, "r"), "-")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || !strings.HasPrefix(control, "r") || slices.Contains(skip, n) {
			continue
		}
		if texts[n] == nil {
			texts[n] = map[sheet.Column]string{}
		}
		texts[n][columnOfControl(column)] = values[0]
	}
	return texts, skip
}

// skipRows skips all rows with problems, all duplicates of earlier rows, or all rows whose certificate
// already exists. It redirects to the rows that the value "show" of the form selects, or to the summary if
// there is no such value.
func (p *Panel) skipRows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	to := "bulk/" + d.UUID + "/submit"
	if show := r.PostForm.Get("show"); show != "" {
		to = "bulk/" + d.UUID + "/rows?show=" + url.QueryEscape(show)
	}
	if r.PostForm.Get("skip") == "existing" {
		_, err = p.BulkImports.SkipExisting(r.Context(), d)
	} else {
		_, err = p.BulkImports.SkipAll(r.Context(), d, bulkimport.Show(r.PostForm.Get("skip")))
	}
	if err != nil {
		return err
	}
	return p.redirect(w, r, v, to, "rows_skipped")
}
