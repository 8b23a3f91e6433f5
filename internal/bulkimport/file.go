package bulkimport

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// File is a file of a draft.
type File struct {
	ID int64
	// Path is the name of the file, with its folders.
	Path string
	Size int64
	// StagedUUID is the UUID of the staged file. It is "" if the file was refused; Problem is then
	// the reason.
	StagedUUID string
	Problem    string
	Notices    []seal.Notice
}

// maxPath is the maximum length of a path in characters.
const maxPath = 500

// AddFile adds a file to a draft. It replaces the file with the same path. If the new file has no
// folder and exactly one file of the draft has the same name, in any folder, the new file replaces
// that file. If the new file can never become a certificate, AddFile stores only its path, its size
// and its problem.
func (s *Service) AddFile(ctx context.Context, inst *account.Institution, d *Draft, name string, r io.Reader) (*File, error) {
	name, problem := cleanPath(name)
	if problem != "" {
		return nil, fault.OfField("files", problem)
	}
	var f *File
	err := s.receive(ctx, inst, d, name, r, func(ctx context.Context, tx *db.Tx, got *File) error {
		if err := s.changeTx(ctx, tx, d); err != nil {
			return err
		}
		f = got
		if err := s.replaceTx(ctx, tx, d, got); err != nil {
			return err
		}
		return s.putFileTx(ctx, tx, d, 0, got)
	})
	if err != nil {
		return nil, fmt.Errorf("adding a file: %w", err)
	}
	return f, nil
}

// replaceTx sets the path of f to the path of the file that f replaces. This is the only file of the
// draft with the same name, in any folder. If there is no such file, or f has a folder, replaceTx
// does not change f.
func (s *Service) replaceTx(ctx context.Context, tx *db.Tx, d *Draft, f *File) error {
	if strings.Contains(f.Path, "/") {
		return nil
	}
	paths, err := db.Column[string](tx.QueryContext(ctx, `
		SELECT path FROM bulk_import_files WHERE draft_id = $1 AND (path = $2 OR substr(path, length(path) - $3) = $4)`,
		d.ID, f.Path, utf8.RuneCountInString(f.Path), "/"+f.Path))
	if err == nil && len(paths) == 1 {
		f.Path = paths[0]
	}
	return err
}

// cleanPath returns the path of a file with slashes between the folders and without ASCII control
// characters. If the path has no file name, is too long or absolute, or leads out of its folder, cleanPath
// returns the problem.
func cleanPath(name string) (clean, problem string) {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), `\`, "/")
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, name)
	switch clean = path.Clean(name); {
	case clean == "." || strings.HasSuffix(name, "/"):
		return "", "The file has no name."
	case path.IsAbs(clean) || len(clean) > 1 && clean[1] == ':' || clean == ".." || strings.HasPrefix(clean, "../"):
		return "", "The file's path points outside its folder."
	case len([]rune(clean)) > maxPath:
		return "", "The file's name is too long. Shorten it."
	}
	return clean, ""
}

// receive checks and stages a file, and calls record in the transaction that stages it. If the file
// is refused, receive does not stage it, and calls record with the problem of the file. If r returns
// an error, the error of receive wraps it.
func (s *Service) receive(
	ctx context.Context, inst *account.Institution, d *Draft, name string, r io.Reader, record func(ctx context.Context, tx *db.Tx, f *File) error,
) error {
	if err := s.batches.CheckQuota(ctx, inst.ID); err != nil {
		return err
	}
	incoming := cert.NewIncoming(name, r)
	err := s.certs.Receive(ctx, inst.UUID, incoming, func(received *cert.File) error {
		_, err := s.batches.StageUntil(ctx, inst, received, d.ExpiresAt.Add(fileGrace), func(ctx context.Context, tx *db.Tx, staged *batch.StagedFile) error {
			return record(ctx, tx, &File{Path: name, Size: received.Size, Notices: received.Notices, StagedUUID: staged.UUID})
		})
		return err
	})
	if problem := cert.RefusedFile(err); problem != nil {
		return s.db.Tx(ctx, func(tx *db.Tx) error {
			return record(ctx, tx, &File{Path: name, Size: incoming.Size(), Problem: problem.Detail})
		})
	}
	return err
}

// putFileTx stores a file. It replaces the file with the same path. The error is fault.Invalid if
// the draft already has MaxFiles files.
func (s *Service) putFileTx(ctx context.Context, tx *db.Tx, d *Draft, archiveID int64, f *File) error {
	if err := s.dropFileTx(ctx, tx, d, f.Path); err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM bulk_import_files WHERE draft_id = $1`, d.ID).Scan(&n); err != nil {
		return err
	}
	if n >= MaxFiles {
		return fault.OfField("files", fmt.Sprintf("A bulk upload can have at most %d files. Submit it before you add more.", MaxFiles))
	}
	notices, err := encode(append([]seal.Notice{}, f.Notices...))
	if err != nil {
		return err
	}
	var staged, archive any
	if f.StagedUUID != "" {
		staged = f.StagedUUID
	}
	if archiveID != 0 {
		archive = archiveID
	}
	return tx.QueryRowContext(ctx, `
		INSERT INTO bulk_import_files (draft_id, archive_id, path, size, staged_uuid, problem, notices) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
		d.ID, archive, f.Path, f.Size, staged, f.Problem, notices).Scan(&f.ID)
}

// dropFileTx removes the file with a path from a draft, if there is one. It sets the expiry of the
// staged file to the current time, unless another file of any draft refers to the staged file.
func (s *Service) dropFileTx(ctx context.Context, tx *db.Tx, d *Draft, name string) error {
	var staged sql.NullString
	err := tx.QueryRowContext(ctx, `DELETE FROM bulk_import_files WHERE draft_id = $1 AND path = $2 RETURNING staged_uuid`, d.ID, name).Scan(&staged)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil || !staged.Valid {
		return err
	}
	var used bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM bulk_import_files WHERE staged_uuid = $1)`, staged.String).Scan(&used); err != nil || used {
		return err
	}
	return s.batches.SetExpiryTx(ctx, tx, d.InstitutionID, []string{staged.String}, s.now())
}

// RemoveFile removes a file from a draft. The error is fault.NotFound if the draft has no such
// file.
func (s *Service) RemoveFile(ctx context.Context, d *Draft, id int64) error {
	return s.update(ctx, d, "removing a file", func(tx *db.Tx) error {
		var name string
		err := tx.QueryRowContext(ctx, `SELECT path FROM bulk_import_files WHERE id = $1 AND draft_id = $2`, id, d.ID).Scan(&name)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoFile
		}
		if err != nil {
			return err
		}
		return s.dropFileTx(ctx, tx, d, name)
	})
}

// files returns all files of a draft.
func (s *Service) files(ctx context.Context, q db.Queryer, d *Draft) (list []*File, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT id, path, size, coalesce(staged_uuid, ''), problem, notices FROM bulk_import_files WHERE draft_id = $1 ORDER BY path`, d.ID)
	if err != nil {
		return nil, fmt.Errorf("reading files: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		f := &File{}
		var notices string
		if err := rows.Scan(&f.ID, &f.Path, &f.Size, &f.StagedUUID, &f.Problem, &notices); err != nil {
			return nil, fmt.Errorf("reading files: %w", err)
		}
		if notices != "[]" {
			if err := decode(notices, &f.Notices); err != nil {
				return nil, err
			}
		}
		list = append(list, f)
	}
	return list, rows.Err()
}
