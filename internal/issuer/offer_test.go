package issuer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/vaulttest"
)

// wallet signs proofs of possession with a key, as the wallet of a recipient does.
type wallet struct{ key *ecdsa.PrivateKey }

func newWallet(t testing.TB) wallet {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	return wallet{key}
}

func encode(t testing.TB, value any) string {
	data, err := json.Marshal(value)
	ok(t, err)
	return base64.RawURLEncoding.EncodeToString(data)
}

// prove returns a proof of possession. change, if not nil, modifies the header and the claims.
func (w wallet) prove(t testing.TB, audience, nonce string, at time.Time, change func(head, claims map[string]any)) string {
	point, err := w.key.PublicKey.Bytes()
	ok(t, err)
	head := map[string]any{"alg": "ES256", "typ": "openid4vci-proof+jwt", "jwk": map[string]any{
		"kty": "EC", "crv": "P-256", "x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
	}}
	claims := map[string]any{"aud": audience, "nonce": nonce, "iat": at.Unix()}
	if change != nil {
		change(head, claims)
	}
	message := encode(t, head) + "." + encode(t, claims)
	sum := sha256.Sum256([]byte(message))
	r, s, err := ecdsa.Sign(rand.Reader, w.key, sum[:])
	ok(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return message + "." + base64.RawURLEncoding.EncodeToString(signature)
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// offered makes an offer and returns it with its mailed code.
func offered(t testing.TB, v *vaulttest.Vault, c *cert.Certificate) (*issuer.Offer, string) {
	t.Helper()
	o, err := v.Issuer.NewOffer(context.Background(), c)
	ok(t, err)
	digits := ""
	v.Until("the code was mailed", func() bool {
		for len(v.Mails) > 0 {
			if m := <-v.Mails; m.Subject == "Your code for adding a certificate to a wallet" {
				if m.To.Email != c.Email {
					t.Errorf("the mail goes to %s, want %s", m.To.Email, c.Email)
				}
				digits = sixDigits.FindString(m.Text)
			}
		}
		return digits != ""
	})
	return o, digits
}

func code(err error) string {
	if e, ok := errors.AsType[*issuer.WalletError](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// A wallet with the mailed code redeems an offer once, and gets a credential that is bound to its key.
func TestRedeem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		ctx := t.Context()
		o, digits := offered(t, v, c)
		for range 2 {
			if _, err := v.Issuer.Offered(ctx, inst.ID, o.Secret); err != nil {
				t.Fatalf("reading the offer: error = %v, want none", err)
			}
		}
		wrong := "000000"
		if digits == wrong {
			wrong = "000001"
		}
		if _, err := v.Issuer.Redeem(ctx, inst.ID, o.Secret, wrong); code(err) != "invalid_grant" {
			t.Errorf("redeeming with a wrong code: error = %v, want invalid_grant", err)
		}
		token, err := v.Issuer.Redeem(ctx, inst.ID, o.Secret, digits)
		ok(t, err)
		if _, err := v.Issuer.Redeem(ctx, inst.ID, o.Secret, digits); code(err) != "invalid_grant" {
			t.Errorf("redeeming for the second time: error = %v, want invalid_grant", err)
		}
		if _, err := v.Issuer.Offered(ctx, inst.ID, o.Secret); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading a redeemed offer: error = %v, want fault.NotFound", err)
		}
		g, err := v.Issuer.Granted(ctx, inst.ID, token)
		ok(t, err)
		nonce, err := v.Issuer.NewNonce(inst.UUID)
		ok(t, err)
		mine, theirs := newWallet(t), newWallet(t)
		h, err := v.Issuer.Holder(inst, mine.prove(t, v.Issuer.ID(inst.UUID), nonce, v.Now(), nil))
		ok(t, err)
		for _, f := range []issuer.Format{issuer.FormatVC, issuer.FormatJWT, issuer.FormatSDJWT, issuer.FormatVC} {
			text, err := v.Issuer.Issue(ctx, g, h, f)
			ok(t, err)
			if f != issuer.FormatVC {
				continue
			}
			b := parse(t, text)
			if b.Subject.ID != h.DID || !strings.HasPrefix(h.DID, "did:jwk:") || strings.Contains(text, "emailAddress") {
				t.Errorf("the subject is %q, want the did:jwk %q and no e-mail address", b.Subject.ID, h.DID)
			}
			stored, err := v.Issuer.Credential(ctx, c)
			ok(t, err)
			if parse(t, stored.VC).Status != b.Status {
				t.Error("the bound credential has another place in the status list than the stored credential")
			}
		}
		other, err := v.Issuer.Holder(inst, theirs.prove(t, v.Issuer.ID(inst.UUID), nonce, v.Now(), nil))
		ok(t, err)
		if _, err := v.Issuer.Issue(ctx, g, other, issuer.FormatVC); code(err) != "credential_request_denied" {
			t.Errorf("requesting the credential with another key: error = %v, want credential_request_denied", err)
		}
		v.Advance(issuer.TokenLife + time.Second)
		if _, err := v.Issuer.Granted(ctx, inst.ID, token); code(err) != "invalid_token" {
			t.Errorf("using an expired token: error = %v, want invalid_token", err)
		}
	})
}

