package authority

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// A key does not sign if a certificate of its chain has expired or expires within a day. After a
// rotation, the new key signs.
func TestExpiredCertificateSignsNothing(t *testing.T) {
	t.Parallel()
	now := today
	o := options()
	o.Now = func() time.Time { return now }
	a := open(t, dbtest.SQLite(t), o)
	if err := a.Create(t.Context(), university, "x", nil); err != nil {
		t.Fatal(err)
	}
	list, err := a.Certificates(t.Context(), university)
	if err != nil {
		t.Fatal(err)
	}
	expiry := list[0].Chain[0].NotAfter
	if got := Expiry(list[0].Chain); !got.Equal(expiry) {
		t.Fatalf("Expiry = %v, want %v", got, expiry)
	}
	now = expiry.Add(-25 * time.Hour)
	if _, err := a.Signer(t.Context(), university); err != nil {
		t.Errorf("Signer 25 hours before the expiry: error = %v, want none", err)
	}
	for _, left := range []time.Duration{23 * time.Hour, 0, -time.Hour} {
		now = expiry.Add(-left)
		_, err := a.Signer(t.Context(), university)
		requireFault(t, err, CodeExpired)
	}
	if err := a.Rotate(t.Context(), university, "x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Signer(t.Context(), university); err != nil {
		t.Errorf("Signer after the rotation: error = %v, want none", err)
	}
}

// Expiry returns the earliest expiry of the certificates in a chain. A key whose chain expires within a
// day is not imported.
func TestExpiryOfAChain(t *testing.T) {
	t.Parallel()
	long := &x509.Certificate{NotAfter: today.AddDate(3, 0, 0)}
	short := &x509.Certificate{NotAfter: today.AddDate(0, 0, 80)}
	if got := Expiry([]*x509.Certificate{long, short, long}); !got.Equal(short.NotAfter) {
		t.Errorf("Expiry = %v, want %v", got, short.NotAfter)
	}
	a := open(t, dbtest.SQLite(t), options())
	b := newImported(t, newKey(t), func(c *x509.Certificate) { c.NotAfter = today.Add(23 * time.Hour) })
	raw, err := x509.MarshalPKCS8PrivateKey(b.key)
	if err != nil {
		t.Fatal(err)
	}
	requireFault(t, a.UsePEM(t.Context(), university, encodePEM(b.chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil), CodeRefused)
}
