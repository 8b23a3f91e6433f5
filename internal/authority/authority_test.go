package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

var today = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func options() Options {
	return Options{Now: func() time.Time { return today }, Installation: "vault.example", ProgramTimeout: 20 * time.Second}
}

// open creates an identity in a new folder, and a root in the database.
func open(t *testing.T, d *db.DB, o Options) *Authority {
	t.Helper()
	if o.Folder == "" {
		o.Folder = t.TempDir()
	}
	a := New(d, o)
	if _, err := a.CreateIdentity(); err != nil {
		t.Fatal(err)
	}
	if err := a.MakeRoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// again returns a new Authority for the same database and folder, as in another process.
func again(a *Authority) *Authority { return New(a.db, a.options) }

const university = "0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01"

// requireSigning fails the test unless the institution's key makes a valid signature and its chain
// ends at one of the roots. Without roots, requireSigning uses the anchors of the signer. It returns
// the certificate of the key.
func requireSigning(t *testing.T, a *Authority, roots ...*x509.Certificate) *x509.Certificate {
	t.Helper()
	signer, err := a.Signer(t.Context(), university)
	if err != nil {
		t.Fatal(err)
	}
	chain := signer.Chain
	digest := sha256.Sum256([]byte("document"))
	signature, err := signer.Key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	switch public := chain[0].PublicKey.(type) {
	case *ecdsa.PublicKey:
		if !ecdsa.VerifyASN1(public, digest[:], signature) {
			t.Error("the signature does not verify with the certificate")
		}
	case *rsa.PublicKey:
		if err := rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature); err != nil {
			t.Error(err)
		}
	}
	if len(roots) == 0 {
		roots = signer.Anchors
	}
	pool, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: intermediates, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Errorf("the chain does not verify with the roots: %v", err)
	}
	return chain[0]
}

func requireFault(t *testing.T, err error, code string) {
	t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Code != code {
		t.Errorf("error = %v, want a fault with the code %s", err, code)
	} else if f.Message() == "" || strings.Contains(f.Message(), "/") {
		t.Errorf("the message of the fault is empty or contains a path: %q", f.Message())
	}
}

func TestCreateAndSign(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		_, err := a.Signer(t.Context(), university)
		requireFault(t, err, CodeMissing)
		recorded := 0
		for range 2 { // the second call changes nothing
			if err := a.Create(t.Context(), university, "Universität Ü", func(*db.Tx) error { recorded++; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if recorded != 2 {
			t.Errorf("the record was called %d times, want once by each of 2 calls", recorded)
		}
		leaf := requireSigning(t, a)
		if leaf.Subject.CommonName != "Universität Ü" || leaf.Subject.SerialNumber != university || leaf.IsCA ||
			leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment ||
			len(leaf.UnknownExtKeyUsage) != 1 || !leaf.UnknownExtKeyUsage[0].Equal(oidDocumentSigning) ||
			len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageEmailProtection {
			t.Errorf("the certificate is %+v, want a certificate of the university with the usages document signing and email protection", leaf)
		}
		other := again(a)
		if got := requireSigning(t, other); !got.Equal(leaf) {
			t.Errorf("another process signs with the certificate %s, want %s", got.SerialNumber, leaf.SerialNumber)
		}
		if list, err := other.Certificates(t.Context(), university); err != nil || len(list) != 1 || list[0].Kind != Issued {
			t.Errorf("Certificates = %v, error %v; want one issued certificate", list, err)
		}
		for _, id := range []string{"", "../root", "a/b", "x\x00", strings.Repeat("x", 100)} {
			requireFault(t, a.Create(t.Context(), id, "x", nil), CodeMissing)
		}
	})
}

// A change of the keys is rolled back if its record returns an error.
func TestKeyAndRecordAreStoredTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		failed := errors.New("the audit log is full")
		fail := func(*db.Tx) error { return failed }
		for name, change := range map[string]error{
			"Create":     a.Create(t.Context(), university, "x", fail),
			"Rotate":     a.Rotate(t.Context(), university, "x", fail),
			"RotateRoot": a.RotateRoot(t.Context(), fail),
		} {
			if !errors.Is(change, failed) {
				t.Errorf("%s: error = %v, want %v", name, change, failed)
			}
		}
		if _, err := a.Certificates(t.Context(), university); err == nil {
			t.Error("a key is stored although its record failed, want none")
		}
		if roots, err := a.Roots(t.Context()); err != nil || len(roots) != 1 {
			t.Errorf("%d roots, %v; want the first root only", len(roots), err)
		}
	})
}

