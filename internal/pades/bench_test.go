package pades

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// BenchmarkSign measures a stamp as an incremental update, without and with a
// signature, on a small file and on a file of 20 MB.
func BenchmarkSign(b *testing.B) {
	c := newChain(b, shape{name: "x"})
	for name, size := range map[string]int{"small": 0, "20MB": 20 << 20} {
		file := onePage(b)
		if size > 0 {
			file = append(file, grow(b, file, size)...)
		}
		h := sha256.New()
		h.Write(file)
		state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			b.Fatal(err)
		}
		for mode, s := range map[string]*Signer{"unsigned": nil, "signed": c.signer()} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				tail := 0
				for b.Loop() {
					tail = len(update(b, file, state, s))
				}
				b.ReportMetric(float64(tail), "tail-bytes")
			})
		}
	}
}

// update stamps a file, and signs it if s is not nil.
func update(b *testing.B, file, state []byte, s *Signer) []byte {
	b.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		b.Fatal(err)
	}
	found := doc.Inspect()
	u := doc.Update()
	stamped(u, page)
	var p *Pending
	if s != nil {
		if p, err = s.Prepare(u, doc, found, page, Statement{Name: "Test University", Time: signingTime, Original: Original{Form: Prefix, Length: int64(len(file))}}); err != nil {
			b.Fatal(err)
		}
	}
	tail, err := u.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	if p != nil {
		if err := p.Complete(b.Context(), BaseFile{R: bytes.NewReader(file), Size: int64(len(file)), State: state}, tail); err != nil {
			b.Fatal(err)
		}
	}
	return tail
}

// grow returns an update that enlarges a file by about n bytes.
func grow(b *testing.B, file []byte, n int) []byte {
	b.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	u := doc.Update()
	u.Add(pdf.NewRawStream(nil, make([]byte, n)))
	tail, err := u.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	return tail
}

// BenchmarkVerify measures Verify on a signed file. For comparison, it also measures
// hashing the file.
func BenchmarkVerify(b *testing.B) {
	c := newChain(b, shape{name: "x"})
	for name, size := range map[string]int{"small": 0, "20MB": 20 << 20} {
		file := onePage(b)
		if size > 0 {
			file = append(file, grow(b, file, size)...)
		}
		signed := sign(b, file, c.signer())
		b.Run(name+"/verify", func(b *testing.B) {
			for b.Loop() {
				if report, err := Verify(bytes.NewReader(signed), int64(len(signed)), c.options()); err != nil || report.Verdict != Valid {
					b.Fatalf("error = %v, report = %+v, want the verdict Valid", err, report)
				}
			}
		})
		b.Run(name+"/hash", func(b *testing.B) {
			for b.Loop() {
				sha256.Sum256(signed)
			}
		})
	}
}
