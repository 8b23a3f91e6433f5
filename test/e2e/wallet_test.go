//go:build e2e

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// statusTime is the time within which a revocation must be in the status list of every node.
const statusTime = 60 * time.Second

// TestWalletOverNodes issues a credential to a wallet whose requests reach different nodes. The keys must be
// created only once, and an offer can be redeemed only once. Both nodes must use rotated keys and, without
// -short, publish a revocation.
func TestWalletOverNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterOptions{size: 2})
	c.client = &vault.Client{URL: c.url, Token: c.client.Token, HTTP: &http.Client{Timeout: strictLimit, Transport: c.transport}}
	ctx := t.Context()
	d := c.database(t)
	command := func(args ...string) {
		t.Helper()
		res, err := vault.Run(ctx, c.Options, "", args...)
		if err != nil || res.Code != 0 {
			t.Fatalf("certvault %s: %v %+v, want exit code 0", args[0], err, res)
		}
	}
	command("institution", "set", "--institution", c.institution.Slug, "--public-download")
	institution := "/institutions/" + c.institution.UUID

	if _, err := d.ExecContext(ctx, `DELETE FROM credential_keys`); err != nil {
		t.Fatal(err)
	}
	documents := together(8, func(i int) string { return c.at(t, i%2, http.MethodGet, institution+"/did.json", "", http.StatusOK) })
	if n := count(t, d, `SELECT count(*) FROM credential_keys`); n != 2 || len(slices.Compact(documents)) != 1 {
		t.Errorf("concurrent first requests created %d keys, or got different documents; want 2 keys and one document", n)
	}

	created, err := c.client.Upload(ctx, form("Wanda Key"))
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, created, http.StatusCreated)
	made, err := created.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if made, err = c.client.Await(ctx, made.UUID); err != nil {
		t.Fatal(err)
	}
	list := c.listOf(t, made)

	secret := c.offer(t, made)
	for i := range 2 {
		c.at(t, i, http.MethodGet, institution+"/openid4vci/offers/"+secret, "", http.StatusOK)
	}
	var code string
	eventually(t, mailTime, "the code is mailed", func() bool {
		if l := c.mail.letter(t, mailbox("Wanda Key")); strings.HasPrefix(l.Subject, "Your code for adding") {
			code = regexp.MustCompile(`\b\d{6}\b`).FindString(l.Text)
		}
		return code != ""
	})
	grant := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:pre-authorized_code"}, "pre-authorized_code": {secret}, "tx_code": {code}}.Encode()
	var tokens []string
	for _, body := range together(16, func(i int) string { return c.at(t, i%2, http.MethodPost, institution+"/openid4vci/token", grant, 0) }) {
		var a struct {
			Token string `json:"access_token"`
			Error string
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil || a.Token == "" && a.Error != "invalid_grant" {
			t.Errorf("the response to a token request has neither a token nor the error invalid_grant: %v %s", err, body)
		}
		if a.Token != "" {
			tokens = append(tokens, a.Token)
		}
	}
	if len(tokens) != 1 {
		t.Fatalf("the offer was redeemed %d times, want once", len(tokens))
	}
	c.at(t, 1, http.MethodGet, institution+"/openid4vci/offers/"+secret, "", http.StatusNotFound)
	c.checkOneHolder(t, tokens[0])

	before := c.keys(t, 0)
	command("key", "credential", "--institution", c.institution.Slug, "--rotate")
	for i := range c.nodes {
		if after := c.keys(t, i); len(after) != len(before)+2 || !slices.Equal(after[2:], before) {
			t.Errorf("node %d has the keys %q after the rotation, want two new keys and then %q", i, after, before)
		}
	}
	later, err := c.client.Upload(ctx, form("Later Person"))
	if err != nil {
		t.Fatal(err)
	}
	if made, err := later.Certificate(); err != nil {
		t.Fatal(err)
	} else if made, err = c.client.Await(ctx, made.UUID); err != nil {
		t.Fatal(err)
	} else if text := c.at(t, 1, http.MethodGet, "/verify/"+made.ReferenceID+"/credential", "", http.StatusOK); !strings.Contains(text, c.keys(t, 0)[0]) {
		t.Errorf("credential from node 1 = %s, want one that the new key signed", text)
	}
	c.checkRevocation(t, made, list)
}

// checkOneHolder requests a credential with one token and two keys, at the same time and from both nodes.
// Only the requests with one of the keys get the credential.
func (c *cluster) checkOneHolder(t *testing.T, token string) {
	t.Helper()
	institution := "/institutions/" + c.institution.UUID
	var nonce struct {
		Nonce string `json:"c_nonce"`
	}
	if err := json.Unmarshal([]byte(c.at(t, 0, http.MethodPost, institution+"/openid4vci/nonce", "", http.StatusOK)), &nonce); err != nil {
		t.Fatal(err)
	}
	bodies := make([]string, 2)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(`{"credential_configuration_id":"open-badge-ldp-vc","proofs":{"jwt":[%q]}}`, walletProof(t, baseURL+institution, nonce.Nonce))
	}
	issued := 0
	for _, body := range together(8, func(i int) string {
		return c.at(t, i%2, http.MethodPost, institution+"/openid4vci/credential", bodies[i/2%2], 0, "Authorization", "Bearer "+token)
	}) {
		switch {
		case strings.Contains(body, "OpenBadgeCredential"):
			issued++
		case !strings.Contains(body, "credential_request_denied"):
			t.Errorf("the response has neither a credential nor the error credential_request_denied: %s", body)
		}
	}
	if issued != 4 {
		t.Errorf("%d of 8 requests with two keys got the credential, want the 4 of one key", issued)
	}
}

