package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// SessionLife is the maximum lifetime of any session.
const SessionLife = 90 * 24 * time.Hour

// These are the lifetimes of sessions. The sessions of members and operators expire earlier.
const (
	idleLife           = 14 * 24 * time.Hour
	absoluteLife       = SessionLife
	idleLifeMember     = 12 * time.Hour
	absoluteLifeMember = 7 * 24 * time.Hour
	// pendingLife is the maximum time between the first and the second factor.
	pendingLife = 10 * time.Minute
	// recent is the time after a sign-in or a confirmation during which no other confirmation is required.
	recent = 10 * time.Minute
	// filledIn is the time after a sign-in or a confirmation during which a person may submit a form if
	// its page required a recent sign-in. It is longer than recent.
	filledIn = 30 * time.Minute
	// seenEvery is the minimum time between two updates of a session's last use.
	seenEvery    = time.Minute
	maxUserAgent = 300
)

// Method is the method of a sign-in.
type Method string

// These are the methods of signing in.
const (
	ByPassword Method = "password"
	ByLink     Method = "link"
	ByPasskey  Method = "passkey"
	// ByInvitation is the link in the mail of an invitation. BySetup is the set-up link.
	ByInvitation Method = "invitation"
	BySetup      Method = "set-up link"
)

// Session is the session of a person in one browser.
type Session struct {
	ID     int64
	Person Person
	Method Method
	// Pending reports whether the session waits for the second factor.
	Pending bool
	// Address and UserAgent are from the last request that was stored: the sign-in, or a later use. Address
	// is "" if the address is unknown.
	Address, UserAgent                 string
	CreatedAt, LastSeenAt, ConfirmedAt time.Time
}

// Recent reports whether the last sign-in or confirmation was a short time ago.
func (s *Session) Recent(now time.Time) bool { return now.Sub(s.ConfirmedAt) < recent }

// MaySubmit reports whether a form may still be submitted if its page was opened while Recent was
// true. It permits more time than Recent, so that a person does not lose typed input.
func (s *Session) MaySubmit(now time.Time) bool { return now.Sub(s.ConfirmedAt) < filledIn }

// EndsAt returns the time at which the session expires if it is not used again.
func (s *Session) EndsAt() time.Time {
	idle, absolute := idleLife, absoluteLife
	if s.Person.Member || s.Person.Operator {
		idle, absolute = idleLifeMember, absoluteLifeMember
	}
	if s.Pending {
		idle, absolute = pendingLife, pendingLife
	}
	end, last := s.LastSeenAt.Add(idle), s.CreatedAt.Add(absolute)
	if last.Before(end) {
		return last
	}
	return end
}

// Device returns a name for the browser.
func (s *Session) Device() string { return DeviceName(s.UserAgent) }

const sessionColumns = `s.id, s.method, s.pending, s.address, s.user_agent, s.created_at, s.seen_at, s.confirmed_at, ` + personColumns

