package application

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// MaxFiles is the maximum number of files of an application.
	MaxFiles = 10
	// MaxFields is the maximum number of fields of an offer.
	MaxFields = 50
	// MaxChoices is the maximum number of choices of a field.
	MaxChoices = 100
	// MaxDays is the maximum number of days of a hold and of the retention.
	MaxDays = 3650

	defaultHold, defaultRetention = 14, 180

	maxLine   = 255
	maxArea   = 5000
	maxColumn = 1000 // a value of a template's column, or the help of a field
	maxSlug   = 60
	maxKey    = 40
)

// OfferStatus is the status of an offer.
type OfferStatus string

// These are the statuses of an offer. Only open offers are public and accept applications.
const (
	Draft  OfferStatus = "draft"
	Open   OfferStatus = "open"
	Closed OfferStatus = "closed"
)

// FieldType is the type of the values of a field.
type FieldType string

// These are the types of fields.
const (
	Line   FieldType = "text"
	Area   FieldType = "area"
	Date   FieldType = "date"
	Number FieldType = "number"
	Choice FieldType = "choice"
	Check  FieldType = "check"
	Upload FieldType = "file"
)

// Field is a question of an offer. Key is unique in the offer, and has lowercase letters, digits and
// underscores. If Column is not empty, the answers fill this column of the template.
type Field struct {
	Key      string    `json:"key"`
	Label    string    `json:"label"`
	Type     FieldType `json:"type"`
	Help     string    `json:"help,omitempty"`
	Required bool      `json:"required"`
	Choices  []string  `json:"choices,omitempty"`
	Column   string    `json:"column,omitempty"`
}

// Offer is what people can apply for. Slug is unique in the institution.
type Offer struct {
	ID            int64
	UUID          string
	InstitutionID int64
	Slug, Name    string
	Description   string
	Criteria      string
	Status        OfferStatus
	// TemplateID is the UUID of the template of the certificates, or "". Without a template, a reviewer
	// must attach the file of each certificate.
	TemplateID string
	Fields     []Field
	// FourEyes requires that the person who approves is not the person who claimed the application.
	FourEyes bool
	// HoldDays is the number of days after which an application expires if its hold is not answered.
	// RetentionDays is the number of days from the decision until the attachments, and applications
	// without a certificate, are deleted. MaxFiles is the maximum number of files of an application.
	HoldDays, RetentionDays, MaxFiles int
	// Reviewers are the members who review the offer's applications. If the list is empty, all members
	// with the permission to review are reviewers. If no one in the list has the permission any more, the
	// members who manage offers are the reviewers.
	Reviewers []int64
	// HoldTexts are the texts that the panel suggests for holds.
	HoldTexts map[HoldKind]string
	// RegisterRows is the number of rows of the register, or 0 if there is none. RegisterNumber,
	// RegisterName and RegisterBirth are the keys of the fields that are compared with the register.
	RegisterRows                                int
	RegisterNumber, RegisterName, RegisterBirth string
	Revision                                    int64
	CreatedAt, UpdatedAt                        time.Time
}

// Unreviewed reports whether the offer names reviewers, and none of them may review any more. people are the
// people in Reviewers.
func (o *Offer) Unreviewed(people map[int64]account.PersonName) bool {
	return len(o.Reviewers) > 0 && !slices.ContainsFunc(o.Reviewers, func(id int64) bool { return people[id].Role.Can(account.MayReview) })
}

// ReviewedBy reports whether a member with the permission to review is a reviewer of the offer. people are the
// member and the people in Reviewers.
func (o *Offer) ReviewedBy(userID int64, people map[int64]account.PersonName) bool {
	switch {
	case len(o.Reviewers) == 0:
		return true
	case o.Unreviewed(people):
		return people[userID].Role.Can(account.MayManageOffers)
	}
	return slices.Contains(o.Reviewers, userID) && people[userID].Role.Can(account.MayReview)
}

// OfferInput has the fields of an offer that a member can change.
type OfferInput struct {
	Slug, Name, Description, Criteria, TemplateID string
	Fields                                        []Field
	FourEyes                                      bool
	HoldDays, RetentionDays, MaxFiles             int
	Reviewers                                     []int64
	HoldTexts                                     map[HoldKind]string
	RegisterNumber, RegisterName, RegisterBirth   string
}

