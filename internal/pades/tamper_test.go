package pades

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// flips are the values that are XORed with a byte. 0x20 changes the case of a
// letter, which does not change the value of a hexadecimal digit.
var flips = []byte{0x01, 0x20, 0xff}

// requireTamperingDetected changes the byte at each offset, one at a time, and
// fails the test if the changed file is valid. With -short it changes only a sample
// of the bytes.
func requireTamperingDetected(t *testing.T, file []byte, offsets []int, o Options) {
	t.Helper()
	if testing.Short() {
		offsets = slices.DeleteFunc(offsets, func(at int) bool { return at%13 != 0 })
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			changed := bytes.Clone(file)
			for i := int(next.Add(1)) - 1; i < len(offsets); i = int(next.Add(1)) - 1 {
				at := offsets[i]
				for _, flip := range flips {
					changed[at] ^= flip
					report, err := Verify(bytes.NewReader(changed), int64(len(changed)), o)
					changed[at] ^= flip
					if err != nil {
						t.Errorf("verifying the file with byte %d XORed with %#02x failed: %v", at, flip, err)
					} else if report.Verdict == Valid {
						t.Errorf("the file is valid with byte %d of %d XORed with %#02x: %q", at, len(changed), flip, around(changed, at))
					}
				}
			}
		})
	}
	wait.Wait()
}

// around returns the bytes around an offset.
func around(file []byte, at int) []byte { return file[max(0, at-20):min(at+20, len(file))] }

// all returns the offsets from 0 to n-1.
func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestFlippedByteIsNeverValid(t *testing.T) {
	t.Parallel()
	c, tsa := newChain(t, shape{name: "x"}), newAuthority(t)
	s := c.signer()
	o := c.options()
	plain := sign(t, onePage(t), s)
	s.TimeStamps = NewTimeStampAuthority(tsa.respond)
	s.TimeStamps.size.Store(1200)
	withStamp := sign(t, onePage(t), s)
	for name, file := range map[string][]byte{"B-B": plain, "B-T": withStamp} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireValid(t, file, o)
			offsets := all(len(file))
			if name == "B-T" { // the case B-B covers the bytes before the signature
				offsets = offsets[bytes.Index(file, []byte("/Contents <")):]
			}
			requireTamperingDetected(t, file, offsets, o)
		})
	}
}

// pagesPDF returns a PDF of n pages with different content.
func pagesPDF(t *testing.T, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pdf.NewWriter(&out)
	tree, kids := w.Reserve(), pdf.Array{}
	for i := range n {
		kids = append(kids, w.Add(pdf.NewDict(
			pdf.Entry{Key: "Type", Value: pdf.Name("Page")}, pdf.Entry{Key: "Parent", Value: tree}, pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: 200, Y1: 100}.Array()},
			pdf.Entry{Key: "Contents", Value: w.Add(pdf.NewStream(nil, fmt.Appendf(nil, "%d 0 10 10 re f", i)))},
		)))
	}
	w.Set(tree, pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Pages")}, pdf.Entry{Key: "Kids", Value: kids}, pdf.Entry{Key: "Count", Value: pdf.Integer(n)}))
	if err := w.Close(w.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: tree})), pdf.Ref{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// In a large file, only a sample of the bytes is changed.
func TestFlippedByteOfLargeFileIsNeverValid(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	large := onePage(t)
	large = append(large, updated(t, large, func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) {
		u.SetPage(page, page.Dict.Clone().Set("Attached", u.Add(pdf.NewRawStream(nil, bytes.Repeat([]byte("filling "), 5<<17)))))
	})...)
	for name, original := range map[string][]byte{"5 MB": large, "500 pages": pagesPDF(t, 500)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireSampleDetected(t, original, c)
		})
	}
}

// The files in this test are linearized, hybrid-reference, encrypted, damaged or
// already signed files, or have object streams or hundreds of pages.
func TestFlippedByteOfCorpusIsNeverValid(t *testing.T) {
	t.Parallel()
	corpusFiles(t)
	c := newChain(t, shape{name: "x"})
	for _, path := range []string{
		"structure/linearized.pdf", "structure/hybrid-xref-word.pdf", "producer/word-m365.pdf", "long/made-pages-600.pdf",
		"enc-empty-user/aes256-r6-owner.pdf", "broken-openable/startxref-obo.pdf", "structure/pdf20-offset-start.pdf", "signed/signed-twice-pyhanko.pdf",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			original, err := os.ReadFile(filepath.Join(corpus, "pdf", path))
			if err != nil {
				t.Fatal(err)
			}
			requireSampleDetected(t, original, c)
		})
	}
}

