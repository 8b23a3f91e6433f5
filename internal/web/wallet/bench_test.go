package wallet_test

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
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/keyring"
)

// BenchmarkRedeem redeems offers over HTTP. Several wallets work concurrently. For each offer, a wallet
// fetches the offer, an access token, a nonce and the credential in JSON-LD. The offers are created
// before the measurement, which includes the signing of the proofs.
func BenchmarkRedeem(b *testing.B) {
	for name, open := range map[string]func() *db.DB{
		"sqlite":   func() *db.DB { return dbtest.SQLite(b) },
		"postgres": func() *db.DB { return dbtest.Open(b, b.TempDir(), dbtest.MigratedURL(b)) },
	} {
		o := officeOn(b, open())
		server := httptest.NewServer(o.handler)
		b.Cleanup(server.Close)
		transport := &http.Transport{MaxIdleConnsPerHost: 64}
		b.Cleanup(transport.CloseIdleConnections)
		b.Run(name, func(b *testing.B) {
			secrets := o.offers(b.N)
			var next atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				w := &benchWallet{office: o, client: &http.Client{Transport: transport}, base: server.URL + "/institutions/" + o.institution.UUID}
				var err error
				if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
					b.Error(err)
					return
				}
				for pb.Next() {
					if err := w.redeem(secrets[next.Add(1)-1]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "redemptions/s")
		})
	}
}

// benchCode is the code of all offers of a benchmark.
const benchCode = "123456"

// offers stores n offers of the certificate and returns their secrets. No code is mailed.
func (o *office) offers(n int) []string {
	secrets := make([]string, n)
	now := o.Now()
	o.Tx(func(tx *db.Tx) error {
		for i := range secrets {
			secrets[i] = account.NewSecret()
			digest, err := o.Keyring.MAC(keyring.WalletCode, []byte(secrets[i]+"\n"+benchCode))
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(o.t.Context(), `
				INSERT INTO credential_offers (hash, institution_id, certificate_id, email, code, tries, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, 0, $6, $7)`,
				account.HashSecret(secrets[i]), o.institution.ID, o.certificate.ID, o.certificate.Email, digest, db.Micros(now), db.Micros(now.Add(issuer.OfferLife))); err != nil {
				return err
			}
		}
		return nil
	})
	return secrets
}

// benchWallet is a wallet that redeems offers over HTTP.
type benchWallet struct {
	*office

	client *http.Client
	base   string
	key    *ecdsa.PrivateKey
}

func (w *benchWallet) redeem(secret string) error {
	if err := w.send(http.MethodGet, "/openid4vci/offers/"+secret, "", "", "", &struct{}{}); err != nil {
		return err
	}
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:pre-authorized_code"}, "pre-authorized_code": {secret}, "tx_code": {benchCode}}.Encode()
	var granted struct {
		Token string `json:"access_token"`
	}
	if err := w.send(http.MethodPost, "/openid4vci/token", "application/x-www-form-urlencoded", form, "", &granted); err != nil {
		return err
	}
	var nonce struct {
		Nonce string `json:"c_nonce"`
	}
	if err := w.send(http.MethodPost, "/openid4vci/nonce", "", "", "", &nonce); err != nil {
		return err
	}
	proof, err := w.prove(nonce.Nonce)
	if err != nil {
		return err
	}
	var issued struct {
		Credentials []struct{ Credential json.RawMessage }
	}
	body := fmt.Sprintf(`{"credential_configuration_id":"open-badge-ldp-vc","proofs":{"jwt":[%q]}}`, proof)
	if err := w.send(http.MethodPost, "/openid4vci/credential", "application/json", body, granted.Token, &issued); err != nil {
		return err
	}
	if len(issued.Credentials) != 1 || !bytes.Contains(issued.Credentials[0].Credential, []byte("OpenBadgeCredential")) {
		return fmt.Errorf("the wallet received %+v", issued)
	}
	return nil
}

// send sends a request and reads the JSON of the response.
func (w *benchWallet) send(method, path, mediaType, body, token string, into any) error {
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status = %d, want 200; body = %s", method, path, res.StatusCode, text)
	}
	return json.Unmarshal(text, into)
}

// prove returns a proof of possession of the key of the wallet.
func (w *benchWallet) prove(nonce string) (string, error) {
	point, err := w.key.PublicKey.Bytes()
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	head := fmt.Sprintf(`{"alg":"ES256","typ":"openid4vci-proof+jwt","jwk":{"kty":"EC","crv":"P-256","x":%q,"y":%q}}`, encode(point[1:33]), encode(point[33:]))
	claims := fmt.Sprintf(`{"aud":%q,"nonce":%q,"iat":%d}`, w.Issuer.ID(w.institution.UUID), nonce, w.Now().Unix())
	message := encode([]byte(head)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(message))
	r, s, err := ecdsa.Sign(rand.Reader, w.key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return message + "." + encode(signature), nil
}
