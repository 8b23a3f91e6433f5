package application

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/deletion"
)

// answerKey is the value of File.Field for the files of an answer.
const answerKey = "answer"

// FilesOf returns the files of the field with a key.
func FilesOf(files []File, key string) (list []File) {
	for _, f := range files {
		if f.Field == key {
			list = append(list, f)
		}
	}
	return list
}

// ReferencedBlobs returns those of the keys to which attachments of drafts and applications refer. It has
// the type deletion.References.
func ReferencedBlobs(ctx context.Context, d *db.DB, keys []string) ([]string, error) {
	condition, arg, err := d.OneOf(`file_key`, 1, keys)
	if err != nil {
		return nil, err
	}
	found, err := db.Column[string](d.QueryContext(ctx, `SELECT file_key FROM application_files WHERE `+condition, arg))
	if err != nil {
		return nil, fmt.Errorf("finding the attachments of applications: %w", err)
	}
	return found, nil
}

// BlobKeys calls visit for the key of each attachment, until visit returns an error.
func BlobKeys(ctx context.Context, q db.Queryer, visit func(key string) error) error {
	if err := db.Ascend(ctx, q, `SELECT DISTINCT file_key FROM application_files WHERE file_key > $1 ORDER BY 1 LIMIT $2`, visit); err != nil {
		return fmt.Errorf("listing the attachments of applications: %w", err)
	}
	return nil
}

// Receive stores a file and calls use, which must store the row that refers to the file. The errors are
// those of cert.Service.Receive. For several files, use calls Receive for the next file.
func (s *Service) Receive(ctx context.Context, institutionUUID string, in *cert.Incoming, use func(*cert.File) error) error {
	return s.certs.ReceiveAttachment(ctx, institutionUUID, in, use)
}

// owner is the row that has a file: a draft or an application.
type owner struct{ draft, application sql.NullInt64 }

func forApplication(id int64) owner { return owner{application: sql.NullInt64{Int64: id, Valid: true}} }
func forDraft(id int64) owner       { return owner{draft: sql.NullInt64{Int64: id, Valid: true}} }

func insertFileTx(ctx context.Context, tx *db.Tx, institutionID int64, of owner, field string, f *cert.File, now time.Time) (*File, error) {
	stored := &File{ID: uuid.Must(uuid.NewV7()).String(), Field: field, Name: f.Name, Type: string(f.Type), Size: f.Size}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO application_files (uuid, institution_id, draft_id, application_id, field, name, type, size, file_key, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		stored.ID, institutionID, of.draft, of.application, field, f.Name, string(f.Type), f.Size, f.Key, db.Micros(now))
	if err != nil {
		return nil, fmt.Errorf("storing an attachment: %w", err)
	}
	return stored, nil
}

// ofInstitution selects the files of the applications of an institution; see Service.openFrom.
const ofInstitution = `applications a ON a.id = f.application_id WHERE a.institution_id = $1`

// OpenFile opens an attachment of an application of an institution. The error is fault.NotFound if there
// is no such attachment or it was deleted, and fault.Damaged if the stored file is missing or damaged.
func (s *Service) OpenFile(ctx context.Context, institutionID int64, uuid, fileID string) (*cert.Content, *File, error) {
	return s.openFrom(ctx, ofInstitution, institutionID, uuid, fileID)
}

// OpenOwnFile is OpenFile for the applicant. The UUID may be that of a draft.
func (s *Service) OpenOwnFile(ctx context.Context, userID int64, uuid, fileID string) (*cert.Content, *File, error) {
	content, f, err := s.openFrom(ctx, `applications a ON a.id = f.application_id WHERE a.user_id = $1`, userID, uuid, fileID)
	if errors.Is(err, errNoFile) {
		return s.openFrom(ctx, `application_drafts a ON a.id = f.draft_id WHERE a.user_id = $1`, userID, uuid, fileID)
	}
	return content, f, err
}

// openFrom opens a file. join is the SQL text after JOIN: a table with the alias a, whose rows have the
// files, and a WHERE clause with the parameter $1. The value of $1 is the argument named of.
func (s *Service) openFrom(ctx context.Context, join string, of int64, uuid, fileID string) (*cert.Content, *File, error) {
	f, key, err := s.file(ctx, join, of, uuid, fileID)
	if err != nil {
		return nil, nil, err
	}
	content, err := s.certs.OpenAttachment(ctx, key, f.Size)
	return content, f, err
}

// file returns a file and its key. The arguments are those of openFrom.
func (s *Service) file(ctx context.Context, join string, of int64, uuid, fileID string) (f *File, key string, err error) {
	f = &File{}
	err = s.db.QueryRowContext(ctx, `
		SELECT f.uuid, f.field, f.name, f.type, f.size, f.file_key FROM application_files f JOIN `+join+`
		AND a.uuid = $2 AND f.uuid = $3 AND f.file_key IS NOT NULL`, of, uuid, fileID).Scan(&f.ID, &f.Field, &f.Name, &f.Type, &f.Size, &key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", errNoFile
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading an attachment: %w", err)
	}
	return f, key, nil
}

// deleteFilesTx removes the references to the files that the condition where selects, and returns their keys.
// The next sweep deletes the files; call erase in the same transaction to delete them as soon as it is
// committed.
func deleteFilesTx(ctx context.Context, tx *db.Tx, now time.Time, where string, arg any) ([]string, error) {
	keys, err := db.Column[string](tx.QueryContext(ctx, `SELECT file_key FROM application_files WHERE file_key IS NOT NULL AND `+where, arg))
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE application_files SET file_key = NULL WHERE `+where, arg); err != nil {
		return nil, err
	}
	return keys, deletion.ExpireTx(ctx, tx, keys, now)
}

// erase deletes files after tx is committed. If it fails to delete them, the next sweep deletes them.
func (s *Service) erase(ctx context.Context, tx *db.Tx, keys []string) {
	if len(keys) == 0 {
		return
	}
	tx.AfterCommit(func() {
		if _, err := s.deletions.DeleteNow(context.WithoutCancel(ctx), keys); err != nil {
			s.log.WarnContext(ctx, "attachments were not deleted; the next sweep deletes them", slog.Any("error", err))
		}
	})
}
