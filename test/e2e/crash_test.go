//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// startTime is the maximum time for a start after a crash. The target is 2 s. The limit is longer,
// because the machine may be busy.
const startTime = 10 * time.Second

// uploader uploads each certificate once, and records the acknowledged uploads.
type uploader struct {
	prefix string
	next   atomic.Int64

	mu    sync.Mutex
	acked []string
	// cut are the errors of uploads that got no response although the vault had accepted a new connection
	// for them. An upload on a connection that was used before may be sent just when the vault closes the
	// idle connection, so cut does not contain it.
	cut []error
}

// run uploads certificates from several goroutines. Each goroutine stops when ctx ends or an upload
// fails. The test fails if the vault rejects an upload.
func (u *uploader) run(ctx context.Context, t *testing.T, c *client.Client, clients int) {
	t.Helper()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := u.next.Add(1)
				var connected atomic.Bool
				traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { connected.Store(!c.Reused) }})
				made, err := c.Upload(traced, certificate(t, form(fmt.Sprintf("%s %d", u.prefix, n))))
				if err != nil {
					if _, responded := errors.AsType[*client.Error](err); responded {
						t.Errorf("upload %d was rejected: %v", n, err)
					} else if connected.Load() {
						u.mu.Lock()
						u.cut = append(u.cut, fmt.Errorf("upload %d: %w", n, err))
						u.mu.Unlock()
					}
					return // the vault stopped, or ctx ended
				}
				u.mu.Lock()
				u.acked = append(u.acked, made.UUID)
				u.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// checkAll checks that each acknowledged certificate is approved in time with a complete verified
// PDF. It also checks that each certificate has exactly one created and one approved event.
func (u *uploader) checkAll(t *testing.T, f *fixture) {
	t.Helper()
	d := f.database(t)
	began := time.Now()
	eventually(t, approvalTime, "no certificate is in processing", func() bool {
		return count(t, d, `SELECT count(*) FROM certificates WHERE status = 'processing'`) == 0
	})
	t.Logf("ready after %v, all approved %v later", f.ReadyAfter.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	for _, uuid := range u.acked {
		c, err := f.api(t).VaultCertificate(t.Context(), uuid)
		if err != nil {
			t.Fatalf("reading the certificate of an acknowledged upload: %v", err)
		}
		if c.Status.Value != "approved" {
			t.Errorf("certificate %s is %s, want approved: %+v", uuid, c.Status.Value, c.Failure)
			continue
		}
		sum := sha256.Sum256(f.verified(t, uuid))
		if c.VerifiedSHA256 == nil || *c.VerifiedSHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("certificate %s: the verified PDF does not have the stored digest", uuid)
		}
	}
	if n := count(t, d, `SELECT count(*) FROM certificates WHERE status <> 'approved'`); n != 0 {
		t.Errorf("%d certificates are not approved, want 0", n)
	}
	for name, query := range map[string]string{
		"created":  `SELECT count(*) FROM certificates c WHERE (SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name LIKE '%.created') <> 1`,
		"approved": `SELECT count(*) FROM certificates c WHERE (SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name LIKE '%.approved') <> 1`,
	} {
		if n := count(t, d, query); n != 0 {
			t.Errorf("%d certificates do not have exactly one %s event", n, name)
		}
	}
}

// TestKill kills the vault at random moments during uploads. The vault loses no acknowledged
// upload.
func TestKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		u := &uploader{prefix: "Kill"}
		for range 5 {
			run, api := make(chan struct{}), f.api(t)
			go func() {
				defer close(run)
				u.run(t.Context(), t, api, 4)
			}()
			pause := time.Duration(50+rand.IntN(400)) * time.Millisecond
			timer := time.NewTimer(pause)
			<-timer.C
			f.Kill()
			<-run
			f.restart(t)
			if f.ReadyAfter > startTime {
				t.Errorf("the vault was ready after %v, want at most %v", f.ReadyAfter, startTime)
			}
			t.Logf("killed after %v, %d acknowledged so far", pause, len(u.acked))
			u.checkAll(t, f)
		}
	})
}

