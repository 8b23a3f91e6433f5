package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"

	"strings"
	"testing"
)

// proofBy returns a proof of possession, signed with key. If change is not nil, it modifies the header and
// the claims.
func proofBy(t testing.TB, key crypto.Signer, change func(head, claims map[string]any)) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	head := map[string]any{"typ": typHolderProof}
	k, err := newJWK(key.Public())
	must(err)
	head["alg"], head["jwk"] = map[string]string{"EC": "ES256", "OKP": "EdDSA"}[k.Kty], k
	claims := map[string]any{"aud": "https://vault.example/institutions/1", "nonce": "n", "iat": testNow.Unix()}
	if change != nil {
		change(head, claims)
	}
	encode := func(v any) string {
		data, err := json.Marshal(v)
		must(err)
		return base64url(data)
	}
	message := encode(head) + "." + encode(claims)
	var signature []byte
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		signature, err = signES256(key, []byte(message))
	} else {
		signature, err = key.Sign(rand.Reader, []byte(message), crypto.Hash(0))
	}
	must(err)
	return message + "." + base64url(signature)
}

// holderKeys returns an Ed25519 key and a P-256 key. They depend only on name, because all processes of a
// fuzz test must have the same keys.
func holderKeys(t testing.TB, name string) map[string]crypto.Signer {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	curve, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"Ed25519": ed25519.NewKeyFromSeed(seed[:]), "P-256": curve}
}

