//go:build e2e

package e2e

import (
	"database/sql"
	"syscall"
	"testing"
	"time"
)

// TestNodesAreKilled kills each node of a cluster under load, and then suspends one. Nothing that was
// acknowledged is lost, nothing fails or is half done, and the other nodes continue within seconds. It is
// a short form of the tests in faults_test.go, without other programs. The limits allow for a busy
// machine, but are shorter than the delay that a claim or a lease that is not freed would cause.
func TestNodesAreKilled(t *testing.T) {
	t.Parallel()
	const maxWait, maxLate, suspended = 11 * time.Second, 20 * time.Second, 8 * time.Second
	c := startCluster(t, clusterOptions{size: 3})
	d := c.underLoad(loadTest{"killed", 3, false, maxWait, maxLate}, func(d *sql.DB) {
		for i := range c.nodes {
			c.kill(i)
			// The others must continue the work of the dead node, without its restart.
			c.awaitDead(d, i)
			c.progress()
			c.restart(i)
		}
	})

	l := c.startLoad("suspended", 2, false)
	c.suspend(d, 0, suspended)
	l.end()
	c.settled(d)
	c.check(d)
}

// suspend suspends a node, which then counts as dead, and lets it continue.
func (c *cluster) suspend(d *sql.DB, i int, pause time.Duration) {
	t := c.t
	t.Helper()
	before, _ := c.number()
	if err := c.nodes[i].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
	if n := count(t, d, `SELECT count(*) FROM nodes WHERE name = $1 AND rescued_at IS NULL`, nodeName(i)); n != 0 {
		t.Error("the suspended node does not count as dead")
	}
	if n, _ := c.number(); n == before {
		t.Error("no upload was acknowledged while one node was suspended")
	}
	if err := c.nodes[i].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the node is alive again", func() bool {
		return count(t, d, `SELECT count(*) FROM nodes WHERE name = $1 AND rescued_at IS NULL`, nodeName(i)) > 0
	})
}