// requireSampleDetected signs a file, changes a sample of its bytes one at a
// time, and truncates it. It fails the test if a changed file is valid.
func requireSampleDetected(t *testing.T, original []byte, c chain) {
	t.Helper()
	file := sign(t, original, c.signer())
	requireValid(t, file, c.options())
	var offsets []int
	for at := 0; at < len(original); at += max(1, len(original)/101) {
		offsets = append(offsets, at)
	}
	for at := len(original); at < len(file); at += 37 {
		offsets = append(offsets, at)
	}
	requireTamperingDetected(t, file, offsets, c.options())
	for _, n := range []int{len(file) - 1, len(file) - 7, len(original) + 1, len(original), len(original) - 1, len(original) / 2} {
		requireNotValid(t, fmt.Sprintf("truncated to %d of %d bytes", n, len(file)), file[:n], c.options())
	}
}

func TestTruncatedFileIsNeverValid(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	original := onePage(t)
	file := sign(t, original, c.signer())
	step := 1
	if testing.Short() {
		step = 13
	}
	for n := 0; n < len(file); n += step {
		report := verify(t, file[:n], c.options())
		if report.Verdict == Valid {
			t.Errorf("verdict on the first %d of %d bytes = Valid, want Invalid or Unknown", n, len(file))
		}
		if missing := strings.Contains(report.Reason, "missing"); report.Verdict == Unknown && missing == (n >= len(original)-1 && n <= len(original)) {
			t.Errorf("reason for the first %d of %d bytes = %q, want the word \"missing\", except for the complete original of %d bytes", n, len(file), report.Reason, len(original))
		}
	}
}

func TestAddedBytesAreNeverValid(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	for name, added := range map[string]string{
		"a newline": "\n", "a comment": "% nothing\n", "an end marker": "%%EOF\n", "a null byte": "\x00",
	} {
		if report := verify(t, append(bytes.Clone(file), added...), c.options()); report.Verdict != Invalid {
			t.Errorf("%s: verdict = %s (%s), want Invalid", name, report.Verdict, report.Reason)
		}
	}
	for name, edit := range map[string]func(u *pdf.Update, doc *pdf.Document, page *pdf.Page){
		"a page changed":                 func(u *pdf.Update, _ *pdf.Document, page *pdf.Page) { stamped(u, page) },
		"fields removed":                 func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) { remove(u, "AcroForm") },
		"fields and permissions removed": func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) { remove(u, "AcroForm", "Perms") },
		"an empty revision":              func(*pdf.Update, *pdf.Document, *pdf.Page) {},
	} {
		report := verify(t, append(bytes.Clone(file), updated(t, file, edit)...), c.options())
		if report.Verdict != Invalid {
			t.Errorf("%s: verdict = %s (%s), want Invalid", name, report.Verdict, report.Reason)
		}
	}
	// An untrusted signer signs the file again.
	untrusted := newChain(t, shape{name: "x"})
	stripped := append(bytes.Clone(file), updated(t, file, func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) { remove(u, "AcroForm", "Perms") })...)
	for name, base := range map[string][]byte{"with the signature": file, "without the signature": stripped} {
		if report := verify(t, sign(t, base, untrusted.signer()), c.options()); report.Verdict != Invalid {
			t.Errorf("file %s, signed by an untrusted signer: verdict = %s (%s), want Invalid", name, report.Verdict, report.Reason)
		}
		// A new signature of the trusted signer does not make the file valid.
		if report := verify(t, sign(t, base, c.signer()), c.options()); report.Verdict != Invalid {
			t.Errorf("file %s, signed again: verdict = %s (%s), want Invalid", name, report.Verdict, report.Reason)
		}
	}
}

// remove deletes entries of the catalog.
func remove(u *pdf.Update, keys ...pdf.Name) {
	catalog := u.Catalog().Clone()
	for _, key := range keys {
		catalog.Delete(key)
	}
	u.SetCatalog(catalog)
}

