package seal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"image"
	"image/png"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/pades"
)

// testSignature returns a signature with a new key and a self-signed certificate.
func testSignature(t testing.TB) *Signature {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test University"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Signature{Signer: &pades.Signer{Key: key, Chain: []*x509.Certificate{cert}}, Time: now}
}

func picturePNG(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 300, 200))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every form of the verified PDF has a valid signature of the whole file. pdfsig, which is independent of
// this code, reports the same.
func TestVerifiedPDFIsSigned(t *testing.T) {
	t.Parallel()
	signature := testSignature(t)
	plain := pagePDF{content: "1 0 0 rg 10 10 50 50 re f\n"}.bytes()
	for name, tc := range map[string]struct {
		file []byte
		form pades.Form
	}{
		"plain.pdf":     {plain, pades.Prefix},
		"certified.pdf": {signedPDF(1, "0 0 1 rg 20 20 30 30 re f\n"), pades.Stream},
		"picture.png":   {picturePNG(t), pades.Source},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := original(t, name, tc.file)
			stamp := testStamp()
			stamp.Signature = signature
			v, err := sealer(t).Seal(t.Context(), o, stamp)
			if err != nil {
				t.Fatal(err)
			}
			data := wholeFile(t, o, v)
			if sha256.Sum256(data) != v.SHA256 || int64(len(data)) != v.Size {
				t.Errorf("size = %d, digest = %x; want %d and %x", v.Size, v.SHA256, len(data), sha256.Sum256(data))
			}
			path := file(t, name+".pdf", data)
			checkQR(t, path, v)
			out, err := tool(t, "pdfsig", "-nocert", path)
			if err != nil || !strings.Contains(out, "Signature is Valid") || !strings.Contains(out, "Total document signed") {
				t.Errorf("pdfsig does not report a valid signature of the whole file: error = %v\n%s", err, out)
			}
			report, err := pades.Verify(bytes.NewReader(data), int64(len(data)), pades.Options{Roots: signature.Signer.Chain, Now: time.Now()})
			if err != nil || report.Verdict != pades.Valid {
				t.Fatalf("pades.Verify = %+v, error = %v; want valid", report, err)
			}
			if report.Original == nil || report.Original.Form != tc.form || report.Original.SHA256 != hex.EncodeToString(o.SHA256[:]) {
				t.Errorf("original in the signature = %+v, want the form %v and the digest of the original", report.Original, tc.form)
			}
		})
	}
}
