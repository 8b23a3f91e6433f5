package limit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
)

const (
	// KeyLife is for how long the answer to a request is kept under its key.
	KeyLife = 24 * time.Hour
	// MaxAnswer is the longest answer that is kept, in bytes.
	MaxAnswer = 1 << 20
	// claimLife bounds for how long a request that is never settled holds its key,
	// longer than any request is let run.
	claimLife = 20 * time.Minute
	// inFlightRetry is when a request may be tried again that another one with the
	// same key stands against.
	inFlightRetry = 2 * time.Second
	// SweepEvery is how often keys that are over are looked for.
	SweepEvery = time.Minute
	// sweepBatch bounds the work of one transaction of a sweep.
	sweepBatch = 500
	// maxOwed bounds how many claims wait to be given back; the rest run out.
	maxOwed = 10_000
)

var errInFlight = &fault.Error{
	Kind: fault.Conflict, Message: "A request with this Idempotency-Key is still being worked on.", RetryAfter: inFlightRetry,
}

// Keys keeps the answers to requests that carry an idempotency key.
type Keys struct {
	db   *db.DB
	node string
	now  func() time.Time

	mu sync.Mutex
	// owed are claims that could not be given back, for the next sweep.
	owed []*Claim
}

// NewKeys makes a store of keys; node is the name under which this process says
// that it lives.
func NewKeys(d *db.DB, node string, now func() time.Time) *Keys {
	return &Keys{db: d, node: node, now: now}
}

// Scope is within what a key means one request.
type Scope struct {
	InstitutionID, TokenID int64
	Method, Path, Key      string
}

// digest names a scope. Each part comes behind its length, so that no two scopes
// run together.
func (s *Scope) digest() []byte {
	h := sha256.New()
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	number(s.InstitutionID)
	number(s.TokenID)
	for _, text := range []string{s.Method, s.Path, s.Key} {
		number(int64(len(text)))
		h.Write([]byte(text))
	}
	return h.Sum(nil)
}

// Kept is what a request was answered, and to what content.
type Kept struct {
	// Fingerprint is the digest of the request's content.
	Fingerprint [sha256.Size]byte
	Status      int
	Body        []byte
}

// Claim is a request's hold on its key while it is under way.
type Claim struct {
	keys        *Keys
	id          []byte
	institution int64
	// secret tells this claim from a later one on the same key: who lost the key
	// must not settle it.
	secret []byte
}

// Begin gives the answer that is kept under a key, or claims the key for a request
// that is to be done; one of the two is nil. While another request holds the key,
// on whatever node that lives, it is a Conflict.
func (k *Keys) Begin(ctx context.Context, scope Scope) (*Claim, *Kept, error) {
	id := scope.digest()
	kept, err := k.kept(ctx, id, scope.InstitutionID)
	if err != nil || kept != nil {
		return nil, kept, err
	}
	c := &Claim{keys: k, id: id, institution: scope.InstitutionID, secret: []byte(rand.Text())}
	claimed, err := k.claim(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if claimed {
		return c, nil, nil
	}
	// The one who holds the key may have settled it in between.
	if kept, err = k.kept(ctx, id, scope.InstitutionID); err != nil || kept != nil {
		return nil, kept, err
	}
	return nil, nil, errInFlight
}

// kept gives the answer under a key, nil when there is none.
func (k *Keys) kept(ctx context.Context, id []byte, institutionID int64) (*Kept, error) {
	var a Kept
	var fingerprint []byte
	err := k.db.QueryRowContext(ctx, `
		SELECT fingerprint, status, body FROM idempotency_keys
		WHERE id = $1 AND institution_id = $2 AND status IS NOT NULL AND expires_at > $3`,
		id, institutionID, db.Micros(k.now())).Scan(&fingerprint, &a.Status, &a.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // no answer yet is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the answer under a key: %w", err)
	}
	copy(a.Fingerprint[:], fingerprint)
	return &a, nil
}

// claim takes a key that is free: nobody's yet, or over, or held by a node that
// died. A process does not take its own claims for dead.
func (k *Keys) claim(ctx context.Context, c *Claim) (claimed bool, err error) {
	now := k.now()
	// Volatile: who claims is gone with the power, or finds, when it is to keep its
	// answer, that its claim is.
	err = k.db.TxVolatile(ctx, func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `
			INSERT INTO idempotency_keys (id, institution_id, node_id, claim, expires_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET
				node_id = excluded.node_id, claim = excluded.claim, expires_at = excluded.expires_at, fingerprint = NULL, status = NULL, body = NULL
			WHERE idempotency_keys.expires_at <= $6
			   OR idempotency_keys.status IS NULL AND idempotency_keys.node_id <> excluded.node_id
			      AND NOT `+job.NodeAlive(`idempotency_keys.node_id`, `$7`),
			c.id, c.institution, k.node, c.secret, db.Micros(now.Add(claimLife)), db.Micros(now), db.Micros(now.Add(-job.DeadAfter)))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		claimed = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claiming an idempotency key: %w", err)
	}
	return claimed, nil
}

