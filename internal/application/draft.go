package application

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// Texts returns a digest of the texts of the draft and of the questions of its offer.
func (d *DraftApplication) Texts() string { return d.digest(nil) }

// Content returns a digest of all that the institution receives if the draft is submitted: texts, questions and
// files.
func (d *DraftApplication) Content() string { return d.digest(d.Files) }

func (d *DraftApplication) digest(files []File) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", d.Offer.Name, d.FullName, d.Values) // fmt sorts the keys of a map
	for _, f := range d.Offer.Fields {
		fmt.Fprintf(h, "%q %q %q %q %t %q\n", f.Key, f.Label, f.Type, f.Help, f.Required, f.Choices)
	}
	for _, f := range files {
		fmt.Fprintf(h, "%q %q\n", f.Field, f.ID)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// draftOf returns the draft of a person for an offer and the number of its row, or nil if there is none.
func draftOf(ctx context.Context, q db.Queryer, userID int64, o *Offer) (*DraftApplication, int64, error) {
	d := &DraftApplication{Offer: o}
	var id, updated int64
	var values string
	err := q.QueryRowContext(ctx, `
		SELECT id, uuid, full_name, field_values, updated_at FROM application_drafts WHERE institution_id = $1 AND offer_id = $2 AND user_id = $3`,
		o.InstitutionID, o.ID, userID).Scan(&id, &d.UUID, &d.FullName, &values, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(values), &d.Values)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading a draft: %w", err)
	}
	d.UpdatedAt = db.Time(updated)
	rows, err := q.QueryContext(ctx, `SELECT uuid, field, name, type, size FROM application_files WHERE draft_id = $1 ORDER BY id`, id)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the files of a draft: %w", err)
	}
	d.Files, err = db.Collect(rows, func(rows *sql.Rows) (f File, err error) {
		err = rows.Scan(&f.ID, &f.Field, &f.Name, &f.Type, &f.Size)
		return f, err
	})
	return d, id, err
}

// DraftOf returns the saved input of a person for an offer, or nil if there is none.
func (s *Service) DraftOf(ctx context.Context, who Applicant, o *Offer) (*DraftApplication, error) {
	d, _, err := draftOf(ctx, s.db, who.UserID, o)
	return d, err
}

