//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// The tests in this file use clusters of nodes behind HAProxy, and most of the tests cause faults. A test
// takes from minutes to half an hour, so only `make test/nodes` runs the tests, and CI does not.
const (
	// killsVariable is the environment variable with the number of kills in TestClusterKilled.
	killsVariable = "CERTVAULT_KILLS"
	// roundsVariable is the environment variable with the number of rounds of the other tests.
	roundsVariable = "CERTVAULT_ROUNDS"
	// previousVariable is the environment variable with the path of a binary of an earlier version.
	previousVariable = "CERTVAULT_PREVIOUS"
	// skewedVariable is the environment variable with the path of a binary whose clock can be changed. The
	// command test/skew builds the binary.
	skewedVariable = "CERTVAULT_SKEWED"

	// maxWait is the maximum time until a request is acknowledged, including its repetitions.
	maxWait = 5 * time.Second
	// maxLate is the maximum delay of a webhook.
	maxLate = 6 * time.Second
	// suspension is the time for which a node is suspended.
	suspension = 30 * time.Second
	// lockTime is the time after which PostgreSQL ends an idle transaction. A transaction of a suspended
	// node may hold locks that other nodes wait for.
	lockTime = 8 * time.Second
	// storeAway is the time for which the S3 server is down.
	storeAway = time.Minute
	// awayUploads is the number of uploads before, during and after this time together.
	awayUploads = 1000
	// skewTime is the time by which a signal changes the clock of a node. A round of four signals also
	// takes this time.
	skewTime = 20 * time.Second
	// earlierLease is the time for which a node of the earlier version may keep the lease of an endpoint
	// after the node stops.
	earlierLease = 25 * time.Second
	// drainTime is the time in which a node completes its requests after HAProxy stops sending requests to
	// the node.
	drainTime = 2 * time.Second
	// roundTime is the time of a round in TestClusterFaultyStore, and a pause in other tests.
	roundTime = 6 * time.Second
)

// eachStore runs a test on each S3 server whose program is present, sequentially.
func eachStore(t *testing.T, test func(t *testing.T, server *blobtest.Process)) {
	t.Helper()
	for _, server := range blobtest.Servers() {
		t.Run(server.Name, func(t *testing.T) { test(t, server.Start(t)) })
	}
}

// loadTest is the load of a test, with the maximum time that a client waits and the maximum delay of a
// webhook.
type loadTest struct {
	prefix    string // the prefix of the names of people
	uploaders int
	strict    bool // no request may fail
	maxWait   time.Duration
	maxLate   time.Duration
}

// underLoad calls disturb while clients send requests to the cluster. Then it checks the certificates, the
// waiting times of clients and the delays of webhooks. It returns the database, which disturb also gets.
func (c *cluster) underLoad(o loadTest, disturb func(d *sql.DB)) *sql.DB {
	t := c.t
	t.Helper()
	d := c.database(t)
	r := receive(t, nil)
	c.endpoint(t, r)
	l := c.startLoad(o.prefix, o.uploaders, o.strict)
	c.progress()
	disturb(d)
	l.end()
	c.settled(d)
	c.check(d)
	c.checkTimes(d, r, o.maxWait, o.maxLate)
	return d
}

// TestClusterKilled kills the nodes in turn under load.
func TestClusterKilled(t *testing.T) {
	kills := clusterRounds(t, killsVariable)
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		c := startCluster(t, clusterOptions{size: 3, store: server.Location(), haproxy: true, first: (*cluster).checkIdle})
		c.underLoad(loadTest{"killed", 3, false, maxWait, maxLate}, func(d *sql.DB) {
			for k := range kills {
				i := k % len(c.nodes)
				c.kill(i)
				c.awaitDead(d, i)
				c.progress()
				c.restart(i)
				if t.Failed() {
					break
				}
			}
		})
		t.Logf("%d kills", kills)
	})
}

