package authority

import (
	"bufio"
	"bytes"
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

	"filippo.io/age/armor"
)

var today = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func options() Options {
	return Options{Now: func() time.Time { return today }, Installation: "vault.example", ProgramTimeout: 20 * time.Second}
}

func open(t *testing.T, dir string, o Options) *Authority {
	t.Helper()
	a := New(dir, o)
	if err := a.MakeRoot(); err != nil {
		t.Fatal(err)
	}
	return a
}

const university = "0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01"

// requireSigning fails the test unless the institution's key makes valid signatures and its chain
// ends at one of the roots. Without roots, the roots of a are used. requireSigning returns the
// certificate of the key.
func requireSigning(t *testing.T, a *Authority, roots ...*x509.Certificate) *x509.Certificate {
	t.Helper()
	key, chain, err := a.Signer(t.Context(), university)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("document"))
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
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
		if roots, err = a.Roots(); err != nil {
			t.Fatal(err)
		}
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
	dir := filepath.Join(t.TempDir(), "data", "keys")
	a := open(t, dir, options())
	_, _, err := a.Signer(t.Context(), university)
	requireFault(t, err, CodeMissing)
	for range 2 { // the second call changes nothing
		if err := a.Create(university, "Universität Ü"); err != nil {
			t.Fatal(err)
		}
	}
	leaf := requireSigning(t, a)
	if leaf.Subject.CommonName != "Universität Ü" || leaf.Subject.SerialNumber != university || leaf.IsCA ||
		leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment ||
		len(leaf.UnknownExtKeyUsage) != 1 || !leaf.UnknownExtKeyUsage[0].Equal(oidDocumentSigning) ||
		len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageEmailProtection {
		t.Errorf("the certificate is %+v, want a certificate of the university for document signing only", leaf)
	}
	again := open(t, dir, options()) // another process
	if got := requireSigning(t, again); !got.Equal(leaf) {
		t.Error("another process uses another key")
	}
	if list, err := again.Certificates(university); err != nil || len(list) != 1 || list[0].Kind != Issued {
		t.Errorf("Certificates = %v, error %v; want one issued certificate", list, err)
	}
	for _, id := range []string{"", "../root", "a/b", "x\x00", strings.Repeat("x", 100)} {
		requireFault(t, a.Create(id, "x"), CodeMissing)
	}
}

// The root cannot issue trusted certificates for servers, mailboxes or authorities.
func TestRootIssuesOnlyForDocuments(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), options())
	roots, err := a.Roots()
	if err != nil || len(roots) != 1 {
		t.Fatal(roots, err)
	}
	root := roots[0]
	if !root.IsCA || !root.MaxPathLenZero || root.MaxPathLen != 0 || !root.PermittedDNSDomainsCritical || len(root.UnknownExtKeyUsage) != 1 {
		t.Errorf("the root is %+v, want an authority for document signing only, without authorities below it", root)
	}
	text, err := a.RootsPEM()
	if block, _ := pem.Decode(text); err != nil || block == nil || !bytes.Equal(block.Bytes, root.Raw) {
		t.Errorf("RootsPEM = %s, error %v; want the root", text, err)
	}
	if f := Fingerprint(root); len(f) != 3*32-1 {
		t.Errorf("Fingerprint = %q, want 32 pairs of digits", f)
	}
	key, err := a.private(first(t, a, rootFolder))
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
				t.Errorf("a certificate of the root for a %s is trusted", name)
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

// first returns the first key file of a folder.
func first(t *testing.T, a *Authority, folder string) loaded {
	t.Helper()
	o, err := a.read(file(filepath.Join(a.dir, folder), 1))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// After a rotation the new key signs, and old signatures can still be verified.
func TestRotation(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), options())
	if err := a.Create(university, "x"); err != nil {
		t.Fatal(err)
	}
	old := requireSigning(t, a)
	if err := errors.Join(a.RotateRoot(), a.Rotate(university, "x")); err != nil {
		t.Fatal(err)
	}
	roots, err := a.Roots()
	if err != nil || len(roots) != 2 {
		t.Fatal(roots, err)
	}
	if leaf := requireSigning(t, a, roots[0]); leaf.Equal(old) {
		t.Error("the old key still signs")
	}
	list, err := a.Certificates(university)
	if err != nil || len(list) != 2 || !list[1].Chain[0].Equal(old) || old.CheckSignatureFrom(roots[1]) != nil {
		t.Errorf("Certificates = %v, error %v; want the new certificate and the old one, which the first root issued", list, err)
	}
	if n := bytes.Count(must(a.RootsPEM()), []byte("BEGIN CERTIFICATE")); n != 2 {
		t.Errorf("RootsPEM has %d certificates, want 2", n)
	}
}

// Roots can be read without the identity file, and reading them creates no folder.
func TestRootsAreReadWithoutKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	_, err := New(dir, Options{}).Roots()
	requireFault(t, err, CodeMissing)
	if _, err := os.Stat(dir); err == nil {
		t.Error("Roots created the folder")
	}
	a := open(t, dir, options())
	if err := errors.Join(a.RotateRoot(), os.Remove(filepath.Join(dir, plainFile))); err != nil {
		t.Fatal(err)
	}
	want, err := a.Roots()
	if err != nil {
		t.Fatal(err)
	}
	got, err := New(dir, Options{}).Roots()
	if err != nil || len(got) != 2 || !got[0].Equal(want[0]) || !got[1].Equal(want[1]) {
		t.Errorf("Roots = %v, error %v; want the same 2 roots", got, err)
	}
	if err := os.WriteFile(file(filepath.Join(dir, rootFolder), 3), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = New(dir, Options{}).Roots()
	requireFault(t, err, CodeBroken)
}

