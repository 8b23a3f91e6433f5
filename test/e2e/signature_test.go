//go:build e2e

package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// certvault runs a command with the data folder and the database of the vault, and returns the standard
// output. If the command fails, the test fails.
func (f *fixture) certvault(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	res, err := vault.Run(t.Context(), f.Options, stdin, args...)
	if err != nil || res.Code != 0 {
		t.Fatalf("certvault %s exited with %d, %v; want 0: %s", strings.Join(args, " "), res.Code, err, res.Stderr)
	}
	return res.Stdout
}

// uploadApproved uploads a sample, waits for the approval, and returns the certificate and the
// verified PDF.
func (f *fixture) uploadApproved(t *testing.T, who string) (*client.VaultCertificate, []byte) {
	t.Helper()
	c := f.await(t, f.upload(t, form(who)).UUID, "approved")
	return c, f.verified(t, c.UUID)
}

// trust creates an NSS trust store with the root certificate in a PEM file, and returns the location of the
// store for pdfsig.
func trust(t *testing.T, pem string) string {
	t.Helper()
	dir := "sql:" + t.TempDir()
	run(t, "certutil", "-N", "-d", dir, "--empty-password")
	run(t, "certutil", "-A", "-d", dir, "-n", "root", "-t", "CT,C,C", "-i", pem)
	return dir
}

// checkTrusted checks with pdfsig that a file has one signature, and that the signature is valid
// and trusted.
func checkTrusted(t *testing.T, store string, file []byte) {
	t.Helper()
	out := run(t, "pdfsig", "-nssdir", store, writeTemp(t, "signed.pdf", file))
	for _, want := range []string{"Signature #1", "ETSI.CAdES.detached", "Total document signed", "Signature is Valid", "Certificate is Trusted"} {
		if !strings.Contains(out, want) {
			t.Errorf("pdfsig does not print %q: %s", want, out)
		}
	}
	if strings.Contains(out, "Signature #2") {
		t.Errorf("the file has more than one signature, want one: %s", out)
	}
}

// TestSignature checks the signature of a verified PDF with independent programs and the root certificate
// that the vault publishes.
func TestSignature(t *testing.T) {
	t.Parallel()
	tool(t, "pdfsig")
	tool(t, "certutil")
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		c, file := f.uploadApproved(t, "Signed")
		public := f.as(t, "")
		pem := get(t, public, "/.well-known/certvault/root.pem", http.StatusOK)
		root := writeTemp(t, "root.pem", pem.Body)
		checkTrusted(t, trust(t, root), file)

		// The page /signatures and the file root.pem contain the fingerprint that openssl computes.
		_, digest, _ := strings.Cut(strings.TrimSpace(run(t, tool(t, "openssl"), "x509", "-noout", "-fingerprint", "-sha256", "-in", root)), "=")
		for what, text := range map[string]string{"the page": string(get(t, public, "/signatures", http.StatusOK).Body), "the file": string(pem.Body)} {
			if digest == "" || !strings.Contains(text, digest) {
				t.Errorf("%s does not show the fingerprint %s", what, digest)
			}
		}
		checkCMS(t, root, file)

		v, err := public.Verify(t.Context(), c.VerificationURL)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range v.Checks {
			if k.Name == "signature" && (k.Result != "passed" || k.CheckedAt == nil) {
				t.Errorf("the check of the signature in the public response is %+v, want passed with a time", k)
			}
		}
		if n := count(t, f.database(t), `SELECT count(*) FROM certificate_checks WHERE name = 'signature' AND result = 'passed'`); n != 1 {
			t.Errorf("got %d passed checks of signatures, want 1", n)
		}

		// Older signatures stay valid after a rotation of the key and the root.
		f.certvault(t, "", "key", "root", "--rotate")
		f.certvault(t, "", "key", "rotate", "--institution", f.institution.Slug)
		_, second := f.uploadApproved(t, "Signed later")
		both := string(get(t, public, "/.well-known/certvault/root.pem", http.StatusOK).Body)
		roots := regexp.MustCompile(`(?s)-{5}BEGIN.*?-{5}END CERTIFICATE-{5}\n`).FindAllString(both, -1)
		if len(roots) != 2 {
			t.Fatalf("got %d roots, want 2: %s", len(roots), both)
		}
		checkTrusted(t, trust(t, writeTemp(t, "new.pem", []byte(roots[0]))), second)
		checkTrusted(t, trust(t, writeTemp(t, "old.pem", []byte(roots[1]))), file)
		if list := f.certvault(t, "", "key", "list", "--institution", f.institution.Slug); strings.Count(list, "Northwind University") != 2 {
			t.Errorf("key list printed %s, want two keys of Northwind University", list)
		}
	})
}

