package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/web"
)

const (
	readyTime = 2 * time.Second
	// readyRetry is the Retry-After of responses of /readyz.
	readyRetry = probeInterval
	// probeInterval is the interval of probe writes to the file store. The heartbeat is the probe
	// write to the database.
	probeInterval = 5 * time.Second
	// probeLate is the time without a finished probe after which the storage is considered broken,
	// because a write to broken storage may never return. It is long enough for a write that waits
	// for other writes on a busy SQLite database.
	probeLate = 20 * time.Second
	// heartbeatTime limits a heartbeat.
	heartbeatTime = 15 * time.Second
	// sqliteHeartbeat is the interval of heartbeats on SQLite.
	sqliteHeartbeat = 3 * time.Second
)

var errProbeLate = errors.New("the last write did not finish in time")

// probe is the result of the last probe write.
type probe struct{ last atomic.Pointer[probeResult] }

type probeResult struct {
	at  time.Time
	err error
}

func (p *probe) record(err error) {
	// The vault cancels its probes when it stops.
	if !errors.Is(err, context.Canceled) {
		p.last.Store(&probeResult{time.Now(), err})
	}
}

// check returns the error of the last write. If the last write succeeded too long ago, the error is
// errProbeLate. Before the first write, check returns nil.
func (p *probe) check() error {
	last := p.last.Load()
	switch {
	case last == nil:
		return nil
	case last.err == nil && time.Since(last.at) > probeLate:
		return errProbeLate
	default:
		return last.err
	}
}

// heartbeatInterval returns the interval of heartbeats. It is longer on SQLite, because no other node
// waits for heartbeats, and each heartbeat is a write to the disk.
func heartbeatInterval(d db.Dialect) time.Duration {
	if d == db.SQLite {
		return sqliteHeartbeat
	}
	return job.HeartbeatInterval
}

// beat sends a heartbeat, and frees the leases and jobs of dead nodes.
func (a *App) beat(ctx context.Context) error {
	err := a.heartbeat(ctx)
	// The watchdog is notified even if the heartbeat failed, because a restart does not help if the
	// database does not respond. The watchdog only detects a process that makes no progress.
	a.notify(daemon.SdNotifyWatchdog)
	if err != nil {
		return err
	}
	if a.DB.Dialect == db.SQLite || !a.Queue.MustRescue() {
		return nil
	}
	return errors.Join(a.Deliverer.FreeDeadLeases(ctx), a.Queue.Rescue(ctx, a.DB.Now(), a.Certs.Rescued))
}

// heartbeat records in the database that this node is alive. If marksFiles reports true, it also records
// this in the folder of files. The result is also stored as that of the database probe.
func (a *App) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTime)
	defer cancel()
	_, err := a.DB.SyncClock(ctx)
	now := a.DB.Now()
	if err == nil {
		err = a.Queue.Heartbeat(ctx, now)
	}
	if err == nil && a.marksFiles() {
		err = a.store.setMark(now)
	}
	a.databaseProbe.record(err)
	return err
}

// probeFiles checks that the file store accepts writes or, if it is in S3, that it responds.
func (a *App) probeFiles(ctx context.Context) error {
	err := a.blobs.Probe(ctx)
	a.fileProbe.record(err)
	return err
}

// ready is the handler of /readyz. A vault is ready if it is not stopping, the database responds, and
// the last writes to the database and the file store succeeded.
func (a *App) ready(w http.ResponseWriter, r *http.Request) {
	if a.draining.Load() {
		w.Header().Set("Retry-After", web.RetryAfter(readyRetry))
		plain(w, http.StatusServiceUnavailable, "stopping\n")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	for _, c := range []struct {
		err  error
		text string
	}{
		{a.databaseProbe.check(), "the last write to the database failed\n"},
		{a.fileProbe.check(), a.fileProbeText()},
		{a.DB.Ping(ctx), "the database does not respond\n"},
	} {
		if c.err != nil {
			a.log.WarnContext(ctx, "the vault is not ready", slog.Any("error", c.err))
			w.Header().Set("Retry-After", web.RetryAfter(readyRetry))
			plain(w, http.StatusServiceUnavailable, c.text)
			return
		}
	}
	text := "ready\n"
	if a.drill {
		text += "This vault is a drill of a restore. It sends no mail and no webhooks.\n"
	}
	plain(w, http.StatusOK, text)
}

// fileProbeText returns the response of /readyz if the file store does not work.
func (a *App) fileProbeText() string {
	if a.cfg.Blob != "" {
		return "the file store does not respond\n"
	}
	return "the last write to the file store failed\n"
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) //nolint:gosec // the text is not HTML
}
