package public

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/issuer"
)

const (
	issuerDID  = "did:web:issuer.example:institutions:1"
	issuerList = "https://issuer.example/credentials/status/1"
)

// documents is a Fetcher with documents in memory. It counts the fetches.
type documents struct {
	byURL map[string][]byte
	count int
}

func (d *documents) Fetch(_ context.Context, url, _ string) ([]byte, error) {
	d.count++
	if data, ok := d.byURL[url]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("connecting to 10.1.2.3: refused: %s", url)
}

// issueCredential returns a credential and the documents of its issuer. In the status list, the bits at the
// positions revoked are set. The position of the credential is 12.
func issueCredential(t *testing.T, now time.Time, title string, revoked ...int) ([]byte, *documents) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	c, err := credential.New(credential.Input{
		ID: "7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11", Title: title, Issuer: credential.Issuer{DID: issuerDID, Name: "Another <University>"},
		Recipient: credential.Recipient{Name: "Ada Lovelace"}, IssuedOn: now, ExpiresOn: now.AddDate(1, 0, 0),
		Achievement: credential.Achievement{ID: "urn:x:1", Name: title, Description: "A degree.", Criteria: "180 credits."},
		Status:      &credential.StatusEntry{List: issuerList, Index: 12},
	})
	must(err)
	data, err := c.SignDataIntegrity(key, now)
	must(err)
	did, err := credential.DIDDocument(issuerDID, []crypto.PublicKey{key.Public()})
	must(err)
	bits, err := credential.NewBitstring(revoked...)
	must(err)
	list, err := credential.SignStatusList(credential.StatusList{URL: issuerList, Issuer: issuerDID, Bits: bits, Issued: now, Lifetime: time.Hour}, key)
	must(err)
	return data, &documents{byURL: map[string][]byte{"https://issuer.example/institutions/1/did.json": did, issuerList: list}}
}

// check sends a file with the form for credentials.
func (v *vault) check(file []byte, language string) *httptest.ResponseRecorder {
	return v.checkUntil(context.Background(), file, language)
}

func (v *vault) checkUntil(ctx context.Context, file []byte, language string) *httptest.ResponseRecorder {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	if part, err := form.CreateFormFile("credential", "badge.png"); err == nil {
		_, _ = part.Write(file)
	}
	_ = form.Close()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/verify?lang="+language, &b)
	r.TLS, r.RemoteAddr = request(http.MethodGet, "/").TLS, "203.0.113.9:4711"
	r.Header.Set("Content-Type", form.FormDataContentType())
	return v.do(r)
}

func TestCheckCredential(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	good, from := issueCredential(t, v.Now(), "BSc & <b>Computer</b> Science")
	v.pages.Fetcher = from
	var blank bytes.Buffer
	if err := png.Encode(&blank, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	baked, err := credential.BakePNG(blank.Bytes(), good)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file   []byte
		status int
		want   []string
	}{
		"valid": {good, http.StatusOK, []string{
			"The credential is valid", `<bdi dir="ltr" class="address">issuer.example/institutions/1</bdi>`, "BSc &amp; &lt;b&gt;Computer&lt;/b&gt; Science", "Ada Lovelace",
			"Another &lt;University&gt;", "The issuer has not revoked the credential.", "Who runs the website",
		}},
		"badge":   {baked, http.StatusOK, []string{"The credential is valid"}},
		"changed": {bytes.Replace(good, []byte("Ada"), []byte("Eda"), 1), http.StatusOK, []string{"The credential is not valid", "The signature is not valid", "This was not verified."}},
		"unknown context": {bytes.Replace(good, []byte(credential.ContextOB), []byte("https://example.org/x"), 1), http.StatusOK, []string{
			"The credential could not be fully checked", "a vocabulary that this website does not know",
		}},
		"JSON":            {[]byte(`{"a":1}`), http.StatusOK, []string{"The credential is not valid", "A required part of the credential is missing or damaged."}},
		"plain picture":   {blank.Bytes(), http.StatusUnprocessableEntity, []string{"This file contains no credential."}},
		"damaged picture": {baked[:60], http.StatusUnprocessableEntity, []string{"The file is damaged and cannot be read."}},
		"nothing":         {nil, http.StatusUnprocessableEntity, []string{"Choose a file."}},
		"large":           {make([]byte, credential.MaxFile+1), http.StatusUnprocessableEntity, []string{"This file is too large. The limit is 10 MB."}},
		"larger":          {make([]byte, credential.MaxFile+2<<20), http.StatusUnprocessableEntity, []string{"This file is too large."}},
	} {
		w := v.check(c.file, "en")
		if w.Code != c.status || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
			t.Errorf("%s: status = %d, want %d; Cache-Control = %q, want no-store; log: %s", name, w.Code, c.status, w.Header().Get("Cache-Control"), v.log)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: the page does not contain %q:\n%s", name, want, w.Body)
			}
		}
	}
}

