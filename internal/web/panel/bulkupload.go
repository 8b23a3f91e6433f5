package panel

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/web/body"
)

const (
	// maxBulkFiles is the maximum number of files in a form.
	maxBulkFiles = 5000
	// storedHeader is a header of the response to a form with a problem. It contains the names of
	// the controls whose content was stored. The script of the page reads the header.
	storedHeader = "Upload-Taken"
)

// bulkLimits bounds a form with a list and files, which may include an archive.
var bulkLimits = &body.Limits{
	Size: sheet.MaxFile + bulkimport.MaxArchive + 64<<20, Time: time.Hour, Parts: maxBulkFiles + 100, TooLarge: errUploadTooLarge, Broken: errUpload,
}

// bulkUpload receives a form with a list and files.
type bulkUpload struct {
	panel *Panel
	visit *Visit
	draft *bulkimport.Draft
	// list reports whether a list was stored. files is the number of files that were read.
	list  bool
	files int
	// bad are the problems of the list and of the file at which reading stopped. Files that follow
	// an invalid list are still stored. stopped reports whether an invalid file stopped the
	// reading.
	bad     fault.Fields
	stopped bool
}

// uploadList stores the chosen list and files, as uploadFiles does. The two handlers differ only in
// the error for a form without a list and without files.
func (p *Panel) uploadList(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.uploadBulk(w, r, v, fault.OfField("list", "Choose the list first."))
}

func (p *Panel) uploadFiles(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.uploadBulk(w, r, v, fault.OfField("files", "Choose files, or a ZIP of them, first."))
}

func (p *Panel) uploadBulk(w http.ResponseWriter, r *http.Request, v *Visit, missing error) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	u := &bulkUpload{panel: p, visit: v, draft: d}
	if err = u.form(r); err == nil && !u.list && u.files == 0 {
		err = missing
	}
	if err != nil {
		w.Header().Set(storedHeader, u.stored())
		return p.filesAgain(w, r, v, err)
	}
	if !u.list {
		return p.redirect(w, r, v, "bulk/"+d.UUID, "files_taken")
	}
	if d, err = p.draftOf(r, v); err != nil {
		return err
	}
	notice := "list"
	if u.files > 0 {
		notice = "both"
	}
	if d.Total == 1 {
		return p.redirect(w, r, v, "bulk/"+d.UUID+"/columns", notice+"_one")
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID+"/columns", notice+"_taken", d.Total)
}

// stored returns the names of the controls whose content was completely stored, separated by
// spaces.
func (u *bulkUpload) stored() string {
	var names []string
	if u.list {
		names = append(names, "list")
	}
	if u.files > 0 && u.bad.Len() > 0 && !u.stopped {
		names = append(names, "files")
	}
	return strings.Join(names, " ")
}

// form reads the form and stores its list and its files.
func (u *bulkUpload) form(r *http.Request) error {
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	for form.Next() {
		if part := form.Part(); part.FileName() != "" {
			if err := u.part(r, part); err != nil {
				return err
			}
		}
	}
	if err := form.Err(); err != nil {
		return err
	}
	return u.bad.Err()
}

func (u *bulkUpload) part(r *http.Request, part *body.Part) error {
	var err error
	switch part.FormName() {
	case "list":
		if err = u.panel.BulkImports.SetList(r.Context(), u.draft, part.FileName(), part); err == nil {
			u.list = true
		}
	case "files":
		if u.files++; u.files > maxBulkFiles {
			return fault.OfField("files", "Send at most 5,000 files at once, or put them into a ZIP.")
		}
		err = u.file(r, part.FileName(), part)
	}
	invalid, ok := errors.AsType[*fault.Error](err)
	if !ok || invalid.Kind != fault.Invalid {
		return err
	}
	for _, field := range invalid.Fields {
		for _, message := range field.Messages {
			u.bad.Add(field.Name, message)
		}
	}
	if part.FormName() == "list" {
		return nil
	}
	u.stopped = true
	return u.bad.Err()
}

func (u *bulkUpload) file(r *http.Request, name string, content io.Reader) error {
	var err error
	if strings.HasSuffix(strings.ToLower(name), ".zip") {
		_, err = u.panel.BulkImports.AddArchive(r.Context(), u.visit.Institution(), u.draft, name, content)
	} else {
		_, err = u.panel.BulkImports.AddFile(r.Context(), u.visit.Institution(), u.draft, name, content)
	}
	return err
}