func scanSession(row interface{ Scan(dest ...any) error }) (*Session, error) {
	var s Session
	var created, seen, confirmed, personCreated int64
	err := row.Scan(append([]any{&s.ID, &s.Method, &s.Pending, &s.Address, &s.UserAgent, &created, &seen, &confirmed}, s.Person.fields(&personCreated)...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoSession
	}
	if err != nil {
		return nil, fmt.Errorf("reading a session: %w", err)
	}
	s.CreatedAt, s.LastSeenAt, s.ConfirmedAt, s.Person.CreatedAt = db.Time(created), db.Time(seen), db.Time(confirmed), db.Time(personCreated)
	return &s, nil
}

// Session returns the session of a request, and stores its use if the last stored use was at least
// seenEvery ago. The error is ErrNoSession if the request has no session, or if the session has expired or
// waits for the second factor.
func (s *Service) Session(ctx context.Context, from Origin) (*Session, error) {
	session, err := s.anySession(ctx, from)
	if err != nil {
		return nil, err
	}
	if session.Pending {
		return nil, ErrNoSession
	}
	now := s.Now()
	if now.Sub(session.LastSeenAt) < seenEvery {
		return session, nil
	}
	if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET seen_at = $2, address = $3, user_agent = $4 WHERE id = $1 AND seen_at < $2`,
			session.ID, db.Micros(now), from.address(), userAgent(from))
		return err
	}); err != nil {
		// The next request stores the use.
		s.Log.WarnContext(ctx, "storing the use of a session failed", slog.Any("error", err))
	}
	return session, nil
}

// ReadSession is like Session, but does not store the use of the session.
func (s *Service) ReadSession(ctx context.Context, from Origin) (*Session, error) {
	session, err := s.anySession(ctx, from)
	if err == nil && session.Pending {
		return nil, ErrNoSession
	}
	return session, err
}

// CheckSession returns ErrNoSession if Session would return ErrNoSession for the request. CheckSession
// does not store the use of the session, so that an open event stream does not prolong the session.
func (s *Service) CheckSession(ctx context.Context, from Origin) error {
	session, err := s.anySession(ctx, from)
	if err == nil && session.Pending {
		return ErrNoSession
	}
	return err
}

// Pending returns the session of a request if it waits for its second factor. Otherwise the error
// is ErrNoSession.
func (s *Service) Pending(ctx context.Context, from Origin) (*Session, error) {
	session, err := s.anySession(ctx, from)
	if err == nil && !session.Pending {
		return nil, ErrNoSession
	}
	return session, err
}

func (s *Service) anySession(ctx context.Context, from Origin) (*Session, error) {
	if from.Session == "" {
		return nil, ErrNoSession
	}
	session, err := scanSession(s.DB.QueryRowContext(ctx,
		`SELECT `+sessionColumns+` FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.hash = $1`, account.HashSecret(from.Session)))
	if err != nil {
		return nil, err
	}
	if !s.Now().Before(session.EndsAt()) {
		return nil, ErrNoSession
	}
	return session, nil
}

// Sessions returns the active sessions of a person, at most 200, the most recently used first. A
// session that waits for the second factor is not active.
func (s *Service) Sessions(ctx context.Context, personID int64) (list []*Session, err error) {
	rows, err := s.DB.QueryContext(ctx,
		`SELECT `+sessionColumns+` FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.user_id = $1 ORDER BY s.seen_at DESC, s.id DESC LIMIT 200`, personID)
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		session, err := scanSession(rows)
		if err != nil {
			return nil, err
		}
		if !session.Pending && s.Now().Before(session.EndsAt()) {
			list = append(list, session)
		}
	}
	return list, rows.Err()
}

// startSessionTx starts a session with a new id, and ends the browser's previous session. This
// prevents session fixation. Unless the session is pending, startSessionTx also records the sign-in
// and notifies the person if storeDeviceTx reports a new browser.
func (s *Service) startSessionTx(ctx context.Context, tx *db.Tx, p Person, method Method, pending bool, from Origin) (*Entry, error) {
	now := db.Time(db.Micros(s.Now()))
	if err := endTx(ctx, tx, `hash = $1`, account.HashSecret(from.Session)); err != nil {
		return nil, err
	}
	e := &Entry{Secret: newSecret(), Session: Session{
		Person: p, Method: method, Pending: pending, Address: from.address(), UserAgent: userAgent(from),
		CreatedAt: now, LastSeenAt: now, ConfirmedAt: now,
	}}
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO sessions (hash, user_id, pending, method, address, user_agent, created_at, seen_at, confirmed_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $7, $8) RETURNING id`,
		account.HashSecret(e.Secret), p.ID, pending, string(method), e.Session.Address, e.Session.UserAgent, db.Micros(now),
		db.Micros(now.Add(absoluteLife))).Scan(&e.Session.ID); err != nil {
		return nil, fmt.Errorf("starting a session: %w", err)
	}
	if pending {
		return e, nil
	}
	if err := recordTx(ctx, tx, p, audit.SignedIn, string(method)); err != nil {
		return nil, err
	}
	var isNew bool
	var err error
	if e.Device, isNew, err = s.storeDeviceTx(ctx, tx, p, from.Device); err != nil {
		return nil, err
	}
	if isNew {
		return e, s.notifyDeviceTx(ctx, tx, &e.Session)
	}
	return e, nil
}

