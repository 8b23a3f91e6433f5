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

// signs fails the test unless the institution's key signs with a chain to one
// of the roots. It returns the certificate.
func signs(t *testing.T, a *Authority, roots ...*x509.Certificate) *x509.Certificate {
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
			t.Error("the signature does not fit the certificate")
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
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Errorf("no root vouches for it: %v", err)
	}
	return chain[0]
}

func requireFault(t *testing.T, err error, code string) {
	t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Code != code {
		t.Errorf("got %v, want a fault %s", err, code)
	} else if f.Message() == "" || strings.Contains(f.Message(), "/") {
		t.Errorf("not fit to be shown: %q", f.Message())
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
	leaf := signs(t, a)
	if leaf.Subject.CommonName != "Universität Ü" || leaf.Subject.SerialNumber != university || leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment ||
		len(leaf.UnknownExtKeyUsage) != 1 || !leaf.UnknownExtKeyUsage[0].Equal(oidDocumentSigning) ||
		len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageEmailProtection {
		t.Errorf("%+v", leaf)
	}
	again := open(t, dir, options()) // another process
	if got := signs(t, again); !got.Equal(leaf) {
		t.Error("another key after the start")
	}
	if list, err := again.Certificates(university); err != nil || len(list) != 1 || list[0].Kind != Issued {
		t.Errorf("%v, %v", list, err)
	}
	for _, id := range []string{"", "../root", "a/b", "x\x00", strings.Repeat("x", 100)} {
		requireFault(t, a.Create(id, "x"), CodeMissing)
	}
}

// The root is valid for documents and for nothing else.
func TestRootIsLimited(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), options())
	roots, err := a.Roots()
	if err != nil || len(roots) != 1 {
		t.Fatal(roots, err)
	}
	root := roots[0]
	if !root.IsCA || !root.MaxPathLenZero || root.MaxPathLen != 0 || !root.PermittedDNSDomainsCritical || len(root.UnknownExtKeyUsage) != 1 {
		t.Errorf("%+v", root)
	}
	text, err := a.RootsPEM()
	if block, _ := pem.Decode(text); err != nil || block == nil || !bytes.Equal(block.Bytes, root.Raw) {
		t.Errorf("%s, %v", text, err)
	}
	if f := Fingerprint(root); len(f) != 3*32-1 {
		t.Errorf("fingerprint %q", f)
	}
	key, err := a.private(first(t, a, rootFolder))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	for name, template := range map[string]*x509.Certificate{
		"a server":     {DNSNames: []string{"bank.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		"a mailbox":    {EmailAddresses: []string{"dean@bank.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}},
		"an authority": {IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign},
	} {
		template.SerialNumber, template.Subject = big.NewInt(9), pkix.Name{CommonName: "x"}
		template.NotBefore, template.NotAfter = today.Add(-time.Hour), today.AddDate(1, 0, 0)
		c, err := issue(template, root, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if template.IsCA {
			below, between := leafBelow(t, c, key), x509.NewCertPool()
			between.AddCert(c)
			if _, err := below.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
				t.Errorf("%s is trusted", name)
			}
			continue
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
			t.Errorf("%s is trusted", name)
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
	old := signs(t, a)
	if err := errors.Join(a.RotateRoot(), a.Rotate(university, "x")); err != nil {
		t.Fatal(err)
	}
	roots, err := a.Roots()
	if err != nil || len(roots) != 2 {
		t.Fatal(roots, err)
	}
	if leaf := signs(t, a, roots[0]); leaf.Equal(old) {
		t.Error("the old key signs")
	}
	list, err := a.Certificates(university)
	if err != nil || len(list) != 2 || !list[1].Chain[0].Equal(old) || old.CheckSignatureFrom(roots[1]) != nil {
		t.Errorf("%v, %v", list, err)
	}
	if n := bytes.Count(must(a.RootsPEM()), []byte("BEGIN CERTIFICATE")); n != 2 {
		t.Errorf("%d roots", n)
	}
}

// Roots can be read without a key, and reading them creates no folder.
func TestRootsAreReadWithoutKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	_, err := New(dir, Options{}).Roots()
	requireFault(t, err, CodeMissing)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
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
		t.Errorf("%v, %v", got, err)
	}
	if err := os.WriteFile(file(filepath.Join(dir, rootFolder), 3), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = New(dir, Options{}).Roots()
	requireFault(t, err, CodeBroken)
}

