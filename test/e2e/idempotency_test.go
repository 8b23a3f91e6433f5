//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// uploadKeyed uploads a certificate with an idempotency key.
func uploadKeyed(ctx context.Context, c *vault.Client, key string, form *vault.Form) (*vault.Response, error) {
	contentType, body, err := form.Encode()
	if err != nil {
		return nil, err
	}
	req, err := c.Request(ctx, "POST", vault.CertificatesPath, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = body.Size
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Idempotency-Key", key)
	return c.Send(req)
}

func mustUploadKeyed(t *testing.T, c *vault.Client, key string, form *vault.Form) *vault.Response {
	t.Helper()
	a, err := uploadKeyed(t.Context(), c, key, form)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func replayed(a *vault.Response) bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// TestIdempotency repeats a request over HTTP/1.1 and HTTP/2. The vault executes the request only once,
// and each response has the same body.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		http2, err := f.HTTP2Client(f.client.Token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(http2.HTTP.CloseIdleConnections)
		heavy, err := vault.Sample{Title: "Heavy", Name: "Jane Doe"}.PDFOfSize(8 << 20)
		if err != nil {
			t.Fatal(err)
		}
		upload := form("Jane Doe").WithFile("heavy.pdf", heavy)
		first := mustUploadKeyed(t, f.client, "order-1", upload)
		wantStatus(t, first, 201)
		made, err := first.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		f.await(t, made.UUID, "approved")
		stored := len(f.files(t, "blobs"))
		for _, c := range []*vault.Client{f.client, http2, f.client} { // each form has a different boundary
			again := mustUploadKeyed(t, c, "order-1", upload)
			if !replayed(again) || again.Status != 201 || !bytes.Equal(again.Body, first.Body) {
				t.Errorf("repeated upload over %s: status %d, want the first response: %s", again.Proto, again.Status, again.Body)
			}
		}
		p := wantProblem(t, mustUploadKeyed(t, f.client, "order-1", upload.With("full_name", "John Doe")), 422, "")
		if len(p.Errors["Idempotency-Key"]) != 1 {
			t.Errorf("other content with the same key: got %+v, want one error for Idempotency-Key", p)
		}
		wantProblem(t, mustUploadKeyed(t, f.client, "two words", upload), 422, "")
		if files := f.files(t, "blobs"); len(files) != stored {
			t.Errorf("got %d files after the repeated uploads, want %d", len(files), stored)
		}
		d := f.database(t)
		if n := count(t, d, `SELECT count(*) FROM certificates`); n != 1 {
			t.Errorf("got %d certificates, want 1", n)
		}

		revoke := func(reason string) *vault.Response {
			req, err := f.client.Request(t.Context(), "POST", vault.CertificatesPath+"/"+made.UUID+"/revoke", strings.NewReader(`{"reason":"`+reason+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "order-1") // keys are separate for each path
			a, err := f.client.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		once := revoke("withdrawn")
		wantStatus(t, once, 200)
		if again := revoke("withdrawn"); !replayed(again) || !bytes.Equal(again.Body, once.Body) {
			t.Errorf("repeated revocation: status %d, want the first response: %s", again.Status, again.Body)
		}
		wantProblem(t, revoke("another reason"), 422, "")
		if log := f.Log(); strings.Contains(log, "order-1") || strings.Contains(log, `"status":500`) {
			t.Error("the log contains an idempotency key or a status 500, want neither")
		}
	})
}

// TestIdempotencyAcrossKill kills the vault at random moments while clients upload with keys. After
// each restart, it repeats the requests that had no response. The status must be 201, not an error
// about a duplicate, and each upload must have exactly one certificate.
func TestIdempotencyAcrossKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		rounds := 6
		if database != "" {
			rounds = 2 // a killed node is detected only after some seconds
		}
		f := start(t, database)
		responses := map[string][]byte{}
		next, again := 0, 0
		for range rounds {
			const clients = 6
			var mu sync.Mutex
			var open []int
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for {
						mu.Lock()
						n := next
						next++
						mu.Unlock()
						a, err := uploadKeyed(t.Context(), f.client, fmt.Sprintf("key-%d", n), form(person(n)))
						mu.Lock()
						if err != nil {
							open = append(open, n)
							mu.Unlock()
							return // the vault stopped
						}
						if a.Status != 201 || replayed(a) {
							t.Errorf("upload %d: status %d, want 201 for a first request: %s", n, a.Status, a.Body)
						}
						responses[person(n)] = a.Body
						mu.Unlock()
					}
				})
			}
			pause := time.NewTimer(time.Duration(50+rand.IntN(300)) * time.Millisecond)
			<-pause.C
			f.Kill()
			wg.Wait()
			f.restart(t)
			for _, n := range open {
				var a *vault.Response
				eventually(t, approvalTime, "the key can be used again", func() bool {
					a = mustUploadKeyed(t, f.client, fmt.Sprintf("key-%d", n), form(person(n)))
					return a.Status != http.StatusConflict
				})
				if a.Status != 201 {
					t.Errorf("upload %d, sent again: status %d, want 201: %s", n, a.Status, a.Body)
				}
				if replayed(a) {
					again++
				}
				responses[person(n)] = a.Body
			}
		}
		t.Logf("%d uploads to %d processes; %d uploads without a response had been executed", next, rounds+1, again)
		d := f.database(t)
		if n := count(t, d, `SELECT count(*) FROM certificates`); n != next || len(responses) != next {
			t.Errorf("got %d certificates and %d responses for %d uploads, want one certificate and one response for each upload", n, len(responses), next)
		}
		if n := count(t, d, `SELECT count(*) FROM webhook_events WHERE name LIKE '%.created'`); n != next {
			t.Errorf("got %d created events for %d uploads, want one for each upload", n, next)
		}
		for who, body := range responses {
			made, err := (&vault.Response{Status: 201, Body: body}).Certificate()
			if err != nil {
				t.Fatal(err)
			}
			if n := count(t, d, `SELECT count(*) FROM certificates WHERE uuid = $1 AND full_name = $2`, made.UUID, who); n != 1 {
				t.Errorf("the response for %s has the certificate %s, which does not exist or is for another person", who, made.UUID)
			}
		}
	})
}

