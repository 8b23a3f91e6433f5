package pades

import (
	"bytes"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// attached returns a file that contains the text of data verbatim. data is
// called with the offset of the text in the file.
func attached(t *testing.T, data func(dataAt int) string) []byte {
	t.Helper()
	base := onePage(t)
	at := 0
	for range 2 {
		file := append(bytes.Clone(base), updated(t, base, func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) {
			u.Add(pdf.NewRawStream(nil, []byte(data(at)+"end of the data")))
		})...)
		end := bytes.Index(file, []byte("end of the data"))
		if end-len(data(at)) == at {
			return file
		}
		at = end - len(data(at))
	}
	t.Fatal("the offset of the data differs from the predicted offset")
	return nil
}

// A file can have thousands of /ByteRange keys for the same two megabytes. Verify
// limits its work for such a file, because it reads and parses these bytes for each key.
func TestManyByteRanges(t *testing.T) {
	t.Parallel()
	manyKeys := func(n int) string {
		var out strings.Builder
		out.WriteString("1 0 obj<<")
		for i := range n {
			fmt.Fprintf(&out, "/%x 1", i)
		}
		return out.String()
	}
	for name, before := range map[string]string{
		"nothing before":     "",
		"open strings":       strings.Repeat("1 0 obj(", maxBacktracks),
		"a large dictionary": manyKeys(8000),
		"large dictionaries": strings.Repeat(manyKeys(200), maxBacktracks),
		"nested arrays":      "1 0 obj" + strings.Repeat("[", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := attached(t, func(at int) string {
				from := at + len(before)
				key := fmt.Sprintf("/ByteRange[0 %06d %07d 5]", from, from+2_000_000)
				return before + strings.Repeat(key, 4000) + strings.Repeat(" ", 2_100_000)
			})
			report := verify(t, file, Options{Now: signingTime})
			if report.Verdict != Unknown || !strings.Contains(report.Reason, "too many possible signatures") {
				t.Errorf("verdict = %s (%s), want Unknown because of too many signatures", report.Verdict, report.Reason)
			}
		})
	}
}

// An RSA key of more than maxRSA bits is refused, because a check with a huge key
// takes too long.
func TestHugeKeyIsRefused(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	digest := sha256.Sum256(nil)
	for bits, want := range map[int]error{maxRSA: nil, maxRSA + 8: errUnsupported} {
		n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
		if err != nil {
			t.Fatal(err)
		}
		n.SetBit(n, bits-1, 1).SetBit(n, 0, 1)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "huge"}, NotBefore: signingTime, NotAfter: signingTime.AddDate(1, 0, 0)}
		s := c.signer()
		s.Chain = append(s.Chain, issue(t, template, c.root, &rsa.PublicKey{N: n, E: 65537}, c.rootKey))
		cms, err := s.sign(t.Context(), digest[:])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseSignedData(cms); !errors.Is(err, want) {
			t.Errorf("a key of %d bits: error = %v, want %v", bits, err, want)
		}
	}
}

// The number of checks of certificates is limited. All certificates in this test have
// the same name, so that each of them could be the issuer of all others.
func TestCertificateChecksAreLimited(t *testing.T) {
	t.Parallel()
	key := newKey(t, elliptic.P256())
	s := &signedData{}
	for i := range maxCertificates {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "same"}, NotBefore: signingTime, NotAfter: signingTime.AddDate(1, 0, 0),
			IsCA: true, BasicConstraintsValid: true,
		}
		s.certificates = append(s.certificates, issue(t, template, template, newKey(t, elliptic.P256()).Public(), key))
	}
	a := trustAnchors{role: "the signer", pool: x509.NewCertPool()}
	if n := len(a.unauthenticated(s, false, signingTime)); n != maxCertificates || a.checked != maxChecked {
		t.Errorf("%d certificates are unauthenticated after %d checks, want %d after %d", n, a.checked, maxCertificates, maxChecked)
	}
	for i := range maxValidated + 1 {
		got := a.validate(s.certificates[0], s.certificates, signingTime, signingTime)
		if limited := got.result == NotRun && strings.Contains(got.reason, "too many"); limited != (i == maxValidated) {
			t.Errorf("chain %d = %+v, want a limit of %d chains", i+1, got, maxValidated)
		}
	}
}

// The number of hashed bytes is limited for a file with many signatures.
func TestHashingIsLimited(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	list, _, err := scan(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(list) != 1 {
		t.Fatalf("scan found %d signatures (error %v), want 1", len(list), err)
	}
	v := verifier{r: bytes.NewReader(file), size: int64(len(file)), now: signingTime, hashed: maxHashed - int64(len(file))}
	for _, want := range []Result{Passed, NotRun} {
		s := Signature{SubFilter: cadesDetached, Digest: NotRun}
		if err := v.checkValue(&s, &list[0]); err != nil || s.Digest != want {
			t.Errorf("digest = %s, error = %v, want %s: %+v", s.Digest, err, want, s)
		}
	}
}

// TestPSSParameters checks that PSS parameters with bytes after an element are refused.
func TestPSSParameters(t *testing.T) {
	t.Parallel()
	params := func(at int) []byte {
		extra := func(i int) []byte {
			if i == at {
				return []byte{tagNull, 0}
			}
			return nil
		}
		hash := derAlgorithm(oidSHA256)
		return tlv(tagSequence,
			tlv(tagContextCons, hash, extra(1)),
			tlv(tagContextCons|1, derAlgorithm(oidMGF1, append(bytes.Clone(hash), extra(2)...)...), extra(3)),
			tlv(tagContextCons|2, derInteger(big.NewInt(32)), extra(4)),
			extra(5),
		)
	}
	for at := range 6 {
		if _, opts, err := pssParams(params(at)); (err == nil) != (at == 0) {
			t.Errorf("extra bytes at place %d: options = %+v, error = %v; want an error except at place 0", at, opts, err)
		}
	}
}
