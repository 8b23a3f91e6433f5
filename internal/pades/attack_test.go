package pades

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// gap returns the offsets of the gap in the last byte range of a file. The gap
// includes the angle brackets.
func gap(t *testing.T, file []byte) (from, to int64) {
	t.Helper()
	list, _, err := scan(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(list) == 0 {
		t.Fatalf("scan found no signature (error %v)", err)
	}
	f := list[len(list)-1]
	return f.ranges[1], f.ranges[2]
}

// requireNotValid fails the test if the verdict on the file is Valid.
func requireNotValid(t *testing.T, name string, file []byte, o Options) *Report {
	t.Helper()
	report := verify(t, file, o)
	if report.Verdict == Valid {
		t.Errorf("%s: verdict = Valid, want Invalid or Unknown", name)
	}
	return report
}

// Universal signature forgery replaces the value in the gap with an empty or
// malformed value, because no signature covers the gap. The forged file is not valid.
func TestForgedContents(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	from, to := gap(t, file)
	room := int(to - from)
	digits := string(file[from+1 : to-1])
	cms, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(text, padding string) string { return text + strings.Repeat(padding, room-len(text)-1) + ">" }
	untrusted := newChain(t, shape{name: "x"})
	sum := sha256.Sum256(append(bytes.Clone(file[:from]), file[to:]...))
	foreign, err := untrusted.signer().sign(t.Context(), sum[:])
	// The length of an ECDSA signature varies by a few bytes.
	for err == nil && len(foreign) > len(cms) {
		foreign, err = untrusted.signer().sign(t.Context(), sum[:])
	}
	if err != nil {
		t.Fatal(err)
	}
	empty := tlv(tagSequence, derOID(oidSignedData), tlv(tagContextCons, tlv(tagSequence,
		[]byte{tagInteger, 1, 1}, tlv(tagSet), tlv(tagSequence, derOID(oidData)), tlv(tagSet))))
	for name, value := range map[string]string{
		"zeros":              fill("<", "0"),
		"null":               strings.Repeat(" ", room-4) + "null",
		"an empty string":    "<>" + strings.Repeat(" ", room-2),
		"a literal string":   "(" + strings.Repeat("\x00", room-2) + ")",
		"a dictionary":       "<</A/B>>" + strings.Repeat(" ", room-8),
		"an array":           "[" + strings.Repeat(" ", room-2) + "]",
		"a reference":        "1 0 R" + strings.Repeat(" ", room-5),
		"no signer":          fill("<"+hex.EncodeToString(empty), "0"),
		"the first half":     fill("<"+digits[:len(digits)/2], "0"),
		"untrusted signer":   fill("<"+hex.EncodeToString(foreign), "0"),
		"moved by a digit":   "<0" + digits[:len(digits)-1] + ">",
		"moved by a space":   "< " + digits[:len(digits)-1] + ">",
		"closed too early":   "<" + digits[:len(digits)-2] + ">  ",
		"with a comment":     "<" + digits[:len(digits)-2] + ">%%",
		"with an entry":      "<" + digits[:len(digits)-4] + ">/X 0",
		"with a newline":     "<" + digits[:len(digits)-1] + "\n>",
		"with a null byte":   "<" + digits[:len(digits)-1] + "\x00>",
		"in mixed case":      "<" + strings.ToUpper(digits[:len(digits)/2]) + digits[len(digits)/2:] + ">",
		"signature of zeros": "<" + hex.EncodeToString(append(cms[:len(cms)-64:len(cms)-64], make([]byte, 64)...)) + ">",
	} {
		if len(value) != room {
			t.Fatalf("%s has %d bytes, want %d", name, len(value), room)
		}
		requireNotValid(t, name, slices.Concat(file[:from], []byte(value), file[to:]), c.options())
	}
}

// Signature wrapping moves the signed bytes apart without changing them, and adds
// a second byte range that refers to the new positions. The forged file is not
// valid.
func TestSignatureWrapping(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	from, to := gap(t, file)
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	evil := fmt.Sprintf("%d 0 obj\n<</Type/Page/MediaBox[0 0 9 9]/Parent 1 0 R>>\nendobj\n", page.Ref.Number)
	rest := int64(len(file)) - to
	for name, wrap := range map[string]func(ranges string) string{
		"a second key":      func(ranges string) string { return string(file[from:to]) + ranges + ">>endobj\n" + evil + "<<" },
		"a second object":   func(ranges string) string { return string(file[from:to]) + ">>endobj\n" + evil + "90 0 obj<<" + ranges },
		"within the string": func(ranges string) string { return string(file[from:to-1]) + ranges + evil + ">" },
		"in a comment":      func(ranges string) string { return string(file[from:to]) + "%" + ranges + "\n>>endobj\n" + evil + "<<" },
		"a copy of the dictionary": func(ranges string) string {
			return string(file[from:to]) + ">>endobj\n" + evil + "90 0 obj<</Type/Sig/SubFilter/" + cadesDetached + ranges + "/Contents " + string(file[from:to])
		},
	} {
		ranges := func(n int) string { return fmt.Sprintf("/ByteRange[0 %d %06d %06d]", from, from+int64(n), rest) }
		n := len(wrap(ranges(0)))
		requireNotValid(t, name, slices.Concat(file[:from], []byte(wrap(ranges(n))), file[to:]), c.options())
	}
}

// An incremental saving attack appends a revision, or an incomplete revision that
// some viewers still show. The file is invalid.
func TestIncrementalSavingAttack(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	object := fmt.Sprintf("%d 0 obj\n<</Type/Page/MediaBox[0 0 9 9]>>\nendobj\n", page.Ref.Number)
	at := len(file)
	table := fmt.Sprintf("xref\n%d 1\n%010d 00000 n \n", page.Ref.Number, at)
	_, root := doc.Catalog()
	trailer := fmt.Sprintf("trailer\n<</Size 99/Root %d 0 R/Prev %s>>\n", root.Number, lastStartXref(t, file))
	ending := fmt.Sprintf("startxref\n%d\n%%%%EOF\n", at+len(object))
	signature := file[bytes.LastIndex(file, []byte("<</Type/Sig/")):]
	signature, _, _ = bytes.Cut(signature, []byte("endobj"))
	for name, added := range map[string]string{
		"a whole revision":     object + table + trailer + ending,
		"only objects":         object,
		"no trailer":           object + table + ending,
		"no table":             object + trailer + ending,
		"no startxref":         object + table + trailer,
		"only startxref":       "startxref\n" + lastStartXref(t, file) + "\n%%EOF\n",
		"only a trailer":       trailer + "startxref\n" + lastStartXref(t, file) + "\n%%EOF\n",
		"an overlapping table": table + "xref\n0 99\n" + trailer + ending,
		"a linearization":      "98 0 obj<</Linearized 1/L 9/H[0 0]/O 1/E 1/N 1/T 1>>endobj\n",
		"a copy of the signature": object + "97 0 obj\n" + string(signature) + "endobj\n" + table + trailer +
			ending,
	} {
		report := requireNotValid(t, name, append(bytes.Clone(file), added...), c.options())
		if report.Verdict != Invalid {
			t.Errorf("%s: verdict = %s (%s), want Invalid", name, report.Verdict, report.Reason)
		}
	}
}

func lastStartXref(t *testing.T, file []byte) string {
	t.Helper()
	found := regexp.MustCompile(`startxref\s+(\d+)`).FindAllSubmatch(file, -1)
	if len(found) == 0 {
		t.Fatal("the file has no startxref")
	}
	return string(found[len(found)-1][1])
}

// fileWithHiddenPage returns a file with unused objects: another first page,
// and a catalog with another page tree. The form of that catalog has the
// signature field with the given object number.
func fileWithHiddenPage(t *testing.T, field int) []byte {
	t.Helper()
	// A usage rights entry prevents certification.
	file := bytes.Replace(onePage(t), []byte("<</Type/Catalog"), []byte("<</Perms<</UR3 9 0 R>>/Type/Catalog"), 1)
	var original *pdf.Dict
	file = append(file, updated(t, file, func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) {
		original = page.Dict
		u.SetPage(page, page.Dict.Clone().Set("MediaBox", pdf.Rectangle{X1: 9, Y1: 9}.Array()))
	})...)
	return append(file, updated(t, file, func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) {
		u.SetPage(page, original)
		evil := u.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Page")}, pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: 8, Y1: 8}.Array()}))
		tree := u.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Pages")}, pdf.Entry{Key: "Kids", Value: pdf.Array{evil}}, pdf.Entry{Key: "Count", Value: pdf.Integer(1)}))
		form := pdf.NewDict(pdf.Entry{Key: "Fields", Value: pdf.Array{pdf.Ref{Number: field}}})
		u.Add(u.Catalog().Clone().Set("Pages", tree).Set("AcroForm", form))
	})...)
}

