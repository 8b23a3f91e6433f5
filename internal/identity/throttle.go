package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
)

// rule limits the rate of tries. The first tries need no wait; free is their number. The next try must wait for
// base, and the wait doubles with each further try, up to max. A count is reset if no try was counted for
// resetAfter.
type rule struct {
	free                  int
	base, max, resetAfter time.Duration
}

func (r rule) wait(tries int) time.Duration {
	if tries <= r.free {
		return 0
	}
	return min(r.max, r.base<<min(tries-r.free-1, 20))
}

// rules has the limits for one kind of try: for one account from one network, for all accounts from
// one network, and for one account from all networks. The limit for a network also applies to the
// wide networks of an IPv6 address, with more free tries.
//
// The tries of other people also count for the rules network and account, but must not lock a person
// out. Therefore these two rules do not apply in a browser in which the person has signed in before.
// Sign-ins with a passkey are never counted.
type rules struct{ here, network, account rule }

// wideFactors multiply the free tries of a network for its /56 and its /48 network. Both an attacker and
// an organization with many people can have a network of this size.
var wideFactors = [...]int{2, 5}

// kind is the kind of a try.
type kind string

const (
	tryPassword kind = "password"
	tryCode     kind = "code"
	tryConfirm  kind = "confirm"
	// tryAddress is a request of a signed-in person to change the main address or to add a further
	// address. The request is counted for the person's current main address.
	tryAddress kind = "address"
	// trySignUp is a request for a link to sign up, whose mail may go to any address.
	trySignUp kind = "sign_up"
)

var throttles = map[kind]rules{
	tryPassword: {
		here:    rule{free: 5, base: time.Second, max: 15 * time.Minute, resetAfter: 24 * time.Hour},
		network: rule{free: 100, base: time.Second, max: 30 * time.Second, resetAfter: time.Hour},
		account: rule{free: 50, base: time.Second, max: 5 * time.Minute, resetAfter: 24 * time.Hour},
	},
	// These limits can be stricter, because a code is required only after a correct first factor.
	tryCode: {
		here:    rule{free: 5, base: 30 * time.Second, max: time.Hour, resetAfter: 24 * time.Hour},
		network: rule{free: 100, base: time.Second, max: 30 * time.Second, resetAfter: time.Hour},
		account: rule{free: 20, base: 30 * time.Second, max: time.Hour, resetAfter: 24 * time.Hour},
	},
	tryConfirm: {
		here:    rule{free: 5, base: time.Second, max: 15 * time.Minute, resetAfter: 24 * time.Hour},
		network: rule{free: 100, base: time.Second, max: 30 * time.Second, resetAfter: time.Hour},
		account: rule{free: 20, base: time.Second, max: 15 * time.Minute, resetAfter: 24 * time.Hour},
	},
	// These counts are not reset after a success, so each mail counts.
	tryAddress: {
		here:    rule{free: 4, base: 2 * time.Minute, max: time.Hour, resetAfter: 24 * time.Hour},
		account: rule{free: 10, base: time.Minute, max: time.Hour, resetAfter: 24 * time.Hour},
	},
	// A limit for the account would allow other people to lock out the person who has the address. mailRule
	// limits the mail to one address.
	trySignUp: {
		network: rule{free: 200, base: time.Second, max: time.Minute, resetAfter: time.Hour},
	},
}

const (
	// mailPause is the time after a mail with a link during which no second mail for the same
	// purpose is sent to the address. The pause doubles with each mail, up to maxMailPause.
	mailPause    = 2 * time.Minute
	maxMailPause = time.Hour
)

// mailRule returns the limit for mail with links of the given lifetime to one address. The limit
// protects the mailbox, and must never lock a person out: a person who gets no further mail has a
// mail with a valid link. Therefore the wait is at most half the lifetime of the link.
func mailRule(lifetime time.Duration) rule {
	return rule{free: 1, base: mailPause, max: min(maxMailPause, lifetime/2), resetAfter: 24 * time.Hour}
}

