package panel

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/intake"
	"github.com/certvault/certvault/internal/sheet"
)

const (
	// maxTaken bounds what is sent at once, in bytes: a list and files, an archive
	// among them.
	maxTaken = sheet.MaxFile + intake.MaxArchive + 64<<20
	// filesTime bounds how long it may take to come in.
	filesTime = time.Hour
	// maxParts bounds the files of one form.
	maxParts = 5000
	// takenHeader tells the script that sends the form which of its controls hold
	// what was taken, though something else is wrong.
	takenHeader = "Upload-Taken"
)

// taking takes what a form has of a list and files.
type taking struct {
	panel *Panel
	visit *Visit
	draft *intake.Draft
	list  bool
	files int
	// bad is what is wrong: with the list, and the files behind it are taken all the
	// same; or with a file, at which it stopped.
	bad     fault.Fields
	stopped bool
}

// takeList and takeFiles take all that was chosen, whichever button was pressed;
// they differ in what they ask for when nothing was.
func (p *Panel) takeList(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.take(w, r, v, fault.OfField("list", "Choose the list first."))
}

func (p *Panel) takeFiles(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.take(w, r, v, fault.OfField("files", "Choose files, or a ZIP of them, first."))
}

func (p *Panel) take(w http.ResponseWriter, r *http.Request, v *Visit, missing error) error {
	if err := patient(w, filesTime); err != nil {
		return err
	}
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	t := &taking{panel: p, visit: v, draft: d}
	if err = t.form(r); err == nil && !t.list && t.files == 0 {
		err = missing
	}
	if err != nil {
		w.Header().Set(takenHeader, t.taken())
		return p.filesAgain(w, r, v, err)
	}
	if !t.list {
		return p.lead(w, r, v, "bulk/"+d.UUID, "files_taken")
	}
	if d, err = p.draftOf(r, v); err != nil {
		return err
	}
	notice := "list"
	if t.files > 0 {
		notice = "both"
	}
	if d.Total == 1 {
		return p.lead(w, r, v, "bulk/"+d.UUID+"/columns", notice+"_one")
	}
	return p.lead(w, r, v, "bulk/"+d.UUID+"/columns", notice+"_taken", d.Total)
}

// taken names the controls whose files were taken.
func (t *taking) taken() string {
	var names []string
	if t.list {
		names = append(names, "list")
	}
	if t.files > 0 && t.bad.Len() > 0 && !t.stopped {
		names = append(names, "files")
	}
	return strings.Join(names, " ")
}

// form takes the parts of a form as they come in.
func (t *taking) form(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return errUpload
	}
	for {
		// Names with folders come as they are; what they may be is their taker's.
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return t.bad.Err()
		}
		if err != nil {
			return uploadError(err)
		}
		if part.FileName() == "" {
			continue
		}
		if err := t.part(r, part); err != nil {
			return err
		}
	}
}

func (t *taking) part(r *http.Request, part *multipart.Part) error {
	source := &sourceReader{r: part}
	var err error
	switch part.FormName() {
	case "list":
		if err = t.panel.Intake.TakeList(r.Context(), t.draft, part.FileName(), source); err == nil {
			t.list = true
		}
	case "files":
		if t.files++; t.files > maxParts {
			return fault.OfField("files", "Send at most 5,000 files at once, or put them into a ZIP.")
		}
		err = t.file(r, part.FileName(), source)
	}
	if source.err != nil {
		return uploadError(source.err)
	}
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Kind != fault.Invalid {
		return err
	}
	for _, field := range refusal.Fields {
		for _, message := range field.Messages {
			t.bad.Add(field.Name, message)
		}
	}
	if part.FormName() == "list" {
		return nil
	}
	t.stopped = true
	return t.bad.Err()
}

func (t *taking) file(r *http.Request, name string, source io.Reader) error {
	var err error
	if strings.HasSuffix(strings.ToLower(name), ".zip") {
		_, err = t.panel.Intake.AddArchive(r.Context(), t.visit.Institution(), t.draft, name, source)
	} else {
		_, err = t.panel.Intake.AddFile(r.Context(), t.visit.Institution(), t.draft, name, source)
	}
	return err
}
