package wallet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web/wallet"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// office is a vault with an approved certificate, and the handler for wallets and verifiers.
type office struct {
	*vaulttest.Vault

	t           testing.TB
	handler     http.Handler
	institution *account.Institution
	certificate *cert.Certificate
}

func newOffice(t testing.TB) *office { return officeOn(t, dbtest.SQLite(t)) }

func officeOn(t testing.TB, d *db.DB) *office {
	v := vaulttest.New(t, d)
	inst := v.Institution("NWU", "Northern & Western University")
	c := v.Upload(inst, "Ada Obi", "diploma.pdf")
	v.Settle()
	c, err := v.Certs.ByUUID(t.Context(), inst.ID, c.UUID)
	ok(t, err)
	api := &wallet.API{Issuer: v.Issuer, Limit: limit.NewCounter(0, v.Now)}
	return &office{v, t, api.Handler(), inst, c}
}

// call sends a request. headers are the names of the headers, each followed by its value.
func (o *office) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(o.t.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	return w
}

// Fetch returns a document of the vault, as if a verifier on another machine requested it.
func (o *office) Fetch(_ context.Context, address, accept string) ([]byte, error) {
	w := o.call(http.MethodGet, strings.TrimPrefix(address, vaulttest.BaseURL), "", "Accept", accept)
	if w.Code != http.StatusOK {
		return nil, &url.Error{Op: "GET", URL: address, Err: os.ErrNotExist}
	}
	return w.Body.Bytes(), nil
}

// verdict returns the verdict of the verifier about a credential.
func (o *office) verdict(text string) credential.Verdict {
	o.t.Helper()
	r, err := credential.Verify(o.t.Context(), []byte(text), credential.Options{Fetcher: o, Now: o.Now()})
	ok(o.t, err)
	if r.Verdict != credential.Valid {
		o.t.Logf("%+v", r.Checks)
	}
	return r.Verdict
}

// unreadable is a Fetcher that cannot read status lists.
type unreadable struct{ *office }

func (u unreadable) Fetch(ctx context.Context, address, accept string) ([]byte, error) {
	if strings.Contains(address, "/credentials/status/") {
		return nil, io.ErrUnexpectedEOF
	}
	return u.office.Fetch(ctx, address, accept)
}

// A verifier needs only the credential, in any format. It fetches the keys and the status list from the
// addresses in the credential, also after a rotation of the keys.
func TestVerifierFindsKeysAndStatus(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	formats := []issuer.Format{issuer.FormatVC, issuer.FormatJWT, issuer.FormatSDJWT, issuer.FormatPNG, issuer.FormatSVG}
	files := map[issuer.Format]string{}
	for _, f := range formats {
		content, err := o.Issuer.File(t.Context(), o.certificate, f)
		ok(t, err)
		files[f] = string(content)
	}
	ok(t, o.Keys.RotateCredentialKeys(t.Context(), o.institution.UUID, nil, nil))
	for _, f := range formats {
		if got := o.verdict(files[f]); got != credential.Valid {
			t.Errorf("%s: got %v, want valid", f, got)
		}
		r, err := credential.Verify(t.Context(), []byte(files[f]), credential.Options{Fetcher: unreadable{o}, Now: o.Now()})
		ok(t, err)
		if r.Verdict != credential.Unknown {
			t.Errorf("%s without its status list: got %v, want unknown", f, r.Verdict)
		}
	}
	_, err := o.Certs.Revoke(t.Context(), o.institution.ID, o.certificate.UUID, cert.Revocation{Reason: "issued by mistake"})
	ok(t, err)
	o.Advance(time.Minute)
	for _, f := range formats {
		if got := o.verdict(files[f]); got != credential.Invalid {
			t.Errorf("%s after the revocation: got %v, want invalid", f, got)
		}
	}
}

