package pades

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
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
			if s.Signer != "Prüfungsamt" || !s.ClaimedTime.Equal(signingTime) || s.Certification != 1 || !s.CoversFile {
				t.Errorf("%+v", s)
			}
			if o := report.Original; o == nil || o.Result != Passed || o.Length != int64(len(file)) || o.ReferenceID != "NWU-0123456789ABCDEF" {
				t.Errorf("original: %+v", report.Original)
			}
			if got := verify(t, signed, Options{Now: signingTime}); got.Verdict != Unknown {
				t.Errorf("without a root: %s", got.Verdict)
			}
			other := newChain(t, shape{name: "Prüfungsamt"})
			if got := verify(t, signed, other.options()); got.Verdict != Invalid || got.Signatures[0].Chain != Failed {
				t.Errorf("with another root: %s, %s", got.Verdict, got.Reason)
			}
		})
	}
}

// With a hash state saved after the original, Complete does not read the head.
func TestCompleteResumesHashState(t *testing.T) {
	t.Parallel()
	c, file := newChain(t, shape{name: "x"}), onePage(t)
	p, tail := prepared(t, file, c.signer(), Statement{Time: signingTime})
	if err := p.Complete(t.Context(), Head{Size: int64(len(file)), State: hashed(t, file)}, tail); err != nil {
		t.Fatal(err)
	}
	report := requireValid(t, append(file, tail...), c.options())
	if report.Original != nil {
		t.Errorf("an original that no signature names: %+v", report.Original)
	}
}

// A state that does not match the original is ignored: Complete reads the head.
func TestCompleteIgnoresWrongHashState(t *testing.T) {
	t.Parallel()
	c, file := newChain(t, shape{name: "x"}), onePage(t)
	for name, state := range map[string][]byte{"none": nil, "of another file": hashed(t, file[1:]), "cut off": hashed(t, file)[1:], "nonsense": []byte("x")} {
		p, tail := prepared(t, file, c.signer(), Statement{Time: signingTime})
		if err := p.Complete(t.Context(), Head{R: bytes.NewReader(file), Size: int64(len(file)), State: state}, tail); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		requireValid(t, append(bytes.Clone(file), tail...), c.options())
	}
}

// hashed returns the SHA-256 state after data.
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

func TestSecondSignatureApproves(t *testing.T) {
	t.Parallel()
	first, second := newChain(t, shape{name: "first"}), newChain(t, shape{name: "second"})
	signed := sign(t, onePage(t), first.signer())
	again := sign(t, signed, second.signer())
	// The first signature permits no changes, so that a second one makes the
	// file invalid; sealing uses another form for such files.
	report := verify(t, again, second.options())
	if report.Verdict != Invalid || len(report.Signatures) != 2 || report.Signatures[0].Changes != Failed || report.Signatures[1].Certification != 0 {
		t.Errorf("%s: %s %+v", report.Verdict, report.Reason, report.Signatures)
	}
	if !report.Signatures[0].Intact() || !report.Signatures[1].Intact() {
		t.Error("not intact")
	}
	if report.Signatures[0].Field == report.Signatures[1].Field {
		t.Error("two fields of one name")
	}
}

// After a signature that permits it, ours decides the verdict, and the report
// lists the changes after the first one.
func TestApprovalOnTopOfApproval(t *testing.T) {
	t.Parallel()
	first, second := newChain(t, shape{name: "first"}), newChain(t, shape{name: "second"})
	// A usage rights entry prevents the first signature from certifying.
	file := bytes.Replace(onePage(t), []byte("<</Type/Catalog"), []byte("<</Perms<</UR3 9 0 R>>/Type/Catalog"), 1)
	signed := sign(t, file, first.signer())
	if s := requireValid(t, signed, first.options()).Signatures[0]; s.Certification != 0 {
		t.Fatalf("certified: %+v", s)
	}
	report := requireValid(t, sign(t, signed, second.signer()), second.options())
	if s := report.Signatures[0]; !s.Intact() || s.CoversFile || s.Chain != Failed || len(s.Changed) == 0 {
		t.Errorf("%+v", s)
	}
}

