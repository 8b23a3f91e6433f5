package public

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

const (
	base = vaulttest.BaseURL
	tail = certtest.Tail
	// Nothing of these may ever be shown to the public.
	secretEmail   = "secret.address@example.org"
	secretDetails = "details-for-the-institution"
	secretNote    = "note-for-the-institution"
)

// vault is the public pages in the middleware they run in.
type vault struct {
	*vaulttest.Vault

	tb      testing.TB
	pages   *Pages
	handler http.Handler
	inst    *account.Institution
	log     *bytes.Buffer
	// shown is everything that was ever answered.
	shown bytes.Buffer
}

func newVault(tb testing.TB, d *db.DB) *vault {
	tb.Helper()
	v := &vault{Vault: vaulttest.New(tb, d), tb: tb, log: &bytes.Buffer{}}
	site, err := page.NewSite(v.Languages, Assets)
	if err != nil {
		tb.Fatal(err)
	}
	v.pages = &Pages{
		Site: site, Accounts: v.Accounts, Links: v.Links, Limit: limit.NewCounter(0, v.Now), Now: v.Now, Keys: v.Keys, Certs: v.Certs,
	}
	v.rewire()
	v.inst = v.Institution("NWU", "Northern & Western University")
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
	return v.Upload(v.inst, name, file, func(u *cert.Upload) { u.Title, u.Email, u.Details = title, secretEmail, secretDetails })
}

func (v *vault) revoke(c *cert.Certificate, reason string) {
	v.tb.Helper()
	if _, err := v.pages.Certs.Revoke(v.tb.Context(), v.inst.ID, c.UUID, cert.Revocation{Reason: reason, Note: secretNote}); err != nil {
		v.tb.Fatal(err)
	}
}

func (v *vault) let(p account.Public) {
	v.tb.Helper()
	if err := v.pages.Accounts.SetPublic(v.tb.Context(), v.inst.ID, p); err != nil {
		v.tb.Fatal(err)
	}
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// attributes returns the values of an attribute of all elements with a name.
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

// unknownID is well formed and unknown.
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