// In a shadow attack, a new cross-reference section activates an object that is
// hidden in the signed file. The changed file is invalid, and the report lists a
// changed page, although the attack writes no page object. The report still lists
// the change if a trusted signer signs the changed file again.
func TestShadowAttack(t *testing.T) {
	t.Parallel()
	first, second := newChain(t, shape{name: "first"}), newChain(t, shape{name: "second"})
	draft := sign(t, fileWithHiddenPage(t, 10), first.signer())
	opened, err := pdf.Open(bytes.NewReader(draft), int64(len(draft)))
	if err != nil {
		t.Fatal(err)
	}
	before := sign(t, fileWithHiddenPage(t, opened.Inspect().Signatures[0].Field.Number), first.signer())
	doc, err := pdf.Open(bytes.NewReader(before), int64(len(before)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	_, root := doc.Catalog()
	pages := regexp.MustCompile(fmt.Sprintf(`\n%d 0 obj`, page.Ref.Number)).FindAllIndex(before, -1)
	catalogs := regexp.MustCompile(`\n(\d+) 0 obj\s*<<[^\n]*/Type/Catalog`).FindAllSubmatch(before, -1)
	if len(pages) < 3 || len(catalogs) < 2 {
		t.Fatalf("the file has %d versions of the page and %d catalogs, want at least 3 and 2", len(pages), len(catalogs))
	}
	trailer := func(root string) string {
		return "trailer\n<</Size 99/Root " + root + " 0 R/Prev " + lastStartXref(t, before) + ">>\nstartxref\n" + fmt.Sprint(len(before)) + "\n%%EOF\n"
	}
	for name, added := range map[string]string{
		"a page":    fmt.Sprintf("xref\n%d 1\n%010d 00000 n \n", page.Ref.Number, pages[1][0]+1) + trailer(fmt.Sprint(root.Number)),
		"a catalog": "xref\n0 0\n" + trailer(string(catalogs[1][1])),
	} {
		changed := append(bytes.Clone(before), added...)
		report := verify(t, changed, first.options())
		if report.Verdict != Invalid || len(report.Signatures) != 1 || !hasChange(report.Signatures[0], ChangedPage) {
			t.Errorf("%s: verdict = %s, signatures = %+v, want Invalid and a changed page", name, report.Verdict, report.Signatures)
		}
		report = verify(t, sign(t, changed, second.signer()), second.options())
		if report.Verdict != Valid || len(report.Signatures) != 2 || report.Signatures[0].Changes == Passed || !hasChange(report.Signatures[0], ChangedPage) {
			t.Errorf("%s, signed again: verdict = %s (%s), signatures = %+v, want Valid and a changed page", name, report.Verdict, report.Reason, report.Signatures)
		}
	}
}

func hasChange(s Signature, kind ChangeKind) bool {
	return slices.ContainsFunc(s.Changed, func(c Change) bool { return c.Kind == kind })
}