// updated returns an update of a file with the changes of edit.
func updated(t *testing.T, file []byte, edit func(u *pdf.Update, doc *pdf.Document, page *pdf.Page)) []byte {
	t.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	u := doc.Update()
	edit(u, doc, page)
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

func TestSwappedOriginalIsNeverValid(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := onePage(t)
	tail, err := signTail(file, c.signer(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(bytes.Clone(file), []byte("0 0 10 10 re f"), []byte("1 1 10 10 re f"), 1)
	longer := append(bytes.Clone(file), "% more\n"...)
	for name, swapped := range map[string][]byte{"same length": other, "longer": longer, "none": nil} {
		report := verify(t, append(bytes.Clone(swapped), tail...), c.options())
		if report.Verdict == Valid || report.Original != nil && report.Original.Result == Passed {
			t.Errorf("%s: verdict = %s, original = %+v, want neither Valid nor Passed", name, report.Verdict, report.Original)
		}
	}
}

// An original that is embedded as a stream must have the digest in the signature,
// and must be the whole stream.
func TestSwappedAttachmentIsNeverValid(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	original := bytes.Repeat([]byte("uploaded "), 1000)
	file := onePage(t)
	attachment := pdf.Ref{}
	file = append(file, updated(t, file, func(u *pdf.Update, _ *pdf.Document, _ *pdf.Page) {
		attachment = u.Add(pdf.NewRawStream(nil, original))
	})...)
	for name, named := range map[string]Original{
		"the same":       {Length: int64(len(original)), SHA256: sha256.Sum256(original), Stream: attachment},
		"another":        {Length: int64(len(original)), SHA256: sha256.Sum256(original[1:]), Stream: attachment},
		"a part":         {Length: 9, SHA256: sha256.Sum256(original[:9]), Stream: attachment},
		"longer":         {Length: int64(len(original)) + 1, SHA256: sha256.Sum256(original), Stream: attachment},
		"no such stream": {Length: int64(len(original)), SHA256: sha256.Sum256(original), Stream: pdf.Ref{Number: 999}},
		"no stream":      {Length: int64(len(original)), SHA256: sha256.Sum256(original), Stream: pdf.Ref{Number: 1}},
	} {
		named.Form = Stream
		signed := signNaming(t, file, c.signer(), named)
		if report := verify(t, signed, c.options()); (report.Verdict == Valid) != (name == "the same") || (report.Original.Result == Passed) != (name == "the same") {
			t.Errorf("%s: verdict = %s, original = %+v, want Valid and Passed only for the same original", name, report.Verdict, report.Original)
		}
		swapped := bytes.Replace(signed, []byte("uploaded "), []byte("uploaded_"), 1)
		if report := requireNotValid(t, name+", swapped", swapped, c.options()); report.Original != nil && report.Original.Result == Passed {
			t.Errorf("%s, swapped: original = %+v, want another result than Passed", name, report.Original)
		}
	}
}

// signNaming signs a file. The signature names the original o.
func signNaming(t *testing.T, file []byte, s *Signer, o Original) []byte {
	t.Helper()
	p, tail := prepared(t, file, s, Statement{Time: signingTime, Original: o})
	return completed(t, p, file, tail)
}

// prepared returns an update that adds a signature, whose value is still missing.
func prepared(t *testing.T, file []byte, s *Signer, st Statement) (*Pending, []byte) {
	t.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	u := doc.Update()
	p, err := s.Prepare(u, doc, doc.Inspect(), page, st)
	if err != nil {
		t.Fatal(err)
	}
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return p, tail
}

// completed returns the signed file.
func completed(t *testing.T, p *Pending, file, tail []byte) []byte {
	t.Helper()
	if err := p.Complete(t.Context(), BaseFile{R: bytes.NewReader(file), Size: int64(len(file))}, tail); err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(file), tail...)
}

// A file is not valid with a byte range that only a lenient reader accepts. The forged files have the length of the
// signed file, and the value of the signature at the same offset, so that only the forged part is wrong.
func TestForgedRanges(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	file := sign(t, onePage(t), c.signer())
	size := int64(len(file))
	from, to := gap(t, file)
	at := bytes.Index(file, []byte("/ByteRange"))
	head, value, contents := string(file[at:from]), string(file[from:to]), "/Contents "
	// forge replaces the byte range, the white space after it, the key of the value, and the value.
	forge := func(text, key, value string) []byte {
		t.Helper()
		room := len(head) - len(text) - len(key)
		if room < 0 || int64(len(value)) != to-from {
			t.Fatalf("the value of %s%s has %d bytes, and %d bytes before it are left, want %d bytes and at least 0", text, key, len(value), room, to-from)
		}
		return slices.Concat(file[:at], []byte(text+strings.Repeat(" ", room)+key+value), file[to:])
	}
	signed := fmt.Sprintf("/ByteRange [0 %d %d %d]", from, to, size-to)
	if !bytes.Equal(forge(signed, contents, value), file) {
		t.Fatalf("the signed file has %q before the value, want %s, white space and %s", head, signed, contents)
	}
	forgeRange := func(numbers ...int64) []byte {
		t.Helper()
		return forge(fmt.Sprintf("/ByteRange %d", numbers), contents, value)
	}
	for name, forged := range map[string][]byte{
		"not from the beginning": forgeRange(1, from, to, size-to),
		"overlapping":            forgeRange(0, to, from, size-to),
		"negative":               forgeRange(0, from, to, -1),
		"beyond the end":         forgeRange(0, from, to, size-to+1),
		"everything":             forgeRange(0, from, from, size-from),
		"gap too early":          forgeRange(0, from-1, to, size-to),
		"gap too late":           forgeRange(0, from, to+1, size-to-1),
		"two numbers":            forgeRange(0, from),
		"six numbers":            forgeRange(0, from, to, size-to, 0, 0),
		"too large":              forgeRange(0, 99999999999999999, 9, 9),
		"real numbers":           forge(fmt.Sprintf("/ByteRange [0 %d. %d. %d.]", from, to, size-to), contents, value),
		"no numbers":             forge("/ByteRange [/a/b/c/d]", contents, value),
		"none":                   forge("/ByteRange []", contents, value),
		"escaped key":            forge(strings.Replace(signed, "R", "#52", 1), contents, value),
		"value of another key":   forge(signed, "/Contents <>/X", value),
	} {
		if list, _, err := scan(bytes.NewReader(forged), size); err != nil || len(list) > 0 {
			t.Errorf("%s: scan found %d signatures (error %v), want none", name, len(list), err)
		}
		requireNotValid(t, name, forged, c.options())
	}
	for name, forged := range map[string][]byte{
		"empty second part": forgeRange(0, from, to, 0),
		"key twice":         forge("/ByteRange[0 1 2 3]"+signed, contents, value),
		"white space":       forge(signed, contents, "<  "+strings.TrimSuffix(value[1:], "00>")+">"),
	} {
		requireNotValid(t, name, forged, c.options())
	}
}

// The signature of an attached file is not a signature of the file that
// contains it.
func TestSignatureOfAttachedFileIsIgnored(t *testing.T) {
	t.Parallel()
	c := newChain(t, shape{name: "x"})
	inner := sign(t, onePage(t), newChain(t, shape{name: "other"}).signer())
	file := onePage(t)
	tail, err := signTail(file, c.signer(), func(u *pdf.Update, page *pdf.Page) {
		u.SetPage(page, page.Dict.Clone().Set("Attached", u.Add(pdf.NewRawStream(nil, inner))))
	})
	if err != nil {
		t.Fatal(err)
	}
	if report := requireValid(t, append(file, tail...), c.options()); len(report.Signatures) != 1 {
		t.Errorf("the report has %d signatures, want 1", len(report.Signatures))
	}
}

func TestUnsignedFileIsUnknown(t *testing.T) {
	t.Parallel()
	report := verify(t, onePage(t), Options{Now: signingTime})
	if report.Verdict != Unknown || !strings.Contains(report.Reason, "no signature") || len(report.Unproven) == 0 {
		t.Errorf("report = %+v, want Unknown, because the file has no signature", report)
	}
	for _, file := range []string{"", "no PDF", "%PDF-1.7\n"} {
		if report := verify(t, []byte(file), Options{}); report.Verdict != Invalid {
			t.Errorf("report on %q = %+v, want Invalid", file, report)
		}
	}
}

// Verify returns an error, and no verdict, if the file cannot be read.
func TestVerifyReturnsReadError(t *testing.T) {
	t.Parallel()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if report, err := Verify(f, 100, Options{}); err == nil {
		t.Errorf("report = %+v, want an error", report)
	}
}