// draftTx returns the number of a person's draft for an open offer, and the current time. It creates the
// draft if there is none. No other transaction can change the draft until tx ends.
func (s *Service) draftTx(ctx context.Context, tx *db.Tx, who Applicant, o *Offer) (id int64, now time.Time, err error) {
	now = s.moment()
	current, err := offer(ctx, tx, o.InstitutionID, o.UUID)
	if err != nil {
		return 0, now, err
	}
	if current.Status != Open {
		return 0, now, errNoOffer
	}
	email, err := account.ParseEmail(who.Email)
	if err != nil {
		return 0, now, errVerify
	}
	if err := verifiedTx(ctx, tx, who, email.Folded); err != nil {
		return 0, now, err
	}
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO application_drafts (uuid, institution_id, offer_id, user_id, full_name, field_values, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, '{}', $6, $6) ON CONFLICT (offer_id, user_id) DO UPDATE SET updated_at = excluded.updated_at RETURNING id`,
		uuid.Must(uuid.NewV7()).String(), o.InstitutionID, current.ID, who.UserID, who.Name, db.Micros(now)).Scan(&id); err != nil {
		return 0, now, fmt.Errorf("creating a draft: %w", err)
	}
	return id, now, nil
}

// SaveDraft stores the input of a person as a draft. It accepts answers that are not valid; CheckDraft and
// SubmitDraft check them. It ignores values of unknown fields. seen is DraftApplication.Texts of the draft that
// the person has changed, or "" if it is not checked. The error is ErrDraft if the draft or the offer has other
// texts, fault.Invalid with cert.Problems for a text that cannot be stored, fault.NotFound if the offer is not
// open, and fault.Forbidden if the person has not verified the address.
func (s *Service) SaveDraft(ctx context.Context, who Applicant, o *Offer, seen, fullName string, values map[string]string) (*DraftApplication, error) {
	var bad cert.Problems
	name := limited(&bad, cert.FieldName, fullName, maxArea, false)
	stored := map[string]string{}
	for i := range o.Fields {
		f := &o.Fields[i]
		if value := limited(&bad, FieldOf(f.Key), values[f.Key], maxArea, false); value != "" && f.Type != Upload {
			stored[f.Key] = value
		}
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("encoding a draft: %w", err)
	}
	var d *DraftApplication
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if _, _, err := s.draftTx(ctx, tx, who, o); err != nil {
			return err
		}
		before, id, err := draftOf(ctx, tx, who.UserID, o)
		if err != nil {
			return err
		}
		if same := before.FullName == name && maps.Equal(before.Values, stored); seen != "" && seen != before.Texts() && !same {
			return ErrDraft
		}
		if _, err := tx.ExecContext(ctx, `UPDATE application_drafts SET full_name = $1, field_values = $2 WHERE id = $3`, name, string(text), id); err != nil {
			return err
		}
		d, _, err = draftOf(ctx, tx, who.UserID, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("saving a draft: %w", err)
	}
	return d, nil
}

// AddDraftFile stores an attachment of a draft. The error is fault.Invalid with cert.Problems if the offer
// has no such field for files, the draft has too many files, or the file is refused. It is ErrFull if
// the files of drafts have reached the quota, and fault.TooMany if too many requests come from the network.
// It is fault.Forbidden if the institution is disabled. Otherwise, the errors are those of SaveDraft.
func (s *Service) AddDraftFile(ctx context.Context, who Applicant, o *Offer, field string, in *cert.Incoming) (*File, error) {
	if err := s.allow(ctx, &who); err != nil {
		return nil, err
	}
	if f := fieldOf(o.Fields, field); f == nil || f.Type != Upload {
		return nil, cert.Problems{{Field: "files", Code: CodeField}}.Err()
	}
	inst, err := account.InstitutionByID(ctx, s.db, o.InstitutionID)
	if err != nil {
		return nil, err
	}
	if err := inst.CheckEnabled(); err != nil {
		return nil, err
	}
	// The limits are checked before the file is read, and again when it is stored.
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		id, _, err := s.draftTx(ctx, tx, who, o)
		if err != nil {
			return err
		}
		return s.roomTx(ctx, tx, id, o, field)
	}); err != nil {
		return nil, err
	}
	var stored *File
	err = s.Receive(ctx, inst.UUID, in, func(f *cert.File) error {
		return s.db.Tx(ctx, func(tx *db.Tx) error {
			id, now, err := s.draftTx(ctx, tx, who, o)
			if err == nil {
				err = s.roomTx(ctx, tx, id, o, field)
			}
			if err == nil {
				stored, err = insertFileTx(ctx, tx, o.InstitutionID, forDraft(id), field, f, now)
			}
			return err
		})
	})
	if p := cert.RefusedFile(err); p != nil {
		p.Field = FileOf(field)
		return nil, cert.Problems{*p}.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("adding a file to a draft: %w", err)
	}
	return stored, nil
}

// roomTx checks that a file can be added to a draft. The error is fault.Invalid with cert.Problems if the
// draft has as many files as its offer allows, and ErrFull if the files of all drafts for the institution
// have reached the quota.
func (s *Service) roomTx(ctx context.Context, tx *db.Tx, draft int64, o *Offer, field string) error {
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM application_files WHERE draft_id = $1`, draft).Scan(&n); err != nil {
		return err
	}
	if n >= o.MaxFiles {
		return cert.Problems{{Field: FileOf(field), Code: CodeFiles, Limit: o.MaxFiles}}.Err()
	}
	// Anyone with a verified address can save files, so the files of drafts have a quota.
	var saved int64
	if err := tx.QueryRowContext(ctx, `
		SELECT CAST(coalesce(sum(f.size), 0) AS BIGINT) FROM application_drafts d JOIN application_files f ON f.draft_id = d.id WHERE d.institution_id = $1`,
		o.InstitutionID).Scan(&saved); err != nil {
		return err
	}
	if saved >= s.quota {
		return ErrFull
	}
	return nil
}

// RemoveDraftFile deletes an attachment of a draft, or returns fault.NotFound.
func (s *Service) RemoveDraftFile(ctx context.Context, who Applicant, o *Offer, fileID string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		// The change of the draft makes SubmitDraft wait until tx ends.
		var id int64
		err := tx.QueryRowContext(ctx, `UPDATE application_drafts SET updated_at = $1 WHERE institution_id = $2 AND offer_id = $3 AND user_id = $4 RETURNING id`,
			db.Micros(s.moment()), o.InstitutionID, o.ID, who.UserID).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoFile
		}
		if err != nil {
			return err
		}
		var file int64
		err = tx.QueryRowContext(ctx, `SELECT id FROM application_files WHERE draft_id = $1 AND uuid = $2`, id, fileID).Scan(&file)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoFile
		}
		if err != nil {
			return err
		}
		keys, err := deleteFilesTx(ctx, tx, s.moment(), `id = $1`, file)
		if err != nil {
			return err
		}
		s.erase(ctx, tx, keys)
		_, err = tx.ExecContext(ctx, `DELETE FROM application_files WHERE id = $1`, file)
		return err
	})
	if err != nil {
		return fmt.Errorf("removing a file of a draft: %w", err)
	}
	return nil
}

