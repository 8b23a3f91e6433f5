package limit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// ShareInterval is the interval at which processes share their counts. A key can therefore exceed
	// its limit by the requests of one interval.
	ShareInterval = time.Second
	// sharedPart determines which keys are shared: the keys for which one process has counted more than
	// 1/sharedPart of the limit.
	sharedPart = 10
	// maxShared limits the keys of a counter that are shared in one exchange, because an attack may use
	// many addresses.
	maxShared = 1000
)

// digest identifies a key in the database, which does not store addresses.
type digest [16]byte

func (c *Counter) digest(key string) digest {
	sum := sha256.Sum256([]byte(c.name + "\x00" + key))
	return digest(sum[:])
}

// Shared lets the processes on a PostgreSQL database share the counts of frequent keys. While no
// requests arrive, it does not use the database.
type Shared struct {
	db   *db.DB
	node string
	now  func() time.Time

	counters []*Counter
	// window is the window of the last exchange.
	window time.Time
}

// NewShared returns a Shared without counters. node is the id of this process. The function now should
// use the same clock in all processes on the database.
func NewShared(d *db.DB, node string, now func() time.Time) *Shared {
	return &Shared{db: d, node: node, now: now}
}

// Add shares the counts of a counter under a name. Call Add before the first request.
func (s *Shared) Add(name string, c *Counter) {
	c.name, c.now = name, s.now
	c.shared = map[digest]int{}
	s.counters = append(s.counters, c)
}

// Exchange stores the counts of this process and reads the counts of the other processes.
func (s *Shared) Exchange(ctx context.Context) error {
	now := s.now()
	window := now.Truncate(Window)
	var keys [][]byte
	var counts []int64
	frequent := make([]map[digest]int, len(s.counters)) // nil for a counter that has not changed
	for i, c := range s.counters {
		frequent[i] = c.frequent(now)
		for key, n := range frequent[i] {
			keys, counts = append(keys, key[:]), append(counts, int64(n))
		}
	}
	if !slices.ContainsFunc(frequent, func(found map[digest]int) bool { return found != nil }) {
		return nil
	}
	others := map[digest]int{}
	err := s.db.TxRelaxed(ctx, func(tx *db.Tx) error {
		clear(others)
		if !window.Equal(s.window) {
			if _, err := tx.ExecContext(ctx, `DELETE FROM rate_counts WHERE window_at < $1`, db.Micros(window)); err != nil {
				return err
			}
		}
		if len(keys) > 0 {
			if _, err := tx.ExecContext(ctx, `
				INSERT INTO rate_counts (window_at, key, node, n)
				SELECT $1, k, $2, c FROM unnest($3::bytea[], $4::bigint[]) AS shared (k, c) ORDER BY k
				ON CONFLICT (window_at, key, node) DO UPDATE SET n = excluded.n`, db.Micros(window), s.node, keys, counts); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, `SELECT key, sum(n)::bigint FROM rate_counts WHERE window_at = $1 AND node <> $2 GROUP BY key`, db.Micros(window), s.node)
		if err != nil {
			return err
		}
		_, err = db.Collect(rows, func(rows *sql.Rows) (none struct{}, err error) {
			var key []byte
			var n int
			if err := rows.Scan(&key, &n); err != nil {
				return none, err
			}
			others[digest(key)] = n
			return none, nil
		})
		return err
	})
	if err != nil {
		for i, c := range s.counters {
			if frequent[i] != nil {
				c.retry()
			}
		}
		return fmt.Errorf("sharing the counts of requests: %w", err)
	}
	s.window = window
	for i, c := range s.counters {
		c.learn(window, others, frequent[i])
	}
	return nil
}

// frequent returns the counts of frequent keys that have grown since they were last shared, or nil if the
// counter has counted no request since the last exchange.
func (c *Counter) frequent(now time.Time) map[digest]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changed || !now.Before(c.end) {
		return nil
	}
	c.changed = false
	found := map[digest]int{}
	for key, n := range c.count {
		most := c.limitOf(key)
		if n*sharedPart <= most {
			continue
		}
		id := c.digest(key)
		// If the shared count is above the limit, all processes refuse the key. The exact count does not
		// matter.
		if known := c.shared[id]; known >= n || known > most {
			continue
		}
		found[id] = n
		if len(found) == maxShared {
			break
		}
	}
	return found
}

// retry makes the next exchange share the counts of the counter, because this exchange failed.
func (c *Counter) retry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = true
}

// learn replaces the counts of the other processes, and records which counts of this process they can
// read. If the counter is in another window, learn does nothing.
func (c *Counter) learn(window time.Time, others, shared map[digest]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.end.Equal(window.Add(Window)) {
		return
	}
	c.others = others
	maps.Copy(c.shared, shared)
}
