//go:build e2e

package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// pyHankoValidates is a Python program. It validates the signature of a PDF with the root certificate of
// the vault. It then adds a document time stamp and validates the signature again. PdfFileReader parses
// the file strictly by default.
const pyHankoValidates = `
import io, sys
from asn1crypto import keys, pem, x509
from pyhanko.keys import load_cert_from_pemder
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign import fields, signers, timestamps
from pyhanko.sign.validation import KeyUsageConstraints, validate_pdf_signature
from pyhanko_certvalidator import ValidationContext

root, tsa = load_cert_from_pemder(sys.argv[1]), load_cert_from_pemder(sys.argv[3])
with open(sys.argv[4], "rb") as f:
    key = keys.PrivateKeyInfo.load(pem.unarmor(f.read())[2])
with open(sys.argv[2], "rb") as f:
    data = f.read()

def context():
    return ValidationContext(trust_roots=[root, tsa], allow_fetching=False)

def check(text, data):
    signature = PdfFileReader(io.BytesIO(data)).embedded_regular_signatures[0]
    status = validate_pdf_signature(signature, context(), key_usage_settings=KeyUsageConstraints(key_usage={"digital_signature"}))
    print(text, status.bottom_line, status.coverage.name, status.modification_level.name, signature.docmdp_level.name, signature.self_reported_timestamp.isoformat())

check("sealed", data)
writer = IncrementalPdfFileWriter(io.BytesIO(data))
stamped = signers.PdfTimeStamper(timestamps.DummyTimeStamper(tsa, key)).timestamp_pdf(writer, "sha256", context())
check("stamped", stamped.getvalue())
`

// TestPyHankoAcceptsVerifiedPDF checks that pyHanko accepts the signature of a verified PDF, also after a
// document time stamp was added.
//
// The test needs pyHanko 0.20.1 or newer, pyhanko-certvalidator and the dependencies of both. If
// python3 does not find these packages, the test is skipped. PYTHONPATH may name a folder with the
// packages.
func TestPyHankoAcceptsVerifiedPDF(t *testing.T) {
	t.Parallel()
	python, openssl := tool(t, "python3"), tool(t, "openssl")
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import pyhanko.sign.validation, pyhanko_certvalidator").CombinedOutput(); err != nil {
		t.Skipf("python3 does not find pyHanko: install pyHanko, or set PYTHONPATH to its folder\n%s", out)
	}
	dir := t.TempDir()
	run(t, openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", dir+"/tsa.key", "-out", dir+"/tsa.pem", "-days", "30",
		"-subj", "/CN=Test TSA", "-addext", "extendedKeyUsage=critical,timeStamping", "-addext", "keyUsage=critical,digitalSignature")
	f := start(t, "")
	_, file := f.uploadApproved(t, "Validated")
	root := writeTemp(t, "root.pem", get(t, f.as(t, ""), "/.well-known/certvault/root.pem", http.StatusOK).Body)
	out := run(t, python, "-c", pyHankoValidates, root, writeTemp(t, "verified.pdf", file), dir+"/tsa.pem", dir+"/tsa.key")
	for _, want := range []string{"sealed True ENTIRE_FILE NONE FILL_FORMS ", "stamped True ENTIRE_REVISION LTA_UPDATES FILL_FORMS "} {
		if !strings.Contains(out, want) {
			t.Errorf("the Python program does not print %q:\n%s", want, out)
		}
	}
}
