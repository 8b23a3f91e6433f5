package application

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

type scanner interface{ Scan(dest ...any) error }

// columns are the columns that scan reads, and tables are their tables. The record in certificates has
// the texts and the status. An application whose data was deleted has no certificate_id, so the JOIN
// excludes it.
const (
	columns = `a.id, a.certificate_id, a.uuid, a.institution_id, a.offer_id, o.uuid, o.name, c.reference_id, a.status, c.status, c.full_name, c.email, c.title,
		a.email_folded, a.fields, a.field_values, a.user_id, a.hold_kind, a.hold_text, a.held_at, a.hold_until, a.answer, a.answered_at,
		a.claimed_by_type, a.claimed_by_id, a.claimed_by_name, a.claimed_at, a.decided_by_type, a.decided_by_id, a.decided_by_name, a.decided_at,
		a.reason, a.note, a.advice, c.failure_code, c.failure_message, a.files_deleted, a.revision, c.created_at, c.updated_at`
	tables = ` FROM applications a JOIN certificates c ON c.id = a.certificate_id JOIN offers o ON o.id = a.offer_id `
)

// scan scans a row that has the columns in the constant columns.
func scan(row scanner) (*Application, error) {
	a := &Application{}
	var fields, values string
	var user, heldAt, until, answeredAt, claimedID, claimedAt, decidedID, decidedAt sql.NullInt64
	var kind, text, answer, claimedType, claimedName, decidedType, decidedName, reason, note, code, message sql.NullString
	var created, updated int64
	err := row.Scan(
		&a.id, &a.ID, &a.UUID, &a.InstitutionID, &a.OfferID, &a.OfferUUID, &a.OfferName, &a.ReferenceID, &a.state, &a.Status, &a.FullName, &a.Email, &a.Title,
		&a.emailFolded, &fields, &values, &user, &kind, &text, &heldAt, &until, &answer, &answeredAt,
		&claimedType, &claimedID, &claimedName, &claimedAt, &decidedType, &decidedID, &decidedName, &decidedAt,
		&reason, &note, &a.Advice, &code, &message, &a.FilesDeleted, &a.Revision, &created, &updated,
	)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(fields), &a.Fields), json.Unmarshal([]byte(values), &a.Values))
	}
	if err != nil {
		return nil, fmt.Errorf("reading an application: %w", err)
	}
	a.ApplicantID, a.Reason, a.Note = user.Int64, reason.String, note.String
	a.ClaimedBy, a.ClaimedAt = Person{claimedID.Int64, claimedType.String, claimedName.String}, db.OptionalTime(claimedAt)
	a.DecidedBy, a.DecidedAt = Person{decidedID.Int64, decidedType.String, decidedName.String}, db.OptionalTime(decidedAt)
	if kind.Valid {
		a.Hold = &Hold{
			Kind: HoldKind(kind.String), Text: text.String, Since: db.Time(heldAt.Int64), Until: db.Time(until.Int64),
			Answer: answer.String, AnsweredAt: db.OptionalTime(answeredAt),
		}
	}
	if code.Valid {
		a.Failure = &cert.Failure{Code: code.String, Message: message.String}
	}
	a.CreatedAt, a.UpdatedAt = db.Time(created), db.Time(updated)
	return a, nil
}

// one returns the application that the condition where selects, with its files, or errNotFound.
func one(ctx context.Context, q db.Queryer, where string, args ...any) (*Application, error) {
	a, err := scan(q.QueryRowContext(ctx, `SELECT `+columns+tables+where, args...))
	if err != nil {
		return nil, err
	}
	return a, addFiles(ctx, q, a.InstitutionID, []*Application{a})
}

// ByUUID returns an application of an institution, or fault.NotFound.
func (s *Service) ByUUID(ctx context.Context, institutionID int64, uuid string) (*Application, error) {
	return byUUID(ctx, s.db, institutionID, uuid)
}

func byUUID(ctx context.Context, q db.Queryer, institutionID int64, uuid string) (*Application, error) {
	return one(ctx, q, `WHERE a.institution_id = $1 AND a.uuid = $2`, institutionID, uuid)
}

// ByApplicant returns an application of a person, or fault.NotFound.
func (s *Service) ByApplicant(ctx context.Context, userID int64, uuid string) (*Application, error) {
	a, err := one(ctx, s.db, `WHERE a.user_id = $1 AND a.uuid = $2`, userID, uuid)
	return forApplicant(a), err
}

// forApplicant removes the fields that the applicant must not see, and returns a.
func forApplicant(a *Application) *Application {
	if a != nil {
		a.Note, a.Advice, a.ClaimedBy, a.DecidedBy = "", NoRegister, Person{}, Person{}
	}
	return a
}

// OfApplicant returns the applications of a person in all institutions, newest first.
func (s *Service) OfApplicant(ctx context.Context, userID int64) ([]*Application, error) {
	list, err := s.all(ctx, `WHERE a.user_id = $1 ORDER BY a.id DESC`, userID)
	for _, a := range list {
		forApplicant(a)
	}
	return list, err
}

// all returns the applications that the condition where selects, with their files.
func (s *Service) all(ctx context.Context, where string, args ...any) ([]*Application, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+tables+where, args...)
	if err != nil {
		return nil, fmt.Errorf("listing applications: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Application, error) { return scan(rows) })
	if err != nil {
		return nil, fmt.Errorf("listing applications: %w", err)
	}
	byInstitution := map[int64][]*Application{}
	for _, a := range list {
		byInstitution[a.InstitutionID] = append(byInstitution[a.InstitutionID], a)
	}
	for institution, some := range byInstitution {
		if err := addFiles(ctx, s.db, institution, some); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// addFiles sets the files of applications of one institution.
func addFiles(ctx context.Context, q db.Queryer, institutionID int64, list []*Application) error {
	byID := map[int64]*Application{}
	ids := make([]int64, len(list))
	for i, a := range list {
		byID[a.id], ids[i] = a, a.id
	}
	_, err := db.ByID(ctx, q, institutionID, ids, func(placeholders string) string {
		return `SELECT application_id, uuid, field, name, type, size, file_key FROM application_files
			WHERE institution_id = $1 AND application_id IN (` + placeholders + `) ORDER BY id`
	}, func(rows *sql.Rows) (id int64, f File, err error) {
		var key sql.NullString
		err = rows.Scan(&id, &f.ID, &f.Field, &f.Name, &f.Type, &f.Size, &key)
		if a := byID[id]; err == nil && a != nil {
			f.Deleted = !key.Valid
			a.Files = append(a.Files, f)
		}
		return id, f, err
	})
	if err != nil {
		return fmt.Errorf("reading the files of applications: %w", err)
	}
	return nil
}

// optional returns the value of a text column, which is NULL if the text is empty.
func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// fieldOf returns the field with the key, or nil if there is none.
func fieldOf(fields []Field, key string) *Field {
	if i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == key }); i >= 0 {
		return &fields[i]
	}
	return nil
}
