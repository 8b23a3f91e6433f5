// Package certtest has test doubles for the dependencies of cert, and creates institutions with
// keys. It does not import cert, because the internal tests of cert import certtest. Tests of
// packages that use cert should use vaulttest if possible.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
)

// Tail is the tail that Seal adds to an original.
const Tail = "\n% a tail that makes it verified\n"

// ErrRefused is the error that a sealer of a test returns for a file that cannot be sealed.
var ErrRefused error = &seal.Refusal{Code: "no_room", Reason: "There is no room for the stamp."}

// Seal adds Tail to an original.
func Seal(o seal.Original) (*seal.Verified, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(o.R, 0, o.Size)); err != nil {
		return nil, err
	}
	hash.Write([]byte(Tail))
	return &seal.Verified{
		Body: io.NewSectionReader(strings.NewReader(Tail), 0, int64(len(Tail))), SHA256: [32]byte(hash.Sum(nil)), Size: o.Size + int64(len(Tail)),
		Placement: seal.BottomRight, Page: 1, Box: seal.Box{0.5, 0.5, 0.75, 1},
	}, nil
}

// Verify reports every file as valid.
func Verify(io.ReaderAt, int64, pades.Options) (*pades.Report, error) {
	return &pades.Report{Verdict: pades.Valid}, nil
}

// Cost is the lowest cost of hashing a password.
var Cost = account.Cost{Time: 1, Memory: 8, Threads: 1}

// Keys returns an authority with an identity and a root.
func Keys(tb testing.TB, d *db.DB, now func() time.Time) *authority.Authority {
	tb.Helper()
	return KeysIn(tb, d, now, tb.TempDir())
}

// KeysIn is like Keys. The identity is in folder, and is created there if there is none.
func KeysIn(tb testing.TB, d *db.DB, now func() time.Time, folder string) *authority.Authority {
	tb.Helper()
	keys := authority.New(d, authority.Options{Now: now, Folder: folder})
	if _, err := keys.CreateIdentity(); err != nil {
		tb.Fatal(err)
	}
	if err := keys.MakeRoot(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return keys
}

// ExpiringKey imports a signing key for an institution. The certificate of the key is valid between two times.
func ExpiringKey(tb testing.TB, keys *authority.Authority, institution string, from, until time.Time) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Expiring University"}, NotBefore: from, NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	if err := keys.UsePEM(tb.Context(), institution, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil); err != nil {
		tb.Fatal(err)
	}
}

// Institution creates an institution and, unless keys is nil, its signing key.
func Institution(tb testing.TB, d *db.DB, keys *authority.Authority, prefix, name string) *account.Institution {
	tb.Helper()
	i := &account.Institution{UUID: uuid.NewString(), Slug: strings.ToLower(prefix), Name: name, Prefix: prefix}
	if err := d.Tx(tb.Context(), func(tx *db.Tx) error {
		return tx.QueryRowContext(tb.Context(), `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, 0) RETURNING id`,
			i.UUID, i.Slug, i.Name, i.Prefix).Scan(&i.ID)
	}); err != nil {
		tb.Fatal(err)
	}
	if keys != nil {
		if err := keys.Create(tb.Context(), i.UUID, i.Name, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return i
}
