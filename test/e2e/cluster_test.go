//go:build e2e

package e2e

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

const (
	// requestLimit is the time limit of a request that is repeated with the same idempotency key.
	requestLimit = 3 * time.Second
	// retryPause is the pause before a client repeats a request.
	retryPause = 200 * time.Millisecond
	// uploadPause is the mean pause of a client after an upload or a read, and submitPause after a batch.
	// With three clients, the nodes and the database use less than one processor.
	uploadPause = 400 * time.Millisecond
	submitPause = time.Second
	// strictLimit is the time limit of a request that is not repeated.
	strictLimit = time.Minute
	// neverLimit is the time after which a client no longer repeats a request, and the test fails.
	neverLimit = 30 * time.Second
	// batchSize is the number of entries of a batch.
	batchSize = 5
	// The ports of nodes are at least firstPort and less than lastPort. The system chooses the ports of other
	// programs from a higher range (ip_local_port_range), so other programs do not use the port of a killed
	// node.
	firstPort, lastPort = 20000, 32000
	// baseURL is the base URL of clusters.
	baseURL = "https://vault.example.org"
	// sampled is the maximum number of certificates whose file is downloaded and compared with its digest.
	sampled = 200
)

// clusterOptions configures a cluster.
type clusterOptions struct {
	size int
	// store is the location of the file store in S3. If it is "", the nodes share a folder.
	store string
	// binary is the path of the binary of an earlier version, or "" for the built one.
	binary string
	// database is the URL of the database, or "" for a new one.
	database string
	// haproxy means that HAProxy distributes the requests, instead of a balancer in this process.
	haproxy bool
	// drain is the value of --drain, or "" for 0s. It is ignored if binary is set.
	drain string
	// args are further arguments of serve.
	args []string
	// first is called after the start of the first node, before the other nodes start. It may be nil.
	first func(c *cluster)
}

// cluster is a set of vaults behind a balancer. Its nodes share a database and a file store.
type cluster struct {
	*fixture

	t       *testing.T
	options clusterOptions
	nodes   []*vault.Vault
	mail    *mailServer
	haproxy *haproxy // nil without HAProxy
	// url is the URL of the balancer, and transport is the transport of its clients.
	url       string
	transport http.RoundTripper

	mu       sync.Mutex
	acked    map[string]string // maps the name of a person to the UUID of the certificate
	batches  map[string]string // maps the name of a batch to its id
	statuses map[int]int       // maps a status to the number of responses
	longest  time.Duration     // the longest time of a request with its repetitions
	slowest  string            // the key of this request, and its time after a kill
	killed   []time.Time       // when nodes were killed, in order
}

