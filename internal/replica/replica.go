// Package replica lets lists, exports and public pages read from a replica of the PostgreSQL database.
// It decides which reads use the replica, and repeats a read on the primary if it fails on the replica.
// The reads are in other packages: an operation that may read from the replica calls [db.DB.Read], and a
// handler permits it with Allow.
//
// Each server writes a heartbeat to the primary once a second. A replica applies commits in their order,
// in physical and in logical replication. Therefore it has everything that was committed before its
// newest heartbeat.
//
//   - A replica that is more than five seconds behind, or does not respond, is not used.
//   - A person or token reads its own changes from the primary until the replica has them, on all
//     servers. The time of the last write is in the database.
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/job"
)

const (
	// PollInterval is the interval of Poll.
	PollInterval = time.Second
	// pollTime is the time after which a replica that has not answered Poll counts as down.
	pollTime = 2 * time.Second
	// MaxLag is the age of the newest heartbeat of the replica above which the replica is not used.
	MaxLag = 5 * time.Second
)

// ErrInstallation means that the replica belongs to another installation.
var ErrInstallation = errors.New("it belongs to another installation than --database")

// Replica is a replica of a database. A nil Replica is valid and never used.
type Replica struct {
	primary *db.DB
	url     string
	log     *slog.Logger
	reads   *prometheus.CounterVec
	lag     *prometheus.Desc

	// copy is nil before the first connection. backend is the connection of Poll, which was found to lead to
	// a replica of the primary's installation. It is nil after an error, because another database may have
	// replaced the replica, and while the replica is behind, because the URL may lead to another one.
	mu      sync.Mutex
	copy    *db.DB
	backend *db.Backend
	// state is nil while the replica is down.
	state atomic.Pointer[state]
	marks marks
}

// state is the result of a successful Poll.
type state struct {
	copy *db.DB
	// backend is the id of the server that was polled. Reads use no other, even if the URL leads to several.
	backend string
	// applied is the time of the newest heartbeat of the replica.
	applied time.Time
	// up is cancelled when a Poll fails or finds another server, so that reads do not wait for the replica.
	up  context.Context //nolint:containedctx // it is the life of the state, not that of a call
	end context.CancelFunc
}

// Open returns the replica of a database, and makes the database use it. The error wraps ErrInstallation
// if the replica belongs to another installation. If the replica does not respond, Open returns no
// error, and the replica is used as soon as it responds.
func Open(ctx context.Context, primary *db.DB, url string, log *slog.Logger) (*Replica, error) {
	r := &Replica{
		primary: primary, url: url, log: log,
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "certvault_replica_reads_total", Help: "Reads that may go to the replica, by the database that was read, with the reason if it was the primary.",
		}, []string{"from"}),
		lag: prometheus.NewDesc("certvault_replica_lag_seconds",
			"Age of the newest heartbeat on the replica, which is up to 2 without a delay; -1 if the replica does not respond.", nil, nil),
	}
	for _, from := range []string{fromReplica, fromDown, fromBehind, fromWritten, fromFailed} {
		r.reads.WithLabelValues(from)
	}
	err := r.Poll(ctx)
	if errors.Is(err, ErrInstallation) {
		return nil, errors.Join(fmt.Errorf("--database-read: %w", err), r.Close())
	}
	if err != nil {
		log.WarnContext(ctx, "the read replica does not respond; the primary is used until it does", slog.Any("error", err))
	}
	primary.SetReplica(r.read)
	return r, nil
}

// Poll reads the newest heartbeat of the replica. It must be called every PollInterval.
func (r *Replica) Poll(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	s, err := r.poll(limited)
	if err != nil {
		if last := r.state.Swap(nil); last != nil {
			last.end()
		}
		return fmt.Errorf("the read replica: %w", err)
	}
	last := r.state.Load()
	same := last != nil && last.backend == s.backend
	if same { // reads that have begun are not cancelled
		s.up, s.end = last.up, last.end
	} else {
		s.up, s.end = context.WithCancel(context.WithoutCancel(ctx))
	}
	r.state.Store(s)
	if last != nil && !same {
		last.end()
	}
	return nil
}

func (r *Replica) poll(ctx context.Context) (_ *state, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copy == nil {
		if r.copy, err = db.OpenReplica(ctx, r.url); err != nil {
			return nil, err
		}
	}
	s := &state{copy: r.copy}
	defer func() {
		if err != nil || r.behind(s) {
			r.disconnect()
		}
	}()
	if r.backend == nil {
		if r.backend, err = r.copy.Backend(ctx); err != nil {
			return nil, err
		}
		if err := checkInstallation(ctx, r.primary, r.backend); err != nil {
			return nil, err
		}
	}
	s.backend = r.backend.ID
	s.applied, err = job.LastHeartbeat(ctx, r.backend, r.primary.Now())
	return s, err
}

