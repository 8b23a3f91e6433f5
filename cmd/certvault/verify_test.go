package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf"
)

const (
	university  = "0199d9a4-6f10-7cc4-b5b2-0c5a2f6d7a01"
	referenceID = "NWU-0123456789ABCDEF"
)

// signingVault is a data folder with root certificates, and the signing keys of an institution.
type signingVault struct {
	data string
	keys *authority.Authority
}

func newSigningVault(t *testing.T, name string) *signingVault {
	t.Helper()
	keys := authority.New(dbtest.SQLite(t), authority.Options{Now: time.Now, Folder: t.TempDir(), Installation: "vault.example"})
	_, err := keys.CreateIdentity()
	if err := errors.Join(err, keys.MakeRoot(t.Context()), keys.Create(t.Context(), university, name, nil)); err != nil {
		t.Fatal(err)
	}
	v := &signingVault{t.TempDir(), keys}
	v.publish(t)
	return v
}

// publish writes the root certificates to the data folder, as the server does.
func (v *signingVault) publish(t *testing.T) {
	t.Helper()
	text, err := v.keys.RootsPEM(t.Context())
	if err == nil {
		err = os.WriteFile(filepath.Join(v.data, app.RootsFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// root writes the root certificates to a PEM file and returns its path.
func (v *signingVault) root(t *testing.T) string {
	t.Helper()
	text, err := v.keys.RootsPEM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "root.pem", text)
}

// sign returns a file signed by the institution.
func (v *signingVault) sign(t *testing.T, file []byte) []byte {
	t.Helper()
	signer, err := v.keys.Signer(t.Context(), university)
	if err != nil {
		t.Fatal(err)
	}
	doc := openPDF(t, file)
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	u := doc.Update()
	pending, err := (&pades.Signer{Key: signer.Key, Chain: signer.Chain}).Prepare(u, doc, doc.Inspect(), page, pades.Statement{
		Name: signer.Chain[0].Subject.CommonName, Time: time.Now(),
		Original: pades.Original{Form: pades.Prefix, Length: int64(len(file)), SHA256: sha256.Sum256(file), ReferenceID: referenceID},
	})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := pending.Complete(context.Background(), pades.BaseFile{R: bytes.NewReader(file), Size: int64(len(file))}, tail); err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(file), tail...)
}

func openPDF(t *testing.T, file []byte) *pdf.Document {
	t.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// diploma returns a PDF with one page.
func diploma(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pdf.NewWriter(&out)
	pages := w.Reserve()
	page := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")}, pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: 200, Y1: 100}.Array()},
		pdf.Entry{Key: "Contents", Value: w.Add(pdf.NewStream(nil, []byte("0 0 10 10 re f")))},
	))
	w.Set(pages, pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Pages")}, pdf.Entry{Key: "Kids", Value: pdf.Array{page}}, pdf.Entry{Key: "Count", Value: pdf.Integer(1)}))
	if err := w.Close(w.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: pages})), pdf.Ref{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// changedPage returns a file with an added revision that changes the size of the first page.
func changedPage(t *testing.T, file []byte) []byte {
	t.Helper()
	doc := openPDF(t, file)
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	u := doc.Update()
	u.SetPage(page, page.Dict.Clone().Set("MediaBox", pdf.Rectangle{X1: 99, Y1: 99}.Array()))
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(file), tail...)
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// missingFolder returns the path of a folder that does not exist.
func missingFolder(t *testing.T) string { return filepath.Join(t.TempDir(), "missing") }

func flipBit(file []byte, at int) []byte {
	out := bytes.Clone(file)
	out[at] ^= 1
	return out
}

func TestVerify(t *testing.T) {
	t.Parallel()
	v, other := newSigningVault(t, "Northwest University"), newSigningVault(t, "Northwest University")
	original := diploma(t)
	file := v.sign(t, original)
	root, otherRoot := v.root(t), other.root(t)
	swapped := bytes.Replace(bytes.Clone(original), []byte("0 0 10 10 re f"), []byte("1 1 10 10 re f"), 1)
	contents := bytes.Index(file, []byte("/Contents <")) + 100
	for name, tc := range map[string]struct {
		file []byte
		args []string
		code int
		want []string
	}{
		"valid": {file, []string{"--root", root}, exitDone, []string{
			"VALID: The file is as Northwest University (NWU) signed it.", "Signed by     Northwest University (NWU)", referenceID, fmt.Sprintf("%x", sha256.Sum256(original)),
			"The signer claims", "No time stamp proves it", "nothing was changed", "was revoked after", "/verify/" + referenceID, "--root",
		}},
		"roots of the data folder": {file, []string{"--data", v.data}, exitDone, []string{"VALID: ", "the data folder"}},
		"several roots":            {file, []string{"--root", otherRoot, "--root", root}, exitDone, []string{"VALID: "}},
		"another root":             {file, []string{"--root", otherRoot}, exitInvalid, []string{"NOT VALID: The certificate of the signer was not issued under any of the given roots", "certificate has the name Northwest"}},
		"root before data folder":  {file, []string{"--root", otherRoot, "--data", v.data}, exitInvalid, []string{"NOT VALID: "}},
		"no root":                  {file, []string{"--data", missingFolder(t)}, exitUnknown, []string{"CANNOT TELL: ", rootAddress, "--root", "fingerprint", "stated by the signature, not verified"}},
		"a byte of the original":   {flipBit(file, 20), []string{"--root", root}, exitInvalid, []string{"NOT VALID: "}},
		"a byte of the content":    {flipBit(file, bytes.Index(file, []byte("10 10 re"))), []string{"--root", root}, exitInvalid, []string{"NOT VALID: The file is not as it was signed."}},
		"a byte of the signature":  {flipBit(file, contents), []string{"--root", root}, exitInvalid, []string{"NOT VALID: "}},
		"an added revision":        {changedPage(t, file), []string{"--root", root}, exitInvalid, []string{"NOT VALID: ", "after the vault sealed it", "Later changes pages: 1 replaced"}},
		"an added newline":         {append(bytes.Clone(file), '\n'), []string{"--root", root}, exitInvalid, []string{"NOT VALID: "}},
		"a swapped original":       {append(swapped, file[len(original):]...), []string{"--root", root}, exitInvalid, []string{"NOT VALID: "}},
		"unsigned":                 {original, []string{"--root", root}, exitUnknown, []string{"CANNOT TELL: The file has no signature."}},
		"empty":                    {nil, []string{"--root", root}, exitInvalid, []string{"NOT VALID: The file is empty."}},
		"not a PDF":                {[]byte("Dear Sir or Madam"), []string{"--root", root}, exitInvalid, []string{"NOT VALID: The file is not a PDF."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := certvault(t, "", append([]string{"verify", writeFile(t, "diploma.pdf", tc.file)}, tc.args...)...)
			if code != tc.code || errs != "" {
				t.Errorf("exit code = %d, want %d and no error: %s", code, tc.code, errs)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("the output does not contain %q:\n%s", want, out)
				}
			}
			if valid := strings.HasPrefix(out, "VALID: "); valid != (tc.code == exitDone) {
				t.Errorf("the verdict is VALID = %t, want %t:\n%s", valid, tc.code == exitDone, out)
			}
		})
	}
}

// TestRootsOfTheCurrentFolderAreNotTrusted checks that the command ignores a data folder in the current
// folder unless a flag, the environment or the configuration names it. The data folder may come from the
// sender of the file.
func TestRootsOfTheCurrentFolderAreNotTrusted(t *testing.T) {
	v := newSigningVault(t, "Northwest University")
	file := writeFile(t, "diploma.pdf", v.sign(t, diploma(t)))
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.CopyFS("certvault-data", os.DirFS(v.data)); err != nil {
		t.Fatal(err)
	}
	code, out, _ := certvault(t, "", "verify", file)
	if code != exitUnknown || !strings.HasPrefix(out, "CANNOT TELL: ") {
		t.Errorf("exit code = %d, want %d and CANNOT TELL: %s", code, exitUnknown, out)
	}
	for _, want := range []string{"--root FILE", "--data DIR", "CERTVAULT_ROOT", "CERTVAULT_DATA", "--config"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
	if code, out, errs := certvault(t, "", "verify", file, "--json"); code != exitUnknown || !strings.Contains(out, `"verdict":"unknown"`) || !strings.Contains(errs, "--root FILE") {
		t.Errorf("JSON: exit code = %d, want %d, the verdict unknown and an error that names --root: %s%s", code, exitUnknown, out, errs)
	}
	config := writeFile(t, "certvault.toml", []byte("data = \"certvault-data\"\n"))
	named := func(name string, args ...string) {
		t.Helper()
		if code, out, errs := certvault(t, "", append([]string{"verify", file}, args...)...); code != exitDone || !strings.Contains(out, `the data folder "certvault-data"`) {
			t.Errorf("named by %s: exit code = %d, want 0 and the roots of the data folder: %s%s", name, code, out, errs)
		}
	}
	named("a flag", "--data", "certvault-data")
	named("the configuration", "--config", config)
	t.Setenv("CERTVAULT_DATA", "certvault-data")
	named("the environment")
}

func TestVerifyOfATruncatedFile(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Northwest University")
	original := diploma(t)
	file := v.sign(t, original)
	for n, want := range map[int]int{
		len(file) - 1: exitInvalid, 100: exitInvalid, 1: exitInvalid,
		// The file ends within the update with the signature, or at or near the end of the original.
		len(file) - 100: exitUnknown, len(original) + 100: exitUnknown, len(original): exitUnknown, len(original) - 100: exitUnknown,
	} {
		code, out, errs := certvault(t, "", "verify", writeFile(t, "diploma.pdf", file[:n]), "--data", v.data)
		if code != want || strings.HasPrefix(out, "VALID") {
			t.Errorf("%d of %d bytes: exit code = %d, want %d and no verdict VALID: %s%s", n, len(file), code, want, out, errs)
		}
	}
}

// TestVerifyJSON checks that the command with --json prints one object, which is the report.
func TestVerifyJSON(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Northwest University")
	original := diploma(t)
	path := writeFile(t, "diploma.pdf", v.sign(t, original))
	code, out, errs := certvault(t, "", "verify", path, "--json", "--root", v.root(t))
	if code != exitDone {
		t.Fatalf("exit code = %d, want 0: %s", code, errs)
	}
	var report struct {
		Verdict, Reason string
		Signatures      []map[string]any
		Original        map[string]any
		Untold          []string
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&report); err != nil || d.More() {
		t.Fatalf("the output is not one report with only known fields: %v: %s", err, out)
	}
	if report.Verdict != "valid" || len(report.Signatures) != 1 || len(report.Untold) == 0 ||
		report.Original["reference_id"] != referenceID || report.Original["sha256"] != fmt.Sprintf("%x", sha256.Sum256(original)) {
		t.Errorf("report = %s, want the verdict valid, one signature, and the reference id and the digest of the original", out)
	}
	s := report.Signatures[0]
	for key, want := range map[string]any{
		"signer": "Northwest University", "prefix": "NWU", "covers_file": true, "certification": 2., "coverage": "passed", "digest": "passed", "value": "passed",
		"chain": "passed", "changes": "passed", "time_stamp": nil, "sub_filter": "ETSI.CAdES.detached",
	} {
		if s[key] != want {
			t.Errorf("%s of the signature = %v, want %v", key, s[key], want)
		}
	}
	// The exit code does not depend on the output format.
	if code, out, _ := certvault(t, "", "verify", path, "--json", "--data", missingFolder(t)); code != exitUnknown || !strings.Contains(out, `"verdict":"unknown"`) {
		t.Errorf("without a root: exit code = %d, want %d and the verdict unknown: %s", code, exitUnknown, out)
	}
}

// TestVerifyAfterRotation checks that files signed before and after rotations of the key and of the root
// are valid, with the downloaded roots and with the roots of the data folder. pdfsig must also report that
// they are valid.
func TestVerifyAfterRotation(t *testing.T) {
	t.Parallel()
	v := newSigningVault(t, "Northwest University")
	firstRoot := v.root(t)
	files := [][]byte{v.sign(t, diploma(t))}
	for _, rotate := range []func() error{
		func() error { return v.keys.Rotate(t.Context(), university, "Northwest University", nil) },
		func() error { return v.keys.RotateRoot(t.Context(), nil) },
		func() error { return v.keys.Rotate(t.Context(), university, "Northwest University", nil) },
	} {
		if err := rotate(); err != nil {
			t.Fatal(err)
		}
		v.publish(t)
		files = append(files, v.sign(t, diploma(t)))
	}
	nss := trustStore(t, v.root(t))
	_, fingerprint, _ := strings.Cut(runTool(t, "openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", firstRoot), "=")
	if _, out, _ := certvault(t, "", "verify", writeFile(t, "diploma.pdf", files[0]), "--root", firstRoot); fingerprint == "" || !strings.Contains(out, "SHA-256 "+fingerprint) {
		t.Errorf("the output does not contain the fingerprint of the root that OpenSSL computes, %q:\n%s", fingerprint, out)
	}
	signers := map[string]bool{}
	for i, file := range files {
		path := writeFile(t, "diploma.pdf", file)
		for _, args := range [][]string{{"--root", v.root(t)}, {"--data", v.data}} {
			code, out, errs := certvault(t, "", append([]string{"verify", path}, args...)...)
			if code != exitDone {
				t.Errorf("file %d: exit code = %d, want 0: %s%s", i+1, code, out, errs)
			}
			signers[regexp.MustCompile(`SHA-256 [0-9A-F:]{95}\n {2}When`).FindString(out)] = true
		}
		// The second root issued the certificate for the key of the last file.
		if code, _, _ := certvault(t, "", "verify", path, "--root", firstRoot); (code == exitDone) != (i < 3) {
			t.Errorf("file %d with only the first root: exit code = %d, want 0 only for files 1 to 3", i+1, code)
		}
		checkTrusted(t, path, nss)
		if signers[""] {
			t.Fatal("the output has no fingerprint of the signer's certificate")
		}
	}
	if len(signers) != 3 {
		t.Errorf("the files were signed with %d certificates, want 3", len(signers))
	}
}

// TestVerifyAsDocumented checks that the commands of other programs in docs/verify.md report that a signed
// file is valid and that a changed file is not.
func TestVerifyAsDocumented(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pdfsig", "certutil", "openssl"} {
		if _, err := exec.LookPath(name); err != nil {
			skipOrFail(t, name+" is not installed")
		}
	}
	page, err := os.ReadFile("../../docs/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, ok := strings.Cut(string(page), "```sh\n")
	script, _, closed := strings.Cut(script, "```")
	if !ok || !closed {
		t.Fatal("docs/verify.md has no block of shell commands")
	}
	v := newSigningVault(t, "Northwest University")
	roots, err := v.keys.RootsPEM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := v.sign(t, diploma(t))
	for name, tc := range map[string]struct {
		file []byte
		good bool
	}{
		"as signed": {file, true},
		"changed":   {flipBit(file, bytes.Index(file, []byte("10 10 re"))), false},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "diploma.pdf"), tc.file, 0o600), os.WriteFile(filepath.Join(dir, "root.pem"), roots, 0o600)); err != nil {
			t.Fatal(err)
		}
		sh := exec.CommandContext(t.Context(), "sh", "-c", script)
		sh.Dir = dir
		out, err := sh.CombinedOutput()
		output := string(out)
		if (err == nil) != tc.good {
			t.Errorf("%s: the script succeeded = %t, want %t: %v\n%s", name, err == nil, tc.good, err, output)
		}
		for _, text := range []string{"Signature is Valid", "Certificate is Trusted", "CAdES Verification successful"} {
			if strings.Contains(output, text) != tc.good {
				t.Errorf("%s: the output contains %q = %t, want %t:\n%s", name, text, !tc.good, tc.good, output)
			}
		}
	}
}