// startCluster starts a cluster.
func startCluster(t *testing.T, o clusterOptions) *cluster {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mailbox := newMailServer()
	x := smtp.NewServer(mailbox)
	x.Domain, x.ErrorLog = "mx.example.org", slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(func() { _ = x.Close() })
	go func() { _ = x.Serve(l) }()
	if o.database == "" {
		o.database = dbtest.MigratedURL(t)
	}
	c := &cluster{t: t, options: o, mail: mailbox, nodes: make([]*vault.Vault, o.size), acked: map[string]string{}, batches: map[string]string{}, statuses: map[int]int{}}
	// A certificate fails after one failed attempt. So a test notices if a fault that it causes counts as
	// an attempt.
	args := append(unlimited([]string{
		"--smtp", "smtp://" + l.Addr().String() + "?tls=off", "--mail-from", "no-reply@vault.example", "--webhook-allow", "127.0.0.1", "--process-attempts", "1",
	}), o.args...)
	var env []string
	shared := t.TempDir()
	if o.store != "" {
		env = []string{
			"CERTVAULT_BLOB=" + o.store, "CERTVAULT_MASTER_KEY_FILE=" + filepath.Join(shared, "master.key"),
			"CERTVAULT_KEY_IDENTITY_FILE=" + filepath.Join(shared, "identity.txt"),
		}
	}
	var addresses []string
	for range o.size {
		addresses = append(addresses, nodeAddress(t, addresses))
	}
	if o.haproxy {
		c.haproxy = startHAProxy(t, addresses)
		c.url, c.transport = c.haproxy.url, c.haproxy.transport
	} else {
		c.url, c.transport = balance(t, addresses), http.DefaultTransport
	}
	for i, address := range addresses {
		options := vault.Options{
			Data: empty(t), Database: o.database, Binary: o.binary, Listen: address, Proxy: true, BaseURL: baseURL, Args: slices.Clone(args), Env: env,
		}
		if o.store == "" {
			share(t, shared, options.Data)
		}
		if o.binary == "" {
			options.Args = append(options.Args, "--node", nodeName(i))
		}
		if o.drain != "" && o.binary == "" {
			options.Args = append(options.Args, "--drain", o.drain)
		}
		c.start(i, options)
		if i > 0 {
			continue
		}
		c.fixture = &fixture{Vault: c.nodes[0]}
		if c.institution, err = c.CreateInstitution(t.Context(), "Northwind University", "NWU"); err != nil {
			t.Fatal(err)
		}
		c.client = c.as(t, c.token(t, "", vault.Permissions...))
		if o.first != nil {
			o.first(c)
		}
	}
	return c
}

