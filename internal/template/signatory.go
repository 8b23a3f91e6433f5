package template

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
)

// maxDesignation is the maximum length of a designation in code points.
const maxDesignation = 100

// CodeSignatoryLeft means that a signatory of a draft may no longer approve. Detail is the index of the
// signatory, from 1.
const CodeSignatoryLeft = "signatory_left"

// Signatory is a member who must approve the certificates of a version.
type Signatory struct {
	UserID int64
	// Name is the current name of the person, and UUID their id. Both are empty if the person no longer
	// exists.
	Name, UUID string
	// Designation is the function of the person that certificates show, such as "Dean".
	Designation string
	// Left reports whether the person may no longer approve, because the person is not a member or the role
	// does not allow it.
	Left bool

	versionID int64
}

// signers returns the signatories for drawing, with a sample instead of each signature.
func (v *Version) signers() []design.Signatory {
	var list []design.Signatory
	for _, s := range v.Signatories {
		list = append(list, design.Signatory{Name: s.Name, Designation: s.Designation, Picture: design.SampleSignature()})
	}
	return list
}

// required returns the signatories who must approve the certificates of the version.
func (v *Version) required() cert.Signatories {
	out := cert.Signatories{InOrder: v.InOrder}
	for _, s := range v.Signatories {
		out.Members = append(out.Members, cert.Signatory{UserID: s.UserID, Designation: s.Designation})
	}
	return out
}

// SignatoriesOf returns the signatories who must approve the certificates of a version. It is used as
// batch.Config.Signatories.
func SignatoriesOf(ctx context.Context, q db.Queryer, institutionID, versionID int64) (cert.Signatories, error) {
	v := &Version{ID: versionID, institutionID: institutionID}
	rows, err := q.QueryContext(ctx, `SELECT in_order FROM template_versions WHERE institution_id = $1 AND id = $2`, institutionID, versionID)
	found, err := db.Column[bool](rows, err)
	if err != nil {
		return cert.Signatories{}, fmt.Errorf("reading the order of signatories: %w", err)
	}
	if len(found) == 0 {
		return cert.Signatories{}, nil // only in tests, which use versions that do not exist
	}
	v.InOrder = found[0]
	if err := addSignatories(ctx, q, []*Version{v}); err != nil {
		return cert.Signatories{}, err
	}
	return v.required(), nil
}

// addSignatories sets the signatories of versions, with their names.
func addSignatories(ctx context.Context, q db.Queryer, list []*Version) error {
	byInstitution := map[int64][]*Version{}
	for _, v := range list {
		v.Signatories = nil
		byInstitution[v.institutionID] = append(byInstitution[v.institutionID], v)
	}
	for institutionID, versions := range byInstitution {
		if err := addSignatoriesOf(ctx, q, institutionID, versions); err != nil {
			return err
		}
	}
	return nil
}