// checkRevocation revokes a certificate. The command verify, which reads the database, must report the
// revocation at once. Without -short, the status list of every node must contain it within statusTime.
func (c *cluster) checkRevocation(t *testing.T, made *vault.Certificate, list string) {
	t.Helper()
	file := writeTemp(t, "credential.json", []byte(c.at(t, 0, http.MethodGet, "/verify/"+made.ReferenceID+"/credential", "", http.StatusOK)))
	before := []string{c.bits(t, 0, list), c.bits(t, 1, list)}
	verify := func(code int, verdict string) {
		t.Helper()
		if res, err := vault.Run(t.Context(), c.Options, "", "verify", file); err != nil || res.Code != code || !strings.HasPrefix(res.Stdout, verdict) {
			t.Errorf("certvault verify: %v %+v, want exit code %d and %s", err, res, code, verdict)
		}
	}
	verify(0, "VALID: ")
	a, err := c.client.PostJSON(t.Context(), vault.CertificatesPath+"/"+made.UUID+"/revoke", `{"reason":"issued by mistake"}`)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a, http.StatusOK)
	verify(1, "NOT VALID: The issuer revoked")
	if testing.Short() {
		return // a node may serve a list without the revocation for up to 30 s
	}
	start := time.Now()
	for i := range c.nodes {
		eventually(t, statusTime-time.Since(start), fmt.Sprintf("the revocation is in the list of node %d", i), func() bool { return c.bits(t, i, list) != before[i] })
	}
	t.Logf("the revocation was in the lists of all nodes after %v", time.Since(start).Round(time.Second))
}

// at sends a request to a node as a proxy does, and returns the body of the response. If status is 0, the
// response may have any status.
func (c *cluster) at(t *testing.T, node int, method, path, body string, status int, headers ...string) string {
	t.Helper()
	res := c.send(t, node, method, path, body, headers...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || status != 0 && res.StatusCode != status {
		t.Errorf("%s %s at node %d: %d, want %d: %v %s", method, path, node, res.StatusCode, status, err, text)
	}
	return string(text)
}

func (c *cluster) send(t *testing.T, node int, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.nodes[node].Address+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	req.Host = strings.TrimPrefix(baseURL, "https://")
	req.Header.Set("X-Forwarded-Proto", "https")
	req.Header.Set("X-Forwarded-For", "203.0.113.9")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	return res
}

// offer creates a wallet offer on the public page of a certificate, at the first node, and returns the
// secret of the offer.
func (c *cluster) offer(t *testing.T, made *vault.Certificate) string {
	t.Helper()
	res := c.send(t, 0, http.MethodPost, "/verify/"+made.ReferenceID+"/wallet", "")
	defer res.Body.Close()
	for _, cookie := range res.Cookies() {
		if cookie.Name == "__Host-wallet" {
			return cookie.Value
		}
	}
	t.Fatalf("creating an offer: status %d, header %v, want a cookie with the secret", res.StatusCode, res.Header)
	return ""
}

// listOf returns the path of the status list of a certificate's credential.
func (c *cluster) listOf(t *testing.T, made *vault.Certificate) string {
	t.Helper()
	var credential struct {
		Status struct {
			StatusListCredential string
		} `json:"credentialStatus"` //nolint:tagliatelle // the name is that of the standard
	}
	text := c.at(t, 0, http.MethodGet, "/verify/"+made.ReferenceID+"/credential", "", http.StatusOK)
	if err := json.Unmarshal([]byte(text), &credential); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(credential.Status.StatusListCredential, baseURL)
}

// bits returns the encoded bits of a status list that a node serves.
func (c *cluster) bits(t *testing.T, node int, list string) string {
	t.Helper()
	var l struct {
		Subject struct {
			EncodedList string
		} `json:"credentialSubject"` //nolint:tagliatelle // the name is that of the standard
	}
	if err := json.Unmarshal([]byte(c.at(t, node, http.MethodGet, list, "", http.StatusOK)), &l); err != nil || l.Subject.EncodedList == "" {
		t.Errorf("the status list of node %d has no encodedList, or is not JSON: %v", node, err)
	}
	return l.Subject.EncodedList
}

// keys returns the ids of the keys in the DID document of a node, the newest first.
func (c *cluster) keys(t *testing.T, node int) []string {
	t.Helper()
	var document struct{ AssertionMethod []string }
	if err := json.Unmarshal([]byte(c.at(t, node, http.MethodGet, "/institutions/"+c.institution.UUID+"/did.json", "", http.StatusOK)), &document); err != nil {
		t.Fatal(err)
	}
	return document.AssertionMethod
}

// together calls f n times at the same time and returns the results.
func together(n int, f func(i int) string) []string {
	results := make([]string, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { results[i] = f(i) })
	}
	wait.Wait()
	return results
}

// walletProof returns a proof of possession of a new P-256 key (OpenID4VCI 1.0, F.1).
func walletProof(t *testing.T, audience, nonce string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	var message bytes.Buffer
	for i, part := range []any{
		map[string]any{"alg": "ES256", "typ": "openid4vci-proof+jwt", "jwk": map[string]string{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}},
		map[string]any{"aud": audience, "nonce": nonce, "iat": time.Now().Unix()},
	} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			message.WriteByte('.')
		}
		message.WriteString(encode(text))
	}
	sum := sha256.Sum256(message.Bytes())
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return message.String() + "." + encode(signature)
}
