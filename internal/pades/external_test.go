package pades

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// pdfsigResult is the result of pdfsig for a signature.
type pdfsigResult struct {
	signed, valid, total, trusted bool
	kind, output                  string
}

// pdfsig returns the results of pdfsig (Poppler) for a file. nss is the folder
// of an NSS database with trusted roots, or "" for none.
func pdfsig(t *testing.T, file []byte, nss string) []pdfsigResult {
	t.Helper()
	args := []string{write(t, "signed.pdf", file)}
	if nss != "" {
		args = append([]string{"-nssdir", nss}, args...)
	}
	out, err := run(t, "pdfsig", args...)
	if err != nil && !strings.Contains(out, "Signature #") && !strings.Contains(out, "does not contain any signatures") {
		t.Fatalf("pdfsig: %v\n%s", err, out)
	}
	var list []pdfsigResult
	for _, part := range strings.Split(out, "Signature #")[1:] {
		list = append(list, pdfsigResult{
			signed:  !strings.Contains(part, "is not signed"),
			valid:   strings.Contains(part, "Signature is Valid."),
			total:   strings.Contains(part, "- Total document signed"),
			trusted: strings.Contains(part, "Certificate is Trusted."),
			kind:    regexp.MustCompile(`Signature Type: (\S+)`).FindString(part),
			output:  part,
		})
	}
	return list
}

// trustStore creates an NSS database with the root of a chain.
func trustStore(t *testing.T, c chain) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-N", "-d", "sql:" + dir, "--empty-password"},
		{"-A", "-d", "sql:" + dir, "-n", "root", "-t", "CT,C,C", "-i", writePEM(t, "root.pem", c.root)},
	} {
		if out, err := run(t, "certutil", args...); err != nil {
			t.Fatalf("certutil: %v\n%s", err, out)
		}
	}
	return dir
}

// realChain returns a chain that is valid at the current time, because pdfsig
// uses the system clock.
func realChain(t *testing.T) chain {
	t.Helper()
	from := time.Now()
	if from.After(signingTime) {
		from = signingTime
	}
	return newChain(t, shape{name: "Test University", from: from.Add(-time.Hour), until: from.AddDate(30, 0, 0)})
}

func TestPdfsigAcceptsSignature(t *testing.T) {
	t.Parallel()
	c := realChain(t)
	nss := trustStore(t, c)
	tsa := newAuthority(t)
	withStamp := c.signer()
	withStamp.TimeStamps = NewTimeStampAuthority(tsa.respond)
	for name, s := range map[string]*Signer{"B-B": c.signer(), "B-T": withStamp} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := pdfsig(t, sign(t, onePage(t), s), nss)
			if len(list) != 1 || !list[0].valid || !list[0].total || !list[0].trusted || !strings.Contains(list[0].kind, "ETSI.CAdES.detached") {
				t.Errorf("pdfsig returns %+v, want one valid and trusted signature of the whole file", list)
			}
		})
	}
}

