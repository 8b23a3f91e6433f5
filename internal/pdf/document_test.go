package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	plain := onePageFile()
	body, _, _ := strings.Cut(string(plain), "xref\n")
	tests := []struct {
		name     string
		file     []byte
		repaired bool
	}{
		{name: "table", file: plain},
		{name: "cross-reference and object stream", file: compressed(t)},
		{name: "hybrid", file: hybrid(t)},
		{name: "junk before the header", file: append(bytes.Repeat([]byte("junk\n"), 100), plain...)},
		{name: "junk that the offsets include", file: junkInOffsets(t)},
		{name: "junk that the offsets of a compressed file include", file: append([]byte("junk\n"), compressedAt(t, 5)...)},
		{name: "header at the last allowed offset", file: append(bytes.Repeat([]byte{'\n'}, 1023), plain...)},
		{name: "no header, otherwise valid", file: replaceOnce(t, plain, "%PDF-1.7\n", "%foo-1.7\n")},
		{name: "junk after the end", file: append(bytes.Clone(plain), make([]byte, 3000)...)},
		{name: "startxref one byte too large", file: moveStartxref(t, plain, 1), repaired: true},
		{name: "startxref seven bytes too small", file: moveStartxref(t, plain, -7), repaired: true},
		{name: "startxref 50 bytes too small", file: moveStartxref(t, plain, -50), repaired: true},
		{name: "no startxref", file: bytes.ReplaceAll(plain, []byte("startxref"), []byte("nothing")), repaired: true},
		{name: "no cross-reference and no trailer", file: []byte(body), repaired: true},
		{name: "trailer instead of the last endobj", file: []byte(strings.TrimSuffix(body, "endobj\n") + "trailer<</Root 1 0 R>>"), repaired: true},
		{name: "wrong offsets", file: []byte(strings.Replace(string(plain), "1 0 obj", "\n\n\n1 0 obj", 1)), repaired: true},
		{name: "table of 19-byte entries", file: []byte(strings.NewReplacer(" n \n", " n\n", " f \n", " f\n").Replace(string(plain)))},
		{name: "table with additional white space", file: []byte(strings.NewReplacer(" n \n", "   n\n ", " f \n", " f \n\n").Replace(string(plain)))},
		{name: "table that counts from 1", file: replaceOnce(t, plain, "xref\n0 5", "xref\n1 5")},
		{name: "table with a count that is too large", file: replaceOnce(t, plain, "xref\n0 5", "xref\n0 9")},
		{name: "/Prev that refers to no section", file: pdftest.File("/Prev 309", onePage("0 0 10 10 re f")...), repaired: true},
		{name: "/Prev that refers to its own section", file: prevLoop(t), repaired: true},
		{name: "/Prev outside the file", file: pdftest.File("/Prev 99999", onePage("")...), repaired: true},
		{name: "two documents in one", file: slices.Concat(pdftest.File("", onePage(strings.Repeat("n ", 99))...), plain), repaired: true},
		{name: "no trailer that refers to the catalog", file: []byte(strings.ReplaceAll(string(plain), "/Root 1 0 R", "")), repaired: true},
		{name: "no catalog", file: []byte(strings.NewReplacer("/Root 1 0 R", "", "/Type/Catalog/Pages 2 0 R", "/Type/Nothing/Pages 2 0 R").Replace(string(plain))), repaired: true},
		{name: "no page tree", file: replaceOnce(t, plain, "/Kids[3 0 R]", "/Kids 99 0 R"), repaired: true},
		{name: "object stream without a cross-reference", file: repairedObjectStream(t), repaired: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := open(t, test.file)
			if d.Repaired() != test.repaired {
				t.Errorf("Repaired() = %v, want %v", d.Repaired(), test.repaired)
			}
			tail, err := stampPage(d, firstPage(t, d))
			if err != nil {
				t.Fatal(err)
			}
			stamped := append(bytes.Clone(test.file), tail...)
			again := open(t, stamped)
			if again.Repaired() {
				t.Error("Repaired() = true for the stamped file, want false")
			}
			if got := content(t, again, firstPage(t, again)); !strings.Contains(got, "/CvTest Do") {
				t.Errorf("content of the first page = %q, want a stamp", got)
			}
		})
	}
}

