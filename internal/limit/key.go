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
	"sync/atomic"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
)

const (
	// KeyLifetime is the time after which a stored response expires.
	KeyLifetime = 24 * time.Hour
	// MaxResponse is the maximum size of a stored response in bytes.
	MaxResponse = 1 << 20
	// claimLife is the time after which a claim without a response expires. It is longer than the time
	// limit of any request with an idempotency key.
	claimLife = 20 * time.Minute
	// inFlightRetry is the Retry-After of the response if another request has claimed the key.
	inFlightRetry = time.Second
	// SweepInterval is the interval of sweeps that remove expired keys.
	SweepInterval = time.Minute
	// sweepBatch limits the work of one transaction of a sweep.
	sweepBatch = 500
	// maxPendingReleases limits the number of claims that wait for another attempt to release them.
	// A claim beyond the limit remains until it expires.
	maxPendingReleases = 10_000
)

var errInFlight = &fault.Error{
	Kind: fault.Conflict, Message: "A request with this Idempotency-Key is still being processed.", RetryAfter: inFlightRetry,
}

// Keys stores the responses to requests that have an idempotency key.
type Keys struct {
	db   *db.DB
	node string
	now  func() time.Time

	// inProgress and reused count the requests that were refused because of their keys.
	inProgress, reused atomic.Int64

	mu sync.Mutex
	// pendingReleases has the claims whose release failed. The next sweep releases these claims.
	pendingReleases []*Claim
}

// NewKeys returns a store of keys. node is the id of this process in the list of nodes.
func NewKeys(d *db.DB, node string, now func() time.Time) *Keys {
	return &Keys{db: d, node: node, now: now}
}

// Scope is the scope of a key. The same key in another scope belongs to another request.
type Scope struct {
	InstitutionID, TokenID int64
	Method, Path, Key      string
}

// digest returns the hash of a scope. The length of each text precedes the text, so that different
// scopes never have the same input.
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

// StoredResponse is the stored response to a request and the fingerprint of the request.
type StoredResponse struct {
	// Fingerprint is the digest of the request's content.
	Fingerprint [sha256.Size]byte
	Status      int
	Body        []byte
}

// Claim is the exclusive right of a request in progress to its key.
type Claim struct {
	keys        *Keys
	id          []byte
	institution int64
	// secret distinguishes this claim from a later claim of the same key. A request must not store
	// a response after another request has claimed the key.
	secret []byte
}

// Begin returns the response that is stored under a key, or claims the key for a new request. If
// there is no error, exactly one of the first two results is nil. Begin returns a Conflict if
// another request on any node has claimed the key.
func (k *Keys) Begin(ctx context.Context, scope Scope) (*Claim, *StoredResponse, error) {
	id := scope.digest()
	found, err := k.stored(ctx, id, scope.InstitutionID)
	if err != nil || found != nil {
		return nil, found, err
	}
	c := &Claim{keys: k, id: id, institution: scope.InstitutionID, secret: []byte(rand.Text())}
	claimed, err := k.claim(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if claimed {
		return c, nil, nil
	}
	// The other request may have stored its response in the meantime.
	if found, err = k.stored(ctx, id, scope.InstitutionID); err != nil || found != nil {
		return nil, found, err
	}
	k.inProgress.Add(1)
	return nil, nil, errInFlight
}

// stored returns the response under a key, or nil if the key has no response or has expired.
func (k *Keys) stored(ctx context.Context, id []byte, institutionID int64) (*StoredResponse, error) {
	var a StoredResponse
	var fingerprint []byte
	err := k.db.QueryRowContext(ctx, `
		SELECT fingerprint, status, body FROM idempotency_keys
		WHERE id = $1 AND institution_id = $2 AND status IS NOT NULL AND expires_at > $3`,
		id, institutionID, db.Micros(k.now())).Scan(&fingerprint, &a.Status, &a.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // the absence of a response is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("reading the response of an idempotency key: %w", err)
	}
	copy(a.Fingerprint[:], fingerprint)
	return &a, nil
}

// claim claims a free key. A key is free if it is not stored, if it has expired, or if it has no
// response and its claim belongs to another node that is dead. A process takes over its own claims
// only after they have expired. claim reports whether the key was free.
func (k *Keys) claim(ctx context.Context, c *Claim) (claimed bool, err error) {
	now := k.now()
	// The transaction need not survive a power failure. Either the request is lost with its claim,
	// or StoreTx returns a Conflict because the claim does not exist.
	err = k.db.TxRelaxed(ctx, func(tx *db.Tx) error {
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

// StoreTx stores the response in the transaction of the request, so that the response and the
// changes of the request are committed together. It returns a Conflict if the claim was released,
// was deleted after its expiry, or was replaced by the claim of another request. It returns an
// error if the body is larger than MaxResponse. After an error the caller must roll back.
func (c *Claim) StoreTx(ctx context.Context, tx *db.Tx, a *StoredResponse) error {
	if len(a.Body) > MaxResponse {
		return fmt.Errorf("storing a response: %d bytes exceed the limit", len(a.Body))
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE idempotency_keys SET fingerprint = $1, status = $2, body = $3, expires_at = $4
		WHERE id = $5 AND institution_id = $6 AND claim = $7 AND status IS NULL`,
		a.Fingerprint[:], a.Status, a.Body, db.Micros(c.keys.now().Add(KeyLifetime)), c.id, c.institution, c.secret)
	if err != nil {
		return fmt.Errorf("storing a response: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("storing a response: %w", err)
	}
	if n == 0 {
		return errInFlight
	}
	return nil
}

// Reused counts a request that was refused because its key belongs to a request with other content.
func (k *Keys) Reused() { k.reused.Add(1) }

// Conflicts returns the numbers of refused requests. inProgress counts those whose key a request in
// progress had claimed, and reused counts those whose key belonged to a request with other content.
func (k *Keys) Conflicts() (inProgress, reused int64) { return k.inProgress.Load(), k.reused.Load() }

// Store stores the response in a transaction of its own, for a request that changed nothing.
func (c *Claim) Store(ctx context.Context, a *StoredResponse) error {
	return c.keys.db.Tx(ctx, func(tx *db.Tx) error { return c.StoreTx(ctx, tx, a) })
}

// Release releases the key of a request that failed. It does not delete a stored response: if the
// response of the database to a commit was lost, the stored response shows that the commit
// succeeded. If Release fails, the next sweep repeats the release, unless maxPendingReleases claims
// already wait.
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
	if len(c.keys.pendingReleases) < maxPendingReleases {
		c.keys.pendingReleases = append(c.keys.pendingReleases, c)
	}
	return fmt.Errorf("releasing an idempotency key: %w", err)
}

// Sweep removes expired keys and releases the pending claims.
func (k *Keys) Sweep(ctx context.Context) error {
	k.mu.Lock()
	pending := k.pendingReleases
	k.pendingReleases = nil
	k.mu.Unlock()
	var errs []error
	for _, c := range pending {
		errs = append(errs, c.Release(ctx))
	}
	return errors.Join(append(errs, k.deleteExpired(ctx))...)
}

func (k *Keys) deleteExpired(ctx context.Context) error {
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