// If a document of the issuer cannot be read, the page says so and does not show the credential as valid.
// The page does not contain the error of the fetch, which can contain addresses of the vault's network.
func TestCheckCredentialWithoutDocuments(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	good, from := issueCredential(t, v.Now(), "BSc")
	_, revoked := issueCredential(t, v.Now(), "BSc", 12)
	v.pages.Fetcher = from
	delete(from.byURL, issuerList)
	w := v.check(good, "en").Body.String()
	if !strings.Contains(w, "The credential could not be fully checked") || !strings.Contains(w, "the status list of the issuer cannot be fetched") || strings.Contains(w, "10.1.2.3") {
		t.Errorf("without a status list: want a page that says so, without the error of the network, got\n%s", w)
	}
	from.byURL[issuerList] = revoked.byURL[issuerList] // signed by another key
	if w := v.check(good, "en").Body.String(); !strings.Contains(w, "the status list of the issuer is not valid") {
		t.Errorf("with a status list that another key signed: want a page that says so, got\n%s", w)
	}
	from.byURL = nil
	if w := v.check(good, "en").Body.String(); !strings.Contains(w, "the key of the issuer cannot be fetched") || strings.Contains(w, "10.1.2.3") {
		t.Errorf("without keys: want a page that says so, without the error of the network, got\n%s", w)
	}
	good, revoked = issueCredential(t, v.Now(), "BSc", 12)
	v.pages.Fetcher = revoked
	if w := v.check(good, "de").Body.String(); !strings.Contains(w, "Der Aussteller hat den Nachweis widerrufen.") {
		t.Errorf("revoked: want a page in German that says so, got\n%s", w)
	}
}

// If the vault lost the certificate of a credential in a restore, the page says so, unless the credential is
// revoked.
func TestCheckCredentialOfLostCertificate(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	v.pages.Fetcher = v.Issuer.Documents(credential.Offline{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := v.Upload(v.inst, "Ada Obi", "diploma.pdf")
	v.Settle()
	c, err := v.Certs.ByUUID(t.Context(), v.inst.ID, c.UUID)
	must(err)
	file, err := v.Issuer.File(t.Context(), c, issuer.FormatSVG)
	must(err)
	const valid, lost, revoked = "The credential is valid", "no longer has its certificate", "The issuer has revoked the credential."
	if w := v.check(file, "en").Body.String(); !strings.Contains(w, valid) || strings.Contains(w, lost) {
		t.Errorf("a known certificate: want a valid credential that is not lost, got\n%s", w)
	}
	v.Exec(`UPDATE certificates SET uuid = 'another' WHERE id = $1`, c.ID)
	if w := v.check(file, "en").Body.String(); !strings.Contains(w, valid) || !strings.Contains(w, lost) {
		t.Errorf("a lost certificate: want a valid credential without its certificate, got\n%s", w)
	}
	_, err = v.Certs.Revoke(t.Context(), v.inst.ID, "another", cert.Revocation{Reason: "withdrawn"})
	must(err)
	v.Advance(time.Minute)
	if w := v.check(file, "en").Body.String(); !strings.Contains(w, revoked) || strings.Contains(w, lost) {
		t.Errorf("a revoked credential: want only the revocation, got\n%s", w)
	}
}

// A form of another site cannot make the vault fetch documents.
func TestCheckCredentialFromAnotherSite(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	_, from := issueCredential(t, v.Now(), "BSc")
	v.pages.Fetcher = from
	r := request(http.MethodPost, "/verify")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := v.do(r); w.Code != http.StatusForbidden || from.count != 0 {
		t.Errorf("status = %d, want 403; %d fetches, want 0", w.Code, from.count)
	}
	if w := v.do(request(http.MethodPost, "/verify")); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("without a form: status = %d, want 415", w.Code)
	}
}

// slow is a Fetcher whose servers do not answer in time.
type slow struct{}

func (slow) Fetch(ctx context.Context, _, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// If a check takes too long, or waits too long for other checks, the status is 503.
func TestCheckTakesTooLong(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	good, _ := issueCredential(t, v.Now(), "BSc")
	v.pages.Fetcher = slow{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if w := v.checkUntil(ctx, good, "en"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a slow issuer: status = %d, want 503", w.Code)
	}
	v.pages.Fetcher = nil
	for range maxVerifications {
		v.pages.verifications <- struct{}{}
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if w := v.checkUntil(ctx, good, "en"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("many checks: status = %d, want 503 with Retry-After", w.Code)
	}
}

// Every result has a text in every language.
func TestCheckTexts(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	var keys []string
	for _, name := range []credential.CheckName{credential.CheckForm, credential.CheckIssuer, credential.CheckProof, credential.CheckPeriod, credential.CheckStatus} {
		keys = append(keys, checkKey(credential.Check{Name: name, Result: credential.Passed}))
		for _, code := range credential.Codes {
			keys = append(keys, checkKey(credential.Check{Name: name, Result: credential.NotRun, Code: code}))
		}
	}
	for _, l := range v.Languages.Languages() {
		for _, key := range keys {
			if text, err := l.Text(key); err != nil || text == "" {
				t.Errorf("%s: the text of %s is %q, error %v, want a text", l.Tag, key, text, err)
			}
		}
	}
}