// TestClusterSuspended suspends the nodes in turn for half a minute under load. The other nodes consider
// the suspended node dead and continue its work. When the node runs again, it may continue the same
// requests and jobs.
func TestClusterSuspended(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		c := startCluster(t, clusterOptions{size: 3, store: server.Location(), haproxy: true})
		d := c.underLoad(loadTest{"suspended", 3, false, maxWait + lockTime, maxLate + lockTime}, func(d *sql.DB) {
			for round := range rounds {
				c.suspend(d, round%len(c.nodes), suspension)
				c.progress()
			}
		})
		if n := c.crashes(d); n != 0 {
			t.Errorf("%d crashes are counted, although no node crashed", n)
		}
	})
}

// TestClusterSkewed changes the clock of one node by 20 s, forward and back, under load.
func TestClusterSkewed(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	skewed := os.Getenv(skewedVariable)
	if skewed == "" {
		t.Skipf("%s is not set; run make test/nodes", skewedVariable)
	}
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		c := startCluster(t, clusterOptions{size: 3, store: server.Location(), haproxy: true})
		o := c.nodes[1].Options
		c.stop(1)
		o.Binary = skewed
		c.start(1, o)
		// The time of an event comes from the clock of a node, so the measured delay of a webhook may be
		// too long by skewTime.
		d := c.underLoad(loadTest{"skewed", 3, true, maxWait, maxLate + skewTime}, func(*sql.DB) {
			for range rounds {
				// SIGUSR1 moves the clock 20 s ahead, and SIGUSR2 20 s back.
				for _, change := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGUSR2, syscall.SIGUSR1} {
					if err := c.nodes[1].Signal(change); err != nil {
						t.Fatal(err)
					}
					time.Sleep(skewTime / 4)
				}
			}
		})
		if n := count(t, d, `SELECT count(*) FROM nodes WHERE rescued_at IS NOT NULL`); n != 0 {
			t.Errorf("%d nodes were considered dead, want 0", n)
		}
		if n := c.crashes(d); n != 0 {
			t.Errorf("%d crashes are counted, although no node crashed", n)
		}
		if !strings.Contains(c.nodes[1].Log(), "the clock was changed") {
			t.Error("the clock was not changed")
		}
	})
}

// TestClusterFaultyStore adds faults between the nodes and the S3 server. Each request is delayed by
// 15 ms. Some responses are lost, truncated, or the error SlowDown.
func TestClusterFaultyStore(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		faults := &blobtest.Faults{Next: blobtest.Proxy(t, server.Endpoint)}
		proxy := blobtest.NewS3(t, faults)
		c := startCluster(t, clusterOptions{size: 3, store: proxy.Location(), haproxy: true})
		d := c.database(t)
		r := receive(t, nil)
		c.endpoint(t, r)
		var lost, slow, cut atomic.Int64
		faults.SetLatency(15 * time.Millisecond)
		faults.Set(func(r *http.Request) blobtest.Fault {
			switch n := rand.IntN(100); {
			case n < 3 && r.Method == http.MethodPut:
				lost.Add(1)
				return blobtest.Lost
			case n < 5 && r.Method == http.MethodGet:
				cut.Add(1)
				return blobtest.Cut
			case n >= 5 && n < 8:
				slow.Add(1)
				return blobtest.SlowDown
			default:
				return blobtest.None
			}
		})
		l := c.startLoad("faulty", 4, false)
		time.Sleep(time.Duration(rounds) * roundTime)
		l.end()
		c.settled(d)
		faults.Set(nil)
		c.check(d)
		t.Logf("%d responses to PUT were lost, %d responses to GET were truncated, %d responses were SlowDown", lost.Load(), cut.Load(), slow.Load())
		c.checkTimes(d, r, maxWait, maxLate)
	})
}

