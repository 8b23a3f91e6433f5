//go:build e2e

package e2e

import (
	"database/sql"
	"syscall"
	"testing"
	"time"
)

// TestNodesAreKilled kills each node of a cluster under load, and then suspends one node. No acknowledged
// request may be lost, and the other nodes must continue within seconds. The tests in faults_test.go do
// the same for a longer time, with HAProxy and S3. The limits are long enough for a busy machine, but
// too short for a node that waits until the claim or the lease of a killed node expires.
func TestNodesAreKilled(t *testing.T) {
	t.Parallel()
	const maxWait, maxLate, suspended = 11 * time.Second, 20 * time.Second, 8 * time.Second
	c := startCluster(t, clusterOptions{size: 3})
	d := c.underLoad(loadTest{"killed", 3, false, maxWait, maxLate}, func(d *sql.DB) {
		for i := range c.nodes {
			c.kill(i)
			// The other nodes must continue the work of the killed node before it is restarted.
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

// suspend suspends a node for the time pause. The other nodes must consider the node dead, and
// acknowledge uploads.
func (c *cluster) suspend(d *sql.DB, i int, pause time.Duration) {
	t := c.t
	t.Helper()
	before, _ := c.number()
	if err := c.nodes[i].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
	if n := count(t, d, `SELECT count(*) FROM nodes WHERE name = $1 AND rescued_at IS NULL`, nodeName(i)); n != 0 {
		t.Error("the suspended node is not considered dead")
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