func addSignatoriesOf(ctx context.Context, q db.Queryer, institutionID int64, list []*Version) error {
	byID, ids := map[int64]*Version{}, make([]int64, 0, len(list))
	for _, v := range list {
		byID[v.ID], ids = v, append(ids, v.ID)
	}
	var found []Signatory
	_, err := db.ByID(ctx, q, institutionID, ids, func(list string) string {
		return `SELECT version_id, user_id, designation FROM template_signatories WHERE institution_id = $1 AND version_id IN (` + list + `)
			ORDER BY version_id, signatory_index`
	}, func(rows *sql.Rows) (int64, struct{}, error) {
		var s Signatory
		err := rows.Scan(&s.versionID, &s.UserID, &s.Designation)
		found = append(found, s)
		return 0, struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("reading signatories: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	var people []int64
	for _, s := range found {
		people = append(people, s.UserID)
	}
	slices.Sort(people)
	names, err := account.PersonNames(ctx, q, institutionID, slices.Compact(people))
	if err != nil {
		return err
	}
	for _, s := range found {
		person := names[s.UserID]
		s.Name, s.UUID, s.Left = person.Name, person.UUID, !person.Role.Can(account.MaySign)
		v := byID[s.versionID]
		v.Signatories = append(v.Signatories, s)
	}
	return nil
}

func insertSignatoriesTx(ctx context.Context, tx *db.Tx, institutionID, versionID int64, list []Signatory) error {
	for i, s := range list {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO template_signatories (version_id, institution_id, signatory_index, user_id, designation) VALUES ($1, $2, $3, $4, $5)`,
			versionID, institutionID, i+1, s.UserID, s.Designation); err != nil {
			return fmt.Errorf("storing signatories: %w", err)
		}
	}
	return nil
}

func deleteSignatoriesTx(ctx context.Context, tx *db.Tx, versionID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM template_signatories WHERE version_id = $1`, versionID); err != nil {
		return fmt.Errorf("deleting signatories: %w", err)
	}
	return nil
}

// checkSignatories returns the problems of a version whose fields refer to signatories that it does not
// have, or whose signatories may no longer approve.
func checkSignatories(v *Version) design.Problems {
	problems := v.Layout.CheckSignatories(len(v.Signatories))
	for i, s := range v.Signatories {
		if s.Left {
			problems = append(problems, design.Problem{Code: CodeSignatoryLeft, Detail: strconv.Itoa(i + 1)})
		}
	}
	return problems
}

// Problems returns the problems that prevent the publication of a draft. It does not draw the draft, so
// Publish may find more.
func (v *Version) Problems() design.Problems {
	return append(v.Layout.Check(v.Pages), checkSignatories(v)...)
}

// NamedSignatory names a member as a signatory.
type NamedSignatory struct {
	// UUID is the id of the member.
	UUID        string
	Designation string
}

// Naming is the input of SetSignatories.
type Naming struct {
	// Revision is the revision on which the change is based, as in Draft.
	Revision    int64
	Signatories []NamedSignatory
	InOrder     bool
}

// SetSignatories changes the signatories of the draft of a template. If the template has no draft,
// SetSignatories creates the next draft. The error is fault.Invalid if there are too many signatories, a
// person may not approve or is named twice, or a designation is not valid. It is fault.Conflict if the
// revision is not the current one, and fault.BadRequest if the template is archived.
func (s *Service) SetSignatories(ctx context.Context, inst *account.Institution, uuid string, n Naming) (*Template, error) {
	return s.change(ctx, inst, uuid, "changing the signatories of a template", func(tx *db.Tx, t *Template, now time.Time) error {
		if err := t.basedOn(n.Revision); err != nil {
			return err
		}
		list, err := namedTx(ctx, tx, inst.ID, n.Signatories)
		if err != nil {
			return err
		}
		same := func(a, b Signatory) bool { return a.UserID == b.UserID && a.Designation == b.Designation }
		if latest := t.Latest(); latest.InOrder == n.InOrder && slices.EqualFunc(latest.Signatories, list, same) {
			return nil
		}
		if t.Draft == nil {
			next := *t.Published
			next.Number, next.Revision, next.Signatories, next.InOrder = t.Published.Number+1, t.Published.Revision+1, list, n.InOrder
			return s.insertDraftTx(ctx, tx, &next, now)
		}
		if err := deleteSignatoriesTx(ctx, tx, t.Draft.ID); err != nil {
			return err
		}
		if err := insertSignatoriesTx(ctx, tx, inst.ID, t.Draft.ID, list); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE template_versions SET in_order = $1, revision = revision + 1, updated_at = $2 WHERE id = $3`,
			n.InOrder, db.Micros(now), t.Draft.ID)
		return err
	})
}

// namedTx checks the named signatories and returns them with their user ids.
func namedTx(ctx context.Context, tx *db.Tx, institutionID int64, named []NamedSignatory) ([]Signatory, error) {
	if len(named) > cert.MaxSignatories {
		return nil, fault.OfField("signatories", fmt.Sprintf("A template can have at most %d signatories.", cert.MaxSignatories))
	}
	members, err := account.Signers(ctx, tx, institutionID)
	if err != nil {
		return nil, err
	}
	list := make([]Signatory, 0, len(named))
	for i, n := range named {
		at := slices.IndexFunc(members, func(m account.Member) bool { return m.UUID == n.UUID })
		field := fmt.Sprintf("signatories.%d", i)
		switch {
		case at < 0:
			return nil, fault.OfField(field, "Choose a member whose role allows approving certificates.")
		case slices.ContainsFunc(list, func(s Signatory) bool { return s.UserID == members[at].UserID }):
			return nil, fault.OfField(field, "A member can be a signatory only once.")
		}
		designation, err := checkDesignation(n.Designation)
		if err != nil {
			return nil, fault.OfField(field, err.Error())
		}
		list = append(list, Signatory{UserID: members[at].UserID, Name: members[at].Name, UUID: n.UUID, Designation: designation})
	}
	return list, nil
}

var (
	errDesignation        = fault.New(fault.Invalid, fmt.Sprintf("The designation must have at most %d characters.", maxDesignation))
	errDesignationControl = fault.New(fault.Invalid, "The designation must not contain control characters.")
)

func checkDesignation(text string) (string, error) {
	text = strings.TrimSpace(text)
	if utf8.RuneCountInString(text) > maxDesignation {
		return "", errDesignation
	}
	if !account.CleanText(text) || strings.ContainsFunc(text, isControl) {
		return "", errDesignationControl
	}
	return text, nil
}

// IsSignatory reports whether a draft or a published version names a person as a signatory.
func (s *Service) IsSignatory(ctx context.Context, institutionID, userID int64) (is bool, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM template_signatories s JOIN template_versions v ON v.id = s.version_id
			WHERE s.institution_id = $1 AND s.user_id = $2 AND v.state IN ('draft', 'published'))`, institutionID, userID).Scan(&is)
	if err != nil {
		return false, fmt.Errorf("looking for a signatory: %w", err)
	}
	return is, nil
}

// Missing is a signatory who may no longer approve, and for whom an owner can name a replacement.
type Missing struct {
	UserID int64
	// Name is empty if the person no longer exists.
	Name string

	Signing
}

// Signing has two numbers of a signatory. Templates is the number of templates whose draft or published
// version names the person. Waiting is the number of certificates that wait for the person's approval.
type Signing struct{ Templates, Waiting int }

// Signatories returns the Signing of each signatory of an institution, by user id. It includes signatories
// who are no longer members.
func (s *Service) Signatories(ctx context.Context, institutionID int64) (map[int64]Signing, error) {
	waiting, err := cert.AwaitedUsers(ctx, s.db, institutionID)
	if err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT s.user_id, count(DISTINCT v.template_id) FROM template_signatories s JOIN template_versions v ON v.id = s.version_id
		WHERE s.institution_id = $1 AND v.state IN ('draft', 'published') GROUP BY s.user_id`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("listing signatories: %w", err)
	}
	byUser := map[int64]Signing{}
	if _, err := db.Collect(rows, func(rows *sql.Rows) (struct{}, error) {
		id, n, err := db.ScanCount(rows)
		byUser[id] = Signing{Templates: n}
		return struct{}{}, err
	}); err != nil {
		return nil, fmt.Errorf("listing signatories: %w", err)
	}
	for id, n := range waiting {
		byUser[id] = Signing{Templates: byUser[id].Templates, Waiting: n}
	}
	return byUser, nil
}

// MissingSignatories returns the signatories of an institution who may no longer approve: those of drafts and
// of published versions, and those for whose approval certificates wait.
func (s *Service) MissingSignatories(ctx context.Context, institutionID int64) ([]Missing, error) {
	byUser, err := s.Signatories(ctx, institutionID)
	if err != nil {
		return nil, err
	}
	ids := slices.Sorted(maps.Keys(byUser))
	names, err := account.PersonNames(ctx, s.db, institutionID, ids)
	if err != nil {
		return nil, err
	}
	var list []Missing
	for _, id := range ids {
		if person := names[id]; !person.Role.Can(account.MaySign) {
			list = append(list, Missing{UserID: id, Name: person.Name, Signing: byUser[id]})
		}
	}
	return list, nil
}

var (
	errStillMember = fault.New(fault.Conflict,
		"The signatory can still approve certificates. A replacement is possible only after the person has left or has another role that does not allow this.")
	errNoReplacer = fault.OfField("replacement", "Choose a member whose role allows approving certificates.")
)

// ReplaceSignatory makes another member the signatory in place of a person who may no longer approve. It
// changes all versions that name the person, and the certificates that wait for the person's approval.
// The designations and the earlier approvals do not change. The error is fault.Conflict if the person
// may still sign, or if a version names both the person and the replacement. It is fault.Invalid if the
// replacement may not approve, and fault.NotFound if the person is not a signatory.
func (s *Service) ReplaceSignatory(ctx context.Context, inst *account.Institution, userID int64, replacement string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		members, err := account.Signers(ctx, tx, inst.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(members, func(m account.Member) bool { return m.UserID == userID }) {
			return errStillMember
		}
		at := slices.IndexFunc(members, func(m account.Member) bool { return m.UUID == replacement })
		if at < 0 {
			return errNoReplacer
		}
		to := members[at]
		both, err := db.Column[string](tx.QueryContext(ctx, `
			SELECT t.name FROM template_signatories a JOIN template_signatories b ON b.version_id = a.version_id
				JOIN template_versions v ON v.id = a.version_id JOIN templates t ON t.id = v.template_id
			WHERE a.institution_id = $1 AND a.user_id = $2 AND b.user_id = $3 ORDER BY v.id DESC LIMIT 1`, inst.ID, userID, to.UserID))
		if err != nil {
			return err
		}
		if len(both) > 0 {
			return fault.New(fault.Conflict, to.Name+" is already a signatory of the template “"+both[0]+"”. Choose another member.")
		}
		changed, err := db.Column[int64](tx.QueryContext(ctx, `
			UPDATE template_signatories SET user_id = $1 WHERE institution_id = $2 AND user_id = $3 RETURNING version_id`, to.UserID, inst.ID, userID))
		if err != nil {
			return err
		}
		waiting, err := s.certs.ReplaceSignatoryTx(ctx, tx, inst.ID, userID, to.UserID)
		if err != nil {
			return err
		}
		if len(changed) == 0 && waiting == 0 {
			return fault.New(fault.NotFound, "There is no such signatory.")
		}
		names, err := account.PersonNames(ctx, tx, inst.ID, []int64{userID})
		if err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: inst.ID, At: s.moment(), Action: audit.SignatoryReplaced, Subject: audit.Subject{Type: "user", ID: to.UUID, Name: to.Name},
			Detail: audit.Detail{"replaced": names[userID].Name, "certificates": waiting},
		})
	})
	if err != nil {
		return fmt.Errorf("replacing a signatory: %w", err)
	}
	return nil
}
