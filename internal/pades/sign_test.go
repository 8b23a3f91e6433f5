package pades

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	rsa2048, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{
		"P-256": newKey(t, elliptic.P256()), "P-384": newKey(t, elliptic.P384()), "RSA": rsa2048,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, shape{name: "Prüfungsamt", key: key})
			file := onePage(t)
			signed := sign(t, file, c.signer())
			report := requireValid(t, signed, c.options())
			s := report.Signatures[0]
			if s.Signer != "Prüfungsamt" || !s.ClaimedTime.Equal(signingTime) || s.Certification != 2 || !s.CoversFile {
				t.Errorf("signature = %+v, want a certification by Prüfungsamt that covers the file", s)
			}
			if o := report.Original; o == nil || o.Result != Passed || o.Length != int64(len(file)) || o.ReferenceID != "NWU-0123456789ABCDEF" {
				t.Errorf("original = %+v, want the uploaded file", report.Original)
			}
			if got := verify(t, signed, Options{Now: signingTime}); got.Verdict != Unknown {
				t.Errorf("verdict without a root = %s, want Unknown", got.Verdict)
			}
			other := newChain(t, shape{name: "Prüfungsamt"})
			if got := verify(t, signed, other.options()); got.Verdict != Invalid || got.Signatures[0].Chain != Failed {
				t.Errorf("verdict with another root = %s (%s), want Invalid", got.Verdict, got.Reason)
			}
		})
	}
}

// Complete does not read the base file if it has the hash state after the last byte of that file.
func TestCompleteResumesHashState(t *testing.T) {
	t.Parallel()
	c, file := newChain(t, shape{name: "x"}), onePage(t)
	p, tail := prepared(t, file, c.signer(), Statement{Time: signingTime})
	if err := p.Complete(t.Context(), BaseFile{Size: int64(len(file)), State: hashed(t, file)}, tail); err != nil {
		t.Fatal(err)
	}
	report := requireValid(t, append(file, tail...), c.options())
	if report.Original != nil {
		t.Errorf("original = %+v, want none, because the signature names none", report.Original)
	}
}

// Complete ignores a hash state that does not match the base file, and reads that file.
func TestCompleteIgnoresWrongHashState(t *testing.T) {
	t.Parallel()
	c, file := newChain(t, shape{name: "x"}), onePage(t)
	for name, state := range map[string][]byte{"none": nil, "of another file": hashed(t, file[1:]), "truncated": hashed(t, file)[1:], "invalid": []byte("x")} {
		p, tail := prepared(t, file, c.signer(), Statement{Time: signingTime})
		if err := p.Complete(t.Context(), BaseFile{R: bytes.NewReader(file), Size: int64(len(file)), State: state}, tail); err != nil {
			t.Errorf("state %q: Complete returned %v, want no error", name, err)
		}
		requireValid(t, append(bytes.Clone(file), tail...), c.options())
	}
}

