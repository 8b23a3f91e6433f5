package pades

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Signatures that OpenSSL makes with RSA and ECDSA keys are accepted for their
// content, and rejected for other content. A signature with SHA-1 or without signed
// attributes is not supported.
func TestSignaturesOfOpenSSL(t *testing.T) {
	t.Parallel()
	content := []byte("signed content")
	for name, test := range map[string]struct {
		key  []string
		sign []string
		want error
	}{
		"RSA":              {key: []string{"RSA"}, sign: []string{"-md", "sha256"}},
		"RSA with SHA-512": {key: []string{"RSA"}, sign: []string{"-md", "sha512"}},
		"RSA-PSS":          {key: []string{"RSA"}, sign: []string{"-md", "sha384", "-keyopt", "rsa_padding_mode:pss"}},
		"P-384":            {key: []string{"EC", "-pkeyopt", "ec_paramgen_curve:P-384"}, sign: []string{"-md", "sha384"}},
		"P-521":            {key: []string{"EC", "-pkeyopt", "ec_paramgen_curve:P-521"}, sign: []string{"-md", "sha512"}},
		"by key id":        {key: []string{"EC", "-pkeyopt", "ec_paramgen_curve:P-256"}, sign: []string{"-md", "sha256", "-keyid"}},
		"SHA-1":            {key: []string{"RSA"}, sign: []string{"-md", "sha1"}, want: errUnsupported},
		"no attributes":    {key: []string{"RSA"}, sign: []string{"-md", "sha256", "-noattr"}, want: errUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
			if err := os.WriteFile(in, content, 0o600); err != nil {
				t.Fatal(err)
			}
			args := append([]string{
				"req", "-x509", "-nodes", "-keyout", dir + "/key", "-out", dir + "/cert", "-days", "30", "-subj", "/CN=x", "-newkey",
			}, test.key...)
			if output, err := run(t, "openssl", args...); err != nil {
				t.Fatalf("creating the key with openssl: %v\n%s", err, output)
			}
			args = append([]string{
				"cms", "-sign", "-binary", "-outform", "DER", "-in", in, "-out", out, "-signer", dir + "/cert", "-inkey", dir + "/key",
			}, test.sign...)
			if name != "no attributes" {
				args = append(args, "-cades")
			}
			if output, err := run(t, "openssl", args...); err != nil {
				t.Fatalf("signing with openssl: %v\n%s", err, output)
			}
			cms, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			signed, err := parseSignedData(cms)
			if err != nil {
				if !errors.Is(err, test.want) {
					t.Fatal(err)
				}
				return
			}
			digest := func(content []byte) []byte {
				h := signed.signer.hash.New()
				h.Write(content)
				return h.Sum(nil)
			}
			p := signed.check(digest(content))
			if test.want != nil {
				if !errors.Is(p.signature, test.want) {
					t.Errorf("check = %+v, want %v", p, test.want)
				}
				return
			}
			if p.digest != nil || p.signature != nil || !p.bound {
				t.Errorf("check = %+v, want a valid signature that identifies its certificate", p)
			}
			if signed.signer.signingTime().IsZero() {
				t.Error("the signature has no signing time")
			}
			if p := signed.check(digest([]byte("other content"))); !errors.Is(p.digest, errMismatch) {
				t.Errorf("check of other content = %+v, want errMismatch", p)
			}
			signed.signer.signature[len(signed.signer.signature)-1] ^= 1
			if p := signed.check(digest(content)); p.signature == nil {
				t.Error("check accepts a changed signature, want an error")
			}
		})
	}
}

func TestDERIsStrict(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"empty":             {},
		"no length":         {0x30},
		"truncated":         {0x30, 5, 1},
		"indefinite":        {0x30, 0x80, 0, 0},
		"long form of 1":    {0x04, 0x81, 1, 0},
		"leading zero":      append([]byte{0x04, 0x82, 0, 0x80}, make([]byte, 128)...),
		"length in 5 bytes": {0x04, 0x85, 1, 1, 1, 1, 1},
		"high tag":          {0x1f, 0x20, 0},
	} {
		d := der(data)
		if tag, body, _, err := d.element(); !errors.Is(err, errDER) {
			t.Errorf("%s: got tag %#x and content %x, want errDER", name, tag, body)
		}
	}
	for _, n := range []int64{0, 1, 127, 128, 255, 256, 1 << 40} {
		d := der(derInteger(big.NewInt(n)))
		if got, err := d.integer(); err != nil || got.Int64() != n {
			t.Errorf("decoded integer = %v, error = %v, want %d", got, err, n)
		}
	}
	for _, n := range []int{0, 127, 128, 255, 256, 65535, 65536, 1 << 20} {
		d := der(tlv(tagOctetString, make([]byte, n)))
		if body, err := d.next(tagOctetString); err != nil || len(body) != n || len(d) != 0 {
			t.Errorf("the decoded string has %d bytes, error = %v, want %d bytes", len(body), err, n)
		}
	}
	d := der(derOID(oidTimeStampToken))
	if id, err := d.oid(); err != nil || !id.Equal(oidTimeStampToken) {
		t.Errorf("identifier = %v, %v, want %v", id, err, oidTimeStampToken)
	}
}

