//go:build e2e

package e2e

import (
	"bytes"
	"database/sql"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// inTurn listens on a port and connects clients to the servers in turn. It returns the URL of the copy of
// database on the servers.
func inTurn(t *testing.T, database string, servers ...*standby) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for i := 0; ; i++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(servers[i%len(servers)].folder, ".s.PGSQL.5432"))
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, c := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(c[0], c[1])
					_, _ = c[0].Close(), c[1].Close()
				}()
			}
		}
	}()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = l.Addr().String(), q.Encode()
	return u.String()
}

// TestReplicas sets --database-read to a balancer with two replicas, of which one stops its replay, and then
// the other. No public page may show a certificate as valid more than five seconds after its revocation.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts two other PostgreSQL servers and takes a minute")
	}
	t.Parallel()
	database := dbtest.MigratedURL(t)
	f := start(t, database)
	first := f.await(t, f.upload(t, form("Person 1")).UUID, "approved")
	second := f.await(t, f.upload(t, form("Person 2")).UUID, "approved")
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Fatalf("exit code = %d, %v; want 0", code, err)
	}
	servers := []*standby{newStandby(t, database), newStandby(t, database)}
	metrics := freeAddress(t)
	f.restart(t, "--database-read", inTurn(t, database, servers...), "--metrics", metrics)
	read := func(reference string) (revoked bool) {
		a, err := f.client.Get(t.Context(), "/verify/"+reference)
		if err != nil || a.Status != http.StatusOK {
			t.Errorf("the page of %s = %v, %v", reference, a, err)
			return false
		}
		return bytes.Contains(a.Body, []byte(`"status":"revoked"`))
	}
	// load reads a page with 8 connections at a time, and returns how often it showed the certificate as revoked.
	load := func(reference string, each int) (revoked int) {
		var clients sync.WaitGroup
		var mu sync.Mutex
		for range 8 {
			clients.Go(func() {
				for range each {
					if read(reference) {
						mu.Lock()
						revoked++
						mu.Unlock()
					}
				}
			})
		}
		clients.Wait()
		return revoked
	}
	replica := func() float64 { return metric(t, metrics, `certvault_replica_reads_total{from="replica"}`) }
	eventually(t, time.Minute, "reads use a replica", func() bool {
		return load(first.ReferenceID, 2) == 0 && replica() > 0
	})
	pause := func(s *standby, function string) {
		t.Helper()
		d, err := sql.Open("pgx", s.url(database))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.ExecContext(t.Context(), `SELECT `+function+`()`); err != nil {
			t.Fatal(err)
		}
	}
	const each = 25
	for i, c := range []string{first.UUID, second.UUID} {
		reference := []string{first.ReferenceID, second.ReferenceID}[i]
		pause(servers[i], "pg_wal_replay_pause")
		if _, err := f.api(t).Revoke(t.Context(), c, "Issued in error", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second) // five, and two for the check of the replica
		before := replica()
		if n := load(reference, each); n != 8*each {
			t.Errorf("replica %d without replay: %d of %d pages showed the revocation, want all", i, n, 8*each)
		}
		eventually(t, time.Minute, "reads use the other replica", func() bool { return load(reference, 2) == 16 && replica() > before })
		t.Logf("reads from the replica: %.0f", replica()-before)
		pause(servers[i], "pg_wal_replay_resume")
	}
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Errorf("exit code = %d, %v; want 0", code, err)
	}
}