const offerColumns = `id, uuid, institution_id, slug, name, description, criteria, status, template_id, fields, four_eyes, hold_days, retention_days,
	max_files, reviewers, hold_texts, register_rows, register_number, register_name, register_birth, revision, created_at, updated_at`

func scanOffer(row scanner) (*Offer, error) {
	o := &Offer{}
	var fields, reviewers, texts string
	var created, updated int64
	err := row.Scan(&o.ID, &o.UUID, &o.InstitutionID, &o.Slug, &o.Name, &o.Description, &o.Criteria, &o.Status, &o.TemplateID, &fields, &o.FourEyes,
		&o.HoldDays, &o.RetentionDays, &o.MaxFiles, &reviewers, &texts, &o.RegisterRows, &o.RegisterNumber, &o.RegisterName, &o.RegisterBirth,
		&o.Revision, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoOffer
	}
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(fields), &o.Fields), json.Unmarshal([]byte(reviewers), &o.Reviewers), json.Unmarshal([]byte(texts), &o.HoldTexts))
	}
	if err != nil {
		return nil, fmt.Errorf("reading an offer: %w", err)
	}
	o.CreatedAt, o.UpdatedAt = db.Time(created), db.Time(updated)
	return o, nil
}

func (s *Service) offers(ctx context.Context, where string, args ...any) ([]*Offer, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+offerColumns+` FROM offers WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("listing offers: %w", err)
	}
	return db.Collect(rows, func(rows *sql.Rows) (*Offer, error) { return scanOffer(rows) })
}

// Offers returns the offers of an institution, newest first. If status is not empty, it returns only the
// offers with this status.
func (s *Service) Offers(ctx context.Context, institutionID int64, status OfferStatus) ([]*Offer, error) {
	return s.offers(ctx, `institution_id = $1 AND (status = $2 OR $2 = '') ORDER BY id DESC`, institutionID, string(status))
}

// OfferNamed returns the offer of a list whose UUID or slug is name, or nil if there is none.
func OfferNamed(list []*Offer, name string) *Offer {
	for _, o := range list {
		if o.Slug == name || strings.EqualFold(o.UUID, name) {
			return o
		}
	}
	return nil
}

// Offer returns an offer of an institution, or fault.NotFound.
func (s *Service) Offer(ctx context.Context, institutionID int64, uuid string) (*Offer, error) {
	return offer(ctx, s.db, institutionID, uuid)
}

func offer(ctx context.Context, q db.Queryer, institutionID int64, uuid string) (*Offer, error) {
	return scanOffer(q.QueryRowContext(ctx, `SELECT `+offerColumns+` FROM offers WHERE institution_id = $1 AND uuid = $2`, institutionID, uuid))
}

// OpenOffers returns the open offers of an institution, in the order of their names. A disabled
// institution has none.
func (s *Service) OpenOffers(ctx context.Context, institutionID int64) ([]*Offer, error) {
	if err := account.CheckEnabled(ctx, s.db, institutionID); err != nil {
		if fault.Is(err, fault.Forbidden) {
			return nil, nil
		}
		return nil, err
	}
	return s.offers(ctx, `institution_id = $1 AND status = 'open' ORDER BY name, id`, institutionID)
}

// OpenOffer returns an open offer. The error is fault.NotFound if there is none with the slug, or if the
// institution is disabled.
func (s *Service) OpenOffer(ctx context.Context, institutionID int64, slug string) (*Offer, error) {
	if err := account.CheckEnabled(ctx, s.db, institutionID); err != nil {
		if fault.Is(err, fault.Forbidden) {
			return nil, errNoOffer
		}
		return nil, err
	}
	return scanOffer(s.db.QueryRowContext(ctx, `SELECT `+offerColumns+` FROM offers WHERE institution_id = $1 AND slug = $2 AND status = 'open'`, institutionID, slug))
}

// columns returns the values of an input for the table offers, in the order of the statements of CreateOffer
// and ChangeOffer.
func (in *OfferInput) columns() ([]any, error) {
	fields, err := json.Marshal(append([]Field{}, in.Fields...))
	if err != nil {
		return nil, fmt.Errorf("encoding the fields of an offer: %w", err)
	}
	reviewers, err := json.Marshal(append([]int64{}, in.Reviewers...))
	if err != nil {
		return nil, fmt.Errorf("encoding the reviewers of an offer: %w", err)
	}
	texts, err := json.Marshal(in.HoldTexts)
	if err != nil {
		return nil, fmt.Errorf("encoding the texts of an offer: %w", err)
	}
	return []any{
		in.Slug, in.Name, in.Description, in.Criteria, in.TemplateID, string(fields), in.FourEyes, in.HoldDays, in.RetentionDays, in.MaxFiles,
		string(reviewers), string(texts), in.RegisterNumber, in.RegisterName, in.RegisterBirth,
	}, nil
}

// CreateOffer creates an offer in the status draft. The error is fault.Invalid with cert.Problems for an
// input that is not valid.
func (s *Service) CreateOffer(ctx context.Context, inst *account.Institution, in OfferInput) (*Offer, error) {
	if err := s.check(ctx, inst.ID, &in); err != nil {
		return nil, err
	}
	values, err := in.columns()
	if err != nil {
		return nil, err
	}
	var o *Offer
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		now := s.moment()
		o, err = scanOffer(tx.QueryRowContext(ctx, `
			INSERT INTO offers (slug, name, description, criteria, template_id, fields, four_eyes, hold_days, retention_days, max_files, reviewers, hold_texts,
				register_number, register_name, register_birth, uuid, institution_id, status, revision, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 'draft', 1, $18, $18)
			ON CONFLICT (institution_id, slug) DO NOTHING RETURNING `+offerColumns,
			append(values, uuid.Must(uuid.NewV7()).String(), inst.ID, db.Micros(now))...))
		if errors.Is(err, errNoOffer) {
			return cert.Problems{{Field: "slug", Code: CodeTaken}}.Err()
		}
		if err != nil {
			return err
		}
		return recordOfferTx(ctx, tx, audit.OfferCreated, o, now, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("creating an offer: %w", err)
	}
	return o, nil
}

// ChangeOffer changes an offer. Submitted applications keep their fields. The error is fault.NotFound if
// there is no such offer, and fault.Conflict if the revision is not the current one. Otherwise, the errors
// are those of CreateOffer and, for an open offer, of SetOfferStatus.
func (s *Service) ChangeOffer(ctx context.Context, institutionID int64, uuid string, revision int64, in OfferInput) (*Offer, error) {
	if err := s.check(ctx, institutionID, &in); err != nil {
		return nil, err
	}
	before, err := s.Offer(ctx, institutionID, uuid)
	if err != nil {
		return nil, err
	}
	if before.Status == Open {
		if err := s.checkTemplate(ctx, institutionID, in.TemplateID); err != nil {
			return nil, err
		}
	}
	values, err := in.columns()
	if err != nil {
		return nil, err
	}
	return s.changeOffer(ctx, institutionID, uuid, "changing an offer", func(tx *db.Tx, o *Offer, now time.Time) error {
		if o.Revision != revision || o.Revision != before.Revision {
			return errRevision
		}
		var taken bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM offers WHERE institution_id = $1 AND slug = $2 AND id <> $3)`,
			institutionID, in.Slug, o.ID).Scan(&taken); err != nil {
			return err
		}
		if taken {
			return cert.Problems{{Field: "slug", Code: CodeTaken}}.Err()
		}
		_, err := tx.ExecContext(ctx, `
			UPDATE offers SET slug = $1, name = $2, description = $3, criteria = $4, template_id = $5, fields = $6, four_eyes = $7, hold_days = $8,
				retention_days = $9, max_files = $10, reviewers = $11, hold_texts = $12, register_number = $13, register_name = $14, register_birth = $15,
				revision = revision + 1, updated_at = $16 WHERE id = $17`, append(values, db.Micros(now), o.ID)...)
		if db.UniqueOn(err, "offers", "slug") {
			return cert.Problems{{Field: "slug", Code: CodeTaken}}.Err()
		}
		if err != nil {
			return err
		}
		o.RegisterNumber, o.RegisterName, o.RegisterBirth = in.RegisterNumber, in.RegisterName, in.RegisterBirth
		if o.RegisterRows > 0 {
			if err := s.compareTx(ctx, tx, o); err != nil {
				return err
			}
		}
		return recordOfferTx(ctx, tx, audit.OfferChanged, o, now, nil)
	})
}