// share links the folders "files" and "keys" of a shared folder into a data folder.
func share(t *testing.T, shared, data string) {
	t.Helper()
	for _, name := range []string{"files", "keys"} {
		if err := os.MkdirAll(filepath.Join(shared, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(shared, name), filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// nodeAddress returns a free address for a node. The address is not one of others.
func nodeAddress(t *testing.T, others []string) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		if slices.Contains(others, address) {
			continue
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func (c *cluster) start(i int, o vault.Options) {
	c.t.Helper()
	c.nodes[i] = serve(c.t, o)
}

// restart starts a killed or stopped node again with the same options.
func (c *cluster) restart(i int) {
	c.t.Helper()
	c.start(i, c.nodes[i].Options)
}

// stop stops a node with SIGTERM. The node must exit with 0.
func (c *cluster) stop(i int) {
	c.t.Helper()
	if code, err := c.nodes[i].Stop(); err != nil || code != 0 {
		c.t.Errorf("node %d: exit code = %d, %v; want 0", i, code, err)
	}
}

// sinceKillLocked describes how long before a time the last kill was. The caller must hold c.mu, unless the
// load has ended.
func (c *cluster) sinceKillLocked(at time.Time) string {
	for _, killed := range slices.Backward(c.killed) {
		if !killed.After(at) {
			return fmt.Sprintf("%s after a kill", at.Sub(killed).Round(time.Millisecond))
		}
	}
	return "before the first kill"
}

func (c *cluster) kill(i int) {
	c.nodes[i].Kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = append(c.killed, time.Now())
}

// number returns the number of acknowledged uploads and batches.
func (c *cluster) number() (uploads, batches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked), len(c.batches)
}

// progress waits until the cluster has acknowledged at least five more uploads and another batch.
func (c *cluster) progress() {
	c.t.Helper()
	uploads, batches := c.number()
	eventually(c.t, time.Minute, "the cluster accepts uploads and batches", func() bool {
		u, b := c.number()
		return u >= uploads+5 && b > batches
	})
}

// settled waits until all batches and certificates are processed, and no delivery or mail is waiting.
func (c *cluster) settled(d *sql.DB) {
	c.t.Helper()
	eventually(c.t, 4*time.Minute, "all certificates are processed, and all webhooks and mails delivered", func() bool {
		// The order matters: batches create certificates, and certificates create deliveries and mails.
		return count(c.t, d, `SELECT count(*) FROM batches WHERE NOT expanded`) == 0 &&
			count(c.t, d, `SELECT count(*) FROM certificates WHERE status = 'processing'`) == 0 &&
			count(c.t, d, `SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'`) == 0 &&
			count(c.t, d, `SELECT count(*) FROM mails WHERE status = 'queued'`) == 0
	})
}

// awaitDead waits until the other nodes consider a node dead and continue its work.
func (c *cluster) awaitDead(d *sql.DB, i int) {
	c.t.Helper()
	eventually(c.t, time.Minute, "the node counts as dead", func() bool {
		return count(c.t, d, `SELECT count(*) FROM nodes WHERE name = $1 AND rescued_at IS NULL`, nodeName(i)) == 0
	})
}

// crashes returns the sum of the crashes that the records of all certificates count.
func (c *cluster) crashes(d *sql.DB) int {
	c.t.Helper()
	return count(c.t, d, `SELECT COALESCE(sum(crashes), 0) FROM certificates`)
}

// check checks that each person has one approved certificate, with its events. It also checks that each
// batch is complete, that no acknowledged certificate is lost, and that the files of up to sampled
// certificates have the stored digests.
func (c *cluster) check(d *sql.DB) {
	t := c.t
	t.Helper()
	for what, query := range map[string]string{
		"certificates are not approved":                     `SELECT count(*) FROM certificates WHERE status <> 'approved'`,
		"people have several certificates":                  `SELECT count(*) FROM (SELECT full_name FROM certificates GROUP BY full_name HAVING count(*) > 1) several`,
		"batches are not complete":                          fmt.Sprintf(`SELECT count(*) FROM batches b WHERE (SELECT count(*) FROM certificates c WHERE c.batch_id = b.uuid) <> %d`, batchSize),
		"certificates do not have exactly 1 created event":  `SELECT count(*) FROM certificates c WHERE (SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name = 'certificate_application.created') <> 1`,
		"certificates do not have exactly 1 approved event": `SELECT count(*) FROM certificates c WHERE (SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name = 'certificate_application.approved') <> 1`,
	} {
		if n := count(t, d, query); n != 0 {
			t.Errorf("%d %s, want 0", n, what)
		}
	}
	stored, batches := map[string]string{}, map[string]int{}
	rows, err := d.QueryContext(t.Context(), `SELECT uuid, full_name, COALESCE(batch_id, ''), encode(verified_sha256, 'hex') FROM certificates WHERE status = 'approved'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	digests := map[string]string{}
	for rows.Next() {
		var uuid, name, batch, digest string
		if err := rows.Scan(&uuid, &name, &batch, &digest); err != nil {
			t.Fatal(err)
		}
		stored[name], digests[uuid] = uuid, digest
		batches[batch]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for who, uuid := range c.acked {
		if stored[who] != uuid {
			t.Errorf("approved certificate of %s = %q, want %s, which was acknowledged", who, stored[who], uuid)
		}
	}
	for name, id := range c.batches {
		if batches[id] != batchSize {
			t.Errorf("the acknowledged batch %s has %d approved certificates, want %d", name, batches[id], batchSize)
		}
	}
	client := &vault.Client{URL: c.url, Token: c.client.Token, HTTP: &http.Client{Timeout: strictLimit, Transport: c.transport}}
	checked := 0
	for uuid, want := range digests { // in random order
		if checked++; checked > sampled {
			break
		}
		a := get(t, client, vault.CertificatesPath+"/"+uuid+"/download", http.StatusOK)
		if sum := sha256.Sum256(a.Body); hex.EncodeToString(sum[:]) != want {
			t.Errorf("the verified PDF of %s does not have the stored digest", uuid)
		}
	}
}

// summary returns the number of uploads, batches and responses, and the longest wait of a client.
func (c *cluster) summary() string {
	uploads, batches := c.number()
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, status := range slices.Sorted(maps.Keys(c.statuses)) {
		list = append(list, fmt.Sprintf("%d x %d", c.statuses[status], status))
	}
	return fmt.Sprintf("%d uploads, %d batches; a client waited at most %s (%s); responses: %s", uploads, batches, c.longest.Round(time.Millisecond), c.slowest, strings.Join(list, ", "))
}

// late is the delay of the first delivery of an event.
type late struct {
	by time.Duration
	at time.Time // the time of the event
}

// lateness returns the delay of the first delivery of each event, sorted, and the number of repeated
// deliveries.
func lateness(t *testing.T, d *sql.DB, r *vault.Receiver) (list []late, duplicates int) {
	t.Helper()
	first := map[string]time.Time{}
	for _, got := range r.Got() {
		id := got.Header.Get("Webhook-Id")
		if _, known := first[id]; known {
			duplicates++
			continue
		}
		first[id] = got.At
	}
	rows, err := d.QueryContext(t.Context(), `SELECT uuid, occurred_at FROM webhook_events`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var at int64
		if err := rows.Scan(&id, &at); err != nil {
			t.Fatal(err)
		}
		got, delivered := first[id]
		if !delivered {
			t.Errorf("event %s was not delivered", id)
			continue
		}
		list = append(list, late{got.Sub(time.UnixMicro(at)), time.UnixMicro(at)})
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b late) int { return cmp.Compare(a.by, b.by) })
	return list, duplicates
}

// checkTimes checks the maximum time that a client waited, and the maximum delay of a webhook.
func (c *cluster) checkTimes(d *sql.DB, r *vault.Receiver, maxWait, maxLate time.Duration) {
	c.t.Helper()
	list, duplicates := lateness(c.t, d, r)
	worst := list[len(list)-1].by
	c.t.Logf("%s; delay of webhooks: maximum %s, 99th percentile %s; %d repeated deliveries for %d events; at most %d crashes of a certificate", c.summary(),
		worst.Round(time.Millisecond), list[len(list)*99/100].by.Round(time.Millisecond), duplicates, len(list), count(c.t, d, `SELECT COALESCE(max(crashes), 0) FROM certificates`))
	for _, l := range list[max(0, len(list)-3):] {
		if l.by > maxLate/2 {
			c.t.Logf("the event at %s, %s, arrived %s late", l.at.Format(time.TimeOnly+".000"), c.sinceKillLocked(l.at), l.by.Round(time.Millisecond))
		}
	}
	if c.longest > maxWait {
		c.t.Errorf("a client waited %s, want at most %s", c.longest, maxWait)
	}
	if worst > maxLate {
		c.t.Errorf("a webhook was %s late, want at most %s", worst, maxLate)
	}
}

// transactions returns the number of transactions in the statistics of the database.
func transactions(t *testing.T, d *sql.DB) int {
	t.Helper()
	return count(t, d, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)
}

// checkIdle checks how many transactions an idle node runs. It first waits for the tasks that run at the
// start of the node.
func (c *cluster) checkIdle() {
	c.t.Helper()
	const settle, seconds, limit = 25, 20, 15
	d := c.database(c.t)
	time.Sleep(settle * time.Second)
	before := transactions(c.t, d)
	time.Sleep(seconds * time.Second)
	n := transactions(c.t, d) - before
	c.t.Logf("an idle node runs %.1f transactions a second", float64(n)/seconds)
	if n > limit*seconds {
		c.t.Errorf("an idle node ran %d transactions in %d s, want at most %d", n, seconds, limit*seconds)
	}
}

// cpu returns the processor time of all nodes.
func (c *cluster) cpu() (sum time.Duration) {
	for _, v := range c.nodes {
		sum += v.CPU()
	}
	return sum
}

// clusterRounds returns the number of rounds in the environment variable name. It skips the test if the
// variable is not set.
func clusterRounds(t *testing.T, name string) int {
	t.Helper()
	if os.Getenv(name) == "" {
		t.Skipf("%s is not set; run make test/nodes", name)
	}
	return number(t, cmp.Or(os.Getenv(name), "0"))
}