// didsOf returns the did:key and the did:jwk of a key.
func didsOf(t testing.TB, key crypto.PublicKey) (didKey, didJWK string) {
	t.Helper()
	name, err := multikey(key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := newJWK(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	return "did:key:" + name, "did:jwk:" + base64url(data)
}

// TestHolderKeys checks that a key has the same thumbprint as jwk, did:key and did:jwk.
func TestHolderKeys(t *testing.T) {
	t.Parallel()
	for algorithm, key := range holderKeys(t, "a") {
		byKey, byJWK := didsOf(t, key.Public())
		_, fragment, _ := strings.Cut(byKey, "did:key:")
		kid := func(id string) func(head, _ map[string]any) {
			return func(head, _ map[string]any) { delete(head, "jwk"); head["kid"] = id }
		}
		thumbprints := map[string]bool{}
		for name, c := range map[string]struct {
			change func(head, claims map[string]any)
			did    string
		}{
			"jwk":                   {nil, byJWK},
			"did:key":               {kid(byKey), byKey},
			"did:key with the name": {kid(byKey + "#" + fragment), byKey},
			"did:jwk":               {kid(byJWK), byJWK},
			"did:jwk with the name": {kid(byJWK + "#0"), byJWK},
		} {
			p, err := ParseHolderProof(proofBy(t, key, c.change))
			if err != nil {
				t.Errorf("%s, %s: %v", algorithm, name, err)
				continue
			}
			thumbprints[p.Thumbprint] = true
			if p.DID != c.did || p.Nonce != "n" || !p.IssuedAt.Equal(testNow) || !key.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(p.Key) {
				t.Errorf("%s, %s: proof = %+v, want DID %s, nonce n, time %v and the key of the test", algorithm, name, p, c.did, testNow)
			}
		}
		if len(thumbprints) != 1 {
			t.Errorf("%s: %d thumbprints, want 1", algorithm, len(thumbprints))
		}
	}
}

// TestForgedProofs checks that proofs with a wrong key, algorithm, time or form are rejected.
func TestForgedProofs(t *testing.T) {
	t.Parallel()
	keys, others := holderKeys(t, "a"), holderKeys(t, "b")
	for algorithm, key := range keys {
		byKey, byJWK := didsOf(t, key.Public())
		theirs, theirsJWK := didsOf(t, others[algorithm].Public())
		kid := func(id string) func(head, _ map[string]any) {
			return func(head, _ map[string]any) { delete(head, "jwk"); head["kid"] = id }
		}
		alg := func(alg string) func(head, _ map[string]any) {
			return func(head, _ map[string]any) { head["alg"] = alg }
		}
		for name, change := range map[string]func(head, claims map[string]any){
			"the did:key of another":  kid(theirs),
			"the did:jwk of another":  kid(theirsJWK),
			"another name of did:key": kid(byKey + "#" + strings.TrimPrefix(theirs, "did:key:")),
			"another name of did:jwk": kid(byJWK + "#1"),
			"a did:web":               kid("did:web:wallet.example#1"),
			"no DID":                  kid("1"),
			"a damaged did:jwk":       kid("did:jwk:e30"),
			"a private key": func(head, _ map[string]any) {
				head["jwk"] = map[string]any{"kty": "OKP", "crv": "Ed25519", "x": strings.Repeat("A", 43), "d": "x"}
			},
			"two keys":              func(head, _ map[string]any) { head["kid"] = byKey },
			"no algorithm":          alg("none"),
			"an empty algorithm":    alg(""),
			"the other algorithm":   alg(map[string]string{"Ed25519": "ES256", "P-256": "EdDSA"}[algorithm]),
			"a symmetric algorithm": alg("HS256"),
			"no time":               func(_, claims map[string]any) { delete(claims, "iat") },
			"a text as time":        func(_, claims map[string]any) { claims["iat"] = "1" },
			"an extension":          func(head, _ map[string]any) { head["crit"] = []string{"b64"} },
			"a large header":        func(head, _ map[string]any) { head["x"] = strings.Repeat("x", maxHolderProof) },
		} {
			if p, err := ParseHolderProof(proofBy(t, key, change)); err == nil {
				t.Errorf("%s, %s: ParseHolderProof accepted the proof of %s, want an error", algorithm, name, p.DID)
			}
		}
		good := proofBy(t, key, nil)
		_, rest, _ := strings.Cut(good, ".")
		for name, token := range map[string]string{
			"no signature": good[:strings.LastIndex(good, ".")+1], "two parts": good[:strings.LastIndex(good, ".")], "four parts": good + ".", "padding": good + "=",
			"deep": base64url([]byte(strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100))) + "." + rest,
		} {
			if _, err := ParseHolderProof(token); err == nil {
				t.Errorf("%s, %s: ParseHolderProof returned no error", algorithm, name)
			}
		}
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, alg := range []string{"RS256", "ES256"} {
		forged := strings.Split(proofBy(t, keys["P-256"], nil), ".")
		k := map[string]any{"kty": "RSA", "n": base64url(large.N.Bytes()), "e": "AQAB"}
		data, err := json.Marshal(map[string]any{"typ": typHolderProof, "alg": alg, "jwk": k})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseHolderProof(base64url(data) + "." + forged[1] + "." + forged[2]); err == nil {
			t.Errorf("an RSA key with %s: ParseHolderProof returned no error", alg)
		}
	}
}

// FuzzHolderProof parses proofs of hostile wallets. The fuzzer has no private key, so each accepted proof
// must have the key and the claims of a proof in the corpus.
func FuzzHolderProof(f *testing.F) {
	known := map[string]bool{}
	for _, key := range holderKeys(f, "a") {
		byKey, byJWK := didsOf(f, key.Public())
		for _, id := range []string{"", byKey, byJWK + "#0"} {
			token := proofBy(f, key, func(head, _ map[string]any) {
				if id != "" {
					delete(head, "jwk")
					head["kid"] = id
				}
			})
			p, err := ParseHolderProof(token)
			if err != nil {
				f.Fatal(err)
			}
			known[p.Thumbprint] = true
			f.Add(token)
		}
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := ParseHolderProof(token)
		if err != nil {
			return
		}
		if !known[p.Thumbprint] || p.Audience != "https://vault.example/institutions/1" || p.Nonce != "n" || !strings.HasPrefix(p.DID, "did:key:z") && !strings.HasPrefix(p.DID, "did:jwk:") {
			t.Errorf("ParseHolderProof accepted a forged proof: %+v", p)
		}
	})
}
