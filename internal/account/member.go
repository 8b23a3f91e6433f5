package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Installation is the user id for actions from the command line on the vault's machine. This user
// has all permissions.
const Installation int64 = 0

// Member is a person with a role in an institution.
type Member struct {
	UserID         int64
	UUID           string
	Name, Email    string
	Role           Role
	ManageWebhooks bool
	CreatedAt      time.Time
}

var (
	errNoMember  = fault.New(fault.NotFound, "This institution has no such member.")
	errLastOwner = fault.New(fault.Conflict, "An institution must keep an owner. Make another member an owner first.")
	errForbidden = fault.New(fault.Forbidden, "Your role does not allow this.")
	errOwnersMay = fault.New(fault.Forbidden, "Only an owner can add, change or remove owners.")
	errNoRole    = fault.OfField("role", "Choose one of the roles.")
)

const memberColumns = `u.id, u.uuid, u.name, u.email, m.role, m.manage_webhooks, m.created_at`

func scanMember(row interface{ Scan(dest ...any) error }) (*Member, error) {
	var m Member
	var created int64
	err := row.Scan(&m.UserID, &m.UUID, &m.Name, &m.Email, &m.Role, &m.ManageWebhooks, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoMember
	}
	if err != nil {
		return nil, fmt.Errorf("reading a member: %w", err)
	}
	m.CreatedAt = db.Time(created)
	return &m, nil
}

// Members returns the members of an institution, oldest first.
func (s *Service) Members(ctx context.Context, institutionID int64) (list []Member, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id WHERE m.institution_id = $1 ORDER BY m.created_at, u.id`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("listing members: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		m, err := scanMember(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, *m)
	}
	return list, rows.Err()
}

// MemberByEmail returns the member of an institution whose main address is address. The error is
// fault.NotFound if there is none, and fault.Invalid if the address is not valid.
func (s *Service) MemberByEmail(ctx context.Context, institutionID int64, address string) (*Member, error) {
	email, err := ParseEmail(address)
	if err != nil {
		return nil, fault.OfField("email", err.Error())
	}
	return scanMember(s.db.QueryRowContext(ctx, `
		SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id WHERE m.institution_id = $1 AND u.email_folded = $2`,
		institutionID, email.Folded))
}

func memberTx(ctx context.Context, tx *db.Tx, institutionID int64, where string, arg any) (*Member, error) {
	return scanMember(tx.QueryRowContext(ctx, `
		SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id WHERE m.institution_id = $1 AND `+where, institutionID, arg))
}

const membershipQuery = `
	SELECT ` + InstitutionColumns + `, m.user_id, m.role, m.manage_webhooks
	FROM members m JOIN institutions i ON i.id = m.institution_id WHERE m.user_id = $1`

func scanMembership(row interface{ Scan(dest ...any) error }) (*Membership, error) {
	var m Membership
	var of InstitutionRow
	err := row.Scan(append(of.Dest(), &m.UserID, &m.Role, &m.ManageWebhooks)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInstitution
	}
	if err != nil {
		return nil, fmt.Errorf("reading a membership: %w", err)
	}
	m.Institution = *of.Institution()
	return &m, nil
}

// Memberships returns the memberships of a person, sorted by the name of the institution.
func (s *Service) Memberships(ctx context.Context, userID int64) (list []Membership, err error) {
	return memberships(ctx, s.db, userID)
}

func memberships(ctx context.Context, q db.Queryer, userID int64) (list []Membership, err error) {
	rows, err := q.QueryContext(ctx, membershipQuery+` ORDER BY i.name, i.id`, userID)
	if err != nil {
		return nil, fmt.Errorf("listing memberships: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		m, err := scanMembership(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, *m)
	}
	return list, rows.Err()
}

// Membership returns a person's membership in the institution with a slug. If the person is not a
// member, the error is the same fault.NotFound as for an unknown slug.
func (s *Service) Membership(ctx context.Context, userID int64, slug string) (*Membership, error) {
	return scanMembership(s.db.QueryRowContext(ctx, membershipQuery+` AND i.slug = $2`, userID, slug))
}

// lockMembersTx locks the members of an institution until the end of the transaction, so that the
// owners do not change between a check and an update.
func lockMembersTx(ctx context.Context, tx *db.Tx, institutionID int64) error {
	var id int64
	err := tx.QueryRowContext(ctx, `UPDATE institutions SET contact = contact WHERE id = $1 RETURNING id`, institutionID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoInstitution
	}
	return err
}

// mayTx returns a function that reports whether a user has a permission. It reads the role in the
// transaction, because the role may have changed since the request began. The error is
// fault.NotFound if the user is not a member.
func mayTx(ctx context.Context, tx *db.Tx, by, institutionID int64) (func(Permission) bool, error) {
	if by == Installation {
		return func(Permission) bool { return true }, nil
	}
	m, err := memberTx(ctx, tx, institutionID, "u.id = $2", by)
	if fault.Is(err, fault.NotFound) {
		return nil, errNoInstitution
	}
	if err != nil {
		return nil, err
	}
	return (&Membership{Role: m.Role, ManageWebhooks: m.ManageWebhooks}).Can, nil
}

// allowTx returns an error if a user may not manage members with the given roles.
func allowTx(ctx context.Context, tx *db.Tx, by, institutionID int64, roles ...Role) error {
	may, err := mayTx(ctx, tx, by, institutionID)
	if err != nil {
		return err
	}
	if !may(MayManageMembers) {
		return errForbidden
	}
	for _, r := range roles {
		if r == Owner && !may(MayManageOwners) {
			return errOwnersMay
		}
	}
	return nil
}

// keepOwnerTx returns an error if m is the only owner. The caller must have called lockMembersTx.
func keepOwnerTx(ctx context.Context, tx *db.Tx, institutionID int64, m *Member) error {
	if m.Role != Owner {
		return nil
	}
	var others int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM members WHERE institution_id = $1 AND role = $2 AND user_id <> $3`,
		institutionID, string(Owner), m.UserID).Scan(&others); err != nil {
		return err
	}
	if others == 0 {
		return errLastOwner
	}
	return nil
}