// checkCMS verifies the CMS object of the last signature of a file with openssl. The signed content is the
// byte range of the signature. checkCMS also checks that openssl refuses changed content.
func checkCMS(t *testing.T, root string, file []byte) {
	t.Helper()
	m := regexp.MustCompile(`/ByteRange\s*\[\s*0 (\d+) (\d+) (\d+)`).FindAllSubmatch(file, -1)
	if len(m) == 0 {
		t.Fatal("the file has no byte range")
	}
	var at [3]int
	for i, digits := range m[len(m)-1][1:] {
		for _, d := range digits {
			at[i] = 10*at[i] + int(d-'0')
		}
	}
	hex := file[at[0]+1 : at[1]-1]
	value := make([]byte, len(hex)/2)
	for i := range value {
		value[i] = nibble(hex[2*i])<<4 | nibble(hex[2*i+1])
	}
	content := append(append([]byte{}, file[:at[0]]...), file[at[1]:at[1]+at[2]]...)
	args := []string{
		"cms", "-verify", "-binary", "-cades", "-inform", "DER", "-in", writeTemp(t, "cms.der", value), "-content", writeTemp(t, "content", content),
		"-CAfile", root, "-purpose", "any", "-out", os.DevNull,
	}
	run(t, tool(t, "openssl"), args...)
	content[len(content)-1] ^= 1
	args[8] = writeTemp(t, "changed", content)
	if out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput(); err == nil {
		t.Errorf("openssl accepts changed content: %s", out)
	}
}

func nibble(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	default:
		return c - 'A' + 10
	}
}

// TestTimeStamps signs with a time-stamp authority that uses openssl. While the authority is not
// reachable, processing fails with the code timestamp_unavailable. A later retry approves the certificate.
func TestTimeStamps(t *testing.T) {
	t.Parallel()
	openssl := tool(t, "openssl")
	dir := t.TempDir()
	config := writeTemp(t, "tsa.cnf", []byte(`[req]
distinguished_name = dn
[dn]
[tsa]
extendedKeyUsage = critical, timeStamping
keyUsage = critical, digitalSignature
[tsa_config]
serial = `+dir+`/serial
signer_cert = `+dir+`/tsa.pem
certs = `+dir+`/tsa.pem
signer_key = `+dir+`/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
`))
	run(t, openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", dir+"/tsa.key", "-out", dir+"/tsa.pem", "-days", "30",
		"-subj", "/CN=Test TSA", "-config", config, "-extensions", "tsa")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/timestamp-query" {
			http.Error(w, "not a query", http.StatusBadRequest)
			return
		}
		call := t.TempDir()
		if err := os.WriteFile(call+"/query", body, 0o600); err != nil {
			t.Error(err)
			return
		}
		if out, err := exec.CommandContext(r.Context(), openssl, "ts", "-reply", "-queryfile", call+"/query", "-config", config, "-section", "tsa_config",
			"-out", call+"/reply").CombinedOutput(); err != nil {
			t.Errorf("openssl cannot create a time stamp: %v: %s", err, out)
		}
		reply, err := os.ReadFile(call + "/reply")
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/timestamp-reply")
		_, _ = w.Write(reply)
	})
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := start(t, "", "--tsa", "http://"+address, "--process-attempts", "1")
	failed := f.await(t, f.upload(t, form("Ada Obi")).UUID, "failed")
	if failed.Failure == nil || failed.Failure.Code != "timestamp_unavailable" || !strings.Contains(failed.Failure.Message, "time-stamp authority") {
		t.Errorf("failure without an authority = %+v, want timestamp_unavailable", failed.Failure)
	}

	if l, err = listen.Listen(t.Context(), "tcp", address); err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	f.retry(t, failed.UUID)
	c := f.await(t, failed.UUID, "approved")
	file := f.verified(t, c.UUID)
	if added := len(file) - len(sample("Ada Obi")); added > 22<<10 {
		t.Errorf("stamp, signature and time stamp add %d bytes, want at most 22 KiB", added)
	}
	res, err := vault.Run(t.Context(), f.Options, "", "verify", writeTemp(t, "stamped.pdf", file), "--tsa-root", dir+"/tsa.pem")
	if err != nil || res.Code != 0 || !strings.Contains(res.Stdout, "Test TSA") {
		t.Errorf("verify: exit code = %d, %v; want 0 and the authority: %s%s", res.Code, err, res.Stdout, res.Stderr)
	}
}