// changeOffer runs f in a transaction that locks an offer, and returns the changed offer. what describes
// the change in errors.
func (s *Service) changeOffer(ctx context.Context, institutionID int64, uuid, what string, f func(tx *db.Tx, o *Offer, now time.Time) error) (*Offer, error) {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		o, err := lockOfferTx(ctx, tx, institutionID, uuid)
		if err != nil {
			return err
		}
		return f(tx, o, s.moment())
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return s.Offer(ctx, institutionID, uuid)
}

// lockOfferTx returns an offer. No other transaction can change the offer until tx ends.
func lockOfferTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string) (*Offer, error) {
	return scanOffer(tx.QueryRowContext(ctx, `
		UPDATE offers SET updated_at = updated_at WHERE institution_id = $1 AND uuid = $2 RETURNING `+offerColumns, institutionID, uuid))
}

// statusActions are the actions of the audit log for the statuses of an offer.
var statusActions = map[OfferStatus]audit.Action{Draft: audit.OfferDrafted, Open: audit.OfferOpened, Closed: audit.OfferClosed}

// SetOfferStatus changes the status of an offer. Reviewers can decide submitted applications in each
// status. The error is fault.NotFound if there is no such offer, and fault.Conflict if it changes in the
// meantime. If the offer is opened, the error is fault.Invalid if no certificate can be issued from its
// template, and fault.NotFound if there is no such template.
func (s *Service) SetOfferStatus(ctx context.Context, institutionID int64, uuid string, status OfferStatus) (*Offer, error) {
	action, ok := statusActions[status]
	if !ok {
		return nil, fault.OfField("status", "The status must be draft, open or closed.")
	}
	before, err := s.Offer(ctx, institutionID, uuid)
	if err == nil && status == Open {
		err = s.checkTemplate(ctx, institutionID, before.TemplateID)
	}
	if err != nil {
		return nil, err
	}
	return s.changeOffer(ctx, institutionID, uuid, "changing the status of an offer", func(tx *db.Tx, o *Offer, now time.Time) error {
		switch {
		case o.Status == status:
			return nil
		case o.Revision != before.Revision:
			return errRevision
		}
		if _, err := tx.ExecContext(ctx, `UPDATE offers SET status = $1, revision = revision + 1, updated_at = $2 WHERE id = $3`,
			string(status), db.Micros(now), o.ID); err != nil {
			return err
		}
		return recordOfferTx(ctx, tx, action, o, now, nil)
	})
}