// SetMember changes a member's role, and revokes the open invitations that the member sent and could not
// send with the new role. manageWebhooks grants MayManageWebhooks in addition to the permissions of the role.
func (s *Service) SetMember(ctx context.Context, by, institutionID int64, userUUID string, role Role, manageWebhooks bool) error {
	if !role.Valid() {
		return errNoRole
	}
	// The permission is not stored separately if the role includes it.
	manageWebhooks = manageWebhooks && !role.Can(MayManageWebhooks)
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := lockMembersTx(ctx, tx, institutionID); err != nil {
			return err
		}
		m, err := memberTx(ctx, tx, institutionID, "u.uuid = $2", userUUID)
		if err != nil {
			return err
		}
		if err := allowTx(ctx, tx, by, institutionID, m.Role, role); err != nil {
			return err
		}
		if m.Role == role && m.ManageWebhooks == manageWebhooks {
			return nil
		}
		if role != Owner {
			if err := keepOwnerTx(ctx, tx, institutionID, m); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE members SET role = $3, manage_webhooks = $4 WHERE institution_id = $1 AND user_id = $2`,
			institutionID, m.UserID, string(role), manageWebhooks); err != nil {
			return err
		}
		if err := s.endInvitationsTx(ctx, tx, institutionID, m.UserID, role); err != nil {
			return err
		}
		type state struct {
			Role           Role `json:"role"`
			ManageWebhooks bool `json:"manage_webhooks"`
		}
		changes, err := audit.Changes(state{m.Role, m.ManageWebhooks}, state{role, manageWebhooks})
		if err != nil {
			return err
		}
		return s.recordMemberTx(ctx, tx, audit.MemberChanged, institutionID, m.UserID, changes)
	})
	if err != nil {
		return fmt.Errorf("changing a member: %w", err)
	}
	return nil
}

// RemoveMember removes a member from an institution, and revokes the open invitations that the
// member sent.
func (s *Service) RemoveMember(ctx context.Context, by, institutionID int64, userUUID string) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := lockMembersTx(ctx, tx, institutionID); err != nil {
			return err
		}
		m, err := memberTx(ctx, tx, institutionID, "u.uuid = $2", userUUID)
		if err != nil {
			return err
		}
		if err := allowTx(ctx, tx, by, institutionID, m.Role); err != nil {
			return err
		}
		return s.endMemberTx(ctx, tx, audit.MemberRemoved, institutionID, m)
	})
	if err != nil {
		return fmt.Errorf("removing a member: %w", err)
	}
	return nil
}

// Leave removes a person from an institution at the person's own request, and revokes the open
// invitations that the person sent.
func (s *Service) Leave(ctx context.Context, institutionID, userID int64) error {
	err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.leaveTx(ctx, tx, institutionID, userID) })
	if err != nil {
		return fmt.Errorf("leaving an institution: %w", err)
	}
	return nil
}

// LeaveAllTx removes a person from all institutions. It returns an error if the person is the last
// owner of an institution.
func (s *Service) LeaveAllTx(ctx context.Context, tx *db.Tx, userID int64) error {
	list, err := memberships(ctx, tx, userID)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := s.leaveTx(ctx, tx, m.Institution.ID, userID); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) leaveTx(ctx context.Context, tx *db.Tx, institutionID, userID int64) error {
	if err := lockMembersTx(ctx, tx, institutionID); err != nil {
		return err
	}
	m, err := memberTx(ctx, tx, institutionID, "u.id = $2", userID)
	if err != nil {
		return err
	}
	return s.endMemberTx(ctx, tx, audit.MemberLeft, institutionID, m)
}

func (s *Service) endMemberTx(ctx context.Context, tx *db.Tx, action audit.Action, institutionID int64, m *Member) error {
	if err := keepOwnerTx(ctx, tx, institutionID, m); err != nil {
		return err
	}
	if err := s.recordMemberTx(ctx, tx, action, institutionID, m.UserID, audit.Detail{"role": m.Role}); err != nil {
		return err
	}
	if err := s.endInvitationsTx(ctx, tx, institutionID, m.UserID, ""); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM members WHERE institution_id = $1 AND user_id = $2`, institutionID, m.UserID)
	return err
}

