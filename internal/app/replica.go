package app

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/replica"
)

// openReplica opens the replica of --database-read. The error wraps replica.ErrInstallation if the
// replica belongs to another installation.
func (a *App) openReplica(ctx context.Context) (err error) {
	if a.cfg.DatabaseRead != "" && a.cfg.Has(config.Web) {
		a.replica, err = replica.Open(ctx, a.DB, a.cfg.DatabaseRead, a.log)
	}
	return err
}

// readPublic calls f, which may read from the replica.
func (a *App) readPublic(ctx context.Context, f func(ctx context.Context) error) error {
	return a.DB.Read(a.replica.Allow(ctx), f)
}

// beginRequest returns r with a context that identifies the signed-in person to the replica. Reads then
// use the replica only if it has all writes of the person. The caller must call end before it ends the
// response.
func (a *App) beginRequest(g gate, r *http.Request) (_ *http.Request, end func(), err error) {
	person, ok := g.Person(r)
	if !ok || a.replica == nil {
		return r, func() {}, nil
	}
	ctx, end, err := a.replica.Begin(r.Context(), r.Method, "person:"+strconv.FormatInt(person.ID, 10))
	if err != nil {
		return r, nil, err
	}
	return r.WithContext(ctx), end, nil
}

// examineReplica checks the replica of --database-read.
func examineReplica(ctx context.Context, d *db.DB, url string) Finding {
	lag, err := replica.Examine(ctx, d, url)
	if err == nil && lag > replica.MaxLag {
		err = warning{fmt.Errorf("%s behind, so it is not used", lag.Round(time.Second))}
	}
	return finding("read replica", "belongs to this installation and is up to date", err)
}