// hashed returns the marshalled state of SHA-256 after data.
func hashed(t *testing.T, data []byte) []byte {
	t.Helper()
	h := sha256.New()
	h.Write(data)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestSecondSignatureIsApproval(t *testing.T) {
	t.Parallel()
	first, second := newChain(t, shape{name: "first"}), newChain(t, shape{name: "second"})
	signed := sign(t, onePage(t), first.signer())
	again := sign(t, signed, second.signer())
	// The vault never signs a sealed file again, so a second signature makes the
	// file invalid.
	report := verify(t, again, second.options())
	if report.Verdict != Invalid || len(report.Signatures) != 2 || report.Signatures[0].Changes != Failed || report.Signatures[1].Certification != 0 {
		t.Errorf("verdict = %s (%s), signatures = %+v, want Invalid and an approval as second signature", report.Verdict, report.Reason, report.Signatures)
	}
	if !report.Signatures[0].Intact() || !report.Signatures[1].Intact() {
		t.Error("a signature is not intact, want two intact signatures")
	}
	if report.Signatures[0].Field == report.Signatures[1].Field {
		t.Errorf("both signature fields have the name %q", report.Signatures[0].Field)
	}
}

// If the first signature is an approval signature, the second signature determines
// the verdict, and the report lists the changes after the first signature.
func TestApprovalAfterApproval(t *testing.T) {
	t.Parallel()
	first, second := newChain(t, shape{name: "first"}), newChain(t, shape{name: "second"})
	// A usage rights entry prevents the first signature from certifying.
	file := bytes.Replace(onePage(t), []byte("<</Type/Catalog"), []byte("<</Perms<</UR3 9 0 R>>/Type/Catalog"), 1)
	signed := sign(t, file, first.signer())
	if s := requireValid(t, signed, first.options()).Signatures[0]; s.Certification != 0 {
		t.Fatalf("the first signature is a certification: %+v", s)
	}
	report := requireValid(t, sign(t, signed, second.signer()), second.options())
	if s := report.Signatures[0]; !s.Intact() || s.CoversFile || s.Chain != Failed || len(s.Changed) == 0 {
		t.Errorf("first signature = %+v, want an intact signature of an untrusted signer with later changes", s)
	}
}

func TestTimeStamp(t *testing.T) {
	t.Parallel()
	c, tsa := newChain(t, shape{name: "x", until: signingTime.AddDate(1, 0, 0)}), newAuthority(t)
	s := c.signer()
	s.TimeStamps = NewTimeStampAuthority(tsa.respond)
	file := onePage(t)
	tail, err := signTail(file, s, stamped)
	if err != nil {
		t.Fatal(err)
	}
	if len(tail) > 16_000 {
		t.Errorf("the tail has %d bytes, want at most 16000", len(tail))
	}
	again, err := signTail(file, s, stamped)
	if err != nil {
		t.Fatal(err)
	}
	if len(again) >= len(tail) {
		t.Errorf("the second tail has %d bytes, want fewer than the %d of the first, because the size of the token is known", len(again), len(tail))
	}
	signed := append(bytes.Clone(file), again...)
	o := c.options()
	report := requireValid(t, signed, o)
	if ts := report.Signatures[0].TimeStamp; ts == nil || ts.Value != Passed || ts.Chain != NotRun || ts.Authority != "Test TSA" ||
		!ts.Time.Equal(signingTime.Add(1500*time.Millisecond)) {
		t.Errorf("time stamp = %+v, want a valid stamp of Test TSA without a root", ts)
	}
	// Years later the certificate has expired. With a trusted root of the
	// authority, the time stamp proves that the certificate was valid.
	o.Now = signingTime.AddDate(5, 0, 0)
	if got := verify(t, signed, o); got.Verdict != Unknown || got.Signatures[0].Chain != NotRun {
		t.Errorf("verdict after the certificate expired = %s (%s), want Unknown", got.Verdict, got.Reason)
	}
	o.TimeStampRoots = func() *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(tsa.root)
		return pool
	}
	if ts := requireValid(t, signed, o).Signatures[0].TimeStamp; ts.Chain != Passed || ts.Problem != "" {
		t.Errorf("time stamp with a trusted root = %+v, want a proof without a problem", ts)
	}
	// Decades later the authority's certificate has expired as well, and the report
	// states this.
	o.Now = tsa.leaf.NotAfter.AddDate(1, 0, 0)
	if ts := requireValid(t, signed, o).Signatures[0].TimeStamp; ts.Chain != Passed || !strings.Contains(ts.Problem, "expired") {
		t.Errorf("time stamp after the certificate of the authority expired = %+v, want a passed chain and a problem that names the expiry", ts)
	}
}

