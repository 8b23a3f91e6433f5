package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/fault"
)

// filesPerPage is the number of files of a bulk upload on one page.
const filesPerPage = 100

// filesView is one page of the list of a bulk upload's files. Found is the number of files that
// match Search and Show.
type filesView struct {
	*draftPage

	Search    string
	Show      string
	Page      int
	Found     int
	PageFiles []*bulkimport.File

	rows map[*bulkimport.File][]*bulkimport.Row
}

// RowsOf returns the rows whose file is f.
func (l *filesView) RowsOf(f *bulkimport.File) []*bulkimport.Row { return l.rows[f] }

// Prev returns the address of the previous page, or "" on the first page.
func (l *filesView) Prev() string {
	if l.Page <= 1 {
		return ""
	}
	return l.at(l.Page - 1)
}

// Next returns the address of the next page, or "" on the last page.
func (l *filesView) Next() string {
	if l.Page*filesPerPage >= l.Found {
		return ""
	}
	return l.at(l.Page + 1)
}

func (l *filesView) at(page int) string {
	q := url.Values{"page": {strconv.Itoa(page)}}
	if l.Show != "" {
		q.Set("show", l.Show)
	}
	if l.Search != "" {
		q.Set("q", l.Search)
	}
	return l.Path("files") + "?" + q.Encode()
}

// These are the values of filesView.Show. Any other value selects all files.
const (
	showUnused  = "unused"
	showRefused = "refused"
)

// MissingShown returns the first rows whose file is missing, at most maxMissing.
func (l *filesView) MissingShown() []*bulkimport.Row {
	return l.Missing[:min(len(l.Missing), maxMissing)]
}

// MoreMissing returns the number of rows whose file is missing and that MissingShown does not return.
func (l *filesView) MoreMissing() int { return max(0, len(l.Missing)-maxMissing) }

// maxMissing is the maximum number of rows without a file that a page shows.
const maxMissing = 50

// filesView returns the view that a request selects.
func (d *draftPage) filesView(r *http.Request) *filesView {
	query := r.URL.Query()
	l := &filesView{draftPage: d, Search: strings.TrimSpace(query.Get("q")), Show: query.Get("show"), Page: 1, rows: map[*bulkimport.File][]*bulkimport.Row{}}
	if n, err := strconv.Atoi(query.Get("page")); err == nil && n > 0 && n <= bulkimport.MaxFiles {
		l.Page = n
	}
	for _, row := range d.Rows {
		if row.File != nil {
			l.rows[row.File] = append(l.rows[row.File], row)
		}
	}
	files := d.Files
	switch l.Show {
	case showUnused:
		files = d.Unused
	case showRefused:
		files = d.Refused
	}
	search := strings.ToLower(l.Search)
	found := slices.DeleteFunc(slices.Clone(files), func(f *bulkimport.File) bool { return !strings.Contains(strings.ToLower(f.Path), search) })
	l.Found = len(found)
	l.Page = max(1, min(l.Page, (l.Found+filesPerPage-1)/filesPerPage))
	first := min(len(found), (l.Page-1)*filesPerPage)
	l.PageFiles = found[first:min(len(found), first+filesPerPage)]
	return l
}

// draftFiles shows the step of the files: the form to add files, and one page of the list of files. The
// list shows the rows that refer to each file.
func (p *Panel) draftFiles(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "files")
	if err != nil {
		return err
	}
	page.Reloads = page.Unpacking()
	return p.draw(w, r, "bulk_files.html", page.filesView(r))
}

// removeFile removes a file and redirects to the page that contained the form.
func (p *Panel) removeFile(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(r.PostForm.Get("file"), 10, 64)
	if err != nil {
		return errForm
	}
	// If a person clicks twice, the second request finds that the file is already removed.
	if err := p.BulkImports.RemoveFile(r.Context(), d, id); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	l := &filesView{draftPage: &draftPage{Review: &bulkimport.Review{Draft: d}, Visit: v}, Search: r.PostForm.Get("q"), Show: r.PostForm.Get("show"), Page: 1}
	if n, err := strconv.Atoi(r.PostForm.Get("page")); err == nil {
		l.Page = n
	}
	return p.redirect(w, r, v, strings.TrimPrefix(l.at(l.Page), v.Path("")+"/"), "file_removed")
}
