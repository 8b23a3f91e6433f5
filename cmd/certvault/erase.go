package main

import (
	"io"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

type eraseCommand struct {
	config.Storage

	Certificate string `help:"Reference id of a revoked or failed certificate." placeholder:"REFERENCE" required:""`
	Reason      string `help:"Reason for the audit log." placeholder:"TEXT"`
}

// erasureRow is the JSON output of the command.
type erasureRow struct {
	ReferenceID   string `json:"reference_id"`
	UUID          string `json:"uuid"`
	RecordDeleted bool   `json:"record_deleted"`
	FilesDeleted  int    `json:"files_deleted"`
	FilesKept     int    `json:"files_kept"`
}

// Run erases a certificate. The server may be running.
func (e *eraseCommand) Run(c *console) error {
	return c.existing(e.Storage, func(base *app.Base) error {
		done, err := base.Erase(c.ctx, e.Storage, e.Certificate, e.Reason)
		if err != nil {
			return err
		}
		r := erasureRow{done.Certificate.ReferenceID, done.Certificate.UUID, done.RecordDeleted, len(done.Deleted), len(done.Kept)}
		return c.print(r, func(w io.Writer) { r.write(w) })
	})
}

func (r *erasureRow) write(w io.Writer) {
	record := "The record remains, and the file is still recognized as revoked."
	if r.RecordDeleted {
		record = "The record was deleted."
	}
	if r.FilesDeleted+r.FilesKept == 0 {
		printf(w, "No files of the certificate %s exist. %s\n", r.ReferenceID, record)
		return
	}
	printf(w, "Files of the certificate %s deleted: %d. %s\n", r.ReferenceID, r.FilesDeleted, record)
	if r.FilesKept > 0 {
		printf(w, "Files kept, because another certificate or a bulk upload refers to them: %d. They are deleted when nothing refers to them.\n", r.FilesKept)
	}
	printf(w, "Backups contain the files until they expire. After a restore of an older backup, erase the certificate again.\n")
}