func TestTimeStampAuthorityErrors(t *testing.T) {
	t.Parallel()
	failure := errors.New("connection refused")
	large, unlimited, both, optional := newAuthority(t), newAuthority(t), newAuthority(t), newAuthority(t)
	large.certify(t, timeStamping(), bigExtension(maxToken))
	unlimited.certify(t)
	usage := timeStamping()
	usage.Critical = false
	optional.certify(t, usage)
	usage = timeStamping()
	usage.Value = tlv(tagSequence, usage.Value[2:], derOID(oidDocumentSigning))
	both.certify(t, usage)
	for name, change := range map[string]func(*authority){
		"connection error": func(a *authority) { a.err = failure },
		"rejected request": func(a *authority) { a.status = 2 },
		"other nonce":      func(a *authority) { a.nonce = big.NewInt(7) },
		"no token":         func(a *authority) { a.change = func([]byte, []byte) []byte { return nil } },
		"changed token":    func(a *authority) { a.change = func(_, token []byte) []byte { token[len(token)-9] ^= 1; return token } },
		"other imprint": func(a *authority) {
			a.change = func(info, _ []byte) []byte { info[30] ^= 1; token, _ := a.token(info); return token }
		},
		"certificate of another key":                func(a *authority) { a.chain = chain{a.key, a.root, a.root, a.rootKey} },
		"certificate without a purpose":             func(a *authority) { a.chain = unlimited.chain },
		"certificate for a second purpose":          func(a *authority) { a.chain = both.chain },
		"certificate whose purpose is not critical": func(a *authority) { a.chain = optional.chain },
		"token that is too large":                   func(a *authority) { a.chain = large.chain },
		"bytes after the token": func(a *authority) {
			a.change = func(_, token []byte) []byte { return append(token, make([]byte, 70<<10)...) }
		},
		"no SignedData": func(a *authority) {
			a.change = func(_, _ []byte) []byte { return tlv(tagSequence, derOID(oidData)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, tsa := newChain(t, shape{name: "x"}), newAuthority(t)
			change(tsa)
			s := c.signer()
			s.TimeStamps = NewTimeStampAuthority(tsa.respond)
			if _, err := signTail(onePage(t), s, nil); !errors.Is(err, ErrTimeStamp) {
				t.Errorf("signing returned %v, want ErrTimeStamp", err)
			}
		})
	}
}

// A token that is larger than expected fits at the second attempt, because its
// size is then known.
func TestReserveAfterLargeToken(t *testing.T) {
	t.Parallel()
	c, tsa := newChain(t, shape{name: "x"}), newAuthority(t)
	tsa.certify(t, timeStamping(), bigExtension(5000))
	if mayTimeStamp(tsa.leaf) != nil {
		t.Fatal("the certificate of the authority is not for time stamping")
	}
	s := c.signer()
	s.TimeStamps = NewTimeStampAuthority(tsa.respond)
	if _, err := signTail(onePage(t), s, nil); err != nil || tsa.calls != 2 {
		t.Errorf("error = %v after %d requests, want none after 2", err, tsa.calls)
	}
}

// faultyKey is a key that fails or returns wrong signatures.
type faultyKey struct {
	crypto.Signer

	signature []byte
	err       error
}

func (k faultyKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return k.signature, k.err
}

func TestKeyErrors(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	errRemoved := errors.New("token removed")
	for _, test := range []struct {
		name   string
		signer *Signer
		want   error
	}{
		{"no key", &Signer{Chain: c.signer().Chain}, ErrKey},
		{"no certificate", &Signer{Key: c.key}, ErrKey},
		{"key of another certificate", &Signer{Key: newKey(t, elliptic.P256()), Chain: c.signer().Chain}, ErrKey},
		{"key that fails", &Signer{Key: faultyKey{Signer: c.key, err: errRemoved}, Chain: c.signer().Chain}, errRemoved},
		{"wrong signature", &Signer{Key: faultyKey{Signer: c.key, signature: []byte("x")}, Chain: c.signer().Chain}, ErrKey},
	} {
		if _, err := signTail(onePage(t), test.signer, nil); !errors.Is(err, test.want) {
			t.Errorf("%s: signing returned %v, want %v", test.name, err, test.want)
		}
	}
	p521 := newChain(t, shape{name: "x", key: newKey(t, elliptic.P521())})
	if _, err := signTail(onePage(t), p521.signer(), nil); !errors.Is(err, ErrKey) {
		t.Errorf("signing with P-521 returned %v, want ErrKey", err)
	}
}