func must(text []byte, _ error) []byte { return text }

// Processes that start at the same time use the same root and the same key.
func TestConcurrentProcessesShareKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const n = 8
	leaves := make([]*x509.Certificate, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			a := New(dir, options())
			if err := errors.Join(a.MakeRoot(), a.Create(university, "x")); err != nil {
				t.Error(err)
				return
			}
			leaves[i] = requireSigning(t, a)
		})
	}
	wait.Wait()
	for _, leaf := range leaves {
		if leaf == nil || !leaf.Equal(leaves[0]) {
			t.Error("two processes use different keys, or one process has no key")
		}
	}
	for _, pattern := range []string{".new-*", "*/.new-*", "*/*/.new-*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
			t.Errorf("temporary files exist: %v, want none", left)
		}
	}
}

func TestFilePermissions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	a := open(t, dir, options())
	if err := a.Create(university, "x"); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, want no permissions for the group and others", path, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("%s contains an unencrypted key", path)
		}
		return err
	})
	if err != nil || files != 3 {
		t.Errorf("the folder has %d files, want 3; error %v", files, err)
	}
}

func TestPassphraseEncryptsIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options()
	o.Passphrase, o.WorkFactor = "correct horse", 10
	a := open(t, dir, o)
	if err := a.Create(university, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, plainFile)); err == nil {
		t.Error("the identity is stored unencrypted")
	}
	requireSigning(t, open(t, dir, o))
	for _, wrong := range []string{"battery staple", ""} {
		o.Passphrase = wrong
		a := open(t, dir, o) // reading the root needs no key
		_, _, err := a.Signer(t.Context(), university)
		requireFault(t, err, CodeLocked)
	}
}

// The default work for a passphrase is the default of age, 2^18.
func TestPassphraseWork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipping a passphrase of full strength in short mode")
	}
	dir := t.TempDir()
	o := options()
	o.Passphrase = "correct horse"
	open(t, dir, o)
	text, err := os.ReadFile(filepath.Join(dir, encryptedFile))
	if err != nil {
		t.Fatal(err)
	}
	header, err := bufio.NewReader(armor.NewReader(bytes.NewReader(text))).Peek(100)
	if err != nil {
		t.Fatal(err)
	}
	if _, stanza, _ := strings.Cut(string(header), "-> scrypt "); !strings.HasSuffix(strings.SplitN(stanza, "\n", 2)[0], " 18") {
		t.Errorf("the header of the identity file is %q, want the work 18", header)
	}
}

// A missing or damaged file is reported and not created again. The operations that need the file
// work again after it is restored.
func TestMissingOrDamagedFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path string
		data []byte // nil removes the file
		code string
	}{
		"missing identity": {plainFile, nil, CodeLocked},
		"damaged identity": {plainFile, []byte("AGE-SECRET-KEY-1NONSENSE"), CodeBroken},
		"another identity": {plainFile, []byte("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"), CodeLocked},
		"missing key":      {"institution/" + university + "/0001.json", nil, CodeMissing},
		"truncated key":    {"institution/" + university + "/0001.json", []byte(`{"kind":"issued"`), CodeBroken},
		"empty key":        {"institution/" + university + "/0001.json", []byte(`{}`), CodeBroken},
		"key too large":    {"institution/" + university + "/0001.json", make([]byte, maxFile+1), CodeBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := open(t, dir, options()).Create(university, "x"); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, test.path)
			saved, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if test.data != nil {
				if err := os.WriteFile(path, test.data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			a := open(t, dir, options())
			_, _, err = a.Signer(t.Context(), university)
			requireFault(t, err, test.code)
			if err := os.WriteFile(path, saved, 0o600); err != nil {
				t.Fatal(err)
			}
			requireSigning(t, a)
		})
	}
}

// Protect encrypts only the identity, and the existing keys still sign.
func TestProtect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := open(t, dir, options()).Create(university, "x"); err != nil {
		t.Fatal(err)
	}
	if err := New(dir, options()).Protect(); err == nil {
		t.Error("Protect succeeds without a passphrase")
	}
	protected := options()
	protected.Passphrase, protected.WorkFactor = "correct horse", 10
	if _, _, err := New(dir, protected).Signer(t.Context(), university); err == nil || !strings.Contains(err.Error(), "key protect") {
		t.Errorf("with a passphrase before Protect: error = %v, want one that names key protect", err)
	}
	for range 2 {
		if err := New(dir, protected).Protect(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, plainFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unencrypted identity file exists after Protect: error of Stat = %v", err)
	}
	requireSigning(t, New(dir, protected))
	_, _, err := New(dir, options()).Signer(t.Context(), university)
	requireFault(t, err, CodeLocked)
	wrong := options()
	wrong.Passphrase = "battery staple"
	requireFault(t, New(dir, wrong).Protect(), CodeLocked)
}

// An operation that needs a missing root does not create a root.
func TestMissingRootIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, options())
	if err := os.RemoveAll(filepath.Join(dir, rootFolder)); err != nil {
		t.Fatal(err)
	}
	requireFault(t, a.Create(university, "x"), CodeMissing)
	_, err := a.RootsPEM()
	requireFault(t, err, CodeMissing)
}