// TestLostKeys makes the signing keys of a running vault unavailable. Processing then fails with the code
// key_missing, but downloads work, even after a restart. After the test restores the keys, a retry approves
// the certificate.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database, "--process-attempts", "1")
		before, _ := f.uploadApproved(t, "Before")
		d := f.openDatabase(t, "")
		move := func(statement string) {
			if _, err := d.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		move(`UPDATE signing_keys SET holder = 'away-' || holder WHERE holder <> ''`)
		failed := f.await(t, f.upload(t, form("During")).UUID, "failed")
		if failed.Failure == nil || failed.Failure.Code != "key_missing" {
			t.Errorf("failure without a key = %+v, want key_missing", failed.Failure)
		}
		f.verified(t, before.UUID)
		if code, err := f.Stop(); err != nil || code != 0 {
			t.Fatalf("exit code of the vault = %d, %v; want 0", code, err)
		}
		if res, err := vault.Run(t.Context(), f.Options, "", "doctor"); err != nil || res.Code != 1 || !strings.Contains(res.Stdout, "WRONG  signing keys") {
			t.Errorf("doctor: exit code = %d, %v; want 1 and the missing keys: %s", res.Code, err, res.Stdout)
		}
		f.restart(t, "--process-attempts", "1")
		f.verified(t, before.UUID)
		if n := count(t, d, `SELECT count(*) FROM signing_keys WHERE holder <> '' AND holder NOT LIKE 'away-%'`); n != 0 {
			t.Fatalf("the vault created %d keys in place of the lost keys, want 0", n)
		}
		move(`UPDATE signing_keys SET holder = replace(holder, 'away-', '')`)
		f.retry(t, failed.UUID)
		f.await(t, failed.UUID, "approved")
		if res, err := vault.Run(t.Context(), f.Options, "", "doctor"); err != nil || !strings.Contains(res.Stdout, "ok     signing keys") {
			t.Errorf("doctor: exit code = %d, %v; want that the signing keys are ok: %s", res.Code, err, res.Stdout)
		}
	})
}

// TestImportedKeys signs with a key that the institution provides, first as a PKCS #12 file, and then
// through a program that creates signatures.
func TestImportedKeys(t *testing.T) {
	t.Parallel()
	openssl := tool(t, "openssl")
	f := start(t, "")
	dir := t.TempDir()
	run(t, openssl, "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-keyout", dir+"/ca.key", "-out", dir+"/ca.pem", "-days", "30", "-subj", "/CN=Some CA")
	run(t, openssl, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", dir+"/key.pem", "-out", dir+"/req.pem", "-subj", "/CN=Registrar of Northwind")
	ext := writeTemp(t, "ext", []byte("keyUsage=critical,digitalSignature,nonRepudiation\nextendedKeyUsage=emailProtection\n"))
	run(t, openssl, "x509", "-req", "-in", dir+"/req.pem", "-CA", dir+"/ca.pem", "-CAkey", dir+"/ca.key", "-days", "20", "-extfile", ext, "-out", dir+"/cert.pem")
	run(t, openssl, "pkcs12", "-export", "-inkey", dir+"/key.pem", "-in", dir+"/cert.pem", "-certfile", dir+"/ca.pem", "-passout", "pass:open sesame", "-out", dir+"/key.p12")
	store := trust(t, dir+"/ca.pem")

	res, err := vault.Run(t.Context(), f.Options, "wrong\n", "key", "import", "--institution", f.institution.Slug, "--pkcs12", dir+"/key.p12", "--password-stdin")
	if err != nil || res.Code != 1 {
		t.Errorf("key import with a wrong password: exit code = %d, %v; want 1: %s", res.Code, err, res.Stderr)
	}
	f.certvault(t, "open sesame\n", "key", "import", "--institution", f.institution.Slug, "--pkcs12", dir+"/key.p12", "--password-stdin")
	_, file := f.uploadApproved(t, "Imported key")
	checkTrusted(t, store, file)

	chain := writeTemp(t, "chain.pem", append(read(t, dir+"/cert.pem"), read(t, dir+"/ca.pem")...))
	program := writeTemp(t, "sign", []byte("#!/bin/sh\nexec openssl pkeyutl -sign -inkey "+dir+"/key.pem -pkeyopt digest:sha256\n"))
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	f.certvault(t, "", "key", "program", "--institution", f.institution.Slug, "--cert", chain, program)
	_, file = f.uploadApproved(t, "Program")
	checkTrusted(t, store, file)
	if list := f.certvault(t, "", "key", "list", "--institution", f.institution.Slug); !strings.Contains(list, "program") || !strings.Contains(list, "brought") || !strings.Contains(list, "issued") {
		t.Errorf("key list printed %s, want an issued key, an imported key and a program", list)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProtectedKeys protects the signing keys of a vault with a passphrase. Without the passphrase,
// processing fails with the code key_locked. With the passphrase, a retry approves the certificate.
func TestProtectedKeys(t *testing.T) {
	t.Parallel()
	f := start(t, "", "--process-attempts", "1")
	secret := writeTemp(t, "passphrase", []byte("correct horse battery staple\n"))
	f.certvault(t, "", "key", "protect", "--key-passphrase-file", secret)
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Fatalf("exit code of the vault = %d, %v; want 0", code, err)
	}
	f.restart(t, "--process-attempts", "1")
	failed := f.await(t, f.upload(t, form("Locked")).UUID, "failed")
	if failed.Failure == nil || failed.Failure.Code != "key_locked" {
		t.Errorf("failure without the passphrase = %+v, want key_locked", failed.Failure)
	}
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Fatalf("exit code of the vault = %d, %v; want 0", code, err)
	}
	f.restart(t, "--process-attempts", "1", "--key-passphrase-file", secret)
	f.retry(t, failed.UUID)
	f.await(t, failed.UUID, "approved")
	if strings.Contains(f.Log(), "correct horse") {
		t.Error("the log contains the passphrase")
	}
}
