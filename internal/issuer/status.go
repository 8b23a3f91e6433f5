package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// listFresh is the age at which the revocations of a list are read again. Until the age is listStale,
	// requests get the old list and do not wait. Therefore a revocation is in the lists of all servers
	// after at most listStale.
	listFresh = 15 * time.Second
	listStale = 30 * time.Second
	// listSigned is the time after which a list is signed again, even if it has not changed. listLife is
	// the time for which a signed list is valid.
	listSigned = 5 * time.Minute
	listLife   = 15 * time.Minute
	// ListCached is the time for which verifiers may cache a list. The list contains this time, and the
	// HTTP response must contain it too.
	ListCached = 5 * time.Minute
	// A list is valid from the time listSkew before its signature, because the clock of a verifier may be
	// behind, and a verification may have begun before the list was signed.
	listSkew = time.Minute
	// maxListBytes is the maximum size of the signed lists in memory.
	maxListBytes = 32 << 20
)

// StatusList is a signed status list.
type StatusList struct {
	// VC is the list with a Data Integrity proof, for credentials in JSON-LD and as JWT. Token is the
	// status list token, for credentials as SD-JWT VC.
	VC, Token []byte
	// Tag is different for lists with different content.
	Tag string

	revoked          int
	readAt, signedAt time.Time
}

var (
	errNoList     = fault.New(fault.NotFound, "There is no such status list.")
	errNoDocument = fault.New(fault.NotFound, "There is no such document.")
)

// CloseListsTx closes the status lists of the previous release, which chose positions at random. It is
// for a database that was restored from a backup: the lost database may have used positions that are
// free in the backup. A server of the previous release must not use them again.
func CloseListsTx(ctx context.Context, tx *db.Tx) error {
	if _, err := tx.ExecContext(ctx, `UPDATE credential_status_lists SET closed = TRUE WHERE NOT closed`); err != nil {
		return fmt.Errorf("closing status lists: %w", err)
	}
	return nil
}

// List returns a status list. The list contains all revocations that are older than listStale. The error
// is fault.NotFound if there is no such list.
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
	// Several requests may wait for this read, so the end of one request must not cancel it.
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

// readList reads a list from the database. It signs the list, unless known has the same revocations and
// was signed less than listSigned ago. A revoked position is never cleared, so the revocations are the
// same if their number is the same.
func (s *Service) readList(ctx context.Context, id string, known *StatusList) (*StatusList, error) {
	now := s.now()
	content, err := s.contentOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if known != nil && now.Sub(known.signedAt) < listSigned {
		n, err := content.count(ctx)
		if err != nil {
			return nil, err
		}
		byFile, err := s.countRevokedByFile(ctx, content.institution, id)
		if err != nil {
			return nil, err
		}
		if n+byFile == known.revoked {
			same := *known
			same.readAt = now
			s.store(id, &same)
			return &same, nil
		}
	}
	institution, err := account.InstitutionByID(ctx, s.db, content.institution)
	if fault.Is(err, fault.NotFound) {
		return nil, errNoList
	}
	if err != nil {
		return nil, err
	}
	positions, err := content.revoked(ctx)
	if err != nil {
		return nil, err
	}
	byFile, err := s.revokedByFile(ctx, content.institution, id)
	if err != nil {
		return nil, err
	}
	positions = append(positions, byFile...)
	l := &StatusList{revoked: len(positions), readAt: now, signedAt: now}
	if l.VC, l.Token, err = s.signList(ctx, institution, id, positions, now); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(l.VC)
	l.Tag = hex.EncodeToString(sum[:16])
	s.store(id, l)
	return l, nil
}

// listContent is the content of a status list, without the signatures.
type listContent struct {
	institution int64
	// series is nil for a list of the previous release. Such a list is closed if it gets no new entries.
	series *series
	closed bool
	// count returns the number of revoked positions, and revoked the positions. Both omit credentials that
	// were revoked by their files.
	count   func(ctx context.Context) (int, error)
	revoked func(ctx context.Context) ([]int, error)
}

// contentOf returns the content of a list: a list of the previous release, or one of a series. The error is
// errNoList if there is no such list.
func (s *Service) contentOf(ctx context.Context, id string) (*listContent, error) {
	var c listContent
	err := s.db.QueryRowContext(ctx, `SELECT institution_id, closed FROM credential_status_lists WHERE uuid = $1`, id).Scan(&c.institution, &c.closed)
	if err != nil && !noRows(err) {
		return nil, fmt.Errorf("reading a status list: %w", err)
	}
	if err == nil {
		c.count = func(ctx context.Context) (n int, err error) {
			if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM credential_status_entries WHERE list = $1 AND revoked`, id).Scan(&n); err != nil {
				return 0, fmt.Errorf("counting the revocations of a status list: %w", err)
			}
			return n, nil
		}
		c.revoked = func(ctx context.Context) ([]int, error) {
			positions, err := db.Column[int](s.db.QueryContext(ctx, `SELECT position FROM credential_status_entries WHERE list = $1 AND revoked`, id))
			if err != nil {
				return nil, fmt.Errorf("reading the revocations of a status list: %w", err)
			}
			return positions, nil
		}
		return &c, nil
	}
	l, err := s.seriesOf(id)
	if err != nil {
		return nil, err
	}
	c.institution, c.series = l.institution, &l
	c.count = func(ctx context.Context) (int, error) { return s.countRevokedIn(ctx, l) }
	c.revoked = func(ctx context.Context) ([]int, error) {
		o, err := s.order(l)
		if err != nil {
			return nil, err
		}
		ids, err := s.revokedIn(ctx, l)
		if err != nil {
			return nil, err
		}
		positions := make([]int, len(ids))
		for i, id := range ids {
			positions[i] = o.position(id - l.first())
		}
		return positions, nil
	}
	return &c, nil
}

// store keeps a list in memory. If the lists would exceed maxListBytes, store first removes all lists.
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

// errChanged means that the certificate changed during the request.
var errChanged = &fault.Error{Kind: fault.Conflict, Message: "The certificate changed at the same time. Try again.", RetryAfter: time.Second, Err: errors.New("no entry")}
