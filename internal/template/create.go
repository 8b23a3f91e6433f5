package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxName = 100
	// maxDesign is the maximum size of a design in bytes, the same as in package design.
	maxDesign = 20 << 20
)

// checkName returns the name of a template without surrounding white space. The error is fault.Invalid
// if the name is not valid.
func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName {
		return "", fault.OfField("name", fmt.Sprintf("The name must have 1 to %d characters.", maxName))
	}
	if !account.CleanText(name) || strings.ContainsFunc(name, isControl) {
		return "", fault.OfField("name", "The name must not contain control characters.")
	}
	return name, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Create creates a template with a draft. The error is fault.Invalid if the name or the design cannot be
// used. If package design refused the file, the cause is a *design.Refusal.
func (s *Service) Create(ctx context.Context, n NewTemplate) (*Template, error) {
	name, err := checkName(n.Name)
	if err != nil {
		return nil, err
	}
	d, l, err := s.newDesign(ctx, &n)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, n.Institution, name, d, l, audit.TemplateCreated)
}

// newDesign returns the design of a new template with its layout.
func (s *Service) newDesign(ctx context.Context, n *NewTemplate) (*design.Design, *design.Layout, error) {
	if err := s.designing.Acquire(ctx, 1); err != nil {
		return nil, nil, fmt.Errorf("waiting to read a design: %w", err)
	}
	defer s.designing.Release(1)
	if n.Design == nil {
		return s.builtIn(ctx, n)
	}
	file, err := readAll(n.Design, maxDesign, "design", fmt.Sprintf("A design can have at most %d MB. Reduce the pictures in it.", maxDesign>>20))
	if err != nil {
		return nil, nil, err
	}
	d, err := prepare(ctx, file, n.Paper)
	if err != nil {
		return nil, nil, err
	}
	return d, &design.Layout{Fields: append([]design.Field{}, d.Fields...)}, nil
}

// prepare returns the design of a PDF, PNG or JPEG. For a PNG or JPEG, format is the format of the page.
func prepare(ctx context.Context, file []byte, format string) (d *design.Design, err error) {
	switch {
	case isPicture(file):
		d, err = design.FromPicture(ctx, file, format)
	default:
		d, err = design.Prepare(ctx, file)
	}
	if refusal, ok := errors.AsType[*design.Refusal](err); ok {
		return nil, &fault.Error{Kind: fault.Invalid, Fields: []fault.Field{{Name: "design", Messages: []string{refusal.Reason}}}, Err: refusal}
	}
	if err != nil {
		return nil, fmt.Errorf("reading a design: %w", err)
	}
	return d, nil
}

// isPicture reports whether a file begins with the signature of a PNG or JPEG.
func isPicture(file []byte) bool {
	return strings.HasPrefix(string(file[:min(len(file), 8)]), "\x89PNG\r\n\x1a\n") || strings.HasPrefix(string(file[:min(len(file), 3)]), "\xff\xd8\xff")
}

// create stores a design and creates the template with its draft.
func (s *Service) create(ctx context.Context, inst *account.Institution, name string, d *design.Design, l *design.Layout, action audit.Action) (*Template, error) {
	key := cert.NewKey(inst.UUID, cert.DesignKind)
	var id string
	err := s.store(ctx, key, d.PDF, func(tx *db.Tx) (err error) {
		id, err = s.insertTx(ctx, tx, inst, name, action, func(t int64) *Version {
			return &Version{
				Number: 1, Pages: d.Pages, Layout: *l, Warnings: d.Warnings, Revision: 1, templateID: t, institutionID: inst.ID, designKey: key,
			}
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating a template: %w", err)
	}
	return s.ByUUID(ctx, inst.ID, id)
}

// maxTemplates is the maximum number of templates of an institution, including archived ones.
const maxTemplates = 1000

// insertTx creates a template with a draft, and returns the UUID of the template. draft returns the data
// of the draft for the id of the template.
func (s *Service) insertTx(ctx context.Context, tx *db.Tx, inst *account.Institution, name string, action audit.Action, draft func(id int64) *Version) (uid string, err error) {
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM templates WHERE institution_id = $1`, inst.ID).Scan(&n); err != nil {
		return "", err
	}
	if n >= maxTemplates {
		return "", fault.New(fault.BadRequest, fmt.Sprintf("An institution can have at most %d templates. Delete drafts that are not needed.", maxTemplates))
	}
	now := s.moment()
	uid = uuid.Must(uuid.NewV7()).String()
	var id int64
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO templates (uuid, institution_id, name, name_folded, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5) RETURNING id`,
		uid, inst.ID, name, cert.FoldText(name), db.Micros(now)).Scan(&id); err != nil {
		return "", err
	}
	if err := s.insertDraftTx(ctx, tx, draft(id), now); err != nil {
		return "", err
	}
	return uid, recordTx(ctx, tx, action, inst.ID, uid, name, now, nil)
}

// moment returns the current time in UTC with the precision of the database, microseconds.
func (s *Service) moment() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

func recordTx(ctx context.Context, tx *db.Tx, action audit.Action, institutionID int64, uid, name string, now time.Time, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: institutionID, At: now, Action: action, Subject: audit.Subject{Type: "template", ID: uid, Name: name}, Detail: detail,
	})
}

const (
	// maxLayout is the maximum size of a stored layout in bytes.
	maxLayout = 1 << 20
	// maxFields is the maximum number of fields of a draft. The maximum of a published version is lower,
	// but a person can save a draft first and delete fields later.
	maxFields = 200
)

// encode returns the layout as JSON. The error is fault.Invalid if the layout is too large or has a number
// that is not finite.
func encode(l *design.Layout) (string, error) {
	if len(l.Fields) > maxFields {
		return "", fault.New(fault.Invalid, fmt.Sprintf("A draft can have at most %d fields.", maxFields))
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "The layout has a number that is not finite.", err)
	}
	if len(text) > maxLayout {
		return "", fault.New(fault.Invalid, "The layout is too large.")
	}
	return string(text), nil
}

// insertDraftTx stores a version as a draft, with its signatories.
func (s *Service) insertDraftTx(ctx context.Context, tx *db.Tx, v *Version, now time.Time) error {
	stored, err := v.encode()
	if err != nil {
		return err
	}
	var id int64
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO template_versions (template_id, institution_id, number, state, revision, design_key, pages, layout, warnings, in_order, created_at, updated_at)
		VALUES ($1, $2, $3, 'draft', $4, $5, $6, $7, $8, $9, $10, $10) RETURNING id`,
		v.templateID, v.institutionID, v.Number, v.Revision, v.designKey, stored.pages, stored.layout, stored.warnings, v.InOrder, db.Micros(now)).Scan(&id); err != nil {
		return err
	}
	return insertSignatoriesTx(ctx, tx, v.institutionID, id, v.Signatories)
}
