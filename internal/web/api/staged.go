package api

import (
	"context"
	"net/http"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// stagedFile is the wire type of a file that entries of a bulk upload can refer to.
type stagedFile struct {
	FileID    string `json:"file_id"`
	FileName  string `json:"file_name"`
	MIMEType  string `json:"mime_type"`
	Size      int64  `json:"size"`
	ExpiresAt string `json:"expires_at"`
}

// uploadFile stages a file for the entries of a later bulk upload.
func (a *API) uploadFile(w http.ResponseWriter, c *call) error {
	if err := a.Batches.CheckQuota(c.Context(), c.institution.ID); err != nil {
		return err
	}
	form, err := openUpload(w, c.Request, "file")
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	err = form.receive(x, func(file *cert.File) error {
		switch {
		case form.fileProblem != nil:
			return fault.OfField(form.fileField, problemText(form.fileField, *form.fileProblem))
		case file == nil:
			return fault.OfField(form.fileField, "The file field is required.")
		}
		_, err := a.Batches.Stage(c.Context(), c.institution, file, func(ctx context.Context, tx *db.Tx, staged *batch.StagedFile) error {
			f := &staged.File
			return x.respondTx(ctx, tx, http.StatusCreated, message{Message: "File uploaded successfully.", Data: stagedFile{
				FileID: staged.UUID, FileName: f.Name, MIMEType: string(f.Type), Size: f.Size, ExpiresAt: *web.Timestamp(&staged.ExpiresAt),
			}})
		})
		return err
	})
	return x.end(w, err)
}
