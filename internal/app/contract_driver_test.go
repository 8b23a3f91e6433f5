package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/test/contract"
	"github.com/certvault/certvault/test/vault"
)

// driver is a running vault with clients. Except for plain, the clients compare their requests and
// responses with the OpenAPI document that the vault serves.
type driver struct {
	*testing.T

	app     *App
	inst    *account.Institution
	checker *contract.Checker
	client  *client.Client
	// checked is for requests that client does not support. plain does not compare its requests and
	// responses with the document.
	checked, plain *http.Client
	// deliveries are the received webhooks, signed with secret.
	deliveries chan delivery
	secret     string
	// collector receives the traces, and parents has the Traceparent headers of the received webhooks.
	collector *collector
	parents   sync.Map
	// lost is a certificate whose file is missing, so that its processing fails.
	lost *cert.Certificate

	titles int
}

// newDriver starts a vault with the database at a URL, or with SQLite if the URL is empty.
func newDriver(t *testing.T, database string) *driver {
	t.Helper()
	d := &driver{T: t, collector: &collector{}}
	traces := httptest.NewServer(d.collector)
	t.Cleanup(traces.Close)
	d.app = newApp(t, warmFolder(t), &bytes.Buffer{}, func(c *config.Serve) {
		c.Database, c.WebhookAllow, c.OTLP = database, []string{"127.0.0.0/8", "::1"}, traces.URL
	})
	d.deliveries = make(chan delivery, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(d.receive))
	t.Cleanup(receiver.Close)
	ctx := t.Context()
	var err error
	if d.inst, err = d.app.Accounts.CreateInstitution(ctx, account.NewInstitution{
		Name: "Northwest University", Prefix: "NWU", OwnerEmail: "owner@example.org", OwnerName: "Owner", OwnerPassword: "correct horse battery staple",
	}); err != nil {
		t.Fatal(err)
	}
	if _, d.secret, err = d.app.Hooks.Create(ctx, d.inst.ID, receiver.URL, nil); err != nil {
		t.Fatal(err)
	}
	d.createLostFile()
	// With the race detector, compiling the PDF renderer while other tests run takes longer than the time
	// limit for sealing.
	if err := d.app.renderer.Compile(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.app.start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.app.close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	pem, err := os.ReadFile(filepath.Join(d.app.cfg.Data, "tls", "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	plain, err := client.New(client.Config{URL: d.app.cfg.BaseURL, RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if err := plain.Fetch(ctx, d.app.cfg.BaseURL+"/openapi.json", &document); err != nil {
		t.Fatal(err)
	}
	if d.checker, err = contract.New(ctx, document.Bytes()); err != nil {
		t.Fatal(err)
	}
	d.plain, d.checked = d.httpClients(roots)
	d.client = d.clientWith(d.token(token.All...))
	return d
}

// delivery is a received webhook.
type delivery struct {
	header http.Header
	body   []byte
}

// receive accepts webhooks, like the server of an institution.
func (d *driver) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.Error(err)
	}
	d.parents.Store(r.Header.Get("Traceparent"), true)
	d.deliveries <- delivery{r.Header, body}
	w.WriteHeader(http.StatusNoContent)
}

// createLostFile creates a certificate and deletes its file, before the vault starts to process it.
func (d *driver) createLostFile() {
	d.Helper()
	ctx := d.Context()
	if err := d.app.Certs.Receive(ctx, d.inst.UUID, cert.NewIncoming("lost.pdf", bytes.NewReader(sample("Lost"))), func(file *cert.File) (err error) {
		d.lost, err = d.app.Certs.Upload(ctx, cert.Upload{
			Institution: d.inst, Creator: cert.Actor{Type: "token", ID: 1, Name: "Test"}, Context: cert.SingleUpload,
			Title: "Lost", FullName: "Lost", Email: "lost@example.org", File: file,
		})
		return err
	}); err != nil {
		d.Fatal(err)
	}
	if err := d.app.blobs.Delete(ctx, d.lost.File.Key); err != nil {
		d.Fatal(err)
	}
}

func sample(name string) []byte {
	return vault.Sample{Institution: "Northwest University", Title: "Diploma", Name: name, Line: "has completed the course.", Date: "1 June 2026"}.PDF()
}

// httpClients returns a client without comparison, and a client that compares its requests and responses
// with the document.
func (d *driver) httpClients(roots *x509.CertPool) (plain, checked *http.Client) {
	d.Helper()
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		d.Fatal("http.DefaultTransport is not an *http.Transport")
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots}
	d.Cleanup(t.CloseIdleConnections)
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: t, CheckRedirect: noRedirect},
		&http.Client{Transport: d.checker.Wrap(t, func(err error) { d.Error(err) }), CheckRedirect: noRedirect}
}

func (d *driver) token(permissions ...token.Permission) string {
	d.Helper()
	_, secret, err := d.app.Tokens.Create(d.Context(), d.inst.ID, "Test", permissions, nil)
	if err != nil {
		d.Fatal(err)
	}
	return secret
}

func (d *driver) clientWith(secret string) *client.Client {
	d.Helper()
	c, err := client.New(client.Config{URL: d.app.cfg.BaseURL, Token: secret, HTTP: d.checked, Retry: client.Retry{Attempts: 1}})
	if err != nil {
		d.Fatal(err)
	}
	return c
}

// must fails the test on an error.
func (d *driver) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// send sends a request that the client does not support, and returns the status.
func (d *driver) send(method, target, secret string, header http.Header, body string) int {
	d.Helper()
	return d.exchange(d.checked, method, target, secret, header, body).status
}

// unchecked is like send, but it does not compare the exchange with the document, and it also returns the
// headers.
func (d *driver) unchecked(method, target, secret string, header http.Header, body string) reply {
	d.Helper()
	return d.exchange(d.plain, method, target, secret, header, body)
}

// reply is a response without its body.
type reply struct {
	status int
	header http.Header
}

func (d *driver) exchange(c *http.Client, method, target, secret string, header http.Header, body string) reply {
	d.Helper()
	if strings.HasPrefix(target, "/") {
		target = d.app.cfg.BaseURL + target
	}
	req, err := http.NewRequestWithContext(d.Context(), method, target, strings.NewReader(body))
	d.must(err)
	req.Header.Set("Accept", "application/json")
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for name := range header {
		req.Header.Set(name, header.Get(name))
	}
	res, err := c.Do(req)
	d.must(err)
	_, err = io.Copy(io.Discard, res.Body)
	d.must(errors.Join(err, res.Body.Close()))
	return reply{res.StatusCode, res.Header}
}

// approved creates a certificate with a unique title, and waits for its approval.
func (d *driver) approved() *client.VaultCertificate {
	d.Helper()
	d.titles++
	file, err := client.SeekFile("diploma.pdf", bytes.NewReader(sample("Ada Lovelace")))
	d.must(err)
	created, err := d.client.Upload(d.Context(), client.NewCertificate{
		CertificateTitle: fmt.Sprintf("Bachelor of Science %d", d.titles), FullName: "Ada Lovelace", ApplicantEmail: "ada@example.org", IssueDate: "2026-06-30",
		Details: "With distinction", File: file,
	})
	d.must(err)
	created, err = d.client.Await(d.Context(), created.UUID)
	d.must(err)
	if created.Status.Value != client.Approved {
		d.Fatalf("status = %s, failure = %+v, want approved", created.Status.Value, created.Failure)
	}
	return created
}
