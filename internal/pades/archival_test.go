package pades

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// documentStamped returns file with a document time stamp (ISO 32000-2, 12.8.5). Archives add these time
// stamps to signed files.
func documentStamped(t *testing.T, file []byte) []byte {
	t.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	byteRange := &pdf.Placeholder{Text: []byte("[0 0 0 0]" + strings.Repeat(" ", 30))}
	contents := &pdf.Placeholder{Text: []byte("<" + strings.Repeat("0", 2*firstToken) + ">")}
	u := doc.Update()
	value := u.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("DocTimeStamp")}, pdf.Entry{Key: "Filter", Value: pdf.Name("Adobe.PPKLite")},
		pdf.Entry{Key: "SubFilter", Value: pdf.Name(documentTimeStamp)}, pdf.Entry{Key: "ByteRange", Value: byteRange}, pdf.Entry{Key: "Contents", Value: contents},
	))
	field := u.Add(pdf.NewDict(pdf.Entry{Key: "FT", Value: pdf.Name("Sig")}, pdf.Entry{Key: "T", Value: pdf.TextString("archive")}, pdf.Entry{Key: "V", Value: value}))
	if catalog := u.Catalog().Clone(); addField(u, catalog, field) {
		u.SetCatalog(catalog)
	}
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	all := append(bytes.Clone(file), tail...)
	from, to := contents.Offset, contents.Offset+int64(len(contents.Text))
	copy(all[byteRange.Offset:], fmt.Sprintf("[0 %d %d %d]", from, to, int64(len(all))-to))
	digest := sha256.Sum256(slices.Concat(all[:from], all[to:]))
	response, err := newAuthority(t).respond(t.Context(), timeStampRequest(digest[:], big.NewInt(1)))
	if err != nil {
		t.Fatal(err)
	}
	token, err := parseTimeStampResponse(response)
	if err != nil {
		t.Fatal(err)
	}
	hex.Encode(all[from+1:], token)
	return all
}

// A sealed file permits document time stamps. The verdict on a file with one is Unknown, because a time
// stamp does not prove the signer. Any other signature makes a sealed file invalid.
func TestSealedFilePermitsDocumentTimeStamps(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	if s := requireValid(t, file, c.options()).Signatures[0]; s.Certification != 2 {
		t.Fatalf("certification = %d, want 2", s.Certification)
	}
	report := verify(t, documentStamped(t, file), c.options())
	if report.Verdict != Unknown || len(report.Signatures) != 2 || report.Signatures[1].SubFilter != documentTimeStamp {
		t.Fatalf("verdict = %s (%s), signatures = %+v, want Unknown and a document time stamp", report.Verdict, report.Reason, report.Signatures)
	}
	if s := report.Signatures[0]; !s.Intact() || s.Chain != Passed || s.Changes == Failed {
		t.Errorf("first signature = %+v, want an intact signature with a trusted chain, and Changes other than Failed", s)
	}
	changed := append(bytes.Clone(file), updated(t, file, func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) {
		if ref, ok := page.Contents()[0].(pdf.Ref); ok {
			u.Set(ref, pdf.NewStream(nil, []byte("0 0 99 99 re f")))
		}
	})...)
	if report := verify(t, documentStamped(t, changed), c.options()); report.Verdict != Invalid {
		t.Errorf("verdict on a file with changed content = %s (%s), want Invalid", report.Verdict, report.Reason)
	}
	if report := verify(t, sign(t, file, c.signer()), c.options()); report.Verdict != Invalid {
		t.Errorf("verdict on a file that was signed again = %s (%s), want Invalid", report.Verdict, report.Reason)
	}
}

// The form fields of a sealed file are locked, because the certification with P=2 permits changes of
// their values (ISO 32000-2, 12.8.2.2).
func TestFormFieldsOfASealedFileAreLocked(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	plain := onePage(t)
	form := append(bytes.Clone(plain), updated(t, plain, func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) {
		field := u.Add(pdf.NewDict(pdf.Entry{Key: "FT", Value: pdf.Name("Tx")}, pdf.Entry{Key: "T", Value: pdf.TextString("grade")}))
		u.SetCatalog(u.Catalog().Clone().Set("AcroForm", pdf.NewDict(pdf.Entry{Key: "Fields", Value: pdf.Array{field}})))
	})...)
	for name, test := range map[string]struct {
		file []byte
		want bool
	}{"without a form": {plain, false}, "with a form": {form, true}} {
		file := sign(t, test.file, c.signer())
		requireValid(t, file, c.options())
		doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		found := doc.Inspect()
		if found.FieldsLocked != test.want || found.DocMDP != 2 || !found.Certified {
			t.Errorf("%s: findings = %+v, want a certification with DocMDP = 2 and FieldsLocked = %v", name, found, test.want)
		}
		if got := doc.Dict(doc.Dict(found.Signatures[0].Field).Get("Lock")).Get("Action") == pdf.Name("All"); got != test.want {
			t.Errorf("%s: all fields are locked = %v, want %v", name, got, test.want)
		}
	}
}

// testdata/sealed-without-changes.pdf was sealed by an earlier version, with the certification P=1 and
// a signing time (/M) that ends in Z00'00'. The file is valid, and any change makes it invalid.
func TestFileThatPermitsNoChangesIsStillChecked(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/sealed-without-changes.pdf")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/sealed-without-changes.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Roots: []*x509.Certificate{root}, Now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := requireValid(t, file, o).Signatures[0]
	if s.Certification != 1 || s.ClaimedTime.Year() != 2026 || !bytes.Contains(file, []byte("Z00'00')")) {
		t.Errorf("certification = %d, claimed time = %v, want 1, a time in 2026 and an /M that ends in Z00'00'", s.Certification, s.ClaimedTime)
	}
	c := newChain(t, shape{name: "x"})
	o.Roots = append(o.Roots, c.root)
	for name, changed := range map[string][]byte{
		"an annotation":         append(bytes.Clone(file), updated(t, file, annotated)...),
		"a second signature":    sign(t, file, c.signer()),
		"a document time stamp": documentStamped(t, file),
	} {
		report := verify(t, changed, o)
		if report.Verdict != Invalid || !strings.Contains(report.Reason, "permits no changes") {
			t.Errorf("%s: verdict = %s (%s), want Invalid, because the signature permits no changes", name, report.Verdict, report.Reason)
		}
	}
}
