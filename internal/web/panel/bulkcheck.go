package panel

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/bulkimport"
)

// ToCheckShown reports whether the page shows only rows to check.
func (l *rowsView) ToCheckShown() bool {
	_, ok := l.Show.Doubt()
	return ok
}

// ToCheck returns the number of rows to check.
func (d *draftPage) ToCheck() int { return len(d.Of(bulkimport.ShowDoubtful)) }

// doubtKind is a filter of the rows to check. Key is the key of its label.
type doubtKind struct {
	Show bulkimport.Show
	Key  string
	Rows int
}

// Kinds returns the filters of the rows to check. It omits each kind that selects no row, unless the page
// shows this kind.
func (l *rowsView) Kinds() (list []doubtKind) {
	list = append(list, doubtKind{bulkimport.ShowDoubtful, "bulk_check.all", l.ToCheck()})
	for _, kind := range bulkimport.Doubts {
		show := bulkimport.ShowOf(kind)
		if n := len(l.Of(show)); n > 0 || show == l.Show {
			list = append(list, doubtKind{show, "bulk_check." + string(kind), n})
		}
	}
	return list
}

// Kind returns the kind of doubt that the page shows, or "" if the page shows all kinds.
func (l *rowsView) Kind() bulkimport.Doubt {
	kind, _ := l.Show.Doubt()
	return kind
}

// Copies returns the number of rows that would become the same certificate as an earlier row.
func (d *draftPage) Copies() int { return len(d.Of(bulkimport.ShowDuplicate)) }

// Original returns the first row that would become the same certificate as row, or nil if row is not a
// duplicate.
func (d *draftPage) Original(row *bulkimport.Row) *bulkimport.Row {
	original, err := d.Row(row.DuplicateOf)
	if err != nil {
		return nil
	}
	return original
}

// nextFrom sets Next to before.Next if that row is still selected. before is the view before the row was
// changed. The changed row is no longer selected, so it has no position among the selected rows.
func (l *rowView) nextFrom(before *rowView) {
	selected := l.Select(l.Show)
	if at := slices.IndexFunc(selected, func(row *bulkimport.Row) bool { return row.Number == before.Next.Number }); at >= 0 {
		l.Next = selected[at]
	}
}

// numbered returns the rows whose numbers are in texts. It ignores other texts.
func (d *draftPage) numbered(texts []string) (list []*bulkimport.Row) {
	for _, text := range texts {
		if n, err := strconv.Atoi(text); err == nil {
			if row, err := d.Row(n); err == nil {
				list = append(list, row)
			}
		}
	}
	return list
}

// acceptRows accepts all rows to check of the kind that the page shows.
func (p *Panel) acceptRows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return err
	}
	show := bulkimport.Show(r.PostForm.Get("show"))
	kind, ok := show.Doubt()
	if !ok {
		return errForm
	}
	if _, err := p.BulkImports.CompareNames(r.Context(), page.Review, page.Rows, compareTime); err != nil {
		return err
	}
	rows := page.Of(show)
	if err := p.BulkImports.Accept(r.Context(), page.Review, kind, rows); err != nil {
		return err
	}
	to := "bulk/" + page.UUID + "/rows?show=" + string(bulkimport.ShowDoubtful)
	if len(rows) == 1 {
		return p.redirect(w, r, v, to, "rows_accepted_one")
	}
	return p.redirect(w, r, v, to, "rows_accepted", len(rows))
}

// reopenRows takes back the acceptance of all rows.
func (p *Panel) reopenRows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if err := p.BulkImports.Reopen(r.Context(), d); err != nil {
		return err
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID+"/rows?show="+string(bulkimport.ShowDoubtful), "")
}
