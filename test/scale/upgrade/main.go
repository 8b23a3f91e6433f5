// Command upgrade applies the migrations of this binary to a PostgreSQL database. Meanwhile, ten other
// connections write to large tables or read certificates; each executes a statement every 10 ms. The
// command prints how long each migration took, and the longest wait of these connections during the
// migration. The results of measurements are in docs/scale.md.
//
//	go run ./test/scale/upgrade -database postgres:///certvault
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/certvault/certvault/internal/db"
)

// every is the interval at which a connection executes its statement.
const every = 10 * time.Millisecond

// statements are the statements that the other connections execute. They work with each schema since
// 0.1.0. $1 is a random number between 0 and 1.
var statements = map[string]string{
	"certificates":       `UPDATE certificates SET updated_at = updated_at + 1 WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM certificates)`,
	"certificates, read": `SELECT title FROM certificates WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM certificates)`,
	"users":              `UPDATE users SET name = name WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM users)`,
	"notices":            `UPDATE notices SET updated_at = updated_at + 1 WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM notices)`,
	"mail_links":         `UPDATE mail_links SET email = email WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM mail_links)`,
	"mails":              `UPDATE mails SET updated_at = updated_at + 1 WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM mails)`,
	"webhook_events":     `UPDATE webhook_events SET occurred_at = occurred_at + 1 WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM webhook_events)`,
	"webhook_deliveries": `UPDATE webhook_deliveries SET due_at = due_at + 1 WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM webhook_deliveries)`,
	"audit_entries": `INSERT INTO audit_entries (at, actor_type, actor_id, actor_name, actor_folded, action, subject_type, subject_id, subject_name,
		subject_folded, detail, address, request_id) VALUES ($1 * 1000, '', '', '', '', 'upgrade', '', '', '', '', '', '', '')`,
	"batches": `UPDATE batches SET created_at = created_at + 1 WHERE id = (SELECT 1 + ($1 * max(id))::bigint FROM batches)`,
}

// wait is one execution of a statement.
type wait struct {
	table string
	began time.Time
	took  time.Duration
}

func main() {
	database := flag.String("database", "", "postgres:// `URL` of the database, which is migrated")
	flag.Parse()
	if err := run(context.Background(), *database); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, database string) (err error) {
	d, err := db.Open(ctx, "", database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		waits  []wait
		failed error
	)
	began := time.Now()
	loop, stop := context.WithCancel(ctx)
	defer stop()
	for table, statement := range statements {
		group.Go(func() {
			list, e := repeat(loop, database, table, statement)
			mu.Lock()
			defer mu.Unlock()
			waits, failed = append(waits, list...), errors.Join(failed, e)
		})
	}
	// The waits in the first second, without a migration, are for comparison.
	time.Sleep(time.Second)
	from := time.Now()
	err = d.Migrate(ctx)
	stop()
	group.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return report(ctx, d, began, from, waits)
}

// repeat executes a statement periodically until the context is done.
func repeat(ctx context.Context, database, table, statement string) (waits []wait, err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for ctx.Err() == nil {
		w := wait{table: table, began: time.Now()}
		// The statement is not cancelled at the end, so that its wait is complete.
		if _, err := conn.Exec(context.WithoutCancel(ctx), statement, rand.Float64()); err != nil { //nolint:gosec // any row will do
			return nil, fmt.Errorf("%s: %w", table, err)
		}
		w.took = time.Since(w.began)
		waits = append(waits, w)
		time.Sleep(max(0, every-w.took))
	}
	return waits, nil
}

// report prints the migrations that were applied after the time in the parameter from. A wait belongs to the
// first migration that was recorded after the wait began. The end of the wait does not count: a migration in a
// transaction is recorded before it releases its locks, so a wait for them ends after the record.
func report(ctx context.Context, d *db.DB, began, from time.Time, waits []wait) (err error) {
	rows, err := d.QueryContext(ctx, `SELECT name, applied_at FROM schema_migrations WHERE applied_at >= $1 ORDER BY applied_at, version`, db.Micros(from))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	fmt.Printf("%-32s %9s %9s\n", "migration", "seconds", "longest wait")
	line := func(name string, after, until time.Time) {
		var longest wait
		for _, w := range waits {
			if !w.began.Before(after) && w.began.Before(until) && w.took > longest.took {
				longest = w
			}
		}
		fmt.Printf("%-32s %9.3f %9.3f %s\n", name, until.Sub(after).Seconds(), longest.took.Seconds(), longest.table)
	}
	line("without a migration", began, from)
	for last := from; rows.Next(); {
		var name string
		var at int64
		if err := rows.Scan(&name, &at); err != nil {
			return err
		}
		applied := time.UnixMicro(at)
		line(name, last, applied)
		last = applied
	}
	return rows.Err()
}
