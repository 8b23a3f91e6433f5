package issuer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// listLength is the number of entries of a status list. A request for a list does not reveal which
	// credential is checked.
	listLength = credential.StatusListSize
	// maxTries is the number of random positions that are tried in a list. A list is closed when all
	// of them are taken, which is likely when about 60 % of the list are.
	maxTries = 16
	// listFresh is the time after which the revocations of a list are read again. Requests do not wait
	// for that until listStale. A revocation is visible after listStale on every server, whichever
	// server it was made on.
	listFresh = 15 * time.Second
	listStale = 30 * time.Second
	// listSigned is the time after which a list is signed again even if it has not changed. listLife is
	// the time for which a signed list is valid. Caches keep a list for 5 minutes.
	listSigned = 5 * time.Minute
	listLife   = 15 * time.Minute
	// maxListBytes is the maximum size of the signed lists in memory.
	maxListBytes = 32 << 20
)

// Entry is the place of a certificate's credentials in a status list.
type Entry struct {
	List     string
	Position int
}

// StatusList is a signed status list.
type StatusList struct {
	// VC is the list with a Data Integrity proof, for the entries of JSON-LD and of vc+jwt, and Token
	// is the status list token, for those of SD-JWT VC.
	VC, Token []byte
	// Tag is different for lists with different content.
	Tag string

	revoked          int
	readAt, signedAt time.Time
}

var errNoList = fault.New(fault.NotFound, "No such status list.")

// allocateTx returns a new entry of a certificate in an open list of its institution. The position is
// random, so that positions reveal neither an order nor a number.
func allocateTx(ctx context.Context, tx *db.Tx, at time.Time, institutionID, certificateID int64, revoked bool) (Entry, error) {
	for {
		var e Entry
		err := tx.QueryRowContext(ctx, `
			SELECT uuid FROM credential_status_lists WHERE institution_id = $1 AND NOT closed ORDER BY created_at, uuid LIMIT 1`, institutionID).Scan(&e.List)
		if noRows(err) {
			e.List = uuid.NewString()
			_, err = tx.ExecContext(ctx, `INSERT INTO credential_status_lists (uuid, institution_id, closed, created_at) VALUES ($1, $2, FALSE, $3)`,
				e.List, institutionID, db.Micros(at))
		}
		if err != nil {
			return Entry{}, fmt.Errorf("finding a status list: %w", err)
		}
		for range maxTries {
			if e.Position, err = randomPosition(); err != nil {
				return Entry{}, err
			}
			r, err := tx.ExecContext(ctx, `
				INSERT INTO credential_status_entries (list, position, certificate_id, revoked) VALUES ($1, $2, $3, $4) ON CONFLICT (list, position) DO NOTHING`,
				e.List, e.Position, certificateID, revoked)
			if err != nil {
				return Entry{}, fmt.Errorf("adding to a status list: %w", err)
			}
			if n, err := r.RowsAffected(); err != nil || n > 0 {
				return e, err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE credential_status_lists SET closed = TRUE WHERE uuid = $1`, e.List); err != nil {
			return Entry{}, fmt.Errorf("closing a status list: %w", err)
		}
	}
}

// randomPosition returns a random position in a list. listLength is a power of two.
func randomPosition() (int, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("choosing a position in a status list: %w", err)
	}
	return int(binary.BigEndian.Uint32(b[:]) % listLength), nil
}

// CloseListsTx closes all status lists, so that new credentials get positions in new lists. It is for
// a database that was restored from a backup: the lost database may have used positions that are free
// in the backup.
func CloseListsTx(ctx context.Context, tx *db.Tx) error {
	if _, err := tx.ExecContext(ctx, `UPDATE credential_status_lists SET closed = TRUE WHERE NOT closed`); err != nil {
		return fmt.Errorf("closing status lists: %w", err)
	}
	return nil
}

// List returns a status list. The revocations in it are at most listStale old. The error is
// fault.NotFound if there is no such list.
func (s *Service) List(ctx context.Context, id string) (*StatusList, error) {
	s.mu.Lock()
	l := s.lists[id]
	s.mu.Unlock()
	age := listStale
	if l != nil {
		age = s.now().Sub(l.readAt)
	}
	if age < listFresh {
		return l, nil
	}
	// The work of one request serves all others that wait for it, so none of them may cancel it.
	ctx = context.WithoutCancel(ctx)
	result := s.refresh.DoChan(id, func() (any, error) { return s.readList(ctx, id, l) })
	if age < listStale {
		return l, nil
	}
	r := <-result
	if r.Err != nil {
		return nil, r.Err
	}
	list, ok := r.Val.(*StatusList)
	if !ok {
		return nil, errNoList
	}
	return list, nil
}

// readList returns a list as it is in the database. It signs the list, unless known is the same list
// and was signed recently. A position is never cleared, so lists with the same number of revoked
// positions are the same.
func (s *Service) readList(ctx context.Context, id string, known *StatusList) (*StatusList, error) {
	now := s.now()
	if known != nil && now.Sub(known.signedAt) < listSigned {
		var n int
		if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM credential_status_entries WHERE list = $1 AND revoked`, id).Scan(&n); err != nil {
			return nil, fmt.Errorf("counting the revocations of a status list: %w", err)
		}
		if n == known.revoked {
			same := *known
			same.readAt = now
			s.store(id, &same)
			return &same, nil
		}
	}
	var institutionID int64
	err := s.db.QueryRowContext(ctx, `SELECT institution_id FROM credential_status_lists WHERE uuid = $1`, id).Scan(&institutionID)
	if noRows(err) {
		return nil, errNoList
	}
	if err != nil {
		return nil, fmt.Errorf("reading a status list: %w", err)
	}
	positions, err := db.Column[int](s.db.QueryContext(ctx, `SELECT position FROM credential_status_entries WHERE list = $1 AND revoked`, id))
	if err != nil {
		return nil, fmt.Errorf("reading the revocations of a status list: %w", err)
	}
	institution, err := account.InstitutionByID(ctx, s.db, institutionID)
	if err != nil {
		return nil, err
	}
	l := &StatusList{revoked: len(positions), readAt: now, signedAt: now}
	if l.VC, l.Token, err = s.signList(ctx, institution, id, positions, now); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(l.VC)
	l.Tag = hex.EncodeToString(sum[:16])
	s.store(id, l)
	return l, nil
}

// store keeps a list in memory.
func (s *Service) store(id string, l *StatusList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.lists[id]; old != nil {
		s.held -= old.size()
	}
	if s.held+l.size() > maxListBytes {
		clear(s.lists)
		s.held = 0
	}
	s.lists[id] = l
	s.held += l.size()
}

func (l *StatusList) size() int { return len(l.VC) + len(l.Token) }

// errChanged means that the certificate changed while its credential was created.
var errChanged = &fault.Error{Kind: fault.Conflict, Message: "The certificate changed at the same time. Try again.", RetryAfter: time.Second, Err: errors.New("no entry")}