// checkTemplate returns the error of template.Service.Usable for the template of an offer, or nil if the
// offer has no template.
func (s *Service) checkTemplate(ctx context.Context, institutionID int64, uuid string) error {
	if uuid == "" {
		return nil
	}
	return s.templates.Usable(ctx, institutionID, uuid)
}

// DeleteOffer deletes an offer with its register and its drafts. The error is fault.Conflict if the offer
// has applications.
func (s *Service) DeleteOffer(ctx context.Context, institutionID int64, uuid string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		o, err := lockOfferTx(ctx, tx, institutionID, uuid)
		if err != nil {
			return err
		}
		var used bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM applications WHERE offer_id = $1)`, o.ID).Scan(&used); err != nil {
			return err
		}
		if used {
			return fault.New(fault.Conflict, "An offer with applications cannot be deleted, only closed.")
		}
		drafts, err := db.Column[int64](tx.QueryContext(ctx, `SELECT id FROM application_drafts WHERE offer_id = $1`, o.ID))
		if err != nil {
			return err
		}
		for _, id := range drafts {
			if err := s.deleteDraftTx(ctx, tx, id); err != nil {
				return err
			}
		}
		for _, statement := range []string{`DELETE FROM offer_registers WHERE offer_id = $1`, `DELETE FROM offers WHERE id = $1`} {
			if _, err := tx.ExecContext(ctx, statement, o.ID); err != nil {
				return err
			}
		}
		return recordOfferTx(ctx, tx, audit.OfferDeleted, o, s.moment(), nil)
	})
	if err != nil {
		return fmt.Errorf("deleting an offer: %w", err)
	}
	return nil
}

func recordOfferTx(ctx context.Context, tx *db.Tx, action audit.Action, o *Offer, at time.Time, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: o.InstitutionID, At: at, Action: action, Subject: audit.Subject{Type: "offer", ID: o.UUID, Name: o.Name}, Detail: detail,
	})
}