// deleteDraftTx deletes a draft with its files.
func (s *Service) deleteDraftTx(ctx context.Context, tx *db.Tx, id int64) error {
	keys, err := deleteFilesTx(ctx, tx, s.moment(), `draft_id = $1`, id)
	if err != nil {
		return err
	}
	s.erase(ctx, tx, keys)
	for _, statement := range []string{`DELETE FROM application_files WHERE draft_id = $1`, `DELETE FROM application_drafts WHERE id = $1`} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return fmt.Errorf("deleting a draft: %w", err)
		}
	}
	return nil
}

// ofDraft checks the draft of a person for an offer. It returns the checked submission, the draft and the
// number of the draft's row.
func (s *Service) ofDraft(ctx context.Context, inst *account.Institution, who Applicant, o *Offer) (*newApplication, *DraftApplication, int64, error) {
	d, id, err := draftOf(ctx, s.db, who.UserID, o)
	if err != nil {
		return nil, nil, 0, err
	}
	if d == nil {
		return nil, nil, 0, errNoDraft
	}
	counts := map[string]int{}
	for _, f := range d.Files {
		counts[f.Field]++
	}
	n, err := s.prepare(ctx, Submission{
		Institution: inst, Offer: o, Creator: cert.Actor{Type: "user", ID: who.UserID, Name: d.FullName}, Applicant: &who, FullName: d.FullName, Values: d.Values,
	}, counts)
	if err == nil {
		d.Offer = n.offer
	}
	return n, d, id, err
}

// CheckDraft returns the problems that prevent the submission of a draft. It changes nothing.
func (s *Service) CheckDraft(ctx context.Context, who Applicant, o *Offer) error {
	inst, err := account.InstitutionByID(ctx, s.db, o.InstitutionID)
	if err != nil {
		return err
	}
	n, _, _, err := s.ofDraft(ctx, inst, who, o)
	if err != nil {
		return err
	}
	return checkOpen(ctx, s.db, n, who.UserID)
}

// Drafts returns the drafts of a person in all institutions, most recently changed first. Their offers
// may be closed.
func (s *Service) Drafts(ctx context.Context, userID int64) ([]*DraftApplication, error) {
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT offer_id FROM application_drafts WHERE user_id = $1 ORDER BY updated_at DESC, id DESC`, userID))
	if err != nil {
		return nil, fmt.Errorf("listing drafts: %w", err)
	}
	var list []*DraftApplication
	for _, id := range ids {
		o, err := scanOffer(s.db.QueryRowContext(ctx, `SELECT `+offerColumns+` FROM offers WHERE id = $1`, id))
		if err != nil {
			return nil, err
		}
		d, _, err := draftOf(ctx, s.db, userID, o)
		if err != nil {
			return nil, err
		}
		if d != nil {
			list = append(list, d)
		}
	}
	return list, nil
}

// DeleteDraft deletes the draft of a person for an offer, if there is one.
func (s *Service) DeleteDraft(ctx context.Context, who Applicant, o *Offer) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		d, id, err := draftOf(ctx, tx, who.UserID, o)
		if err != nil || d == nil {
			return err
		}
		return s.deleteDraftTx(ctx, tx, id)
	})
}

// SubmitDraft submits the draft of a person for an offer. seen is DraftApplication.Content of the draft that the
// person has reviewed. The errors are those of Submit, fault.NotFound if there is no draft, and ErrDraft if the
// draft or the offer has other content.
func (s *Service) SubmitDraft(ctx context.Context, inst *account.Institution, who Applicant, o *Offer, seen string) (*Application, error) {
	if err := s.allow(ctx, &who); err != nil {
		return nil, err
	}
	n, d, draft, err := s.ofDraft(ctx, inst, who, o)
	if err != nil {
		return nil, err
	}
	if d.Content() != seen {
		return nil, ErrDraft
	}
	var a *Application
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		// Lock the draft, and then check that it has not changed since ofDraft read it.
		if _, err := tx.ExecContext(ctx, `UPDATE application_drafts SET updated_at = updated_at WHERE id = $1`, draft); err != nil {
			return err
		}
		d, id, err := draftOf(ctx, tx, who.UserID, n.offer)
		switch {
		case err != nil:
			return err
		case d == nil:
			return errNoDraft
		case id != draft || d.Content() != seen:
			return ErrDraft
		}
		a, err = s.submitTx(ctx, tx, n, func(id int64, _ time.Time) error {
			if _, err := tx.ExecContext(ctx, `UPDATE application_files SET application_id = $1, draft_id = NULL WHERE draft_id = $2`, id, draft); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `DELETE FROM application_drafts WHERE id = $1`, draft)
			return err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("submitting a draft: %w", err)
	}
	return forApplicant(a), nil
}
