package authority

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// imported is a key with a chain of three certificates.
type imported struct {
	key   crypto.Signer       // may be the public key only
	chain []*x509.Certificate // leaf, intermediate, root
}

func newImported(t *testing.T, key crypto.Signer, change func(leaf *x509.Certificate)) imported {
	t.Helper()
	b := imported{key: key}
	keys := []crypto.Signer{key, newKey(t), newKey(t)}
	parent, parentKey := (*x509.Certificate)(nil), keys[2]
	for i := 2; i >= 0; i-- {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: fmt.Sprintf("Ministry %d", i)},
			NotBefore: today.Add(-time.Hour), NotAfter: today.AddDate(3, 0, 0), BasicConstraintsValid: true, IsCA: i > 0, KeyUsage: x509.KeyUsageDigitalSignature,
		}
		if i > 0 {
			template.KeyUsage = x509.KeyUsageCertSign
		} else if change != nil {
			change(template)
		}
		if parent == nil {
			parent = template
		}
		c, err := issue(template, parent, keys[i].Public(), parentKey)
		if err != nil {
			t.Fatal(err)
		}
		b.chain = append([]*x509.Certificate{c}, b.chain...)
		parent, parentKey = c, keys[i]
	}
	return b
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestImportedKeySigns(t *testing.T) {
	t.Parallel()
	a := open(t, dbtest.SQLite(t), options())
	if err := a.Create(t.Context(), university, "x", nil); err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := newImported(t, key, nil)
	file, err := pkcs12.Modern.Encode(key, b.chain[0], []*x509.Certificate{b.chain[2], b.chain[1]}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	requireFault(t, a.UsePKCS12(t.Context(), university, file, "wrong", nil), CodeRefused)
	if err := a.UsePKCS12(t.Context(), university, file, "secret", nil); err != nil {
		t.Fatal(err)
	}
	if leaf := requireSigning(t, a, b.chain[2]); !leaf.Equal(b.chain[0]) {
		t.Errorf("the institution signs with the certificate %s, want the imported one", leaf.Subject)
	}
	c := newImported(t, newKey(t), nil)
	raw, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	requireFault(t, a.UsePEM(t.Context(), university, encodePEM(b.chain), text, nil), CodeRefused) // the key belongs to another certificate
	if err := a.UsePEM(t.Context(), university, encodePEM([]*x509.Certificate{c.chain[2], c.chain[0], c.chain[1]}), text, nil); err != nil {
		t.Fatal(err)
	}
	requireSigning(t, a, c.chain[2])
	list, err := a.Certificates(t.Context(), university)
	if err != nil || len(list) != 3 || list[0].Kind != Imported || len(list[0].Chain) != 3 || list[2].Kind != Issued {
		t.Errorf("Certificates = %v, error %v; want 2 imported certificates before the issued one", list, err)
	}
	for _, c := range list {
		if !c.CreatedAt.Equal(today) {
			t.Errorf("CreatedAt of a key of the kind %s = %s, want %s", c.Kind, c.CreatedAt, today)
		}
	}
}

func TestImportRefusesKeys(t *testing.T) {
	t.Parallel()
	a := open(t, dbtest.SQLite(t), options())
	for name, change := range map[string]func(leaf *x509.Certificate){
		"expired":            func(c *x509.Certificate) { c.NotAfter = today.Add(-time.Minute) },
		"not yet valid":      func(c *x509.Certificate) { c.NotBefore = today.AddDate(1, 0, 0) },
		"for a server":       func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		"not for signatures": func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement },
	} {
		b := newImported(t, newKey(t), change)
		raw, err := x509.MarshalPKCS8PrivateKey(b.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.UsePEM(t.Context(), university, encodePEM(b.chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil); err == nil {
			t.Errorf("a key whose certificate is %s is accepted", name)
		} else {
			requireFault(t, err, CodeRefused)
		}
	}
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(exchange)
	if err != nil {
		t.Fatal(err)
	}
	err = a.UsePEM(t.Context(), university, encodePEM(newImported(t, newKey(t), nil).chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil)
	if requireFault(t, err, CodeRefused); !errors.Is(err, errCannotSign) {
		t.Errorf("a key for key exchange: error = %v, want errCannotSign", err)
	}
	requireFault(t, a.UsePEM(t.Context(), university, nil, nil, nil), CodeRefused)
	requireFault(t, a.UsePKCS12(t.Context(), university, []byte("x"), "", nil), CodeRefused)
}