// Scripts of every origin can read and cache the documents. For an unknown document, the status is 404.
func TestDocuments(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	found, err := o.Issuer.Credential(t.Context(), o.certificate)
	ok(t, err)
	uuid, list := o.institution.UUID, found.List
	for path, want := range map[string]struct{ accept, mediaType, cache string }{
		"/institutions/" + uuid + "/did.json":                          {"", "application/did+ld+json", "public, max-age=60"},
		"/institutions/" + uuid + "/did.json?":                         {"application/json", "application/json", "public, max-age=60"},
		"/credentials/status/" + list:                                  {"", "application/vc", "public, max-age=300"},
		"/credentials/status/" + list + "?":                            {"application/ld+json, application/json", "application/ld+json", "public, max-age=300"},
		"/credentials/status/" + list + "?token":                       {"application/statuslist+jwt", "application/statuslist+jwt", "public, max-age=300"},
		"/credentials/type":                                            {"", "application/json", "public, max-age=300"},
		"/.well-known/jwt-vc-issuer/institutions/" + uuid:              {"", "application/json", "public, max-age=60"},
		"/.well-known/openid-credential-issuer/institutions/" + uuid:   {"", "application/json", "public, max-age=60"},
		"/.well-known/oauth-authorization-server/institutions/" + uuid: {"", "application/json", "public, max-age=60"},
	} {
		w := o.call(http.MethodGet, path, "", "Accept", want.accept)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != want.mediaType || h.Get("Cache-Control") != want.cache || h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: status = %d, want 200; header %v, want %+v", path, w.Code, h, want)
		}
	}
	w := o.call(http.MethodGet, "/credentials/status/"+list, "")
	if again := o.call(http.MethodGet, "/credentials/status/"+list, "", "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("an unchanged list: status = %d, want 304", again.Code)
	}
	for _, path := range []string{
		"/institutions/" + strings.ToUpper(uuid) + "/did.json", "/institutions/x/did.json", "/institutions/01a20894-0000-7000-8000-000000000000/did.json",
		"/credentials/status/x", "/credentials/status/01a20894-0000-7000-8000-000000000000", "/institutions/" + uuid + "/openid4vci/offers/x",
		"/institutions/" + uuid + "/achievements/x/y.png",
	} {
		if w := o.call(http.MethodGet, path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: status = %d, want 404", path, w.Code)
		}
	}
	if w := o.call(http.MethodOptions, "/institutions/"+uuid+"/openid4vci/credential", "", "Origin", "https://wallet.example", "Access-Control-Request-Method", "POST"); w.Code != http.StatusNoContent || !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: status = %d, want 204; header %v, want Authorization as an allowed header", w.Code, w.Header())
	}
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// offered creates an offer and returns it with its mailed code.
func (o *office) offered() (offer *issuer.Offer, digits string) {
	o.t.Helper()
	offer, err := o.Issuer.NewOffer(o.t.Context(), o.certificate)
	ok(o.t, err)
	o.Until("the code was mailed", func() bool {
		for len(o.Mails) > 0 {
			if m := <-o.Mails; strings.HasPrefix(m.Subject, "Your code") {
				digits = sixDigits.FindString(m.Text)
			}
		}
		return digits != ""
	})
	return offer, digits
}

