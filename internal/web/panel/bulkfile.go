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
// match Search.
type filesView struct {
	*draftPage

	Search    string
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
	if l.Search != "" {
		q.Set("q", l.Search)
	}
	return l.Path("files") + "?" + q.Encode()
}

// draftFiles shows one page of the files of a bulk upload. With each file it shows the rows that
// refer to the file.
func (p *Panel) draftFiles(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "files")
	if err != nil {
		return err
	}
	l := &filesView{draftPage: page, Search: strings.TrimSpace(r.URL.Query().Get("q")), Page: 1, rows: map[*bulkimport.File][]*bulkimport.Row{}}
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil && n > 0 && n <= bulkimport.MaxFiles {
		l.Page = n
	}
	for _, row := range page.Rows {
		if row.File != nil {
			l.rows[row.File] = append(l.rows[row.File], row)
		}
	}
	search := strings.ToLower(l.Search)
	found := slices.DeleteFunc(slices.Clone(page.Files), func(f *bulkimport.File) bool { return !strings.Contains(strings.ToLower(f.Path), search) })
	l.Found = len(found)
	first := min(len(found), (l.Page-1)*filesPerPage)
	l.PageFiles = found[first:min(len(found), first+filesPerPage)]
	return p.draw(w, r, "bulk_filelist.html", l)
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
	// After a second click, the file is already removed.
	if err := p.BulkImports.RemoveFile(r.Context(), d, id); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	to := "bulk/" + d.UUID
	if r.PostForm.Has("page") {
		l := &filesView{draftPage: &draftPage{Review: &bulkimport.Review{Draft: d}, Visit: v}, Search: r.PostForm.Get("q"), Page: 1}
		if n, err := strconv.Atoi(r.PostForm.Get("page")); err == nil {
			l.Page = n
		}
		to = strings.TrimPrefix(l.at(l.Page), v.Path("")+"/")
	}
	return p.redirect(w, r, v, to, "file_removed")
}
