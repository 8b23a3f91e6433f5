package credential

import (
	"crypto"
	"strings"
	"testing"
)

func TestDIDDocument(t *testing.T) {
	t.Parallel()
	old, k := newKeys(t), newKeys(t)
	data, err := DIDDocument(testDID, append(old.public(), k.public()...))
	if err != nil {
		t.Fatal(err)
	}
	document, err := parseObject(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(old.public(), k.public()...) {
		method, err := MethodID(testDID, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := methodKey(document, testDID, method)
		if err != nil || !got.(interface{ Equal(crypto.PublicKey) bool }).Equal(key) {
			t.Errorf("methodKey of %s = %v, error = %v, want %v", method, got, err, key)
		}
	}
	for name, change := range map[string]func(d map[string]any){
		"another id":    func(d map[string]any) { d["id"] = "did:web:other.example" },
		"not permitted": func(d map[string]any) { d["assertionMethod"] = []any{} },
		"no methods":    func(d map[string]any) { delete(d, "verificationMethod") },
		"other controller": func(d map[string]any) {
			list(d["verificationMethod"])[2].(map[string]any)["controller"] = "did:web:other.example"
		},
		"damaged key": func(d map[string]any) {
			list(d["verificationMethod"])[2].(map[string]any)["publicKeyMultibase"] = "z6Mk"
		},
		"twice": func(d map[string]any) {
			methods := list(d["verificationMethod"])
			d["verificationMethod"] = append(methods, methods[2])
		},
	} {
		d, err := parseObject(data)
		if err != nil {
			t.Fatal(err)
		}
		change(d)
		method, err := MethodID(testDID, k.ed.Public())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := methodKey(d, testDID, method); err == nil {
			t.Errorf("%s: methodKey returned nil, want an error", name)
		}
	}
}

func TestDIDWeb(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base     string
		segments []string
		did, url string
	}{
		{"https://vault.example", nil, "did:web:vault.example", "https://vault.example/.well-known/did.json"},
		{"https://Vault.example/", []string{"institutions", "x"}, "did:web:vault.example:institutions:x", "https://vault.example/institutions/x/did.json"},
		{"https://localhost:8443", []string{"institutions", "x"}, "did:web:localhost%3A8443:institutions:x", "https://localhost:8443/institutions/x/did.json"},
		{"https://vault.example/certs", []string{"i"}, "did:web:vault.example:certs:i", "https://vault.example/certs/i/did.json"},
	} {
		did, err := DIDWeb(test.base, test.segments...)
		if err != nil || did != test.did {
			t.Errorf("DIDWeb(%q, %q) = %q, error = %v, want %q", test.base, test.segments, did, err, test.did)
		}
		if got, err := didURL(did); err != nil || got != test.url {
			t.Errorf("didURL(%q) = %q, error = %v, want %q", did, got, err, test.url)
		}
	}
	for _, did := range []string{
		"did:web:", "did:web:a.example:", "did:web:a.example::x", "did:web:a.example:..", "did:web:a.example:%2e%2e", "did:web:a.example:x%2Fy",
		"did:web:a.example/x", "did:web:user@a.example", "did:web:user%40a.example", "did:web:a.example%2Fx", "did:web:a.example%3Fx", "did:web:a.example?x",
		"did:web:a.example#x", "did:web:a.example:x?y", "did:web:a.example:x#y", "did:web:a.example%3A", "did:key:x", "did:web:a.example:%zz", "did:web:a b",
		"did:web:" + strings.Repeat("a", maxDID), "did:web:a.example%5Cx", "did:web:a.example:x y",
	} {
		if got, err := didURL(did); err == nil {
			t.Errorf("didURL(%q) = %q, want an error", did, got)
		}
	}
}

func TestMultikey(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	for range 20 {
		for _, key := range newKeys(t).public() {
			encoded, err := multikey(key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseMultikey(encoded)
			if err != nil || !got.(interface{ Equal(crypto.PublicKey) bool }).Equal(key) {
				t.Errorf("parseMultikey(%q) = %v, error = %v, want %v", encoded, got, err, key)
			}
		}
	}
	if encoded, err := multikey(k.ed.Public()); err != nil || !strings.HasPrefix(encoded, "z6Mk") {
		t.Errorf("multikey of an Ed25519 key = %q, error = %v, want the prefix z6Mk", encoded, err)
	}
	if encoded, err := multikey(k.ec.Public()); err != nil || !strings.HasPrefix(encoded, "zDna") {
		t.Errorf("multikey of a P-256 key = %q, error = %v, want the prefix zDna", encoded, err)
	}
}
