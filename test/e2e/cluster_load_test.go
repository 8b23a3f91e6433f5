//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// load is a set of clients that send requests to a cluster.
type load struct {
	c      *cluster
	client *vault.Client
	// strict means that a client does not repeat requests. A failed request then fails the test.
	strict bool
	prefix string // the prefix of the names of people, different for each load
	stop   context.CancelFunc
	all    sync.WaitGroup
}

// startLoad starts clients that upload certificates, and one client that submits batches. In a strict
// load, another client reads certificates and a public page.
func (c *cluster) startLoad(prefix string, uploaders int, strict bool) *load {
	limit := requestLimit
	if strict {
		limit = strictLimit
	}
	ctx, stop := context.WithCancel(c.t.Context())
	l := &load{
		c: c, strict: strict, prefix: prefix, stop: stop,
		client: &vault.Client{URL: c.url, Token: c.client.Token, HTTP: &http.Client{Timeout: limit, Transport: c.transport}},
	}
	for worker := range uploaders {
		l.all.Go(func() { l.upload(ctx, worker) })
	}
	l.all.Go(func() { l.submit(ctx) })
	if strict {
		l.all.Go(func() { l.read(ctx) })
	}
	return l
}

// end stops the clients and waits for them. A strict load completes the requests in progress. A load that
// is not strict cancels them.
func (l *load) end() {
	l.stop()
	l.all.Wait()
}

// send sends a request, and repeats it with the same idempotency key until it is acknowledged. It returns
// nil if the load ends or the test fails. A strict load sends the request only once, and waits for the
// response even if the load ends.
func (l *load) send(ctx context.Context, key string, send func(ctx context.Context, key string) (*vault.Response, error)) *vault.Response {
	began := time.Now()
	if l.strict {
		ctx = context.WithoutCancel(ctx)
	}
	for ctx.Err() == nil {
		a, err := send(ctx, key)
		if err == nil {
			l.c.mu.Lock()
			l.c.statuses[a.Status]++
			l.c.mu.Unlock()
		}
		switch {
		case err == nil && a.Status < 300:
			l.c.mu.Lock()
			if took := time.Since(began); took > l.c.longest {
				l.c.longest, l.c.slowest = took, key+", "+l.c.sinceKillLocked(began)
			}
			l.c.mu.Unlock()
			return a
		case err != nil && ctx.Err() != nil: // the load ended
		case l.strict && err != nil:
			l.c.t.Errorf("request %s after %s: %v", key, time.Since(began).Round(time.Millisecond), err)
			return nil
		case err != nil, !l.strict && slices.Contains([]int{http.StatusConflict, http.StatusBadGateway, http.StatusServiceUnavailable}, a.Status): // repeat it
		default:
			l.c.t.Errorf("request %s after %s: status = %d, want 2xx: %.300s", key, time.Since(began).Round(time.Millisecond), a.Status, a.Body)
			return nil
		}
		if time.Since(began) > neverLimit {
			l.c.t.Errorf("request %s is not acknowledged after %s: last response %+v, error %v", key, time.Since(began), a, err)
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return nil
}

// upload uploads certificates until ctx ends.
func (l *load) upload(ctx context.Context, worker int) {
	for n := 0; ctx.Err() == nil; n++ {
		l.uploadOne(ctx, fmt.Sprintf("%s-%d-%d", l.prefix, worker, n))
		wait(ctx, uploadPause)
	}
}

// wait waits for a random time with the given mean. It returns early if ctx ends.
func wait(ctx context.Context, mean time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(2 * mean)):
	}
}

// uploadOne uploads the certificate of a person.
func (l *load) uploadOne(ctx context.Context, who string) {
	a := l.send(ctx, who, func(ctx context.Context, key string) (*vault.Response, error) {
		return uploadKeyed(ctx, l.client, key, form(who))
	})
	if a == nil {
		return
	}
	made, err := a.Certificate()
	if err != nil {
		l.c.t.Error(err)
		return
	}
	l.c.mu.Lock()
	l.c.acked[who] = made.UUID
	l.c.mu.Unlock()
}

// submit submits batches until ctx ends.
func (l *load) submit(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		var entries []vault.Entry
		for i := range batchSize {
			who := fmt.Sprintf("%s-batch-%d-%d", l.prefix, n, i)
			staged := l.send(ctx, who, func(ctx context.Context, _ string) (*vault.Response, error) { return l.stage(ctx, who) })
			if staged == nil {
				return
			}
			var made struct {
				Data struct {
					FileID string `json:"file_id"`
				} `json:"data"`
			}
			if err := json.Unmarshal(staged.Body, &made); err != nil {
				l.c.t.Errorf("decoding the response to the upload of a file: %v: %s", err, staged.Body)
				return
			}
			entries = append(entries, vault.Entry{Index: i, Title: "Diploma", FullName: who, Email: mailbox(who), FileID: made.Data.FileID})
		}
		name := fmt.Sprintf("%s-batch-%d", l.prefix, n)
		a := l.send(ctx, name, func(ctx context.Context, key string) (*vault.Response, error) { return l.bulk(ctx, key, entries) })
		if a == nil {
			return
		}
		var made struct {
			Data struct {
				ID string `json:"batch_id"`
			} `json:"data"`
		}
		if err := json.Unmarshal(a.Body, &made); err != nil || made.Data.ID == "" {
			l.c.t.Errorf("response to a batch = %s, want an id", a.Body)
			return
		}
		l.c.mu.Lock()
		l.c.batches[name] = made.Data.ID
		l.c.mu.Unlock()
		wait(ctx, submitPause)
	}
}

// stage uploads a file for a batch, without an idempotency key.
func (l *load) stage(ctx context.Context, who string) (*vault.Response, error) {
	form := &vault.Form{FileField: "file", FileName: "diploma.pdf", File: sample(who)}
	contentType, body, err := form.Encode()
	if err != nil {
		return nil, err
	}
	req, err := l.client.Request(ctx, http.MethodPost, vault.UploadFilePath, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = body.Size
	req.Header.Set("Content-Type", contentType)
	return l.client.Send(req)
}

func (l *load) bulk(ctx context.Context, key string, entries []vault.Entry) (*vault.Response, error) {
	contentType, body, err := vault.EncodeEntries(entries)
	if err != nil {
		return nil, err
	}
	req, err := l.client.Request(ctx, http.MethodPost, vault.BulkPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Idempotency-Key", key)
	return l.client.Send(req)
}

// read repeatedly reads the list of certificates, the page /verify and a random certificate, until ctx
// ends.
func (l *load) read(ctx context.Context) {
	for ctx.Err() == nil {
		paths := []string{vault.CertificatesPath, "/verify"}
		l.c.mu.Lock()
		for _, uuid := range l.c.acked {
			paths = append(paths, vault.CertificatesPath+"/"+uuid)
			break // the first key of a map is random
		}
		l.c.mu.Unlock()
		for _, path := range paths {
			if a := l.send(ctx, path, func(ctx context.Context, _ string) (*vault.Response, error) { return l.client.Get(ctx, path) }); a == nil {
				return
			}
			wait(ctx, uploadPause)
		}
	}
}