// behind reports whether the replica is too old to be used.
func (r *Replica) behind(s *state) bool { return r.primary.Now().Sub(s.applied) > MaxLag }

// disconnect closes the connection of Poll and, when they are not in use, those of reads. New connections may
// lead to another server.
func (r *Replica) disconnect() {
	r.copy.Pool().Reset()
	if r.backend != nil {
		_ = r.backend.Close() // an error of the connection is that of Poll
		r.backend = nil
	}
}

// checkInstallation returns ErrInstallation if the replica and the primary do not belong to the same
// installation.
func checkInstallation(ctx context.Context, primary *db.DB, replica *db.Backend) error {
	want, err := primary.Installation(ctx)
	if err != nil {
		return err
	}
	got, err := replica.Installation(ctx)
	if err == nil && (got == "" || got != want) {
		err = ErrInstallation
	}
	return err
}

// Close closes the connections to the replica.
func (r *Replica) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.state.Swap(nil); last != nil {
		last.end()
	}
	if r.copy == nil {
		return nil
	}
	r.disconnect()
	return r.copy.Close()
}

// These are the values of the label "from" of the metric certvault_replica_reads_total. A read used the
// replica, or the primary because the replica was down, was behind, lacked the writes of the actor, or
// failed.
const (
	fromReplica = "replica"
	fromDown    = "primary_down"
	fromBehind  = "primary_behind"
	fromWritten = "primary_written"
	fromFailed  = "primary_failed"
)

// read calls f with a context that reads from the replica, if ctx permits it and the replica is current.
// Otherwise, and if that read must be repeated, read calls f with ctx, which reads from the primary.
func (r *Replica) read(ctx context.Context, f func(ctx context.Context) error) error {
	written, allowed := ctx.Value(allowedKey{}).(writtenFunc)
	if !allowed {
		return f(ctx)
	}
	s := r.state.Load()
	var from string
	switch {
	case s == nil:
		from = fromDown
	case r.behind(s):
		from = fromBehind
	case !s.applied.After(written(ctx)):
		from = fromWritten
	default:
		done, err := r.try(ctx, s, f)
		if done {
			r.reads.WithLabelValues(fromReplica).Inc()
			return err
		}
		r.log.DebugContext(ctx, "a read from the replica failed and is repeated on the primary", slog.Any("error", err))
		from = fromFailed
	}
	r.reads.WithLabelValues(from).Inc()
	return f(ctx)
}

// try calls f with a context that reads from the replica. done is false if the read must be repeated on
// the primary, for example because the replica does not have a record yet.
func (r *Replica) try(ctx context.Context, s *state, f func(ctx context.Context) error) (done bool, err error) {
	on, cancel := context.WithCancel(r.primary.ReadFrom(ctx, s.copy, s.backend))
	defer cancel()
	defer context.AfterFunc(s.up, cancel)()
	err = f(on)
	switch {
	case err == nil, ctx.Err() != nil, fault.Is(err, fault.Invalid):
		return true, err
	case fault.Is(err, fault.Unavailable):
		return on.Err() == nil, err // a query that is too slow is not faster on the primary
	}
	return false, err
}

// Describe implements [prometheus.Collector].
func (r *Replica) Describe(ch chan<- *prometheus.Desc) {
	r.reads.Describe(ch)
	ch <- r.lag
}

// Collect implements [prometheus.Collector].
func (r *Replica) Collect(ch chan<- prometheus.Metric) {
	r.reads.Collect(ch)
	lag := -1.0
	if s := r.state.Load(); s != nil {
		lag = r.primary.Now().Sub(s.applied).Seconds()
	}
	ch <- prometheus.MustNewConstMetric(r.lag, prometheus.GaugeValue, lag)
}

// Examine opens a replica for the command doctor, and returns its lag. The error wraps ErrInstallation
// if the replica belongs to another installation.
func Examine(ctx context.Context, primary *db.DB, url string) (lag time.Duration, err error) {
	replica, err := db.OpenReplica(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, replica.Close()) }()
	backend, err := replica.Backend(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if err := checkInstallation(ctx, primary, backend); err != nil {
		return 0, err
	}
	if _, err := primary.SyncClock(ctx); err != nil {
		return 0, err
	}
	latest, err := job.LastHeartbeat(ctx, primary, primary.Now())
	if err != nil {
		return 0, err
	}
	applied, err := job.LastHeartbeat(ctx, backend, primary.Now())
	if err != nil {
		return 0, err
	}
	return max(0, latest.Sub(applied)), nil
}