func TestTimeStamp(t *testing.T) {
	t.Parallel()
	c, tsa := newChain(t, shape{name: "x", until: signingTime.AddDate(1, 0, 0)}), newAuthority(t)
	s := c.signer()
	s.TimeStamps = NewTimeStampAuthority(tsa.answer)
	file := onePage(t)
	tail, err := signTail(file, s, stamped)
	if err != nil {
		t.Fatal(err)
	}
	if len(tail) > 16_000 {
		t.Errorf("%d bytes were added", len(tail))
	}
	again, err := signTail(file, s, stamped)
	if err != nil {
		t.Fatal(err)
	}
	if len(again) >= len(tail) {
		t.Errorf("%d bytes with the size of the token known, %d without", len(again), len(tail))
	}
	signed := append(bytes.Clone(file), again...)
	o := c.options()
	report := requireValid(t, signed, o)
	if ts := report.Signatures[0].TimeStamp; ts == nil || ts.Value != Passed || ts.Chain != NotRun || ts.Authority != "Test TSA" ||
		!ts.Time.Equal(signingTime.Add(1500*time.Millisecond)) {
		t.Errorf("%+v", ts)
	}
	// Years later the certificate has expired; the time stamp proves that it
	// was valid.
	o.Now = signingTime.AddDate(5, 0, 0)
	if got := verify(t, signed, o); got.Verdict != Unknown || got.Signatures[0].Chain != NotRun {
		t.Errorf("expired: %s, %s", got.Verdict, got.Reason)
	}
	o.TimeStampRoots = x509.NewCertPool()
	o.TimeStampRoots.AddCert(tsa.root)
	if ts := requireValid(t, signed, o).Signatures[0].TimeStamp; ts.Chain != Passed || ts.Problem != "" {
		t.Errorf("%+v", ts)
	}
	// Decades later the authority's certificate has expired as well, which the
	// report states.
	o.Now = tsa.leaf.NotAfter.AddDate(1, 0, 0)
	if ts := requireValid(t, signed, o).Signatures[0].TimeStamp; ts.Chain != Passed || !strings.Contains(ts.Problem, "expired") {
		t.Errorf("%+v", ts)
	}
}

func TestTimeStampAuthorityErrors(t *testing.T) {
	t.Parallel()
	failure := errors.New("connection refused")
	for name, spoil := range map[string]func(*authority){
		"down":        func(a *authority) { a.err = failure },
		"refuses":     func(a *authority) { a.status = 2 },
		"other nonce": func(a *authority) { a.nonce = big.NewInt(7) },
		"no answer":   func(a *authority) { a.change = func([]byte, []byte) []byte { return nil } },
		"flipped":     func(a *authority) { a.change = func(_, token []byte) []byte { token[len(token)-9] ^= 1; return token } },
		"other imprint": func(a *authority) {
			a.change = func(info, _ []byte) []byte { info[30] ^= 1; token, _ := a.token(info); return token }
		},
		"not for stamps": func(a *authority) { a.chain = chain{a.key, a.root, a.root, a.rootKey} },
		"too much": func(a *authority) {
			a.change = func(_, token []byte) []byte { return append(token, make([]byte, 70<<10)...) }
		},
		"something else": func(a *authority) {
			a.change = func(_, _ []byte) []byte { return tlv(tagSequence, derOID(oidData)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, tsa := newChain(t, shape{name: "x"}), newAuthority(t)
			spoil(tsa)
			s := c.signer()
			s.TimeStamps = NewTimeStampAuthority(tsa.answer)
			if _, err := signTail(onePage(t), s, nil); !errors.Is(err, ErrTimeStamp) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The size of a token that is larger than expected is known at the second
// attempt.
func TestReserveGrows(t *testing.T) {
	t.Parallel()
	c, tsa := newChain(t, shape{name: "x"}), newAuthority(t)
	tsa.leaf = issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: tsa.leaf.Subject, NotBefore: tsa.leaf.NotBefore, NotAfter: tsa.leaf.NotAfter,
		ExtraExtensions: []pkix.Extension{timeStamping(), bigExtension()}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, tsa.root, tsa.key.Public(), tsa.rootKey)
	if mayTimeStamp(tsa.leaf) != nil {
		t.Fatal("the test's own certificate is not one for time stamps")
	}
	s := c.signer()
	s.TimeStamps = NewTimeStampAuthority(tsa.answer)
	if _, err := signTail(onePage(t), s, nil); err != nil || tsa.calls != 2 {
		t.Errorf("%v after %d calls", err, tsa.calls)
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
	broken := errors.New("token removed")
	for _, test := range []struct {
		name   string
		signer *Signer
		want   error
	}{
		{"no key", &Signer{Chain: c.signer().Chain}, ErrKey},
		{"no certificate", &Signer{Key: c.key}, ErrKey},
		{"key of another", &Signer{Key: newKey(t, elliptic.P256()), Chain: c.signer().Chain}, ErrKey},
		{"fails", &Signer{Key: faultyKey{Signer: c.key, err: broken}, Chain: c.signer().Chain}, broken},
		{"lies", &Signer{Key: faultyKey{Signer: c.key, signature: []byte("x")}, Chain: c.signer().Chain}, ErrKey},
	} {
		if _, err := signTail(onePage(t), test.signer, nil); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
	p521 := newChain(t, shape{name: "x", key: newKey(t, elliptic.P521())})
	if _, err := signTail(onePage(t), p521.signer(), nil); !errors.Is(err, ErrKey) {
		t.Errorf("P-521: %v", err)
	}
}