func must(text []byte, _ error) []byte { return text }

// Processes that start at once agree on one root and one key.
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
			leaves[i] = signs(t, a)
		})
	}
	wait.Wait()
	for _, leaf := range leaves {
		if leaf == nil || !leaf.Equal(leaves[0]) {
			t.Error("two keys")
		}
	}
	for _, pattern := range []string{".new-*", "*/.new-*", "*/*/.new-*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
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
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("%s holds a key in the clear", path)
		}
		return err
	})
	if err != nil || files != 3 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestPassphrase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options()
	o.Passphrase, o.WorkFactor = "correct horse", 10
	a := open(t, dir, o)
	if err := a.Create(university, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, plainFile)); err == nil {
		t.Error("the identity lies in the clear")
	}
	signs(t, open(t, dir, o))
	for _, wrong := range []string{"battery staple", ""} {
		o.Passphrase = wrong
		a := open(t, dir, o) // the root's certificate needs no key
		_, _, err := a.Signer(t.Context(), university)
		requireFault(t, err, CodeLocked)
	}
}

// By default a passphrase takes the work that age recommends, 2^18.
func TestPassphraseWork(t *testing.T) {
	t.Parallel()
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
		t.Errorf("the header is %q", header)
	}
}

// A lost or damaged file is reported, never created anew, and its operations
// work again after it is restored.
func TestLostAndBroken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path string
		data []byte // nil removes it
		code string
	}{
		"identity lost":    {plainFile, nil, CodeLocked},
		"identity broken":  {plainFile, []byte("AGE-SECRET-KEY-1NONSENSE"), CodeBroken},
		"another identity": {plainFile, []byte("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"), CodeLocked},
		"key lost":         {"institution/" + university + "/0001.json", nil, CodeMissing},
		"key cut off":      {"institution/" + university + "/0001.json", []byte(`{"kind":"issued"`), CodeBroken},
		"key empty":        {"institution/" + university + "/0001.json", []byte(`{}`), CodeBroken},
		"key too large":    {"institution/" + university + "/0001.json", make([]byte, maxFile+1), CodeBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := open(t, dir, options()).Create(university, "x"); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, test.path)
			kept, err := os.ReadFile(path)
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
			if err := os.WriteFile(path, kept, 0o600); err != nil {
				t.Fatal(err)
			}
			signs(t, a)
		})
	}
}

// Protect needs only the identity of existing keys, and old keys still sign.
func TestProtect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := open(t, dir, options()).Create(university, "x"); err != nil {
		t.Fatal(err)
	}
	if err := New(dir, options()).Protect(); err == nil {
		t.Error("protected with no passphrase")
	}
	protected := options()
	protected.Passphrase, protected.WorkFactor = "correct horse", 10
	if _, _, err := New(dir, protected).Signer(t.Context(), university); err == nil || !strings.Contains(err.Error(), "key protect") {
		t.Errorf("a passphrase before the keys are protected with it: %v", err)
	}
	for range 2 {
		if err := New(dir, protected).Protect(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, plainFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the plain identity is still there: %v", err)
	}
	signs(t, New(dir, protected))
	_, _, err := New(dir, options()).Signer(t.Context(), university)
	requireFault(t, err, CodeLocked)
	wrong := options()
	wrong.Passphrase = "battery staple"
	requireFault(t, New(dir, wrong).Protect(), CodeLocked)
}

// A lost root is not created anew by an operation that needs it.
func TestLostRootIsNotReplaced(t *testing.T) {
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
