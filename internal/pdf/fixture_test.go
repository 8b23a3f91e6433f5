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
)

// table returns a file with a cross-reference table: the objects are the bodies
// in their order, from number 1.
func table(trailer string, bodies ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	offsets := make([]int, 0, len(bodies))
	for i, body := range bodies {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, body)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(bodies)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&out, "trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n", len(bodies)+1, trailer, start)
	return out.Bytes()
}

// stream returns the body of a stream object.
func stream(dict, data string) string {
	return fmt.Sprintf("<</Length %d%s>>\nstream\n%s\nendstream", len(data), dict, data)
}

// onePage are the objects of a document of one page.
func onePage(content string) []string {
	return []string{
		"<</Type/Catalog/Pages 2 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 200 100]/Resources<<>>>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>",
		stream("", content),
	}
}

// onePageFile is a document of one page.
func onePageFile() []byte { return table("", onePage("0 0 10 10 re f")...) }

// compressed returns a file whose catalog, page tree and page are in an object
// stream, with a cross-reference stream.
func compressed(tb testing.TB) []byte {
	tb.Helper()
	bodies := onePage("0 0 10 10 re f")
	var out, header, data bytes.Buffer
	s := newSerializer(&out, 0, nil)
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

// hybrid returns a file whose page is hidden from readers that know tables only
// (7.5.8.4): the table lists it as free, the cross-reference stream has it.
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

// open opens a file that has to open.
func open(tb testing.TB, file []byte) *Document {
	tb.Helper()
	d, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	return d
}

// firstPage returns page one, which has to be there.
func firstPage(tb testing.TB, d *Document) *Page {
	tb.Helper()
	page, err := d.Page(0)
	if err != nil {
		tb.Fatalf("page one: %v", err)
	}
	return page
}

// content returns the decoded content of a page.
func content(tb testing.TB, d *Document, p *Page) string {
	tb.Helper()
	var out bytes.Buffer
	for _, part := range p.Contents() {
		s, ok := d.Resolve(part).(*Stream)
		if !ok {
			tb.Fatal("no content stream")
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

// tool returns the path of a program that judges files. Without it the test is
// skipped, or fails where nothing may be skipped.
func tool(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skip(tb, name+" is not installed")
	}
	return path
}

func skip(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

// qpdfCheck returns the exit code of qpdf --check, 0 when it finds nothing, and
// what it said.
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

// requireClean fails the test when qpdf finds anything wrong with the file.
func requireClean(tb testing.TB, file []byte) {
	tb.Helper()
	if code, said := qpdfCheck(tb, file); code != 0 {
		tb.Errorf("qpdf --check: exit %d\n%s", code, said)
	}
}

// replaceOnce replaces the one occurrence of old.
func replaceOnce(tb testing.TB, file []byte, old, with string) []byte {
	tb.Helper()
	if strings.Count(string(file), old) != 1 {
		tb.Fatalf("%q is %d times in the file", old, strings.Count(string(file), old))
	}
	return bytes.Replace(file, []byte(old), []byte(with), 1)
}