func TestFromBER(t *testing.T) {
	t.Parallel()
	basic := []byte{
		0x30, 0x80, // SEQUENCE of indefinite length
		0x24, 0x80, 0x04, 0x01, 'a', 0x04, 0x81, 0x01, 'b', 0, 0, // a constructed string of two parts
		0x02, 0x82, 0, 1, 5,
		0, 0, 'r', 'e', 's', 't',
	}
	want := []byte{0x30, 7, 0x04, 2, 'a', 'b', 0x02, 1, 5}
	got, rest, err := fromBER(basic, 0)
	if err != nil || !bytes.Equal(got, want) || string(rest) != "rest" {
		t.Errorf("element = %x, rest = %q, error = %v, want %x and rest", got, rest, err, want)
	}
	if _, _, err := fromBER(bytes.Repeat([]byte{0x30, 0x80}, 1000), 0); !errors.Is(err, errDER) {
		t.Errorf("error for too many nested elements = %v, want errDER", err)
	}
}

func TestParseDate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"D:20260304050607Z00'00'": "2026-03-04T05:06:07Z",
		"D:20260304050607Z":       "2026-03-04T05:06:07Z",
		"D:20260304070607+02'00'": "2026-03-04T05:06:07Z",
		"D:20260304070607+02'00":  "2026-03-04T05:06:07Z",
		"D:20260304000607-05'00'": "2026-03-04T05:06:07Z",
		"D:20260304":              "2026-03-04T00:00:00Z",
		"":                        "0001-01-01T00:00:00Z",
		"yesterday":               "0001-01-01T00:00:00Z",
		"D:20261304050607Z":       "0001-01-01T00:00:00Z",
	} {
		if got := parseDate(text).Format(time.RFC3339); got != want {
			t.Errorf("parseDate(%q) = %s, want %s", text, got, want)
		}
	}
}

// Prepare refuses to sign with a certificate for time stamping, and checkChain rejects
// a signature made with its key.
func TestCertificateForAnotherPurpose(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x", stamper: true})
	if _, err := signTail(onePage(t), c.signer(), nil); !errors.Is(err, ErrKey) {
		t.Errorf("signing returned %v, want ErrKey", err)
	}
	s := c.signer()
	scheme, err := s.check()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(nil)
	cms, err := s.sign(t.Context(), digest[:])
	if err != nil {
		t.Fatal(err)
	}
	if len(cms) > s.reserve(scheme) {
		t.Errorf("the signature has %d bytes, want at most the reserved %d", len(cms), s.reserve(scheme))
	}
	signed, err := parseSignedData(cms)
	if err != nil {
		t.Fatal(err)
	}
	if p := signed.check(digest[:]); p.signature != nil || signed.signer.hash != crypto.SHA256 {
		t.Fatalf("check = %+v, hash = %v, want a valid signature with SHA-256", p, signed.signer.hash)
	}
	v := verifier{signers: trustAnchors{list: c.options().Roots, role: "the signer"}, now: signingTime}
	var result Signature
	v.checkChain(&result, signed.certificate(), signed, time.Time{})
	if result.Chain != Failed {
		t.Errorf("chain = %s, want %s: %+v", result.Chain, Failed, result)
	}
}

func TestEd25519(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("signed attributes")
	signature := ed25519.Sign(private, message)
	a := algorithmIdentifier{id: oidEd25519}
	if err := checkSignature(public, a, crypto.SHA512, message, signature); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another message":   checkSignature(public, a, crypto.SHA512, message[1:], signature),
		"another digest":    checkSignature(public, a, crypto.SHA256, message, signature), // RFC 8419, 3.1
		"another algorithm": checkSignature(public, algorithmIdentifier{id: oidECDSASHA256}, crypto.SHA256, message, signature),
		"another key":       checkSignature(&newKey(t, elliptic.P256()).PublicKey, a, crypto.SHA512, message, signature),
	} {
		if err == nil {
			t.Errorf("the signature is accepted for %s, want an error", name)
		}
	}
}

// TestPrintable checks that an external text is cut between two characters, and that characters that cannot
// be printed are removed.
func TestPrintable(t *testing.T) {
	t.Parallel()
	if got, want := printable([]byte("ab\x00"+strings.Repeat("é", 150))), "ab"+strings.Repeat("é", 98); got != want {
		t.Errorf("printable text = %q, want %q", got, want)
	}
}