// errMailed means that the last mail to an address was sent a short time ago, and that its link is
// valid.
var errMailed = errors.New("a mail with a valid link was sent a short time ago")

// countMailTx counts a mail with a link that a person requested for a purpose, or returns errMailed
// if the mail must not be sent. The caller must then roll back, so that the request does not count.
// Each purpose has its own count.
func (s *Service) countMailTx(ctx context.Context, tx *db.Tx, purpose Purpose, folded string, lifetime time.Duration) error {
	wait, err := s.countTx(ctx, tx, countedMail(purpose, folded, mailRule(lifetime)))
	if err == nil && wait > 0 {
		err = errMailed
	}
	return err
}

// resetMailTx resets the counts of mail to an address, because the mailed links were used or are no
// longer valid. The next request then sends a mail at once.
func resetMailTx(ctx context.Context, tx *db.Tx, folded string) error {
	for _, purpose := range []Purpose{ToSignUp, ToSignIn, ToReset} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM throttles WHERE key = $1`, countedMail(purpose, folded, rule{}).key); err != nil {
			return fmt.Errorf("resetting the count of mail: %w", err)
		}
	}
	return nil
}

func countedMail(purpose Purpose, folded string, r rule) counted {
	return countedOf("mail", r, string(purpose), folded)
}

// counted is the count of a try for one rule.
type counted struct {
	key  []byte
	rule rule
}

func countedOf(k kind, r rule, parts ...string) counted {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %q", k, parts)
	return counted{key: h.Sum(nil), rule: r}
}

// try counts a try before it is made, so that concurrent tries cannot bypass the limit. It returns
// fault.TooMany if the try is too early. If successful tries must not count, callers call the returned
// function after a success.
func (s *Service) try(ctx context.Context, k kind, account string, from Origin) (resetTries func(context.Context), err error) {
	known, err := s.isKnownDevice(ctx, account, from.Device)
	if err != nil {
		return nil, err
	}
	r, network := throttles[k], limit.AddressKey(from.Address)
	own := countedOf(k, r.here, "here", account, network)
	shared := []counted{countedOf(k, r.network, "network", network), countedOf(k, r.account, "account", account)}
	for i, wide := range limit.Networks(from.Address) {
		more := r.network
		more.free *= wideFactors[i]
		shared = append(shared, countedOf(k, more, "network", wide))
	}
	if known {
		own, shared = countedOf(k, r.here, "device", account, from.Device), nil
	}
	all := slices.DeleteFunc(append([]counted{own}, shared...), func(c counted) bool { return c.rule == rule{} })
	// A fixed order prevents deadlocks between concurrent tries with the same keys.
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
			// A refused try is rolled back and does not count, so that it does not extend the wait.
			return &fault.Error{Kind: fault.TooMany, Message: "Too many attempts. Please wait a moment.", RetryAfter: longest}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if err := s.resetTries(ctx, all, own); err != nil {
			// The only effect is a longer wait before the next try.
			s.Log.WarnContext(ctx, "subtracting a successful try from its counts failed", slog.Any("error", err))
		}
	}, nil
}

// resetTries subtracts a successful try from all counts except own, which it deletes. own is the count
// of the account from this network or in this browser.
func (s *Service) resetTries(ctx context.Context, all []counted, own counted) error {
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

// countTx counts a try. If the try is too early, it returns the remaining wait.
func (s *Service) countTx(ctx context.Context, tx *db.Tx, c counted) (time.Duration, error) {
	now := s.Now()
	var tries int
	var until int64
	// A single statement reads and writes the row, so that concurrent tries are all counted.
	err := tx.QueryRowContext(ctx, `
		INSERT INTO throttles (key, tries, until, tried_at) VALUES ($1, 1, 0, $2)
		ON CONFLICT (key) DO UPDATE SET tries = CASE WHEN throttles.tried_at < $3 THEN 1 ELSE throttles.tries + 1 END, tried_at = excluded.tried_at
		RETURNING tries, until`, c.key, db.Micros(now), db.Micros(now.Add(-c.rule.resetAfter))).Scan(&tries, &until)
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
