package pades

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// certify signs a file with a certification signature of permission p (12.8.2.2).
func certify(t *testing.T, file []byte, s *Signer, p int) []byte {
	t.Helper()
	pending, tail := prepared(t, file, s, Statement{Time: signingTime})
	if n := bytes.Count(tail, []byte("/P 2/V/1.2")); n != 1 {
		t.Fatalf("the tail has %d permissions, want 1: %q", n, tail)
	}
	tail = bytes.Replace(tail, []byte("/P 2/V/1.2"), fmt.Appendf(nil, "/P %d/V/1.2", p), 1)
	return completed(t, pending, file, tail)
}

// annotated adds an annotation that covers the page.
func annotated(u *pdf.Update, _ *pdf.Document, page *pdf.Page) {
	appearance := u.Add(pdf.NewStream(pdf.NewDict(pdf.Entry{Key: "Subtype", Value: pdf.Name("Form")}), []byte("1 g 0 0 200 100 re f")))
	dict := u.PageDict(page)
	annotations := append(pdf.Array{}, u.Array(dict.Get("Annots"))...)
	annotations = append(annotations, u.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Annot")}, pdf.Entry{Key: "Subtype", Value: pdf.Name("FreeText")},
		pdf.Entry{Key: "Rect", Value: pdf.Rectangle{X1: 200, Y1: 100}.Array()}, pdf.Entry{Key: "AP", Value: pdf.NewDict(pdf.Entry{Key: "N", Value: appearance})},
	)))
	u.SetPage(page, dict.Clone().Set("Annots", annotations))
}

// Attacks on certified documents add an annotation over the text, change the
// page, or replace its content. Each attack makes the file invalid at each
// level of permission. If a trusted signer signs the changed file again, the
// report must not state that the certified document is unchanged.
func TestChangedAfterCertification(t *testing.T) {
	t.Parallel()
	c, untrusted, second := newChain(t, shape{name: "x"}), newChain(t, shape{name: "x"}), newChain(t, shape{name: "second"})
	for p := 1; p <= 3; p++ {
		file := certify(t, onePage(t), c.signer(), p)
		if s := requireValid(t, file, c.options()).Signatures[0]; s.Certification != p {
			t.Fatalf("certification = %d, want %d: %+v", s.Certification, p, s)
		}
		for name, edit := range map[string]func(u *pdf.Update, doc *pdf.Document, page *pdf.Page){
			"annotation": annotated,
			"page":       func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) { stamped(u, page) },
			"content": func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) {
				if ref, ok := page.Contents()[0].(pdf.Ref); ok {
					u.Set(ref, pdf.NewStream(nil, []byte("0 0 99 99 re f")))
				}
			},
		} {
			changed := append(bytes.Clone(file), updated(t, file, edit)...)
			for signedBy, report := range map[string]*Report{
				"no signer":           verify(t, changed, c.options()),
				"an untrusted signer": verify(t, sign(t, changed, untrusted.signer()), c.options()),
			} {
				if report.Verdict != Invalid {
					t.Errorf("P=%d, %s, signed by %s: verdict = %s (%s), want Invalid", p, name, signedBy, report.Verdict, report.Reason)
				}
			}
			report := verify(t, sign(t, changed, second.signer()), second.options())
			if s := report.Signatures[0]; s.Changes == Passed || len(s.Changed) == 0 || len(s.Problems) == 0 {
				t.Errorf("P=%d, %s, signed again: signature = %+v, want a reported change", p, name, s)
			}
			if (p == 1) != (report.Verdict == Invalid) {
				t.Errorf("P=%d, %s, signed again: verdict = %s (%s), want Invalid only for P=1", p, name, report.Verdict, report.Reason)
			}
		}
		if p == 1 {
			continue
		}
		if report := verify(t, sign(t, file, untrusted.signer()), c.options()); report.Verdict != Invalid {
			t.Errorf("P=%d, signed by an untrusted signer: verdict = %s (%s), want Invalid", p, report.Verdict, report.Reason)
		}
	}
}