// TestClusterStoreAway kills the S3 server during uploads, and starts it again a minute later. In the
// meantime, uploads get the status 503 with Retry-After, but the list of certificates and the page /verify
// work. The uploads succeed when they are repeated.
func TestClusterStoreAway(t *testing.T) {
	clusterRounds(t, roundsVariable)
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		c := startCluster(t, clusterOptions{size: 3, store: server.Location(), haproxy: true})
		d := c.database(t)
		l := &load{c: c, client: &vault.Client{URL: c.url, Token: c.client.Token, HTTP: &http.Client{Timeout: strictLimit, Transport: c.transport}}}
		var next, refused atomic.Int64
		var uploads sync.WaitGroup
		upload := func(who string) {
			for ctx := t.Context(); ctx.Err() == nil; {
				a, err := uploadKeyed(ctx, l.client, who, form(who))
				switch {
				case err != nil:
					t.Errorf("%s: %v", who, err)
					return
				case a.Status == http.StatusCreated:
					made, err := a.Certificate()
					if err != nil {
						t.Error(err)
						return
					}
					c.mu.Lock()
					c.acked[who] = made.UUID
					c.mu.Unlock()
					return
				case a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "":
					t.Errorf("%s: status = %d, Retry-After = %q, want 201, or 503 with Retry-After: %.300s", who, a.Status, a.Header.Get("Retry-After"), a.Body)
					return
				}
				refused.Add(1)
				time.Sleep(time.Second)
			}
		}
		for range 16 {
			uploads.Go(func() {
				for n := next.Add(1); n <= awayUploads; n = next.Add(1) {
					upload(fmt.Sprintf("away-%d", n))
				}
			})
		}
		eventually(t, 5*time.Minute, "a part of the uploads is acknowledged", func() bool {
			n, _ := c.number()
			return n >= awayUploads/3
		})
		server.Stop()
		acknowledged, _ := c.number()
		waiting := count(t, d, `SELECT count(*) FROM certificates WHERE status = 'processing'`)
		for end := time.Now().Add(storeAway); time.Now().Before(end); {
			time.Sleep(roundTime)
			for _, path := range []string{vault.CertificatesPath, "/verify"} {
				get(t, l.client, path, http.StatusOK)
			}
		}
		n, _ := c.number()
		t.Logf("%d of %d uploads were acknowledged when the S3 server was killed (%d in processing), %d before it was started again", acknowledged, awayUploads, waiting, n)
		server.Continue()
		back := time.Now()
		uploads.Wait()
		c.settled(d)
		t.Logf("all certificates were approved %s after the restart of the S3 server; %d responses had the status 503", time.Since(back).Round(time.Second), refused.Load())
		if refused.Load() == 0 {
			t.Error("no upload got the status 503 while the S3 server was down")
		}
		if n, _ := c.number(); n != awayUploads {
			t.Errorf("%d uploads were acknowledged, want %d", n, awayUploads)
		}
		c.check(d)
		if n := count(t, d, `SELECT count(*) FROM river_job WHERE kind = 'seal' AND (attempt > 1 OR array_length(errors, 1) > 0)`); n != 0 {
			t.Errorf("%d jobs count an attempt that the outage caused, want 0", n)
		}
	})
}

// TestClusterFoldersVanish deletes the data folder of a node under load. It then kills the node, and
// starts it again with a new data folder.
func TestClusterFoldersVanish(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		c := startCluster(t, clusterOptions{size: 3, store: server.Location(), haproxy: true})
		c.underLoad(loadTest{"folder", 3, false, maxWait, maxLate}, func(*sql.DB) {
			for round := range rounds {
				i := round % len(c.nodes)
				data := c.nodes[i].Data
				if err := os.RemoveAll(data); err != nil {
					t.Fatal(err)
				}
				c.progress()
				c.kill(i)
				o := c.nodes[i].Options
				o.Data = empty(t)
				c.start(i, o)
				c.progress()
			}
		})
	})
}

// TestClusterRestarted restarts the nodes one by one under load. No request fails.
func TestClusterRestarted(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		c := startCluster(t, clusterOptions{size: 3, store: server.Location(), haproxy: true, drain: "5s"})
		d := c.underLoad(loadTest{"restarted", 3, true, maxWait, maxLate}, func(*sql.DB) {
			for range rounds {
				for i := range c.nodes {
					c.stop(i)
					c.restart(i)
					c.progress()
				}
			}
		})
		if n := c.crashes(d); n != 0 {
			t.Errorf("%d crashes are counted, although no node crashed", n)
		}
	})
}

