// Package verification counts how often certificates are verified. It stores one count for each
// certificate and day (UTC), without IP addresses, cookies or times of day. Package web/public decides
// which requests are verifications.
package verification

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// FoldEvery is the interval at which package app calls Fold.
	FoldEvery = time.Minute
	// maxPending limits the number of counts in memory, one for each certificate and day. At this
	// number, Count ignores verifications that need a further count, until the next Fold.
	maxPending = 100_000
	// foldBatch is the maximum number of rows that one transaction changes.
	foldBatch = 1000
	// dayMicros is the length of a day in the unit of stored times.
	dayMicros = 86_400_000_000
)

// Config has the dependencies of a Service.
type Config struct {
	DB  *db.DB
	Now func() time.Time
	Log *slog.Logger
}

// Service counts verifications in memory and reads the stored counts.
type Service struct {
	db  *db.DB
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	pending map[key]int64
	// skipped is the number of verifications that were not counted because of maxPending.
	skipped int64
	// folding lets only one Fold run at a time, so that the Fold at shutdown waits for a running Fold.
	folding sync.Mutex
}

// key identifies a count.
type key struct{ certificate, day int64 }

// New returns a service.
func New(c Config) *Service {
	return &Service{db: c.DB, now: c.Now, log: c.Log, pending: map[key]int64{}}
}

// Count counts a verification of a certificate today. It changes only the count in memory: the next Fold
// stores the count. If the process ends before that, the count is lost.
func (s *Service) Count(certificateID int64) {
	k := key{certificateID, s.today()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.pending[k]; !known && len(s.pending) >= maxPending {
		s.skipped++
		return
	}
	s.pending[k]++
}

// today returns the number of days from 1 January 1970 to the current day, in UTC.
func (s *Service) today() int64 { return db.Micros(s.now()) / dayMicros }

// counted is a count that is not stored yet.
type counted struct {
	key

	n int64
}

// Fold stores the counts since the last call. It ignores the counts of certificates whose files were
// deleted. If a transaction fails, Fold keeps the counts that are not stored for the next call.
func (s *Service) Fold(ctx context.Context) error {
	s.folding.Lock()
	defer s.folding.Unlock()
	s.mu.Lock()
	list := make([]counted, 0, len(s.pending))
	for k, n := range s.pending {
		list = append(list, counted{k, n})
	}
	skipped := s.skipped
	s.pending, s.skipped = map[key]int64{}, 0
	s.mu.Unlock()
	if skipped > 0 {
		s.log.WarnContext(ctx, "verifications were not counted, because too many different certificates were verified in a minute", slog.Int64("verifications", skipped))
	}
	// All nodes change rows in the same order, so that two nodes cannot deadlock.
	slices.SortFunc(list, func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.certificate, b.certificate), cmp.Compare(a.day, b.day))
	})
	for len(list) > 0 {
		some := list[:min(len(list), foldBatch)]
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return addTx(ctx, tx, some) }); err != nil {
			s.putBack(list)
			return fmt.Errorf("storing the counts of verifications: %w", err)
		}
		list = list[len(some):]
	}
	return nil
}

func addTx(ctx context.Context, tx *db.Tx, list []counted) error {
	for _, c := range list {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO verification_counts (certificate_id, day, institution_id, n)
			SELECT id, $2, institution_id, $3 FROM certificates WHERE id = $1 AND files_ended_at IS NULL
			ON CONFLICT (certificate_id, day) DO UPDATE SET n = verification_counts.n + excluded.n`, c.certificate, c.day, c.n); err != nil {
			return err
		}
	}
	return nil
}

// putBack adds counts that could not be stored to the counts in memory.
func (s *Service) putBack(list []counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		s.pending[c.key] += c.n
	}
}

// DeleteTx deletes the counts of a certificate. Package cert calls it when it deletes the certificate
// or removes its files, because of an erasure or the end of the retention.
func DeleteTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM verification_counts WHERE certificate_id = $1`, certificateID); err != nil {
		return fmt.Errorf("deleting the counts of verifications: %w", err)
	}
	return nil
}