// Five wrong codes end an offer, even if they arrive at the same time.
func TestCodeTries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		o, digits := offered(t, v, c)
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				wrong := fmt.Sprintf("%06d", i)
				if wrong == digits {
					return
				}
				if _, err := v.Issuer.Redeem(context.Background(), inst.ID, o.Secret, wrong); code(err) != "invalid_grant" {
					t.Errorf("redeeming with a wrong code: error = %v, want invalid_grant", err)
				}
			})
		}
		wait.Wait()
		if _, err := v.Issuer.Redeem(t.Context(), inst.ID, o.Secret, digits); code(err) != "invalid_grant" {
			t.Errorf("redeeming with the right code after the limit: error = %v, want invalid_grant", err)
		}
		var tries int
		ok(t, v.DB.QueryRowContext(t.Context(), `SELECT tries FROM credential_offers`).Scan(&tries))
		if tries != 5 {
			t.Errorf("%d codes were counted, want 5", tries)
		}
	})
}

// An offer ends after ten minutes, and is not valid for another institution. After the revocation of the
// certificate, an access token is refused.
func TestOfferEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		ctx := t.Context()
		other := v.Institution("OTH", "Other College")
		o, digits := offered(t, v, c)
		if _, err := v.Issuer.Redeem(ctx, other.ID, o.Secret, digits); code(err) != "invalid_grant" {
			t.Errorf("redeeming at another institution: error = %v, want invalid_grant", err)
		}
		if _, err := v.Issuer.Offered(ctx, other.ID, o.Secret); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading the offer at another institution: error = %v, want fault.NotFound", err)
		}
		token, err := v.Issuer.Redeem(ctx, inst.ID, o.Secret, digits)
		ok(t, err)
		if _, err := v.Issuer.Granted(ctx, other.ID, token); code(err) != "invalid_token" {
			t.Errorf("using the token at another institution: error = %v, want invalid_token", err)
		}
		late, lateDigits := offered(t, v, c)
		again, digits := offered(t, v, c)
		token, err = v.Issuer.Redeem(ctx, inst.ID, again.Secret, digits)
		ok(t, err)
		_, err = v.Certs.Revoke(ctx, inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		if _, err := v.Issuer.Granted(ctx, inst.ID, token); code(err) != "credential_request_denied" {
			t.Errorf("using the token after the revocation: error = %v, want credential_request_denied", err)
		}
		if _, err := v.Issuer.NewOffer(ctx, reread(t, v, c)); !fault.Is(err, fault.BadRequest) {
			t.Errorf("offering a revoked certificate: error = %v, want fault.BadRequest", err)
		}
		v.Advance(issuer.OfferLife)
		if _, err := v.Issuer.Redeem(ctx, inst.ID, late.Secret, lateDigits); code(err) != "invalid_grant" {
			t.Errorf("redeeming after ten minutes: error = %v, want invalid_grant", err)
		}
		v.Advance(25 * time.Hour)
		ok(t, v.Issuer.Sweep(ctx))
		var rows int
		ok(t, v.DB.QueryRowContext(ctx, `SELECT count(*) FROM credential_offers`).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d offers remain after the sweep, want 0", rows)
		}
	})
}

// A certificate is offered at most five times an hour, because each offer sends a mail.
func TestOfferLimit(t *testing.T) {
	t.Parallel()
	v, _, c := issued(t, dbtest.SQLite(t))
	for range 5 {
		_, err := v.Issuer.NewOffer(t.Context(), c)
		ok(t, err)
	}
	if _, err := v.Issuer.NewOffer(t.Context(), c); !fault.Is(err, fault.TooMany) {
		t.Errorf("the sixth offer in an hour: error = %v, want fault.TooMany", err)
	}
	v.Advance(time.Hour + time.Second)
	_, err := v.Issuer.NewOffer(t.Context(), c)
	ok(t, err)
}

