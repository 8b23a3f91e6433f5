package app

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/webhook"
)

// otherConnections is the number of connections that commands and other programs may need besides
// those of the servers.
const otherConnections = 10

// examineServer checks the settings of the PostgreSQL server and of the database. read reports whether the
// vault has a read replica.
func examineServer(ctx context.Context, d *db.DB, read bool) []Finding {
	connections, err := examineConnections(ctx, d)
	waits, e := examineDurability(ctx, d, read)
	durability := finding("durability", waits, e)
	if durability.Warning {
		durability.Remedy = "Set synchronous_standby_names of PostgreSQL, and do not set synchronous_commit to local."
	}
	return []Finding{
		finding("connections", connections, err),
		finding("extensions", "installed", examineExtensions(ctx, d)),
		durability,
		finding("collation", "the indexes were made with the collation of this server", examineCollation(ctx, d)),
	}
}

// examineConnections compares the connections that all servers may open with the limit of
// PostgreSQL.
func examineConnections(ctx context.Context, d *db.DB) (string, error) {
	var limit, reserved int
	err := d.QueryRowContext(ctx, `SELECT current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int`).Scan(&limit, &reserved)
	if err != nil {
		return "", fmt.Errorf("reading the settings of PostgreSQL: %w", err)
	}
	nodes, err := job.ListNodes(ctx, d, time.Now())
	if err != nil {
		return "", err
	}
	nodes = slices.DeleteFunc(nodes, func(n job.Node) bool { return !n.Alive })
	each := int(d.Pool().Config().MaxConns)
	need := max(1, len(nodes))*each + otherConnections
	detail := fmt.Sprintf("%s with %d connections each and %d others need %d of %d", count(max(1, len(nodes)), "server"), each, otherConnections, need, limit-reserved)
	if need > limit-reserved {
		return "", warning{errors.New(detail)}
	}
	return detail, nil
}

// examineDurability checks that neither a crash of the database server nor a failover loses a commit. read
// reports whether the vault has a read replica.
func examineDurability(ctx context.Context, d *db.DB, read bool) (string, error) {
	var fsync, commit string
	err := d.QueryRowContext(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&fsync, &commit)
	if err != nil {
		return "", fmt.Errorf("reading the settings of PostgreSQL: %w", err)
	}
	if fsync == "off" {
		return "", errors.New("fsync of the server is off: a crash of its machine can lose certificates, or the whole database")
	}
	if commit == "off" {
		return "", errors.New("synchronous_commit in --database is off: a crash of the server can lose certificates that were acknowledged")
	}
	s, err := readStandbys(ctx, d)
	if err != nil {
		return "", err
	}
	if commit == "local" { // commits wait for no standby
		s.synchronous = 0
	}
	return s.examine(read)
}

// standbys are the numbers of standbys of the PostgreSQL server. The kind of a hidden one is unknown, because
// the account of the vault may not see it.
type standbys struct{ streaming, synchronous, hidden int }

// readStandbys counts the standbys of the whole server. Subscribers of logical replication and archives of
// pg_receivewal are none.
func readStandbys(ctx context.Context, d *db.DB) (s standbys, err error) {
	if err := d.QueryRowContext(ctx, `
		SELECT count(*) FILTER (WHERE state = 'streaming'), count(*) FILTER (WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')),
			count(*) FILTER (WHERE state IS NULL)
		FROM pg_stat_replication r
		WHERE application_name IS DISTINCT FROM 'pg_receivewal'
			AND NOT EXISTS (SELECT 1 FROM pg_replication_slots l WHERE l.active_pid = r.pid AND l.slot_type = 'logical')`).
		Scan(&s.streaming, &s.synchronous, &s.hidden); err != nil {
		return s, fmt.Errorf("reading the standbys of PostgreSQL: %w", err)
	}
	return s, nil
}

// examine returns a warning if a failover to any of the standbys can lose commits. If read is set, one of
// them may be the read replica, to which there may be no failover.
func (s standbys) examine(read bool) (string, error) {
	const risk = "a failover to %s can lose certificates that were acknowledged"
	switch {
	case s.synchronous > 0:
		return "commits wait for the disk and for a standby", nil
	case s.streaming == 1 && read:
		return fmt.Sprintf("commits wait for the disk, but not for the standby, which may be the read replica: "+risk, "it"), nil
	case s.streaming > 0:
		return "", warning{fmt.Errorf("commits wait for the disk, but not for any of the standbys (%d): "+risk, s.streaming, "one of them")}
	case s.hidden > 0:
		return "commits wait for the disk; only a role with pg_monitor can see whether they wait for a standby", nil
	}
	return "commits wait for the disk", nil
}

func examineExtensions(ctx context.Context, d *db.DB) error {
	var missing []string
	for _, name := range db.Extensions {
		var installed bool
		if err := d.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = $1)`, name).Scan(&installed); err != nil {
			return fmt.Errorf("reading the extensions: %w", err)
		}
		if !installed {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the database lacks %s, so that searches fail or are slow", strings.Join(missing, " and "))
	}
	return nil
}

// examineCollation checks that the indexes were made with the version of the collation that the server
// has. The versions may differ after an upgrade of the operating system, and indexes of text may then miss
// rows.
func examineCollation(ctx context.Context, d *db.DB) error {
	var recorded, actual string
	err := d.QueryRowContext(ctx, `
		SELECT coalesce(datcollversion, ''), coalesce(pg_database_collation_actual_version(oid), '') FROM pg_database WHERE datname = current_database()`).
		Scan(&recorded, &actual)
	if err != nil {
		return fmt.Errorf("reading the version of the collation: %w", err)
	}
	if recorded != actual && recorded != "" {
		return fmt.Errorf("the indexes were made with version %s of the collation, and the server has version %s", recorded, actual)
	}
	return nil
}

// examineWebhooks reports endpoints that do not respond or are paused, and late deliveries.
func examineWebhooks(ctx context.Context, d *db.DB) Finding {
	c, err := webhook.ReadCondition(ctx, d, time.Now())
	if err == nil && (c.OldestDue > lateDelivery || c.Open > 0 || c.Off > 0) {
		err = warning{fmt.Errorf("%s without a response, %s paused after errors; the oldest due delivery to the others has waited for %s",
			count(c.Open, "endpoint"), count(c.Off, "endpoint"), c.OldestDue.Round(time.Second))}
	}
	return finding("webhooks", "all endpoints respond", err)
}

// errInterpreted means that PDFium is not compiled to machine code.
var errInterpreted = errors.New("interpreted, not compiled: processing a certificate takes many times as long")

// checkCompiler returns a warning with the text of errInterpreted if the WebAssembly runtime cannot compile
// on this machine: the runtime does not support the processor, or memory cannot be made executable. The
// result cannot change while the process runs.
var checkCompiler = sync.OnceValue(func() error {
	if !slices.Contains([]string{"amd64", "arm64"}, runtime.GOARCH) {
		return warning{errInterpreted}
	}
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("allocating memory: %w", err)
	}
	err = unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC)
	if unix.Munmap(page) != nil || err != nil {
		return warning{errInterpreted}
	}
	return nil
})