// A sealed file is valid even if a signature of an untrusted signer was removed before
// sealing, or an earlier signature has an arbitrary byte range. A file is invalid if a
// trusted signature was removed, or if it was not signed after a removal.
func TestEarlierSignatures(t *testing.T) {
	t.Parallel()
	c, untrusted := newChain(t, shape{name: "x"}), newChain(t, shape{name: "untrusted"})
	clearSignature := func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) { remove(u, "AcroForm", "Perms") }
	foreign := sign(t, onePage(t), untrusted.signer())
	cleared := append(bytes.Clone(foreign), updated(t, foreign, clearSignature)...)
	file := sign(t, cleared, c.signer())
	report := requireValid(t, file, c.options())
	if len(report.Signatures) != 1 || !strings.Contains(strings.Join(report.Unproven, " "), "removed") {
		t.Errorf("report = %+v, want one signature and a note about the removed signature", report)
	}
	if report := verify(t, file, Options{Now: signingTime}); report.Verdict != Unknown {
		t.Errorf("verdict without roots = %s (%s), want Unknown", report.Verdict, report.Reason)
	}
	trusted := sign(t, onePage(t), c.signer())
	clearedTrusted := append(bytes.Clone(trusted), updated(t, trusted, clearSignature)...)
	if report := verify(t, sign(t, clearedTrusted, c.signer()), c.options()); report.Verdict != Invalid || !strings.Contains(report.Reason, "removed") {
		t.Errorf("verdict after removing a trusted signature = %s (%s), want Invalid, because a signature was removed", report.Verdict, report.Reason)
	}
	if report := verify(t, cleared, c.options()); report.Verdict != Invalid {
		t.Errorf("verdict on the cleared file without a new signature = %s (%s), want Invalid", report.Verdict, report.Reason)
	}

	for _, ranges := range []string{"[0 999999999 999999999 999999999]", "[0 9223372036854775807 9223372036854775807 9223372036854775807]", "[0 1 2 3]"} {
		unused := onePage(t)
		unused = append(unused, updated(t, unused, func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) {
			value, err := parsed("<</Type/Sig/SubFilter/ETSI.CAdES.detached/ByteRange" + ranges + "/Contents<00>>>")
			if err != nil {
				t.Fatal(err)
			}
			field := u.Add(pdf.NewDict(pdf.Entry{Key: "FT", Value: pdf.Name("Sig")}, pdf.Entry{Key: "T", Value: pdf.TextString("a")}, pdf.Entry{Key: "V", Value: u.Add(value)}))
			form := pdf.NewDict(pdf.Entry{Key: "Fields", Value: pdf.Array{field}})
			u.SetCatalog(u.Catalog().Clone().Set("AcroForm", form))
		})...)
		report := requireValid(t, sign(t, unused, c.signer()), c.options())
		if len(report.Signatures) != 2 || report.Signatures[0].Coverage != Failed || report.Signatures[0].Revision != 0 {
			t.Errorf("byte range %s: signatures = %+v, want two, the first without coverage", ranges, report.Signatures)
		}
	}
}

// parsed parses a direct object.
func parsed(text string) (pdf.Object, error) {
	file := []byte("%PDF-1.7\n1 0 obj<</Type/Catalog/Pages<</Type/Pages/Kids[<</Type/Page/MediaBox[0 0 9 9]>>]/Count 1>>>>endobj\n2 0 obj" + text + "endobj\n")
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	return doc.Object(pdf.Ref{Number: 2}), nil
}

// Two signatures have the same object number: one is in the bytes of the file, and one
// is in an object stream. The file is valid only if the cross-reference stream refers
// to the signature in the bytes.
func TestSignatureBehindObjectStream(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	scheme, err := c.signer().check()
	if err != nil {
		t.Fatal(err)
	}
	const ranges = "[0 000000 000000 000000]"
	value := func(contents string) string {
		return "<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/ETSI.CAdES.detached/ByteRange 7 0 R/Contents<" + contents + ">>>"
	}
	room := strings.Repeat("0", 2*c.signer().reserve(scheme))
	for name, inStream := range map[string]bool{"in the file": false, "in a stream": true} {
		var out bytes.Buffer
		offsets := map[int]int{}
		object := func(number int, text string) {
			offsets[number] = out.Len()
			fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", number, text)
		}
		out.WriteString("%PDF-1.7\n")
		object(1, "<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[4 0 R]>>>>")
		object(2, "<</Type/Pages/Kids[3 0 R]/Count 1>>")
		object(3, "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>")
		object(4, "<</FT/Sig/T(a)/V 8 0 R>>")
		packed := "8 0 " + value("00")
		object(5, fmt.Sprintf("<</Type/ObjStm/N 1/First 4/Length %d>>\nstream\n%s\nendstream", len(packed), packed))
		object(7, ranges)
		object(8, strings.Replace(value(room), "7 0 R", ranges, 1))
		at := out.Len()
		var rows bytes.Buffer
		for number := range 9 {
			switch offset := offsets[number]; {
			case number == 8 && inStream:
				rows.Write([]byte{2, 0, 5, 0})
			case number == 6:
				rows.Write([]byte{1, byte(at >> 8), byte(at), 0})
			case offset > 0:
				rows.Write([]byte{1, byte(offset >> 8), byte(offset), 0})
			default:
				rows.Write([]byte{0, 0, 0, 0})
			}
		}
		fmt.Fprintf(&out, "6 0 obj\n<</Type/XRef/W[1 2 1]/Size 9/Root 1 0 R/Length %d>>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", rows.Len(), rows.Bytes(), at)
		file := out.Bytes()
		from := bytes.Index(file, []byte("<"+room))
		to := from + len(room) + 2
		file = bytes.ReplaceAll(file, []byte(ranges), fmt.Appendf(nil, "[0 %06d %06d %06d]", from, to, len(file)-to))
		sum := sha256.Sum256(append(bytes.Clone(file[:from]), file[to:]...))
		cms, err := c.signer().sign(t.Context(), sum[:])
		if err != nil {
			t.Fatal(err)
		}
		hex.Encode(file[from+1:], cms)
		report := verify(t, file, c.options())
		if want := map[bool]Verdict{false: Valid, true: Invalid}[inStream]; report.Verdict != want {
			t.Errorf("%s: verdict = %s (%s), want %s", name, report.Verdict, report.Reason, want)
		}
	}
}
