package acme_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/acme"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
)

func newRing(t *testing.T) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// All servers read the same values, the values are encrypted, and Get finds values of earlier releases.
func TestCache(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, ring, folder := t.Context(), newRing(t), t.TempDir()
		first, second := acme.NewCache(d, ring, folder), acme.NewCache(d, ring, t.TempDir())
		if _, err := first.Get(ctx, "vault.example.org"); !errors.Is(err, acme.ErrNotFound) {
			t.Fatalf("a missing value: error = %v, want ErrNotFound", err)
		}
		for _, value := range []string{"first certificate", "second certificate"} {
			if err := first.Put(ctx, "vault.example.org", []byte(value)); err != nil {
				t.Fatal(err)
			}
			if got, err := second.Get(ctx, "vault.example.org"); err != nil || string(got) != value {
				t.Fatalf("the other server reads %q, error %v, want %q", got, err, value)
			}
		}
		var sealed []byte
		if err := d.QueryRowContext(ctx, `SELECT sealed FROM acme_cache`).Scan(&sealed); err != nil || bytes.Contains(sealed, []byte("certificate")) {
			t.Errorf("the stored value is %q, error %v, want an encrypted value", sealed, err)
		}
		if err := second.Delete(ctx, "vault.example.org"); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Get(ctx, "vault.example.org"); !errors.Is(err, acme.ErrNotFound) {
			t.Errorf("a deleted value: error = %v, want ErrNotFound", err)
		}
		if err := os.WriteFile(filepath.Join(folder, "earlier.example.org"), []byte("of an earlier release"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := first.Get(ctx, "earlier.example.org"); err != nil || string(got) != "of an earlier release" {
			t.Fatalf("a file of an earlier release: value = %q, error %v, want the content of the file", got, err)
		}
		if got, err := second.Get(ctx, "earlier.example.org"); err != nil || string(got) != "of an earlier release" {
			t.Errorf("a file of an earlier release in the database: value = %q, error %v, want the content of the file", got, err)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("the folder of earlier releases has the files %v, error %v, want none", left, err)
		}
	})
}

// The certificate authority may connect to a server that did not order the certificate.
func TestAnotherServerAnswersTheChallenge(t *testing.T) {
	t.Parallel()
	const name = "vault.example.org"
	d, ring := dbtest.SQLite(t), newRing(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	// The answer to a challenge is stored like a certificate, under a name with the suffix +token.
	value := append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := acme.NewCache(d, ring, t.TempDir()).Put(t.Context(), name+"+token", value); err != nil {
		t.Fatal(err)
	}
	other := acme.NewManager(acme.Options{Cache: acme.NewCache(d, ring, t.TempDir()), Domain: name, Now: time.Now})
	got, err := other.Challenge(t.Context())
	if err != nil || !bytes.Equal(got.Certificate[0], der) {
		t.Errorf("Challenge of the other server: error = %v, want the certificate of the first server", err)
	}
}
