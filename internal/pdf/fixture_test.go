package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// onePage returns the objects of a document of one page with the given content.
func onePage(content string) []string {
	return []string{
		"<</Type/Catalog/Pages 2 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 200 100]/Resources<<>>>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>",
		pdftest.Stream("", content),
	}
}

// onePageFile returns a document of one page.
func onePageFile() []byte { return pdftest.File("", onePage("0 0 10 10 re f")...) }

// compressed returns a file whose catalog, page tree and page are in an object
// stream, with a cross-reference stream.
func compressed(tb testing.TB) []byte { return compressedAt(tb, 0) }

// compressedAt is like compressed, for a PDF that follows start bytes of junk. The
// offsets in the PDF include the junk.
func compressedAt(tb testing.TB, start int64) []byte {
	tb.Helper()
	return compressedBodies(tb, start, onePage("0 0 10 10 re f"))
}

// compressedBodies is like compressedAt, but the object stream contains the first
// three bodies.
func compressedBodies(tb testing.TB, start int64, bodies []string) []byte {
	tb.Helper()
	var out, header, data bytes.Buffer
	s := newSerializer(&out, start, nil)
	s.buf = append(s.buf, "%PDF-1.7\n"...)
	s.indirect(Ref{Number: 4}, NewStream(nil, []byte("0 0 10 10 re f")))
	var entries []numberedEntry
	for i, body := range bodies[:3] {
		fmt.Fprintf(&header, "%d %d ", i+1, data.Len())
		data.WriteString(body + " ")
		entries = append(entries, numberedEntry{i + 1, entry{kind: entryInStream, stream: 5, index: i}})
	}
	s.indirect(Ref{Number: 5}, NewStream(NewDict(Entry{"Type", Name("ObjStm")}, Entry{"N", Integer(3)},
		Entry{"First", Integer(header.Len())}), append(header.Bytes(), data.Bytes()...)))
	for _, e := range s.entries {
		entries = append(entries, numberedEntry{e.ref.Number, entry{kind: entryInFile, offset: e.offset}})
	}
	s.writeXref(entries, NewDict(Entry{"Root", Ref{Number: 1}}), 0, 6, Ref{Number: 6})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return out.Bytes()
}

// hybrid returns a file whose page is hidden from readers that support only
// tables (7.5.8.4). The table lists the page as free, and only the
// cross-reference stream has the position of the page.
func hybrid(tb testing.TB) []byte {
	tb.Helper()
	var out bytes.Buffer
	s := newSerializer(&out, 0, nil)
	s.buf = append(s.buf, "%PDF-1.7\n"...)
	s.indirect(Ref{Number: 1}, NewDict(Entry{"Type", Name("Catalog")}, Entry{"Pages", Ref{Number: 2}}))
	s.indirect(Ref{Number: 2}, NewDict(Entry{"Type", Name("Pages")}, Entry{"Kids", Array{Ref{Number: 3}}}, Entry{"Count", Integer(1)}))
	s.indirect(Ref{Number: 4}, NewStream(NewDict(Entry{"Type", Name("ObjStm")}, Entry{"N", Integer(1)}, Entry{"First", Integer(4)}),
		[]byte("3 0 <</Type/Page/Parent 2 0 R>>")))
	entries := []numberedEntry{{0, entry{generation: 65535}}}
	for _, e := range s.entries {
		entries = append(entries, numberedEntry{e.ref.Number, entry{kind: entryInFile, offset: e.offset}})
	}
	hidden := s.offset()
	s.writeXref([]numberedEntry{{3, entry{kind: entryInStream, stream: 4}}}, NewDict(), 0, 6, Ref{Number: 5})
	entries = append(entries, numberedEntry{3, entry{generation: 65535}})
	s.writeXref(entries, NewDict(Entry{"Root", Ref{Number: 1}}, Entry{"XRefStm", Integer(hidden)}), 0, 6, Ref{})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return out.Bytes()
}

// open opens a file and fails the test on an error.
func open(tb testing.TB, file []byte) *Document {
	tb.Helper()
	d, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		tb.Fatalf("opening the file: %v", err)
	}
	return d
}

// firstPage returns the first page and fails the test if there is none.
func firstPage(tb testing.TB, d *Document) *Page {
	tb.Helper()
	page, err := d.Page(0)
	if err != nil {
		tb.Fatalf("reading the first page: %v", err)
	}
	return page
}

// content returns the decoded content of a page, with a newline after each stream.
func content(tb testing.TB, d *Document, p *Page) string {
	tb.Helper()
	var out bytes.Buffer
	for _, part := range p.Contents() {
		s, ok := d.Resolve(part).(*Stream)
		if !ok {
			tb.Fatal("a part of /Contents is not a stream")
		}
		r, err := s.Decoded()
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := io.Copy(&out, r); err != nil {
			tb.Fatal(err)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// tool returns the path of a program that checks files, such as qpdf. If the
// program is missing, tool skips the test, or fails it in CI.
func tool(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skip(tb, name+" is not installed")
	}
	return path
}

// skip skips the test, or fails it in CI.
func skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// qpdfCheck returns the exit code of qpdf --check, which is 0 if qpdf finds no
// problems, and the output of qpdf.
func qpdfCheck(tb testing.TB, file []byte) (int, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "check.pdf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		tb.Fatal(err)
	}
	out, err := exec.Command(tool(tb, "qpdf"), "--check", path).CombinedOutput() //nolint:noctx // the test's own file
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return 0, string(out)
}

// requireClean fails the test if qpdf finds a problem in the file.
func requireClean(tb testing.TB, file []byte) {
	tb.Helper()
	if code, output := qpdfCheck(tb, file); code != 0 {
		tb.Errorf("exit code of qpdf --check = %d, want 0\n%s", code, output)
	}
}

// replaceOnce replaces the only occurrence of old, and fails the test unless
// there is exactly one.
func replaceOnce(tb testing.TB, file []byte, old, replacement string) []byte {
	tb.Helper()
	if strings.Count(string(file), old) != 1 {
		tb.Fatalf("%q occurs %d times in the file, want once", old, strings.Count(string(file), old))
	}
	return bytes.Replace(file, []byte(old), []byte(replacement), 1)
}
