package public

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
	"github.com/certvault/certvault/internal/webhook"
)

const (
	base = "https://vault.example"
	tail = certtest.Tail
	// Nothing of these may ever be shown to the public.
	secretEmail   = "secret.address@example.org"
	secretDetails = "details-for-the-institution"
	secretNote    = "note-for-the-institution"
)

// sealer adds a tail, or refuses files that say so.
type sealer struct{ done chan struct{} }

func (s *sealer) Seal(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
	defer func() { s.done <- struct{}{} }()
	if strings.HasPrefix(o.Name, "refuse") {
		return nil, certtest.ErrRefused
	}
	return certtest.Seal(o)
}

func (*sealer) PNG(context.Context, io.ReaderAt, int64) ([]byte, error) {
	return []byte("a picture"), nil
}

// vault is the public pages in the middleware they run in.
type vault struct {
	tb      testing.TB
	d       *db.DB
	pages   *Pages
	handler http.Handler
	queue   *job.Queue
	sealer  *sealer
	ring    *authority.Authority
	inst    *account.Institution
	log     *bytes.Buffer
	// at is the time of links and limits.
	at time.Time
	// shown is all that was ever answered.
	shown bytes.Buffer
}

func newVault(tb testing.TB, d *db.DB) *vault {
	tb.Helper()
	blobs, err := blob.NewFolder(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	ring, err := keyring.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	v := &vault{tb: tb, d: d, sealer: &sealer{done: make(chan struct{}, 100)}, log: &bytes.Buffer{}, at: time.Now()}
	now := func() time.Time { return v.at }
	quiet := slog.New(slog.DiscardHandler)
	v.queue, err = job.New(d, job.Config{NodeID: "test", Queues: map[string]int{cert.SealQueue: 1}, MaxAttempts: 1, Timeout: time.Minute, Logger: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	v.ring = certtest.Keys(tb, now)
	links := web.NewLinks(base, ring, now)
	languages, err := locale.Load()
	if err != nil {
		tb.Fatal(err)
	}
	site, err := page.NewSite(languages, Assets)
	if err != nil {
		tb.Fatal(err)
	}
	v.pages = &Pages{
		Site:     site,
		Accounts: account.New(d, now), Links: links, Limit: limit.NewCounter(0, now), Now: now, Keys: v.ring,
		Certs: cert.New(cert.Config{
			DB: d, Ring: ring, Blobs: blobs, Queue: v.queue, Hooks: webhook.New(d, ring, now), Sealer: v.sealer, Keys: v.ring,
			Verify:    certtest.Verify,
			VerifyURL: links.Verify, Attempts: 1, Now: now, Log: quiet,
		}),
	}
	v.rewire()
	v.inst = v.institution("NWU", "Northern & Western University")
	return v
}

// rewire makes the handler of the pages as they are now.
func (v *vault) rewire() {
	v.tb.Helper()
	inner, err := v.pages.Handler()
	if err != nil {
		v.tb.Fatal(err)
	}
	compress, err := web.Compress()
	if err != nil {
		v.tb.Fatal(err)
	}
	assets := v.pages.Site.Assets(v.pages.Render)
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, page.AssetsPath) {
			assets.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	v.handler = web.Wrap(web.Options{Log: slog.New(slog.NewJSONHandler(v.log, nil)), Now: time.Now}, compress(both))
}

func sqlite(tb testing.TB) *db.DB {
	tb.Helper()
	return dbtest.Open(tb, tb.TempDir(), "")
}

func (v *vault) institution(prefix, name string) *account.Institution {
	v.tb.Helper()
	return certtest.Institution(v.tb, v.d, v.ring, prefix, name)
}

// request is one as it comes over TLS from an address of the public.
func request(method, target string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, http.NoBody)
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "203.0.113.9:4711"
	return r
}

func (v *vault) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	v.handler.ServeHTTP(w, r)
	fmt.Fprintln(&v.shown, w.Header(), w.Body)
	return w
}

func (v *vault) get(target string) *httptest.ResponseRecorder {
	return v.do(request(http.MethodGet, target))
}

func (v *vault) getJSON(target string) *httptest.ResponseRecorder {
	r := request(http.MethodGet, target)
	r.Header.Set("Accept", "application/json")
	return v.do(r)
}

// checkSecrets fails when anything was shown that the public must not see.
func (v *vault) checkSecrets() {
	v.tb.Helper()
	for _, secret := range []string{secretEmail, "secret.address", secretDetails, secretNote, "no_room", "no room for the stamp"} {
		if strings.Contains(strings.ToLower(v.shown.String()), secret) {
			v.tb.Errorf("the public is shown %q", secret)
		}
	}
}

// upload makes a certificate in processing.
func (v *vault) upload(title, name, file string) *cert.Certificate {
	v.tb.Helper()
	var c *cert.Certificate
	err := v.pages.Certs.Receive(v.tb.Context(), v.inst.UUID, cert.NewIncoming(file, bytes.NewReader(samplePDF())), func(f *cert.File) (err error) {
		c, err = v.pages.Certs.Upload(v.tb.Context(), cert.Upload{
			Institution: v.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
			Title: title, FullName: name, Email: secretEmail, IssueDate: "2026-06-30", Details: secretDetails, File: f,
		})
		return err
	})
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

// process works n jobs to their end.
func (v *vault) process(n int) {
	v.tb.Helper()
	if err := v.queue.Start(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
	for range n {
		<-v.sealer.done
	}
	if err := v.queue.Stop(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
}

func (v *vault) revoke(c *cert.Certificate, reason string) {
	v.tb.Helper()
	if _, err := v.pages.Certs.Revoke(v.tb.Context(), v.inst.ID, c.UUID, cert.Revocation{Reason: reason, Note: secretNote}); err != nil {
		v.tb.Fatal(err)
	}
}

func samplePDF() []byte { return certtest.PDF("a diploma", 0) }

func (v *vault) let(p account.Public) {
	v.tb.Helper()
	if err := v.pages.Accounts.SetPublic(v.tb.Context(), v.inst.ID, p); err != nil {
		v.tb.Fatal(err)
	}
}

func (v *vault) exec(query string, args ...any) {
	v.tb.Helper()
	if err := v.d.Tx(v.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(v.tb.Context(), query, args...)
		return err
	}); err != nil {
		v.tb.Fatal(err)
	}
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// attributes gives the values of an attribute on the elements of a name.
func attributes(t *testing.T, w *httptest.ResponseRecorder, element, key string) (list []string) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != element {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == key {
				list = append(list, a.Val)
			}
		}
	}
	return list
}

// unknownID is well formed and belongs to nobody.
const unknownID = "NWU-0000000000000000"

// words is the text of a page as it is read.
func words(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "noscript" {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
