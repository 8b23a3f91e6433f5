package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// stagedFile is a file that entries of a bulk upload can refer to.
type stagedFile struct {
	FileID    string `json:"file_id"`
	FileName  string `json:"file_name"`
	MIMEType  string `json:"mime_type"`
	Size      int64  `json:"size"`
	ExpiresAt string `json:"expires_at"`
}

// uploadFile takes a file for entries that come later.
func (a *API) uploadFile(w http.ResponseWriter, c *call) (err error) {
	if err := a.Batches.Room(c.Context(), c.institution.ID); err != nil {
		return err
	}
	form := &uploadForm{api: a, call: c, fileField: "file", values: map[string]string{}}
	if form.boundary, err = formBoundary(c.Request); err != nil {
		return err
	}
	defer func() {
		if form.file != nil {
			err = errors.Join(err, a.Certs.Discard(c.Context(), form.file))
		}
	}()
	return a.once(w, c, form.read, func(answer answerTx) error {
		switch {
		case form.problem != nil:
			return fault.OfField(form.fileField, say(form.fileField, *form.problem))
		case form.file == nil:
			return fault.OfField(form.fileField, "The file field is required.")
		}
		_, err := a.Batches.Stage(c.Context(), c.institution, form.file, func(ctx context.Context, tx *db.Tx, staged *batch.StagedFile) error {
			f := &staged.File
			return answer(ctx, tx, http.StatusCreated, message{Message: "File uploaded successfully.", Data: stagedFile{
				FileID: staged.UUID, FileName: f.Name, MIMEType: string(f.Type), Size: f.Size, ExpiresAt: *web.Timestamp(&staged.ExpiresAt),
			}})
		})
		if err == nil || fault.KindOf(err) == fault.Internal {
			// After a fault of ours the commit may have been made all the same.
			form.file = nil
		}
		return err
	})
}