// For invalid requests, wallets get the error codes of the protocol.
func TestProtocolErrors(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	offer, digits := o.offered()
	base := "/institutions/" + o.institution.UUID + "/openid4vci/"
	const grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Apre-authorized_code"
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	token := func(body string) (int, map[string]any) {
		w := o.call(http.MethodPost, base+"token", body, form...)
		var answer map[string]any
		ok(t, json.Unmarshal(w.Body.Bytes(), &answer))
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("Cache-Control = %q, want no-store", w.Header().Get("Cache-Control"))
		}
		return w.Code, answer
	}
	for body, want := range map[string]string{
		"":                               "unsupported_grant_type",
		"grant_type=authorization_code":  "unsupported_grant_type",
		grant:                            "invalid_request",
		grant + "&pre-authorized_code=x": "invalid_request",
		grant + "&pre-authorized_code=x&tx_code=123456": "invalid_grant",
		"%": "invalid_request",
	} {
		if status, answer := token(body); status != http.StatusBadRequest || answer["error"] != want {
			t.Errorf("token %q: status = %d, want 400; response %v, want the error %s", body, status, answer, want)
		}
	}
	status, answer := token(grant + "&pre-authorized_code=" + offer.Secret + "&tx_code=" + digits[:3] + "+" + digits[3:])
	access, _ := answer["access_token"].(string)
	if status != http.StatusOK || access == "" || answer["token_type"] != "Bearer" {
		t.Fatalf("token: status = %d, want 200; response %v, want a Bearer token", status, answer)
	}
	for name, c := range map[string]struct {
		token, body, want string
		status            int
	}{
		"no token":      {"", `{}`, "invalid_token", http.StatusUnauthorized},
		"not JSON":      {access, `[`, "invalid_credential_request", http.StatusBadRequest},
		"configuration": {access, `{"credential_configuration_id":"x"}`, "unknown_credential_configuration", http.StatusBadRequest},
		"identifier":    {access, `{"credential_identifier":"x"}`, "unknown_credential_identifier", http.StatusBadRequest},
		"encryption":    {access, `{"credential_configuration_id":"open-badge-ldp-vc","credential_response_encryption":{}}`, "invalid_encryption_parameters", http.StatusBadRequest},
		"no proof":      {access, `{"credential_configuration_id":"open-badge-ldp-vc"}`, "invalid_proof", http.StatusBadRequest},
		"wrong proof":   {access, `{"credential_configuration_id":"open-badge-ldp-vc","proofs":{"jwt":["a.b.c"]}}`, "invalid_proof", http.StatusBadRequest},
	} {
		w := o.call(http.MethodPost, base+"credential", c.body, "Authorization", "Bearer "+c.token, "Content-Type", "application/json")
		if w.Code != c.status || !strings.Contains(w.Body.String(), `"error":"`+c.want+`"`) {
			t.Errorf("%s: status = %d, want %d; response %s, want the error %s", name, w.Code, c.status, w.Body, c.want)
		}
	}
}

// The wallet library in test/wallets receives the credentials of an offer in all formats for wallets, and
// the verifier accepts them.
func TestWalletLibrary(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "test", "wallets")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("run make deps: %v", err)
		}
		t.Skipf("run make deps: %v", err)
	}
	o := newOffice(t)
	server := httptest.NewServer(o.handler)
	t.Cleanup(server.Close)
	offer, digits := o.offered()
	address, err := o.Issuer.OfferURL(t.Context(), o.institution.ID, offer)
	ok(t, err)
	input, err := json.Marshal(map[string]string{
		"offer": "openid-credential-offer://?credential_offer_uri=" + url.QueryEscape(address), "code": digits, "host": vaulttest.BaseURL, "server": server.URL,
	})
	ok(t, err)
	receive := func() (out struct {
		Error       string
		Credentials map[string]json.RawMessage
	}) {
		cmd := exec.CommandContext(t.Context(), node, "receive.mjs")
		cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(input), os.Stderr
		text, err := cmd.Output()
		ok(t, err)
		ok(t, json.Unmarshal(text, &out))
		return out
	}
	out := receive()
	if out.Error != "" || len(out.Credentials) != 3 {
		t.Fatalf("the wallet received %d credentials, want 3; error %q", len(out.Credentials), out.Error)
	}
	for id, raw := range out.Credentials {
		text := string(raw)
		if raw[0] == '"' {
			ok(t, json.Unmarshal(raw, &text))
		}
		if got := o.verdict(text); got != credential.Valid {
			t.Errorf("%s: got %v, want valid", id, got)
		}
	}
	if out := receive(); out.Error == "" {
		t.Error("the offer was redeemed twice")
	}
}