// A proof is refused if one of its parts is wrong.
func TestHolderProofs(t *testing.T) {
	t.Parallel()
	v, inst, _ := issued(t, dbtest.SQLite(t))
	other := v.Institution("OTH", "Other College")
	audience := v.Issuer.ID(inst.UUID)
	nonce, err := v.Issuer.NewNonce(inst.UUID)
	ok(t, err)
	foreign, err := v.Issuer.NewNonce(other.UUID)
	ok(t, err)
	w := newWallet(t)
	for name, c := range map[string]struct {
		change func(head, claims map[string]any)
		want   string
	}{
		"type":                         {func(head, _ map[string]any) { head["typ"] = "JWT" }, "invalid_proof"},
		"algorithm none":               {func(head, _ map[string]any) { head["alg"] = "none" }, "invalid_proof"},
		"other algorithm":              {func(head, _ map[string]any) { head["alg"] = "HS256" }, "invalid_proof"},
		"critical":                     {func(head, _ map[string]any) { head["crit"] = []string{"b64"} }, "invalid_proof"},
		"no key":                       {func(head, _ map[string]any) { delete(head, "jwk") }, "invalid_proof"},
		"two keys":                     {func(head, _ map[string]any) { head["kid"] = "did:jwk:e30" }, "invalid_proof"},
		"other key":                    {func(head, _ map[string]any) { head["jwk"].(map[string]any)["x"] = strings.Repeat("A", 43) }, "invalid_proof"},
		"audience":                     {func(_, claims map[string]any) { claims["aud"] = v.Issuer.ID(other.UUID) }, "invalid_proof"},
		"no time":                      {func(_, claims map[string]any) { delete(claims, "iat") }, "invalid_proof"},
		"old":                          {func(_, claims map[string]any) { claims["iat"] = v.Now().Add(-time.Hour).Unix() }, "invalid_proof"},
		"future":                       {func(_, claims map[string]any) { claims["iat"] = v.Now().Add(time.Hour).Unix() }, "invalid_proof"},
		"no nonce":                     {func(_, claims map[string]any) { delete(claims, "nonce") }, "invalid_nonce"},
		"nonce of another institution": {func(_, claims map[string]any) { claims["nonce"] = foreign }, "invalid_nonce"},
		"nonce with a later expiry":    {func(_, claims map[string]any) { claims["nonce"] = "____" + nonce[4:] }, "invalid_nonce"},
	} {
		if _, err := v.Issuer.Holder(inst, w.prove(t, audience, nonce, v.Now(), c.change)); code(err) != c.want {
			t.Errorf("%s: error = %v, want %s", name, err, c.want)
		}
	}
	proof := w.prove(t, audience, nonce, v.Now(), nil)
	if _, err := v.Issuer.Holder(inst, proof[:len(proof)-6]+"AAAAAA"); code(err) != "invalid_proof" {
		t.Errorf("a changed signature: error = %v, want invalid_proof", err)
	}
	v.Advance(5*time.Minute + time.Second)
	if _, err := v.Issuer.Holder(inst, proof); code(err) != "invalid_nonce" {
		t.Errorf("an expired nonce: error = %v, want invalid_nonce", err)
	}
}

// A wallet that identifies its Ed25519 key by a did:jwk gets a credential for this did:jwk.
func TestRedeemWithEdwardsKey(t *testing.T) {
	t.Parallel()
	v, inst, c := issued(t, dbtest.SQLite(t))
	ctx := t.Context()
	o, digits := offered(t, v, c)
	token, err := v.Issuer.Redeem(ctx, inst.ID, o.Secret, digits)
	ok(t, err)
	g, err := v.Issuer.Granted(ctx, inst.ID, token)
	ok(t, err)
	nonce, err := v.Issuer.NewNonce(inst.UUID)
	ok(t, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	x := base64.RawURLEncoding.EncodeToString(public)
	did := "did:jwk:" + encode(t, map[string]any{"kty": "OKP", "crv": "Ed25519", "x": x})
	message := encode(t, map[string]any{"alg": "EdDSA", "typ": "openid4vci-proof+jwt", "kid": did + "#0"}) + "." +
		encode(t, map[string]any{"aud": v.Issuer.ID(inst.UUID), "nonce": nonce, "iat": v.Now().Unix()})
	h, err := v.Issuer.Holder(inst, message+"."+base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(message))))
	ok(t, err)
	text, err := v.Issuer.Issue(ctx, g, h, issuer.FormatVC)
	ok(t, err)
	if got := parse(t, text).Subject.ID; got != did {
		t.Errorf("the subject is %q, want %q", got, did)
	}
	text, err = v.Issuer.Issue(ctx, g, h, issuer.FormatSDJWT)
	ok(t, err)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	ok(t, err)
	var claims struct {
		Cnf struct{ JWK struct{ Crv, X string } }
	}
	ok(t, json.Unmarshal(payload, &claims))
	if claims.Cnf.JWK.Crv != "Ed25519" || claims.Cnf.JWK.X != x {
		t.Errorf("the SD-JWT is bound to %+v, want the Ed25519 key of the wallet", claims.Cnf.JWK)
	}
	other, err := v.Issuer.Holder(inst, newWallet(t).prove(t, v.Issuer.ID(inst.UUID), nonce, v.Now(), nil))
	ok(t, err)
	if _, err := v.Issuer.Issue(ctx, g, other, issuer.FormatVC); code(err) != "credential_request_denied" {
		t.Errorf("requesting the credential with another key: error = %v, want credential_request_denied", err)
	}
}