func TestPrevLoopEnds(t *testing.T) {
	t.Parallel()
	d := open(t, prevLoop(t))
	d.reset()
	if err := d.loadXref(); !errors.Is(err, errXref) || len(d.xref.sections) != 1 {
		t.Errorf("loadXref read %d sections and returned %v, want 1 section and errXref", len(d.xref.sections), err)
	}
}

// prevLoop returns a file with one cross-reference section, whose /Prev refers to the section itself.
func prevLoop(tb testing.TB) []byte {
	tb.Helper()
	file := pdftest.File("/Prev 0000", onePage("0 0 10 10 re f")...)
	return replaceOnce(tb, file, "/Prev 0000", fmt.Sprintf("/Prev %04d", bytes.Index(file, []byte("xref\n"))))
}

// Some readers cannot use the cross-reference of these files. After a stamp, qpdf
// and pdfinfo must find the page.
func TestReadersFindObjectsOfStampedFile(t *testing.T) {
	t.Parallel()
	program := "\n%PDF-1.4\nMZ" + strings.Repeat("\x00\x01PE", 2000)
	oneBased := replaceOnce(t, onePageFile(), "xref\n0 5", "xref\n1 5")
	for name, file := range map[string][]byte{
		"table behind junk":      junkInOffsets(t),
		"compressed behind junk": append([]byte("junk\n"), compressedAt(t, 5)...),
		"compressed, behind a program that the offsets include": append([]byte(program), compressedAt(t, int64(len(program)))...),
		"compressed, behind a program":                          append([]byte(program), compressed(t)...),
		"table that counts from 1":                              oneBased,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "stamped.pdf")
			if err := os.WriteFile(path, stamped(t, file), 0o600); err != nil {
				t.Fatal(err)
			}
			for reader, args := range map[string][]string{"pdfinfo": {path}, "qpdf": {"--show-npages", path}} {
				out, err := exec.CommandContext(t.Context(), tool(t, reader), args...).CombinedOutput()
				if text := string(out); err != nil || text != "1\n" && !regexp.MustCompile(`(?m)^Pages: +1$`).MatchString(text) {
					t.Errorf("%s: error %v, want one page and no error\n%s", reader, err, text)
				}
			}
		})
	}
}

// junkInOffsets returns a file with junk before the header. The offsets in the
// file include the junk.
func junkInOffsets(tb testing.TB) []byte {
	tb.Helper()
	junk := strings.Repeat("x", 500) + "\n"
	file := string(onePageFile())
	head, tail, _ := strings.Cut(file, "0000000009 ")
	var lines []string
	for line := range strings.Lines("0000000009 " + tail) {
		var offset int
		if n, err := fmt.Sscanf(line, "%010d 00000 n", &offset); err == nil && n == 1 {
			line = fmt.Sprintf("%010d 00000 n \n", offset+len(junk))
		}
		lines = append(lines, line)
	}
	return moveStartxref(tb, []byte(junk+head+strings.Join(lines, "")), len(junk))
}

// moveStartxref adds by to the offset after startxref.
func moveStartxref(tb testing.TB, file []byte, by int) []byte {
	tb.Helper()
	head, tail, ok := strings.Cut(string(file), "startxref\n")
	var at int
	if _, err := fmt.Sscanf(tail, "%d", &at); err != nil || !ok {
		tb.Fatal("the file has no startxref")
	}
	return fmt.Appendf(nil, "%sstartxref\n%d\n%%%%EOF\n", head, at+by)
}

// repairedObjectStream returns a file with an object stream. The file must be
// repaired, because its cross-reference cannot be found.
func repairedObjectStream(tb testing.TB) []byte {
	tb.Helper()
	file := moveStartxref(tb, compressed(tb), 100)
	return bytes.Replace(file, []byte("/Type/XRef"), []byte("/Type/None"), 1)
}

