package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
)

// rule is how tries slow down: the first ones are free, the next has to wait for
// base, and each further one twice as long, at most for most. What was not tried
// for the time forget is forgotten.
type rule struct {
	free               int
	base, most, forget time.Duration
}

func (r rule) wait(tries int) time.Duration {
	if tries <= r.free {
		return 0
	}
	return min(r.most, r.base<<min(tries-r.free-1, 20))
}

// rules are those of one kind of try: on one account from one network, from one
// network on whatever account, and on one account from wherever.
//
// The last two are shared with strangers. So that none of them can lock somebody
// out, a browser in which that person signed in before is not counted under them;
// and passkeys ask for no password.
type rules struct{ here, network, account rule }

// kind is what is tried.
type kind string

const (
	tryPassword kind = "password"
	tryCode     kind = "code"
	tryConfirm  kind = "confirm"
	tryMail     kind = "mail"
)

var throttles = map[kind]rules{
	tryPassword: {
		here:    rule{free: 5, base: time.Second, most: 15 * time.Minute, forget: 24 * time.Hour},
		network: rule{free: 100, base: time.Second, most: 30 * time.Second, forget: time.Hour},
		account: rule{free: 50, base: time.Second, most: 5 * time.Minute, forget: 24 * time.Hour},
	},
	// Whoever is asked for a code has shown a password or a mailed link.
	tryCode: {
		here:    rule{free: 5, base: 30 * time.Second, most: time.Hour, forget: 24 * time.Hour},
		network: rule{free: 100, base: time.Second, most: 30 * time.Second, forget: time.Hour},
		account: rule{free: 20, base: 30 * time.Second, most: time.Hour, forget: 24 * time.Hour},
	},
	tryConfirm: {
		here:    rule{free: 5, base: time.Second, most: 15 * time.Minute, forget: 24 * time.Hour},
		network: rule{free: 100, base: time.Second, most: 30 * time.Second, forget: time.Hour},
		account: rule{free: 20, base: time.Second, most: 15 * time.Minute, forget: 24 * time.Hour},
	},
	// A mail is never forgiven: each counts.
	tryMail: {
		here:    rule{free: 4, base: 2 * time.Minute, most: time.Hour, forget: 24 * time.Hour},
		network: rule{free: 200, base: time.Second, most: time.Minute, forget: time.Hour},
		account: rule{free: 10, base: time.Minute, most: time.Hour, forget: 24 * time.Hour},
	},
}

// counted is a try under one rule.
type counted struct {
	key  []byte
	rule rule
}

func countedOf(k kind, r rule, parts ...string) counted {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %q", k, parts)
	return counted{key: h.Sum(nil), rule: r}
}

// try counts a try before it is made, so that of many at once none slips
// through, and refuses it when it comes too early. It gives what undoes the
// counting when the try was a good one.
func (s *Service) try(ctx context.Context, k kind, account string, from Origin) (forgive func(context.Context), err error) {
	known, err := s.knows(ctx, account, from.Device)
	if err != nil {
		return nil, err
	}
	r, network := throttles[k], limit.AddressKey(from.Address)
	own := countedOf(k, r.here, "here", account, network)
	shared := []counted{countedOf(k, r.network, "network", network), countedOf(k, r.account, "account", account)}
	if known {
		own, shared = countedOf(k, r.here, "device", account, from.Device), nil
	}
	all := append([]counted{own}, shared...)
	// In one order for everybody: two that count the same keys must not wait for
	// each other.
	slices.SortFunc(all, func(a, b counted) int { return bytes.Compare(a.key, b.key) })
	if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
		var longest time.Duration
		for _, c := range all {
			wait, err := s.countTx(ctx, tx, c)
			if err != nil {
				return err
			}
			longest = max(longest, wait)
		}
		if longest > 0 {
			// What is refused is rolled back and does not count: it would be waited for
			// without end.
			return &fault.Error{Kind: fault.TooMany, Message: "That was tried too often. Please wait a moment.", RetryAfter: longest}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if err := s.forgive(ctx, all, own); err != nil {
			// It only makes the next try wait longer than it should.
			s.Log.WarnContext(ctx, "a good try still counts", slog.Any("error", err))
		}
	}, nil
}

// forgive takes a good try back: what was tried here before is forgotten.
func (s *Service) forgive(ctx context.Context, all []counted, own counted) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		for _, c := range all {
			statement := `UPDATE throttles SET tries = tries - 1 WHERE key = $1 AND tries > 0`
			if bytes.Equal(c.key, own.key) {
				statement = `DELETE FROM throttles WHERE key = $1`
			}
			if _, err := tx.ExecContext(ctx, statement, c.key); err != nil {
				return err
			}
		}
		return nil
	})
}

// countTx counts a try, and gives for how long it comes too early.
func (s *Service) countTx(ctx context.Context, tx *db.Tx, c counted) (time.Duration, error) {
	now := s.Now()
	var tries int
	var until int64
	// One statement reads and writes: it locks the row, on PostgreSQL too.
	err := tx.QueryRowContext(ctx, `
		INSERT INTO throttles (key, tries, until, tried_at) VALUES ($1, 1, 0, $2)
		ON CONFLICT (key) DO UPDATE SET tries = CASE WHEN throttles.tried_at < $3 THEN 1 ELSE throttles.tries + 1 END, tried_at = excluded.tried_at
		RETURNING tries, until`, c.key, db.Micros(now), db.Micros(now.Add(-c.rule.forget))).Scan(&tries, &until)
	if err != nil {
		return 0, fmt.Errorf("counting a try: %w", err)
	}
	if wait := db.Time(until).Sub(now); wait > 0 {
		return wait, nil
	}
	if wait := c.rule.wait(tries + 1); wait > 0 {
		if _, err := tx.ExecContext(ctx, `UPDATE throttles SET until = $2 WHERE key = $1`, c.key, db.Micros(now.Add(wait))); err != nil {
			return 0, fmt.Errorf("counting a try: %w", err)
		}
	}
	return 0, nil
}