// EnterTx starts a session for a person whom another package has identified by a link: method is
// ByInvitation or BySetup. If the person has a second factor, the session waits for it.
func (s *Service) EnterTx(ctx context.Context, tx *db.Tx, personID int64, method Method, from Origin) (*Entry, error) {
	p, err := s.Person(ctx, tx, personID)
	if err != nil {
		return nil, err
	}
	return s.afterFirstFactorTx(ctx, tx, p, method, from)
}

// afterFirstFactorTx starts a session after the first factor. If the person has a second factor,
// the session waits for it.
func (s *Service) afterFirstFactorTx(ctx context.Context, tx *db.Tx, p Person, method Method, from Origin) (*Entry, error) {
	second, err := hasAuthenticator(ctx, tx, p.ID)
	if err != nil {
		return nil, err
	}
	return s.startSessionTx(ctx, tx, p, method, second, from)
}

func userAgent(from Origin) string {
	agent := strings.ToValidUTF8(strings.ReplaceAll(from.UserAgent, "\x00", ""), "")
	if r := []rune(agent); len(r) > maxUserAgent {
		agent = string(r[:maxUserAgent])
	}
	return agent
}

func endTx(ctx context.Context, tx *db.Tx, where string, args ...any) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE `+where, args...); err != nil {
		return fmt.Errorf("ending sessions: %w", err)
	}
	return nil
}

// SignOut ends the session of a request, even if the session is pending or has expired.
func (s *Service) SignOut(ctx context.Context, from Origin) error {
	if from.Session == "" {
		return nil
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		p, err := s.person(ctx, tx, `u.id = (SELECT user_id FROM sessions WHERE hash = $1 AND NOT pending)`, account.HashSecret(from.Session))
		if err == nil {
			err = recordTx(ctx, tx, p, audit.SignedOut, "sign-out")
		}
		if err != nil && !errors.Is(err, ErrNoPerson) {
			return err
		}
		return endTx(ctx, tx, `hash = $1`, account.HashSecret(from.Session))
	})
}

// EndSession ends one session of a person.
func (s *Service) EndSession(ctx context.Context, personID, sessionID int64) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error { return endTx(ctx, tx, `user_id = $1 AND id = $2`, personID, sessionID) })
}

// EndOthers ends all sessions of a person, except the session with the id in the argument except.
// If except is 0, EndOthers ends all sessions.
func (s *Service) EndOthers(ctx context.Context, personID, except int64) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error { return endTx(ctx, tx, `user_id = $1 AND id <> $2`, personID, except) })
}

// requireSessionTx locks the session, and returns ErrNoSession if the session no longer exists. If a
// concurrent reset of the password has ended the session, the request must not change the account.
func requireSessionTx(ctx context.Context, tx *db.Tx, sessionID int64) error {
	res, err := tx.ExecContext(ctx, `UPDATE sessions SET pending = pending WHERE id = $1`, sessionID)
	if err != nil {
		return fmt.Errorf("locking a session: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrNoSession, err)
	}
	return nil
}

// confirmTx records that the person of a session entered the password or used a passkey again.
func (s *Service) confirmTx(ctx context.Context, tx *db.Tx, sessionID int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE sessions SET confirmed_at = $2 WHERE id = $1`, sessionID, db.Micros(s.Now())); err != nil {
		return fmt.Errorf("recording the confirmation of a session: %w", err)
	}
	return nil
}