// endInvitationsTx revokes the open invitations that a user sent and may not send with a role. The role is
// "" if the user is no longer a member.
func (s *Service) endInvitationsTx(ctx context.Context, tx *db.Tx, institutionID, userID int64, role Role) error {
	ended := "" // the role of the invitations to revoke, or "" for all
	if role.Can(MayManageMembers) {
		if role.Can(MayManageOwners) {
			return nil
		}
		ended = string(Owner)
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE invitations SET revoked_at = $3
		WHERE institution_id = $1 AND inviter_id = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND ($4 = '' OR role = $4)`,
		institutionID, userID, db.Micros(s.now()), ended)
	return err
}

// NewMember is the data of a member to add from the command line.
type NewMember struct {
	Email, Name    string
	Role           Role
	ManageWebhooks bool
}

// AddMember makes a person a member without an invitation, for the command line. If the address is
// unknown, the person gets an account without a password. The person then signs in by a mailed
// link, which verifies the address. If the address is a further address, the error is fault.Invalid.
func (s *Service) AddMember(ctx context.Context, institutionID int64, n NewMember) (*Member, error) {
	n.Name = strings.TrimSpace(n.Name)
	var bad fault.Fields
	email, err := ParseEmail(n.Email)
	if err != nil {
		bad.Add("email", err.Error())
	}
	if !validName(n.Name) {
		bad.Add("name", fmt.Sprintf("The name must have 1 to %d characters.", maxName))
	}
	if !n.Role.Valid() {
		bad.Add("role", "There is no such role.")
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	var m *Member
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		userID, _, err := insertMainTx(ctx, tx, "email", NewUser{Email: email, Name: n.Name}, s.now())
		if err != nil {
			return err
		}
		added, err := s.insertMemberTx(ctx, tx, institutionID, userID, n.Role, n.ManageWebhooks)
		if err != nil {
			return err
		}
		if !added {
			return fault.OfField("email", "This person is already a member.")
		}
		if err := s.recordMemberTx(ctx, tx, audit.MemberAdded, institutionID, userID, memberDetail(n.Role, n.ManageWebhooks)); err != nil {
			return err
		}
		m, err = memberTx(ctx, tx, institutionID, "u.id = $2", userID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("adding a member: %w", err)
	}
	return m, nil
}

// insertMemberTx adds a person as a member. It reports whether it added the person: if the person
// is a member already, it changes nothing.
func (s *Service) insertMemberTx(ctx context.Context, tx *db.Tx, institutionID, userID int64, role Role, manageWebhooks bool) (added bool, err error) {
	res, err := tx.ExecContext(ctx, `
		INSERT INTO members (institution_id, user_id, role, manage_webhooks, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (institution_id, user_id) DO NOTHING`,
		institutionID, userID, string(role), manageWebhooks && !role.Can(MayManageWebhooks), db.Micros(s.now()))
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