// TestTerminate sends SIGTERM during uploads. The vault stores the counts of verifications that are only
// in memory, responds to each upload whose connection it has accepted, exits with 0, and loses no
// acknowledged upload.
func TestTerminate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		u := &uploader{prefix: "Terminate"}
		transport, err := f.Transport()
		if err != nil {
			t.Fatal(err)
		}
		transport.DisableKeepAlives = true // each upload has a new connection
		f.client.HTTP.Transport = transport
		run, api := make(chan struct{}), f.api(t)
		go func() {
			defer close(run)
			u.run(t.Context(), t, api, 4)
		}()
		eventually(t, approvalTime, "8 uploads are acknowledged", func() bool {
			u.mu.Lock()
			defer u.mu.Unlock()
			return len(u.acked) >= 8
		})
		u.mu.Lock()
		verified := u.acked[0]
		u.mu.Unlock()
		f.await(t, verified, "approved")
		record, err := api.VaultCertificate(t.Context(), verified)
		if err != nil {
			t.Fatal(err)
		}
		const verifications = 3
		for range verifications {
			get(t, f.as(t, ""), "/verify/"+record.ReferenceID, http.StatusOK)
		}
		began := time.Now()
		code, err := f.Stop()
		took := time.Since(began)
		if err != nil || code != 0 || took > 30*time.Second {
			t.Errorf("exit code = %d after %v, %v; want 0 within 30 s", code, took, err)
		}
		<-run
		if len(u.cut) > 0 {
			t.Errorf("uploads without a response: %v", errors.Join(u.cut...))
		}
		t.Logf("exited after %v, %d acknowledged", took.Round(time.Millisecond), len(u.acked))
		f.restart(t)
		if record, err = f.api(t).VaultCertificate(t.Context(), verified); err != nil || record.Verifications.Total == nil || *record.Verifications.Total != verifications {
			t.Errorf("verifications after the restart = %+v, error %v; want a total of %d", record.Verifications, err, verifications)
		}
		u.checkAll(t, f)
	})
}

// TestDroppedConnection interrupts uploads. The vault stores no certificate and removes the files.
func TestDroppedConnection(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	contentType, body := bodyOf(t, 16<<20)
	for _, after := range []int64{0, 100, 8 << 20} {
		conn := dial(t, f)
		if _, err := io.WriteString(conn, head(f, vault.CertificatesPath, f.client.Token, contentType, 16<<20)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(conn, body, after); err != nil {
			t.Fatal(err)
		}
		if after > 1<<20 {
			eventually(t, approvalTime, "the vault receives the file", func() bool { return len(f.files(t, "incoming")) == 1 })
		}
		if err := conn.NetConn().Close(); err != nil {
			t.Fatal(err)
		}
	}
	http2, err := f.HTTP2Client(f.client.Token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	contentType, body = bodyOf(t, 16<<20)
	req, err := http2.Request(ctx, "POST", vault.CertificatesPath, io.MultiReader(io.LimitReader(body, 8<<20), pause{ctx}))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	sent := make(chan error, 1)
	go func() {
		_, err := http2.Send(req)
		sent <- err
	}()
	eventually(t, approvalTime, "the vault receives the file", func() bool { return len(f.files(t, "incoming")) > 0 })
	cancel()
	if err := <-sent; err == nil {
		t.Error("the canceled upload returned no error")
	}
	eventually(t, approvalTime, "the files of interrupted uploads are removed", func() bool {
		return len(f.files(t, "incoming"))+len(f.files(t, "blobs")) == 0
	})
	nothingStored(t, f)
	if log := f.Log(); strings.Contains(log, `"status":500`) {
		t.Error("the log contains a status 500 for a closed connection")
	}
}

// pause is a request body whose Read blocks until the request is canceled.
type pause struct{ ctx context.Context } //nolint:containedctx // the context of the request

func (p pause) Read([]byte) (int, error) {
	<-p.ctx.Done()
	return 0, p.ctx.Err()
}
