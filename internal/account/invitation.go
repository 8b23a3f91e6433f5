package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

const (
	invitationLife = 7 * 24 * time.Hour
	// maxInvitations is the maximum number of open invitations of an institution, and resendAfter is
	// the minimum time between two invitation mails of an institution to one address.
	maxInvitations = 200
	resendAfter    = time.Minute
)

// Invitation is a mailed request to become a member.
type Invitation struct {
	ID             int64
	UUID           string
	InstitutionID  int64
	Institution    string // the name of the institution
	Slug           string
	Email          string
	Role           Role
	ManageWebhooks bool
	Language       string
	Inviter        string // the name of the inviter
	CreatedAt      time.Time
	SentAt         time.Time
	ExpiresAt      time.Time

	folded string
}

// InvitationsConfig has the dependencies of Invitations.
type InvitationsConfig struct {
	Accounts *Service
	// Send queues a message in a transaction, as Mailer.EnqueueTx does.
	Send      func(ctx context.Context, tx *db.Tx, m mail.Message) (string, error)
	Languages *locale.Catalog
	// Link returns the URL of a path of the vault.
	Link func(path string) string
}

// Invitations provides the operations on invitations and the mail about institutions. The secret of
// an invitation is only in its mail. The database stores a hash of the secret.
type Invitations struct {
	InvitationsConfig

	db  *db.DB
	now func() time.Time
}

// NewInvitations returns the service for invitations. It also makes c.Accounts notify the operators
// of the installation by mail when an institution is renamed.
func NewInvitations(c InvitationsConfig) *Invitations {
	s := &Invitations{InvitationsConfig: c, db: c.Accounts.db, now: c.Accounts.now}
	c.Accounts.renamed = s.MailOperatorsTx
	return s
}

// InvitationPath is the path of the page of an invitation. The secret follows it.
const InvitationPath = "/invitation/"

// NewInvitation is the data of an invitation to send.
type NewInvitation struct {
	Email          string
	Role           Role
	ManageWebhooks bool
	// Language is the tag of the mail's language, or "" for English.
	Language string
}

var (
	errInvitation  = fault.New(fault.NotFound, "This invitation is no longer valid. Ask the institution for a new one.")
	errNotYours    = fault.New(fault.Forbidden, "This invitation is for another address. Sign in with the address that it was sent to.")
	errNotVerified = fault.New(fault.Forbidden, "Confirm your e-mail address first. Use the link in the message that was sent to you.")
)

// Invite stores an invitation and mails it.
func (s *Invitations) Invite(ctx context.Context, by, institutionID int64, n NewInvitation) (*Invitation, error) {
	email, language, err := s.check(&n)
	if err != nil {
		return nil, err
	}
	now := s.now().UTC()
	i := &Invitation{
		UUID: uuid.Must(uuid.NewV7()).String(), InstitutionID: institutionID, Email: email.Text, Role: n.Role,
		ManageWebhooks: n.ManageWebhooks && !n.Role.Can(MayManageWebhooks), Language: language.Tag,
		CreatedAt: now, SentAt: now, ExpiresAt: now.Add(invitationLife), folded: email.Folded,
	}
	secret := NewSecret()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := lockMembersTx(ctx, tx, institutionID); err != nil {
			return err
		}
		if err := allowTx(ctx, tx, by, institutionID, n.Role); err != nil {
			return err
		}
		switch _, err := memberTx(ctx, tx, institutionID, "u.email_folded = $2", email.Folded); {
		case err == nil:
			return fault.OfField("email", "This person is already a member.")
		case !fault.Is(err, fault.NotFound):
			return err
		}
		if err := s.makeRoomTx(ctx, tx, institutionID, now); err != nil {
			return err
		}
		if err := allowMailTx(ctx, tx, institutionID, email.Folded, now); err != nil {
			return err
		}
		if err := s.insertTx(ctx, tx, by, i, secret); err != nil {
			return err
		}
		if err := s.recordTx(ctx, tx, audit.InvitationSent, i, memberDetail(i.Role, i.ManageWebhooks)); err != nil {
			return err
		}
		return s.mailTx(ctx, tx, i, language, secret)
	})
	if db.UniqueOn(err, "invitations", "email_folded") {
		return nil, fault.OfField("email", "This address already has an invitation. Send it again, or cancel it first.")
	}
	if err != nil {
		return nil, fmt.Errorf("inviting a member: %w", err)
	}
	return i, nil
}

func (s *Invitations) check(n *NewInvitation) (Email, *locale.Language, error) {
	var bad fault.Fields
	email, err := ParseEmail(n.Email)
	if err != nil {
		bad.Add("email", err.Error())
	}
	if !n.Role.Valid() {
		bad.Add("role", "Choose one of the roles.")
	}
	if n.Language == "" {
		n.Language = "en"
	}
	language, ok := s.Languages.Get(n.Language)
	if !ok {
		bad.Add("language", "Choose one of the languages.")
	}
	return email, language, bad.Err()
}