// TestClusterUpgraded replaces nodes of an earlier version with nodes of this version, one by one under
// load. The first new node migrates the database. No request fails.
func TestClusterUpgraded(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	previous := os.Getenv(previousVariable)
	if previous == "" {
		t.Skipf("%s is not set; run make test/nodes", previousVariable)
	}
	for round := range rounds {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			c := startCluster(t, clusterOptions{size: 3, binary: previous, database: dbtest.PostgresURL(t), haproxy: true})
			version := func(d *sql.DB) int { return count(t, d, `SELECT max(version) FROM schema_migrations`) }
			before := 0
			d := c.underLoad(loadTest{"upgraded", 3, true, maxWait, maxLate + earlierLease}, func(d *sql.DB) {
				before = version(d)
				for i := range c.nodes {
					// The earlier version does not have the flag --drain.
					c.haproxy.drain(t, i)
					time.Sleep(drainTime)
					c.stop(i)
					o := c.nodes[i].Options
					o.Binary = ""
					o.Args = append(slices.Clone(o.Args), "--node", nodeName(i))
					c.start(i, o)
					c.haproxy.ready(t, i)
					c.progress()
				}
			})
			t.Logf("version of the schema: %d before, %d after the upgrade", before, version(d))
		})
	}
}

// TestClusterCost compares the processor time of a certificate with one node, with three nodes, and with
// three separate vaults on the same machine. On a machine with few cores, three processes take more time
// for the same work than one process, because they share the caches of the processor. The separate vaults
// show this difference.
func TestClusterCost(t *testing.T) {
	rounds := clusterRounds(t, roundsVariable)
	const uploads, warm, workers, limit = 400, 120, 8, 1.1
	eachStore(t, func(t *testing.T, server *blobtest.Process) {
		begin := func(size int) *load {
			c := startCluster(t, clusterOptions{size: size, store: server.Location(), haproxy: true, drain: "5s"})
			return &load{c: c, strict: true, client: &vault.Client{URL: c.url, Token: c.client.Token, HTTP: &http.Client{Timeout: strictLimit, Transport: c.transport}}}
		}
		nodes := begin(3)
		apart := []*load{begin(1), begin(1), begin(1)}
		// measure uploads certificates to the clusters in turn, and returns the mean processor time of a
		// certificate.
		measure := func(name string, uploads int64, to ...*load) (took time.Duration) {
			for _, l := range to {
				took -= l.c.cpu()
			}
			var next atomic.Int64
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for n := next.Add(1); n <= uploads; n = next.Add(1) {
						to[int(n)%len(to)].uploadOne(context.WithoutCancel(t.Context()), fmt.Sprintf("%s-%d", name, n))
					}
				})
			}
			all.Wait()
			for _, l := range to {
				l.c.settled(l.c.database(t))
				took += l.c.cpu()
			}
			return took / time.Duration(uploads)
		}
		var one, three, floor []time.Duration
		for round := range rounds {
			// The first certificates of a process take longer, because the process prepares statements and
			// loads the renderer.
			measure(fmt.Sprintf("warm-%d", round), warm, nodes)
			three = append(three, measure(fmt.Sprintf("three-%d", round), uploads, nodes))
			nodes.c.stop(1)
			nodes.c.stop(2)
			one = append(one, measure(fmt.Sprintf("one-%d", round), uploads, nodes))
			nodes.c.restart(1)
			nodes.c.restart(2)
			time.Sleep(roundTime) // the nodes complete the tasks of their start
			measure(fmt.Sprintf("warm-apart-%d", round), warm, apart...)
			floor = append(floor, measure(fmt.Sprintf("apart-%d", round), uploads, apart...))
		}
		middle := func(name string, list []time.Duration) time.Duration {
			slices.Sort(list)
			t.Logf("processor time of a certificate, %s: %s (%s to %s)", name, list[rounds/2], list[0], list[rounds-1])
			return list[rounds/2]
		}
		m1, m3, m := middle("one node", one), middle("three nodes", three), middle("three separate vaults", floor)
		t.Logf("three nodes take %.2f times as much time as one node, and %.2f times as much as three separate vaults", float64(m3)/float64(m1), float64(m3)/float64(m))
		if float64(m3) > limit*float64(max(m1, m)) {
			t.Errorf("processor time of a certificate with three nodes = %s, want at most %.1f times the maximum of %s (one node) and %s (three separate vaults)", m3, limit, m1, m)
		}
	})
}
