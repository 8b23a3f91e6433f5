//go:build e2e

package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/test/vault"
)

// TestVerifyOffline verifies a PDF that OpenSSL signed, changed copies of this PDF, and other files,
// without a running vault.
func TestVerifyOffline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := signingRoot(t, dir)
	file := signedByOpenSSL(t, dir)
	changed := bytes.Replace(bytes.Clone(file), []byte("/MediaBox[0 0 200 100]"), []byte("/MediaBox[0 0 100 200]"), 1)
	for name, c := range map[string]struct {
		file    []byte
		args    []string
		code    int
		verdict string
	}{
		"valid":      {file, []string{"--root", root}, 0, "valid"},
		"no root":    {file, nil, 2, "unknown"},
		"changed":    {changed, []string{"--root", root}, 1, "invalid"},
		"added to":   {append(bytes.Clone(file), "1 0 obj<</Type/Catalog>>endobj\n"...), []string{"--root", root}, 1, "invalid"},
		"cut off":    {file[:len(file)-40], []string{"--root", root}, 1, "invalid"},
		"not a PDF":  {[]byte("<html>"), []string{"--root", root}, 1, "invalid"},
		"unsigned":   {sample("x"), []string{"--root", root}, 2, "unknown"},
		"empty file": {nil, []string{"--root", root}, 1, "invalid"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".pdf")
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(dir, "no-such-folder")
		args := append([]string{"verify", path, "--json", "--data", data}, c.args...)
		code, out := runOffline(t, args...)
		var report struct{ Verdict string }
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != c.code || report.Verdict != c.verdict {
			t.Errorf("%s: exit code = %d, %v; want %d and %q: %s", name, code, err, c.code, c.verdict, out)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: verify created the data folder", name)
		}
	}
	if printed := runIn(t, dir, "pdfsig", "-nocert", "valid.pdf"); !strings.Contains(printed, "Signature is Valid") {
		t.Errorf("pdfsig does not print that the signature is valid: %s", printed)
	}
}

// TestVerifyRevoked verifies the PDF of a revoked certificate on the command line. The file is valid,
// because it does not contain the revocation. The output must say that the file cannot prove whether the
// certificate was revoked.
func TestVerifyRevoked(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	c, file := f.uploadApproved(t, "Ada Obi")
	root := writeTemp(t, "root.pem", get(t, f.as(t, ""), "/.well-known/certvault/root.pem", http.StatusOK).Body)
	path := writeTemp(t, "diploma.pdf", file)
	changed := bytes.Clone(file)
	changed[len(changed)/2] ^= 1
	f.revoke(t, c.UUID, "Issued in error", "")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{path, "--root", root}, 0, c.ReferenceID},
		{[]string{path, "--root", root}, 0, "was revoked after"},
		{[]string{path, "--data", f.Data}, 0, "VALID: The file is as Northwind University (NWU) signed it"},
		{[]string{path}, 2, "/.well-known/certvault/root.pem"},
		{[]string{writeTemp(t, "changed.pdf", changed), "--root", root}, 1, "NOT VALID: "},
		{[]string{writeTemp(t, "cut.pdf", file[:len(file)-1]), "--root", root}, 1, "NOT VALID: "},
		{[]string{writeTemp(t, "added.pdf", append(bytes.Clone(file), file...)), "--root", root}, 1, "NOT VALID: "},
	} {
		if code, out := runOffline(t, append([]string{"verify"}, tc.args...)...); code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("verify %q: exit code = %d, want %d and %q: %s", tc.args, code, tc.code, tc.want, out)
		}
	}
}

// runOffline runs certvault, without access to a network if the command unshare works.
func runOffline(t *testing.T, args ...string) (code int, stdout string) {
	t.Helper()
	binary, err := vault.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	if exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--net", "true").Run() == nil {
		cmd = exec.CommandContext(t.Context(), "unshare", append([]string{"--map-root-user", "--net", binary}, args...)...)
	}
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// runIn runs an independent program in a folder and returns the output. If the program fails, the
// test fails.
func runIn(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, name), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("running %s: %v: %s", name, err, out)
	}
	return string(out)
}

// signingRoot creates a root certificate and a signing certificate with OpenSSL in a folder, and returns the
// path of the root certificate.
func signingRoot(t *testing.T, dir string) string {
	t.Helper()
	extensions := "basicConstraints=critical,CA:false\nkeyUsage=critical,digitalSignature,nonRepudiation\nextendedKeyUsage=1.3.6.1.5.5.7.3.36\n"
	if err := os.WriteFile(filepath.Join(dir, "leaf.cnf"), []byte(extensions), 0o600); err != nil {
		t.Fatal(err)
	}
	ec := []string{"-newkey", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"}
	runIn(t, dir, "openssl", append([]string{"req", "-x509", "-keyout", "root.key", "-out", "root.pem", "-days", "30", "-subj", "/CN=Root"}, ec...)...)
	runIn(t, dir, "openssl", append([]string{"req", "-new", "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=Northwind University"}, ec...)...)
	runIn(t, dir, "openssl", "x509", "-req", "-in", "leaf.csr", "-CA", "root.pem", "-CAkey", "root.key", "-set_serial", "2", "-days", "20", "-extfile", "leaf.cnf", "-out", "leaf.pem")
	return filepath.Join(dir, "root.pem")
}

// signedByOpenSSL returns a PDF that OpenSSL signed with the key and the certificate in a folder.
func signedByOpenSSL(t *testing.T, dir string) []byte {
	t.Helper()
	const ranges = "[0 0000000000 0000000000 0000000000]"
	room := strings.Repeat("0", 8000)
	file := pdftest.File("",
		"<</Type/Catalog/Pages 2 0 R/AcroForm<</SigFlags 3/Fields[4 0 R]>>>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Annots[4 0 R]>>",
		"<</Type/Annot/Subtype/Widget/FT/Sig/T(Signature)/F 132/Rect[0 0 0 0]/P 3 0 R/V 5 0 R>>",
		"<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/ETSI.CAdES.detached/M(D:20260102030405Z)/ByteRange"+ranges+"/Contents<"+room+">>>",
	)
	from := bytes.Index(file, []byte("<"+room))
	to := from + len(room) + 2
	file = bytes.Replace(file, []byte(ranges), fmt.Appendf(nil, "[0 %010d %010d %010d]", from, to, len(file)-to), 1)
	if err := os.WriteFile(filepath.Join(dir, "content"), append(bytes.Clone(file[:from]), file[to:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	runIn(t, dir, "openssl", "cms", "-sign", "-binary", "-cades", "-md", "sha256", "-in", "content", "-signer", "leaf.pem", "-inkey", "leaf.key", "-outform", "DER", "-out", "cms")
	cms, err := os.ReadFile(filepath.Join(dir, "cms"))
	if err != nil {
		t.Fatal(err)
	}
	hex.Encode(file[from+1:to-1], cms)
	return file
}