// beginUpload sends the first half of an upload with a key. The function rest sends the second half and
// returns the response. The function cut cancels the upload.
func beginUpload(t *testing.T, c *vault.Client, key string, form *vault.Form) (rest func() *vault.Response, cut func()) {
	t.Helper()
	contentType, body, err := form.Encode()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := c.Request(ctx, "POST", vault.CertificatesPath, read)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Idempotency-Key", key)
	var response *vault.Response
	done := make(chan error, 1)
	go func() {
		var err error
		response, err = c.Send(req)
		done <- err
	}()
	if _, err := write.Write(content[:len(content)/2]); err != nil {
		t.Fatal(err)
	}
	rest = func() *vault.Response {
		if _, err := write.Write(content[len(content)/2:]); err != nil {
			t.Fatal(err)
		}
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return response
	}
	cut = func() {
		cancel()
		_ = write.Close() // the reader is closed
		<-done
	}
	return rest, cut
}

// noMail are arguments with the address of a mail server that does not exist. Vaults that share a
// database need a mail server.
var noMail = []string{"--smtp", "smtp://127.0.0.1:1?tls=off", "--mail-from", "no-reply@vault.example"}

// TestIdempotencyInFlight repeats a request while the first one is in progress, and cancels another
// request. On PostgreSQL, it also repeats the first request on a second node, and a third request after the
// node that received it was killed. The second node executes the third request.
func TestIdempotencyInFlight(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database, noMail...)
		nodes := []*fixture{f}
		if database != "" {
			nodes = append(nodes, f.join(t))
		}
		d := f.database(t)
		claimed := func(n int) func() bool {
			return func() bool { return count(t, d, `SELECT count(*) FROM idempotency_keys WHERE status IS NULL`) == n }
		}
		upload := form("Jane Doe")
		rest, _ := beginUpload(t, f.client, "k", upload)
		eventually(t, approvalTime, "the upload is in progress", claimed(1))
		for i, node := range nodes {
			a := mustUploadKeyed(t, node.client, "k", upload)
			wantProblem(t, a, 409, "")
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("node %d: the response has no Retry-After: %v", i, a.Header)
			}
		}
		first := rest()
		wantStatus(t, first, 201)
		for i, node := range nodes {
			if again := mustUploadKeyed(t, node.client, "k", upload); !replayed(again) || !bytes.Equal(again.Body, first.Body) {
				t.Errorf("node %d: status %d, want the first response: %s", i, again.Status, again.Body)
			}
		}

		_, cut := beginUpload(t, f.client, "canceled", form("Canceled"))
		eventually(t, approvalTime, "the upload is in progress", claimed(1))
		cut()
		eventually(t, approvalTime, "the key of the canceled upload can be used again", claimed(0))

		if len(nodes) > 1 {
			_, cut := beginUpload(t, f.client, "killed", form("Killed"))
			eventually(t, approvalTime, "the upload is in progress", claimed(1))
			f.Kill()
			cut()
			var a *vault.Response
			eventually(t, approvalTime, "the key of the killed node can be used again", func() bool {
				a = mustUploadKeyed(t, nodes[1].client, "killed", form("Killed"))
				return a.Status != http.StatusConflict
			})
			wantStatus(t, a, 201)
		}
	})
}

// join starts another vault with the same database, secrets and files.
func (f *fixture) join(t *testing.T) *fixture {
	t.Helper()
	data := t.TempDir()
	if err := os.Symlink(filepath.Join(f.Data, "files"), filepath.Join(data, "files")); err != nil {
		t.Fatal(err)
	}
	other := &fixture{Vault: serve(t, vault.Options{Data: data, Database: f.Database, Args: unlimited(append([]string{
		"--base-url", f.URL, "--master-key-file", filepath.Join(f.Data, "keys", "master.key"), "--key-identity-file", filepath.Join(f.Data, "keys", "identity.txt"),
	}, noMail...))}), institution: f.institution}
	other.client = other.as(t, f.client.Token)
	return other
}
