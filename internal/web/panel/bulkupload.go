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

// bulkLimits are the limits of a form with a list and files, which may include archives.
var bulkLimits = &body.Limits{
	Size: sheet.MaxFile + bulkimport.MaxArchive + 64<<20, Time: time.Hour, Parts: maxBulkFiles + 100, TooLarge: errUploadTooLarge, Broken: errUpload,
}

// errNoFiles is the error if a file is added to a bulk upload whose certificates are made from a template.
var errNoFiles = fault.New(fault.BadRequest, "issue_list.no_files")

// bulkUpload receives a form with a list and files.
type bulkUpload struct {
	panel *Panel
	visit *Visit
	draft *bulkimport.Draft
	// list reports whether a list was stored. If it contained corrections of the existing list,
	// corrected is the number of replaced rows. files is the number of files that were read.
	list      bool
	corrected int
	files     int
	// bad are the problems of the list and of the file at which reading stopped. Files that follow
	// an invalid list are still stored. stopped reports whether an invalid file stopped the
	// reading.
	bad     fault.Fields
	stopped bool
}

// uploadList stores the list and the files of the form on the page of the list.
func (p *Panel) uploadList(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.uploadBulk(w, r, v, "list", fault.OfField("list", "bulk_list.choose_list"))
}

// uploadFiles stores the files of the form on the page of the files. The files may include a list.
func (p *Panel) uploadFiles(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.uploadBulk(w, r, v, "files", fault.OfField("files", "bulk_list.choose_files"))
}

func (p *Panel) uploadBulk(w http.ResponseWriter, r *http.Request, v *Visit, step string, missing error) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if d.Template != nil && step == "files" {
		return errNoFiles
	}
	u := &bulkUpload{panel: p, visit: v, draft: d}
	if err = u.form(r); err == nil && !u.list && u.files == 0 {
		err = missing
	}
	if err != nil {
		w.Header().Set(storedHeader, u.stored())
		return p.uploadAgain(w, r, v, step, err)
	}
	switch {
	case u.corrected == 1:
		return p.redirect(w, r, v, "bulk/"+d.UUID+"/rows?show=problems", "corrected_one")
	case u.corrected > 0:
		return p.redirect(w, r, v, "bulk/"+d.UUID+"/rows?show=problems", "corrected_many", u.corrected)
	case !u.list:
		return p.redirect(w, r, v, "bulk/"+d.UUID+"/files", "files_taken")
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

// uploadAgain shows the page of a step again, with the problems of its form.
func (p *Panel) uploadAgain(w http.ResponseWriter, r *http.Request, v *Visit, step string, err error) error {
	page, e := p.draftPage(r, v, step)
	if e != nil {
		return e
	}
	if step == "list" {
		return p.showAgain(w, r, page.listPage(), page, err)
	}
	return p.showAgain(w, r, "bulk_files.html", page.filesView(r), err)
}

// stored returns the names of the controls whose content was stored, separated by spaces. It includes "files"
// even if a list among the files was refused.
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
		err = u.setList(r, part)
	case "files":
		if sheet.IsListName(part.FileName()) {
			err = u.listAmongFiles(r, part)
			break
		}
		if u.draft.Template != nil {
			return errNoFiles
		}
		if u.files++; u.files > maxBulkFiles {
			return fault.OfField("files", "bulk_list.too_many")
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
	if part.FormName() == "list" || sheet.IsListName(part.FileName()) {
		return nil
	}
	u.stopped = true
	return u.bad.Err()
}

// setList stores a list, or the corrections of the list that the bulk upload has.
func (u *bulkUpload) setList(r *http.Request, part *body.Part) error {
	n, err := u.panel.BulkImports.Import(r.Context(), u.draft, part.FileName(), part)
	if err != nil {
		return err
	}
	u.list, u.corrected = true, n
	return nil
}

// listAmongFiles stores a list that was uploaded as one of the files, if the bulk upload has no list yet.
// Otherwise it refuses the list, because the list would replace the existing list.
func (u *bulkUpload) listAmongFiles(r *http.Request, part *body.Part) error {
	if !u.list && u.draft.ListName == "" {
		return u.setList(r, part)
	}
	return fault.OfField("files", u.panel.texts(r).of("bulk_list.is_list", "name", sheet.Excerpt(part.FileName(), sheet.SampleLength)))
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