// KeepTx keeps the answer in the transaction of what the request does: either both
// stand or neither. Whose claim was lost to another is a Conflict, and must do
// nothing.
func (c *Claim) KeepTx(ctx context.Context, tx *db.Tx, a *Kept) error {
	if len(a.Body) > MaxAnswer {
		return fmt.Errorf("keeping an answer: its %d bytes are more than can be kept", len(a.Body))
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE idempotency_keys SET fingerprint = $1, status = $2, body = $3, expires_at = $4
		WHERE id = $5 AND institution_id = $6 AND claim = $7 AND status IS NULL`,
		a.Fingerprint[:], a.Status, a.Body, db.Micros(c.keys.now().Add(KeyLife)), c.id, c.institution, c.secret)
	if err != nil {
		return fmt.Errorf("keeping an answer: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("keeping an answer: %w", err)
	}
	if n == 0 {
		return errInFlight
	}
	return nil
}

// Keep keeps an answer to a request that did nothing.
func (c *Claim) Keep(ctx context.Context, a *Kept) error {
	return c.keys.db.Tx(ctx, func(tx *db.Tx) error { return c.KeepTx(ctx, tx, a) })
}

// Release gives a key back whose request came to nothing. One under which an
// answer is kept is left alone: of a commit whose answer was lost, that decides.
// What fails is tried again by the next sweep.
func (c *Claim) Release(ctx context.Context) error {
	err := c.keys.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM idempotency_keys WHERE id = $1 AND institution_id = $2 AND claim = $3 AND status IS NULL`,
			c.id, c.institution, c.secret)
		return err
	})
	if err == nil {
		return nil
	}
	c.keys.mu.Lock()
	defer c.keys.mu.Unlock()
	if len(c.keys.owed) < maxOwed {
		c.keys.owed = append(c.keys.owed, c)
	}
	return fmt.Errorf("giving back an idempotency key: %w", err)
}

// Sweep forgets keys that are over, and gives back those that are owed.
func (k *Keys) Sweep(ctx context.Context) error {
	k.mu.Lock()
	owed := k.owed
	k.owed = nil
	k.mu.Unlock()
	var errs []error
	for _, c := range owed {
		errs = append(errs, c.Release(ctx))
	}
	return errors.Join(append(errs, k.forget(ctx))...)
}

func (k *Keys) forget(ctx context.Context) error {
	for {
		var n int64
		err := k.db.Tx(ctx, func(tx *db.Tx) error {
			res, err := tx.ExecContext(ctx, `
				DELETE FROM idempotency_keys WHERE id IN (SELECT id FROM idempotency_keys WHERE expires_at <= $1 LIMIT $2) AND expires_at <= $1`,
				db.Micros(k.now()), sweepBatch)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("sweeping idempotency keys: %w", err)
		}
		if n < sweepBatch {
			return nil
		}
	}
}