// trustStore creates an NSS database with the roots of a PEM file.
func trustStore(t *testing.T, roots string) string {
	t.Helper()
	text, err := os.ReadFile(roots)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	runTool(t, "certutil", "-N", "-d", "sql:"+dir, "--empty-password")
	for i, part := range strings.SplitAfter(string(text), "-----END CERTIFICATE-----\n") {
		if part != "" {
			runTool(t, "certutil", "-A", "-d", "sql:"+dir, "-n", fmt.Sprint("root ", i), "-t", "CT,C,C", "-a", "-i", writeFile(t, "certificate.pem", []byte(part)))
		}
	}
	return dir
}

func checkTrusted(t *testing.T, path, nss string) {
	t.Helper()
	output := runTool(t, "pdfsig", "-nssdir", nss, path)
	for _, want := range []string{"Signature is Valid.", "Certificate is Trusted.", "Total document signed"} {
		if !strings.Contains(output, want) {
			t.Errorf("the output of pdfsig does not contain %q: %s", want, output)
		}
	}
}

// runTool runs a program and returns its output. If the program fails, the test fails. If the program
// is not installed, the test fails in CI and is skipped elsewhere.
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		skipOrFail(t, name+" is not installed")
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s failed: %v: %s", name, err, out)
	}
	return string(out)
}

// skipOrFail fails the test in CI and skips it elsewhere.
func skipOrFail(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