// Certificates that the root issues for a server or a mailbox are not trusted, and neither are certificates
// that a subordinate authority issues.
func TestRootIssuesOnlyForDocuments(t *testing.T) {
	t.Parallel()
	a := open(t, dbtest.SQLite(t), options())
	roots, err := a.Roots(t.Context())
	if err != nil || len(roots) != 1 {
		t.Fatalf("%d roots, error %v; want 1", len(roots), err)
	}
	root := roots[0]
	if !root.IsCA || !root.MaxPathLenZero || root.MaxPathLen != 0 || !root.PermittedDNSDomainsCritical || len(root.UnknownExtKeyUsage) != 1 {
		t.Errorf("the root is %+v, want an authority for document signing only, without authorities below it", root)
	}
	text, err := a.RootsPEM(t.Context())
	if block, _ := pem.Decode(text); err != nil || block == nil || !bytes.Equal(block.Bytes, root.Raw) {
		t.Errorf("RootsPEM = %s, error %v; want the root", text, err)
	}
	if f := Fingerprint(root); len(f) != 3*32-1 {
		t.Errorf("Fingerprint = %q, want 32 pairs of digits", f)
	}
	list, err := a.read(t.Context(), rootHolder)
	if err != nil {
		t.Fatal(err)
	}
	key, err := a.private(t.Context(), list[rootHolder][0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	for name, template := range map[string]*x509.Certificate{
		"server":    {DNSNames: []string{"bank.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		"mailbox":   {EmailAddresses: []string{"dean@bank.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}},
		"authority": {IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign},
	} {
		template.SerialNumber, template.Subject = big.NewInt(9), pkix.Name{CommonName: "x"}
		template.NotBefore, template.NotAfter = today.Add(-time.Hour), today.AddDate(1, 0, 0)
		c, err := issue(template, root, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if template.IsCA {
			below, intermediates := leafBelow(t, c, key), x509.NewCertPool()
			intermediates.AddCert(c)
			if _, err := below.Verify(x509.VerifyOptions{Roots: pool, Intermediates: intermediates, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
				t.Errorf("a certificate that a subordinate %s issued is trusted", name)
			}
			continue
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
			t.Errorf("a certificate of the root for a %s is trusted", name)
		}
	}
}

func leafBelow(t *testing.T, parent *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	c, err := issue(&x509.Certificate{SerialNumber: big.NewInt(10), NotBefore: today.Add(-time.Hour), NotAfter: today.AddDate(1, 0, 0)}, parent, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// After a rotation, the new key signs, also in another process that used the old key. The old certificate
// and the old root remain.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		if err := a.Create(t.Context(), university, "x", nil); err != nil {
			t.Fatal(err)
		}
		old := requireSigning(t, a)
		other := again(a)
		if err := errors.Join(other.RotateRoot(t.Context(), nil), other.Rotate(t.Context(), university, "x", nil)); err != nil {
			t.Fatal(err)
		}
		roots, err := a.Roots(t.Context())
		if err != nil || len(roots) != 2 {
			t.Fatalf("%d roots, error %v; want 2", len(roots), err)
		}
		if leaf := requireSigning(t, a, roots[0]); leaf.Equal(old) {
			t.Error("the old key still signs, want the new key")
		}
		list, err := a.Certificates(t.Context(), university)
		if err != nil || len(list) != 2 || !list[1].Chain[0].Equal(old) || old.CheckSignatureFrom(roots[1]) != nil {
			t.Errorf("Certificates = %v, error %v; want the new certificate and the old one, which the first root issued", list, err)
		}
		if n := bytes.Count(must(a.RootsPEM(t.Context())), []byte("BEGIN CERTIFICATE")); n != 2 {
			t.Errorf("RootsPEM has %d certificates, want 2", n)
		}
	})
}

func must(text []byte, _ error) []byte { return text }

// Roots and certificates can be read without the identity.
func TestCertificatesAreReadWithoutIdentity(t *testing.T) {
	t.Parallel()
	a := open(t, dbtest.SQLite(t), options())
	if err := errors.Join(a.Create(t.Context(), university, "x", nil), os.Remove(a.options.identityFile())); err != nil {
		t.Fatal(err)
	}
	other := again(a)
	if roots, err := other.Roots(t.Context()); err != nil || len(roots) != 1 {
		t.Errorf("Roots = %v, %v; want the root", roots, err)
	}
	if list, err := other.Certificates(t.Context(), university); err != nil || len(list) != 1 {
		t.Errorf("Certificates = %v, %v; want the certificate", list, err)
	}
	requireFault(t, other.Rotate(t.Context(), university, "x", nil), CodeLocked)
	_, err := New(dbtest.SQLite(t), Options{}).Roots(t.Context())
	requireFault(t, err, CodeMissing)
}

// Processes that start at the same time on a new database use the same root and the same key. If
// they rotate the key at the same time, all new keys are stored.
func TestConcurrentProcessesShareKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := options()
		o.Folder = t.TempDir()
		const n = 6
		leaves := make([]*x509.Certificate, n)
		concurrently := func(f func(i int) error) {
			var wait sync.WaitGroup
			for i := range n {
				wait.Go(func() {
					if err := f(i); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
		}
		concurrently(func(i int) error {
			a := New(d, o)
			_, err := a.CreateIdentity()
			if err := errors.Join(err, a.MakeRoot(t.Context()), a.Create(t.Context(), university, "x", nil)); err != nil {
				return err
			}
			leaves[i] = requireSigning(t, a)
			return nil
		})
		for _, leaf := range leaves {
			if leaf == nil || !leaf.Equal(leaves[0]) {
				t.Error("a process has another key or no key, want the same key in all processes")
			}
		}
		concurrently(func(int) error { return New(d, o).Rotate(t.Context(), university, "x", nil) })
		if list, err := New(d, o).Certificates(t.Context(), university); err != nil || len(list) != n+1 {
			t.Errorf("%d certificates, %v; want the first one and one of each process", len(list), err)
		}
		if left, _ := filepath.Glob(filepath.Join(o.Folder, ".new-*")); len(left) > 0 {
			t.Errorf("temporary files exist: %v, want none", left)
		}
	})
}

// The database contains no unencrypted key, and only the owner can read the folder and the file of the
// identity.
func TestKeysAreEncrypted(t *testing.T) {
	t.Parallel()
	o := options()
	o.Folder = filepath.Join(t.TempDir(), "data", "keys")
	a := open(t, dbtest.SQLite(t), o)
	if err := a.Create(t.Context(), university, "x", nil); err != nil {
		t.Fatal(err)
	}
	texts, err := db.Column[string](a.db.QueryContext(t.Context(), `SELECT kind || certificates || private_key || command FROM signing_keys`))
	if err != nil || len(texts) != 2 {
		t.Fatalf("the database has %d keys, %v; want 2", len(texts), err)
	}
	for _, text := range texts {
		if strings.Contains(text, "PRIVATE KEY") || !strings.Contains(text, "BEGIN AGE ENCRYPTED FILE") {
			t.Errorf("a stored key is not encrypted: %s", text)
		}
	}
	for path, want := range map[string]os.FileMode{o.Folder: 0o700, a.options.identityFile(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, error %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// Signer returns an error for a lost or damaged row, and creates no new key. After the row is restored,
// the key signs again.
func TestLostOrDamagedRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ damage, repair, code string }{
		"lost key":            {`UPDATE signing_keys SET holder = 'away' WHERE holder <> ''`, `UPDATE signing_keys SET holder = '` + university + `' WHERE holder = 'away'`, CodeMissing},
		"lost root":           {`UPDATE signing_keys SET holder = 'away' WHERE holder = ''`, `UPDATE signing_keys SET holder = '' WHERE holder = 'away'`, CodeMissing},
		"damaged certificate": {`UPDATE signing_keys SET certificates = 'x' || certificates`, `UPDATE signing_keys SET certificates = substr(certificates, 2)`, CodeBroken},
		"damaged key":         {`UPDATE signing_keys SET private_key = 'x' || private_key`, `UPDATE signing_keys SET private_key = substr(private_key, 2)`, CodeLocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := open(t, d, options())
				if err := a.Create(t.Context(), university, "x", nil); err != nil {
					t.Fatal(err)
				}
				exec := func(statement string) {
					if _, err := d.Writer().ExecContext(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
				exec(test.damage)
				other := again(a)
				_, err := other.Signer(t.Context(), university)
				requireFault(t, err, test.code)
				if test.code == CodeMissing && name == "lost root" {
					requireFault(t, other.Create(t.Context(), "0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a09", "x", nil), CodeMissing)
				}
				exec(test.repair)
				requireSigning(t, again(a))
			})
		})
	}
}

// A process that has read the keys before reads only their numbers for a signature.
func TestKnownKeysAreNotReadAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		if err := a.Create(t.Context(), university, "x", nil); err != nil {
			t.Fatal(err)
		}
		requireSigning(t, a)
		if _, err := d.Writer().ExecContext(t.Context(), `UPDATE signing_keys SET certificates = '', private_key = 'x'`); err != nil {
			t.Fatal(err)
		}
		requireSigning(t, a)
		_, err := again(a).Signer(t.Context(), university)
		requireFault(t, err, CodeBroken)
	})
}

// An outage of the database is a temporary fault. Keys that are in memory do not sign during the
// outage, because another process may have replaced them.
func TestOutageIsAStorageFault(t *testing.T) {
	t.Parallel()
	proxy, url := dbtest.NewProxy(t, dbtest.MigratedURL(t))
	d := dbtest.Open(t, "", url)
	a := open(t, d, options())
	if err := a.Create(t.Context(), university, "x", nil); err != nil {
		t.Fatal(err)
	}
	requireSigning(t, a)
	proxy.Silence()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := a.Signer(ctx, university)
	requireFault(t, err, CodeStorage)
	if !db.IsOutage(err) {
		t.Errorf("error = %v, want an outage of the database", err)
	}
	proxy.Resume()
	requireSigning(t, a)
}

// BenchmarkSigner measures Signer with keys that are in memory: one statement reads their numbers.
func BenchmarkSigner(b *testing.B) {
	o := options()
	o.Folder = b.TempDir()
	a := New(dbtest.SQLite(b), o)
	_, err := a.CreateIdentity()
	if err := errors.Join(err, a.MakeRoot(b.Context()), a.Create(b.Context(), university, "x", nil)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.Signer(b.Context(), university); err != nil {
			b.Fatal(err)
		}
	}
}