// before returns the part of file that precedes mark.
func before(file []byte, mark string) []byte {
	head, _, _ := bytes.Cut(file, []byte(mark))
	return head
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	plain := onePageFile()
	tests := []struct {
		name string
		file []byte
		want error
	}{
		{"empty", nil, ErrEmpty},
		{"HTML", []byte("<!DOCTYPE html><title>certificate.pdf</title>"), ErrNotPDF},
		{"one word", []byte("hello"), ErrNotPDF},
		{"only a header", []byte("%PDF-1.7\n"), ErrDamaged},
		{"cut off within a stream", before(plain, "re f"), ErrTruncated},
		{"cut off within an object", before(plain, "/Count"), ErrTruncated},
		{"no page", pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[]/Count 0>>"), ErrNoPages},
		{"a page tree with a loop and no page", pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R]/Count 1>>"), ErrNoPages},
		{"no catalog and no page", pdftest.File("", "<</Type/Font>>"), ErrDamaged},
		{"an unknown security handler", pdftest.File("/Encrypt<</Filter/Adobe.PubSec/V 4>>", onePage("")...), ErrEncryption},
		{"an unknown algorithm", pdftest.File("/Encrypt<</Filter/Standard/V 9/R 9>>", onePage("")...), ErrEncryption},
		{"an object nested too deeply", pdftest.File("", "<</Type/Catalog/Pages 2 0 R/X "+strings.Repeat("[", 10_000)+">>"), ErrLimit},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(bytes.NewReader(test.file), int64(len(test.file)))
			if !errors.Is(err, test.want) {
				t.Errorf("Open returned %v, want %v", err, test.want)
			}
		})
	}
}

// A read error must be returned, and not be treated as a missing object.
func TestReadErrorIsReturned(t *testing.T) {
	t.Parallel()
	file := benchFile(t, 300, 3000, 1000)
	readErr := errors.New("read failed")
	failing := &faultyReader{r: bytes.NewReader(file), err: readErr, allowed: 2}
	for ; ; failing.allowed++ {
		failing.reads = 0
		tail, err := stampFile(failing, int64(len(file)))
		if err == nil {
			break
		}
		if !errors.Is(err, readErr) {
			t.Fatalf("error after %d reads = %v, want %v", failing.allowed, err, readErr)
		}
		if tail != nil {
			t.Fatal("stampFile returned a tail and an error, want no tail")
		}
	}
}

type faultyReader struct {
	r              io.ReaderAt
	err            error
	reads, allowed int
}

func (f *faultyReader) ReadAt(p []byte, offset int64) (int, error) {
	if f.reads++; f.reads > f.allowed {
		return 0, f.err
	}
	return f.r.ReadAt(p, offset)
}

// The number of bytes that are read does not depend on the size of the file.
func TestOpenReadsFewBytes(t *testing.T) {
	t.Parallel()
	file := benchFile(t, 1, 10_000, 8<<20)
	counting := &countingReader{r: bytes.NewReader(file)}
	if _, err := stampFile(counting, int64(len(file))); err != nil {
		t.Fatal(err)
	}
	if counting.n > 128<<10 {
		t.Errorf("%d of %d bytes were read, want at most %d", counting.n, len(file), 128<<10)
	}
}

type countingReader struct {
	r io.ReaderAt
	n int
}

func (c *countingReader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.r.ReadAt(p, offset)
	c.n += n
	return n, err
}

func TestResolve(t *testing.T) {
	t.Parallel()
	d := open(t, pdftest.File("", append(onePage(""), "6 0 R", "5 0 R", "7 0 R", "9 0 R", "(end)")...))
	for _, test := range []struct {
		number int
		want   Object
	}{{5, nil}, {7, nil}, {8, String("end")}, {99, nil}, {0, nil}, {-1, nil}} {
		if got := d.Resolve(Ref{Number: test.number}); got != test.want {
			t.Errorf("object %d: got %v, want %v", test.number, got, test.want)
		}
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}

func TestStreamLength(t *testing.T) {
	t.Parallel()
	for name, dict := range map[string]string{
		"direct":    "/Length 14",
		"indirect":  "/Length 5 0 R",
		"too short": "/Length 3",
		"too long":  "/Length 99999",
		"negative":  "/Length -1",
		"missing":   "",
		"loop":      "/Length 4 0 R",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bodies := onePage("")
			bodies[3] = "<<" + dict + ">>\nstream\r\n0 0 10 10 re f\r\nendstream"
			d := open(t, pdftest.File("", append(bodies, "14")...))
			if got, want := content(t, d, firstPage(t, d)), "0 0 10 10 re f\n"; got != want {
				t.Errorf("content = %q, want %q", got, want)
			}
		})
	}
}