// parts returns the value of the last signature of a file and the bytes that the
// signature covers.
func parts(t *testing.T, file []byte) (cms, content []byte) {
	t.Helper()
	list, _, err := scan(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(list) == 0 {
		t.Fatalf("scan found no signature (error %v)", err)
	}
	f := list[len(list)-1]
	return f.cms, append(bytes.Clone(file[:f.ranges[1]]), file[f.ranges[2]:]...)
}

func TestOpenSSLAcceptsSignature(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	tsa := newAuthority(t)
	s := c.signer()
	s.TimeStamps = NewTimeStampAuthority(tsa.respond)
	cms, content := parts(t, sign(t, onePage(t), s))
	at := fmt.Sprint(signingTime.Unix())
	if out, err := opensslCMS(t, cms, content, c.root, "-attime", at); err != nil {
		t.Errorf("openssl cms returned %v, want no error\n%s", err, out)
	}
	if out, err := opensslCMS(t, cms, append(content, ' '), c.root, "-attime", at); err == nil {
		t.Errorf("openssl cms accepts other content, want an error: %s", out)
	}
	signed, err := parseSignedData(cms)
	if err != nil {
		t.Fatal(err)
	}
	token, ok := find(signed.signer.unsigned, oidTimeStampToken)
	if !ok {
		t.Fatal("the signature has no time stamp")
	}
	args := []string{
		"ts", "-verify", "-data", write(t, "value", signed.signer.signature), "-token_in", "-in", write(t, "token.der", token),
		"-CAfile", writePEM(t, "root.pem", tsa.root), "-attime", at,
	}
	if out, err := run(t, "openssl", args...); err != nil {
		t.Errorf("openssl ts returned %v, want no error\n%s", err, out)
	}
}

// opensslCMS checks a signature over content with OpenSSL, and returns the output
// and the error of OpenSSL.
func opensslCMS(t *testing.T, cms, content []byte, root *x509.Certificate, more ...string) (string, error) {
	t.Helper()
	return run(t, "openssl", append([]string{
		"cms", "-verify", "-binary", "-cades", "-inform", "DER", "-in", write(t, "sig.der", cms), "-content", write(t, "content", content),
		"-CAfile", writePEM(t, "root.pem", root), "-purpose", "any", "-out", os.DevNull,
	}, more...)...)
}

// Signing and Verify accept the time stamps of openssl ts.
func TestTimeStampOfOpenSSL(t *testing.T) {
	t.Parallel()
	for _, algorithm := range [][]string{{"EC", "ec_paramgen_curve:P-256"}, {"RSA", "rsa_keygen_bits:2048"}} {
		t.Run(algorithm[0], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := filepath.Join(dir, "tsa.cnf")
			text := "[req]\ndistinguished_name=dn\n[dn]\n[tsa]\nextendedKeyUsage=critical,timeStamping\nkeyUsage=critical,digitalSignature\n" +
				"[tsa_config]\nserial=" + dir + "/serial\ncrypto_device=builtin\nsigner_cert=" + dir + "/tsa.pem\ncerts=" + dir + "/tsa.pem\nsigner_key=" + dir + "/tsa.key\n" +
				"signer_digest=sha256\ndefault_policy=1.2.3.4.1\ndigests=sha256,sha512\naccuracy=secs:1\nordering=yes\ntsa_name=yes\ness_cert_id_chain=no\ness_cert_id_alg=sha256\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := run(t, "openssl", "req", "-x509", "-newkey", algorithm[0], "-pkeyopt", algorithm[1], "-nodes", "-keyout", dir+"/tsa.key",
				"-out", dir+"/tsa.pem", "-days", "30", "-subj", "/CN=OpenSSL TSA", "-config", config, "-extensions", "tsa"); err != nil {
				t.Fatalf("creating the key of the authority: %v\n%s", err, out)
			}
			c := newChain(t, shape{name: "x"})
			s := c.signer()
			s.TimeStamps = NewTimeStampAuthority(func(_ context.Context, request []byte) ([]byte, error) {
				query, reply := filepath.Join(dir, "query"), filepath.Join(dir, "reply")
				if err := os.WriteFile(query, request, 0o600); err != nil {
					return nil, err
				}
				if out, err := run(t, "openssl", "ts", "-reply", "-queryfile", query, "-config", config, "-section", "tsa_config", "-out", reply); err != nil {
					return nil, errors.New(out)
				}
				return os.ReadFile(reply)
			})
			report := requireValid(t, sign(t, onePage(t), s), c.options())
			if ts := report.Signatures[0].TimeStamp; ts == nil || ts.Value != Passed || ts.Authority != "OpenSSL TSA" {
				t.Errorf("time stamp = %+v, want a valid stamp of OpenSSL TSA", ts)
			}
		})
	}
}

// corpus is the folder of real and hostile files, next to the repository.
const corpus = "../../../shared/corpus"

// corpusFiles returns the PDF files of the corpus that must be accepted, or a tenth of them with
// -short.
func corpusFiles(t *testing.T) []string {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(corpus, "MANIFEST.tsv"))
	if err != nil {
		skip(t, "the corpus is missing")
	}
	var files []string
	for line := range strings.Lines(string(manifest)) {
		fields := strings.Split(line, "\t")
		if len(fields) > 1 && strings.HasPrefix(fields[0], "pdf/") && fields[1] == "accept" {
			files = append(files, fields[0])
		}
	}
	if testing.Short() {
		files = files[:len(files)/10]
	}
	return files
}

// Every file from corpusFiles can be signed. pdfsig and OpenSSL accept the signature. Verify
// accepts it unless an earlier certification permits no changes. qpdf finds no problem
// if it found none in the original. pdfsig reports the same results for existing signatures.
func TestCorpusSigned(t *testing.T) {
	t.Parallel()
	c := realChain(t)
	o := Options{Roots: c.options().Roots, Now: time.Now()}
	nss := trustStore(t, c)
	for _, path := range corpusFiles(t) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(filepath.Join(corpus, path))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			found := doc.Inspect()
			edit := stamped
			if len(found.Signatures) > 0 || found.UsageRights {
				edit = nil
			}
			tail, err := signTail(file, c.signer(), edit)
			if err != nil {
				t.Fatal(err)
			}
			signed := append(bytes.Clone(file), tail...)
			checkCorpusFile(t, found, signed, o, nss, pdfsig(t, file, nss))
			cms, content := parts(t, signed)
			if out, err := opensslCMS(t, cms, content, c.root); err != nil {
				t.Errorf("openssl cms returned %v, want no error\n%s", err, out)
			}
			if before, _ := qpdfCheck(t, file); before == 0 {
				if after, output := qpdfCheck(t, signed); after != 0 {
					t.Errorf("qpdf --check reports a problem of the signed file: %s", output)
				}
			}
		})
	}
}

