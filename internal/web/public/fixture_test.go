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
	// Responses to the public must not contain these texts.
	secretEmail   = "secret.address@example.org"
	secretDetails = "details-for-the-institution"
	secretNote    = "note-for-the-institution"
)

// vault is a vault with the handler of its public pages.
type vault struct {
	*vaulttest.Vault

	tb      testing.TB
	pages   *Pages
	handler http.Handler
	inst    *account.Institution
	log     *bytes.Buffer
	// written has the headers and bodies of all responses.
	written bytes.Buffer
}

func newVault(tb testing.TB, d *db.DB) *vault {
	tb.Helper()
	v := &vault{Vault: vaulttest.New(tb, d), tb: tb, log: &bytes.Buffer{}}
	site, err := page.NewSite(v.Languages, Assets)
	if err != nil {
		tb.Fatal(err)
	}
	v.pages = &Pages{
		Site: site, Accounts: v.Accounts, Links: v.Links, Limit: limit.NewCounter(0, v.Now), Now: v.Now, Keys: v.Keys, Certs: v.Certs, Applications: v.Applications,
		Verified: v.Verifications.Count, Issuer: v.Issuer,
	}
	v.newHandler()
	v.inst = v.Institution("NWU", "Northern & Western University")
	return v
}

// newHandler replaces the handler. Tests call it after they change v.pages.
func (v *vault) newHandler() {
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

// request returns a request over TLS from a public address.
func request(method, target string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, http.NoBody)
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "203.0.113.9:4711"
	return r
}

func (v *vault) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	v.handler.ServeHTTP(w, r)
	fmt.Fprintln(&v.written, w.Header(), w.Body)
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

// checkSecrets checks that no response contains data that the public must not see.
func (v *vault) checkSecrets() {
	v.tb.Helper()
	for _, secret := range []string{secretEmail, "secret.address", secretDetails, secretNote, "no_room", "no room for the stamp"} {
		if strings.Contains(strings.ToLower(v.written.String()), secret) {
			v.tb.Errorf("a response contains %q", secret)
		}
	}
}

// upload creates a certificate in processing.
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

// setPublic changes the public settings of the institution.
func (v *vault) setPublic(p account.Public) {
	v.tb.Helper()
	if err := v.pages.Accounts.SetPublic(v.tb.Context(), v.inst.ID, p); err != nil {
		v.tb.Fatal(err)
	}
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// attributes returns the values of one attribute of all elements with a name. key is the name of the
// attribute.
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

// unknownID is a well-formed reference id that no certificate has.
const unknownID = "NWU-0000000000000000"

// textOf returns the text of a page without the elements noscript.
func textOf(t *testing.T, w *httptest.ResponseRecorder) string {
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
