package pades

import (
	"bytes"
	"crypto/sha256"
	"math/big"
	"testing"
)

// FuzzCMS checks that the parser of signatures ends without a panic on any input,
// and that a second conversion from BER changes nothing.
func FuzzCMS(f *testing.F) {
	c, tsa := newChain(f, shape{name: "x", fixed: 1}), newFixedAuthority(f)
	s := c.signer()
	s.TimeStamps = NewTimeStampAuthority(tsa.respond)
	digest := sha256.Sum256(nil)
	cms, err := s.sign(f.Context(), digest[:])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cms)
	f.Add(tlv(0x24, tlv(tagOctetString, []byte("a")), tlv(tagOctetString, []byte("b"))))
	f.Add([]byte{0x30, 0x80, 0x04, 0x01, 0x61, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		element, rest, err := fromBER(data, 0)
		if err == nil {
			again, none, err := fromBER(element, 0)
			if err != nil || len(none) > 0 || !bytes.Equal(again, element) {
				t.Errorf("%x is converted to %x, and that to %x (error %v), want no second change", data, element, again, err)
			}
			if len(element)+len(rest) > len(data)+5*len(data) {
				t.Errorf("the conversion of %d bytes returns %d bytes, want at most six times as many", len(data), len(element)+len(rest))
			}
			data = element
		}
		signed, err := parseSignedData(data)
		if err != nil {
			return
		}
		signed.check(digest[:])
		signed.signer.signingTime()
		v := verifier{now: signingTime}
		v.checkUnsigned(&Signature{}, signed)
	})
}

// FuzzTimeStamp checks that the parsers of a time-stamp authority's responses end
// without a panic on any input.
func FuzzTimeStamp(f *testing.F) {
	tsa := newFixedAuthority(f)
	digest := sha256.Sum256(nil)
	response, err := tsa.respond(f.Context(), timeStampRequest(digest[:], big.NewInt(1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(response)
	tsa.status = 2
	if response, err = tsa.respond(f.Context(), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(response)
	f.Fuzz(func(t *testing.T, data []byte) {
		token, err := parseTimeStampResponse(data)
		if err != nil {
			return
		}
		stamp, err := parseTimeStamp(token)
		if err != nil {
			return
		}
		if stamp.check(nil) == nil && stamp.time.IsZero() {
			t.Error("the time of a valid stamp is zero, want the signing time")
		}
	})
}

// FuzzVerify checks whole files. Only the signed file may be valid.
func FuzzVerify(f *testing.F) {
	c := newChain(f, shape{name: "x", fixed: 1})
	signed := sign(f, onePage(f), c.signer())
	f.Add(signed)
	f.Add(sign(f, signed, c.signer()))
	f.Add(onePage(f))
	f.Add([]byte("%PDF-1.7\n1 0 obj<</ByteRange[0 30 32 1]/Contents<00>>>endobj"))
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := Verify(bytes.NewReader(data), int64(len(data)), c.options())
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict == Valid && !bytes.Equal(data, signed) {
			t.Errorf("verdict on another file = Valid, want Invalid or Unknown: %q", data)
		}
	})
}