// qpdfCheck returns 0 if qpdf finds no problem in the file, else 1, and the
// output.
func qpdfCheck(t *testing.T, file []byte) (int, string) {
	t.Helper()
	out, err := run(t, "qpdf", "--check", write(t, "check.pdf", file))
	if err != nil {
		return 1, out
	}
	return 0, out
}

// checkCorpusFile checks a signed file of the corpus. before is the result of
// pdfsig for the original.
func checkCorpusFile(t *testing.T, found pdf.Findings, signed []byte, o Options, nss string, before []pdfsigResult) {
	t.Helper()
	report := verify(t, signed, o)
	certified := found.DocMDP == 1 // the vault does not add a signature to such a file; it attaches the file to a sheet
	if (report.Verdict == Valid) == certified {
		t.Errorf("verdict = %s (%s), want Valid = %v\n%+v", report.Verdict, report.Reason, !certified, report.Signatures)
	}
	after := pdfsig(t, signed, nss)
	if len(after) != len(before)+1 {
		t.Fatalf("pdfsig finds %d signatures, want %d\n%+v", len(after), len(before)+1, after)
	}
	trusted := 0
	for _, j := range after {
		if j.valid && j.total && j.trusted {
			trusted++
		}
	}
	if trusted != 1 {
		t.Errorf("pdfsig trusts %d signatures of the whole file, want 1: %+v", trusted, after)
	}
	for i, j := range before {
		matched := false
		for _, k := range after {
			matched = matched || k.valid == j.valid && k.signed == j.signed && k.kind == j.kind
		}
		if !matched {
			t.Errorf("pdfsig reports another result for signature %d than in the original, want: %s", i+1, j.output)
		}
	}
}

// For files with signatures of other programs, Verify and pdfsig agree on the digest
// and the value of each signature.
func TestCorpusOfForeignSignatures(t *testing.T) {
	t.Parallel()
	corpusFiles(t)
	for name, want := range map[string]struct {
		intact  []bool // of the signatures in the order of the report
		verdict Verdict
	}{
		"adbe-x509-rsa-sha1.pdf":          {[]bool{false}, Unknown}, // an obsolete format older than CMS
		"certified-changes-permitted.pdf": {[]bool{true}, Unknown},
		"empty-signature-field.pdf":       {nil, Unknown},
		"modified-after-signing.pdf":      {[]bool{false, true}, Invalid}, // one signature is a copy of the other
		"pades-bb.pdf":                    {[]bool{true}, Unknown},
		"pades-blta.pdf":                  {[]bool{true, false}, Unknown}, // its time stamp has no certificate

		"signed-encrypted-owner.pdf": {[]bool{true}, Unknown},
		"signed-twice-pyhanko.pdf":   {[]bool{true, true}, Unknown},
		"tail-uncovered.pdf":         {[]bool{false}, Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(filepath.Join(corpus, "pdf", "signed", name))
			if err != nil {
				t.Fatal(err)
			}
			report := verify(t, file, Options{Now: time.Now()})
			if report.Verdict != want.verdict {
				t.Errorf("verdict = %s (%s), want %s", report.Verdict, report.Reason, want.verdict)
			}
			for i, s := range report.Signatures {
				if i >= len(want.intact) || s.Intact() != want.intact[i] {
					t.Errorf("signature %d: Intact = %v, want %v for the signatures in order: %+v", i+1, s.Intact(), want.intact, s)
				}
			}
			if len(report.Signatures) != len(want.intact) {
				t.Errorf("the report has %d signatures, want %d", len(report.Signatures), len(want.intact))
			}
			for _, j := range pdfsig(t, file, "") {
				for _, s := range report.Signatures {
					if strings.Contains(j.output, "Field Name: "+s.Field+"\n") && j.valid != (s.Digest == Passed && s.Value == Passed) {
						t.Errorf("pdfsig and Verify disagree about the digest or the value of field %s; pdfsig reports: %s", s.Field, j.output)
					}
				}
			}
		})
	}
}