// makeRoomTx revokes the expired invitations of an institution, so that their addresses can be
// invited again. It returns fault.TooMany if there are maxInvitations open invitations.
func (s *Invitations) makeRoomTx(ctx context.Context, tx *db.Tx, institutionID int64, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `
		UPDATE invitations SET revoked_at = $2 WHERE institution_id = $1 AND expires_at <= $2 AND accepted_at IS NULL AND revoked_at IS NULL`,
		institutionID, db.Micros(now)); err != nil {
		return err
	}
	var open int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM invitations WHERE institution_id = $1 AND accepted_at IS NULL AND revoked_at IS NULL`,
		institutionID).Scan(&open); err != nil {
		return err
	}
	if open >= maxInvitations {
		return fault.New(fault.TooMany, fmt.Sprintf("There are %d pending invitations. Cancel some of them, or wait until they are accepted.", open))
	}
	return nil
}

// allowMailTx returns fault.TooMany if a closed invitation of the institution was sent to the address
// less than resendAfter ago. Without this limit, a member could send any number of mails to a person by
// inviting and revoking repeatedly.
func allowMailTx(ctx context.Context, tx *db.Tx, institutionID int64, folded string, now time.Time) error {
	var sent sql.NullInt64
	if err := tx.QueryRowContext(ctx, `
		SELECT max(sent_at) FROM invitations WHERE institution_id = $1 AND email_folded = $2 AND (accepted_at IS NOT NULL OR revoked_at IS NOT NULL)`,
		institutionID, folded).Scan(&sent); err != nil {
		return err
	}
	if wait := db.Time(sent.Int64).Add(resendAfter).Sub(now); sent.Valid && wait > 0 {
		return &fault.Error{Kind: fault.TooMany, Message: "An invitation was sent to this address a moment ago. Try again in a minute.", RetryAfter: wait}
	}
	return nil
}

func (s *Invitations) insertTx(ctx context.Context, tx *db.Tx, by int64, i *Invitation, secret string) error {
	if err := tx.QueryRowContext(ctx, `SELECT name, slug FROM institutions WHERE id = $1`, i.InstitutionID).Scan(&i.Institution, &i.Slug); err != nil {
		return err
	}
	i.Inviter = i.Institution
	var inviter any
	if by != Installation {
		p, err := personTx(ctx, tx, "member", by)
		if err != nil {
			return err
		}
		inviter, i.Inviter = by, p.Name
	}
	return tx.QueryRowContext(ctx, `
		INSERT INTO invitations (uuid, institution_id, email, email_folded, role, manage_webhooks, language, hash, inviter_id, inviter_name,
			created_at, sent_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12) RETURNING id`,
		i.UUID, i.InstitutionID, i.Email, i.folded, string(i.Role), i.ManageWebhooks, i.Language, HashSecret(secret), inviter, i.Inviter,
		db.Micros(i.CreatedAt), db.Micros(i.ExpiresAt)).Scan(&i.ID)
}

func (s *Invitations) recordTx(ctx context.Context, tx *db.Tx, action audit.Action, i *Invitation, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: i.InstitutionID, At: s.now(), Action: action, Detail: detail, Subject: audit.Subject{Type: "invitation", ID: i.UUID, Name: i.Email},
	})
}

const invitationColumns = `n.id, n.uuid, n.institution_id, i.name, i.slug, n.email, n.email_folded, n.role, n.manage_webhooks, n.language, n.inviter_name,
	n.created_at, n.sent_at, n.expires_at`

const openInvitations = ` FROM invitations n JOIN institutions i ON i.id = n.institution_id WHERE n.accepted_at IS NULL AND n.revoked_at IS NULL`

func scanInvitation(row interface{ Scan(dest ...any) error }) (*Invitation, error) {
	var i Invitation
	var created, sent, expires int64
	err := row.Scan(&i.ID, &i.UUID, &i.InstitutionID, &i.Institution, &i.Slug, &i.Email, &i.folded, &i.Role, &i.ManageWebhooks, &i.Language, &i.Inviter,
		&created, &sent, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errInvitation
	}
	if err != nil {
		return nil, fmt.Errorf("reading an invitation: %w", err)
	}
	i.CreatedAt, i.SentAt, i.ExpiresAt = db.Time(created), db.Time(sent), db.Time(expires)
	return &i, nil
}

// List returns the open invitations of an institution, including expired ones, newest first.
func (s *Invitations) List(ctx context.Context, institutionID int64) (list []Invitation, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+invitationColumns+openInvitations+` AND n.institution_id = $1 ORDER BY n.id DESC`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("listing invitations: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		i, err := scanInvitation(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, *i)
	}
	return list, rows.Err()
}

// Expired reports whether an invitation has expired.
func (i *Invitation) Expired(now time.Time) bool { return !now.Before(i.ExpiresAt) }

// BySecret returns the invitation of a mailed link. It returns fault.NotFound if the secret is unknown
// or the invitation has expired, or was revoked or accepted.
func (s *Invitations) BySecret(ctx context.Context, secret string) (*Invitation, error) {
	return s.bySecret(ctx, s.db, secret)
}

func (s *Invitations) bySecret(ctx context.Context, q db.Queryer, secret string) (*Invitation, error) {
	return scanInvitation(q.QueryRowContext(ctx,
		`SELECT `+invitationColumns+openInvitations+` AND n.hash = $1 AND n.expires_at > $2`, HashSecret(secret), db.Micros(s.now())))
}
