package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// stamped returns file with a stamp appended, and fails the test unless qpdf
// reports no problems.
func stamped(t *testing.T, file []byte) []byte {
	t.Helper()
	tail, err := stampFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	out := append(bytes.Clone(file), tail...)
	requireClean(t, out)
	return out
}

func TestUpdateKeepsXrefForm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file   []byte
		stream bool
	}{
		"table":  {onePageFile(), false},
		"stream": {compressed(t), true},
		"hybrid": {hybrid(t), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 3 { // stamp the result again
				test.file = stamped(t, test.file)
			}
			if d := open(t, test.file); d.xref.stream != test.stream || d.Repaired() {
				t.Errorf("cross-reference stream = %v, repaired = %v, want %v and false", d.xref.stream, d.Repaired(), test.stream)
			}
		})
	}
}

// The update of a repaired file has a complete cross-reference without /Prev,
// because the earlier cross-reference is unusable.
func TestUpdateOfRepairedFileIsComplete(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{
		"table":          moveStartxref(t, onePageFile(), -50),
		"object streams": repairedObjectStream(t),
		"no catalog":     []byte(strings.NewReplacer("/Root 1 0 R", "", "/Catalog", "/Nothing").Replace(string(onePageFile()))),
		"no page tree":   replaceOnce(t, onePageFile(), "/Kids[3 0 R]", "/Kids 99 0 R"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := open(t, stamped(t, file)); d.Trailer().Has("Prev") {
				t.Error("the new trailer has /Prev, want none, because the earlier cross-reference is unusable")
			}
		})
	}
}

func TestUpdateTrailer(t *testing.T) {
	t.Parallel()
	file := pdftest.File("/ID[<00><01>]/Info<</Title(x)>>/XRefStm 1/Custom(kept)/DocChecksum/A", onePage("")...)
	file = bytes.Replace(file, []byte("/XRefStm 1"), nil, 1)
	d := open(t, stamped(t, file))
	trailer := d.Trailer()
	ids := d.Array(trailer.Get("ID"))
	if len(ids) != 2 || ids[0] != String("\x00") || len(ids[1].(String)) != 16 { //nolint:forcetypeassert // a panic fails the test too
		t.Errorf("/ID = %v, want the first identifier of the file and 16 new bytes", ids)
	}
	if trailer.Get("Custom") != String("kept") || d.Dict(trailer.Get("Info")).Get("Title") != String("x") {
		t.Errorf("trailer = %v, want /Custom and /Info of the original", trailer)
	}
	if got, want := trailer.Get("Prev"), Integer(bytes.Index(file, []byte("xref\n"))); got != want {
		t.Errorf("/Prev = %v, want %v", got, want)
	}
}

// The same update of the same file has the same bytes, so that a retry produces
// the same digest.
func TestUpdateIsDeterministic(t *testing.T) {
	t.Parallel()
	for _, file := range [][]byte{onePageFile(), compressed(t), encrypted(t, encryptAES256, "", "owner")} {
		a, err1 := stampFile(bytes.NewReader(file), int64(len(file)))
		b, err2 := stampFile(bytes.NewReader(file), int64(len(file)))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Error("two updates of the same file differ, want the same bytes")
		}
	}
}

func TestUpdateGenerations(t *testing.T) {
	t.Parallel()
	file := onePageFile()
	file = replaceOnce(t, file, "\n3 0 obj", "\n3 7 obj")
	file = replaceOnce(t, file, "[3 0 R]", "[3 7 R]")
	at := bytes.Index(file, []byte("3 7 obj"))
	file = replaceOnce(t, file, fmt.Sprintf("%010d 00000 n", at), fmt.Sprintf("%010d 00007 n", at))
	d := open(t, file)
	if got := firstPage(t, d).Ref; got != (Ref{3, 7}) {
		t.Fatalf("the reference of the page = %v, want 3 7 R", got)
	}
	again := stamped(t, file)
	if !bytes.Contains(again[len(file):], []byte("3 7 obj")) || !bytes.Contains(again[len(file):], []byte(" 00007 n")) {
		t.Errorf("tail = %s, want the page with generation 7", again[len(file):])
	}
	if got := open(t, compressed(t)).Update().Set(Ref{3, 9}, nil); got != (Ref{3, 0}) {
		t.Errorf("the reference for an object of an object stream = %v, want 3 0 R", got)
	}
}

// The offsets of an update are relative to the header, even if bytes precede it.
func TestUpdateAfterJunkBeforeHeader(t *testing.T) {
	t.Parallel()
	file := append([]byte("GIF89a junk\n"), onePageFile()...)
	if d := open(t, stamped(t, file)); d.Repaired() || d.HeaderOffset() != 12 {
		t.Errorf("repaired = %v, header offset = %d, want false and 12", d.Repaired(), d.HeaderOffset())
	}
}

func TestUpdateBeginsOnNewLine(t *testing.T) {
	t.Parallel()
	file := onePageFile()
	for _, original := range [][]byte{file, bytes.TrimSuffix(file, []byte("\n"))} {
		tail, err := stampFile(bytes.NewReader(original), int64(len(original)))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := tail[0] == '\n', original[len(original)-1] != '\n'; got != want {
			t.Errorf("tail begins with a newline = %v, want %v", got, want)
		}
	}
}

// After AvoidReferenced, new objects have numbers above those in all references of
// the file. Numbers above maxReference are ignored.
func TestNewObjectsAreNotReferencedByTheOriginal(t *testing.T) {
	t.Parallel()
	// bodies returns the objects of a file whose page contains reference.
	bodies := func(reference string) []string {
		list := onePage("")
		list[2] = strings.Replace(list[2], "/Type/Page", "/Type/Page/Missing "+reference, 1)
		return list
	}
	for name, test := range map[string]struct {
		file []byte
		want int
	}{
		"in the file":          {pdftest.File("", bodies("21 0 R")...), 22},
		"on two lines":         {pdftest.File("", bodies("21\r\n00000 \tR")...), 22},
		"in the trailer":       {pdftest.File("/Info 4711 0 R", onePage("")...), 4712},
		"in an object stream":  {compressedBodies(t, 0, bodies("30 0 R")), 31},
		"no missing object":    {onePageFile(), 5},
		"above the limit":      {pdftest.File("/Info 8000000 0 R", onePage("")...), 5},
		"repaired, and above":  {bytes.ReplaceAll(pdftest.File("", bodies("21 0 R/Other 8000000 0 R")...), []byte("startxref"), []byte("nothing")), 22},
		"in an encrypted file": {encrypted(t, encryptAES256, "", "owner"), 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, test.file)
			if err := d.AvoidReferenced(); err != nil || d.Err() != nil {
				t.Fatalf("AvoidReferenced returned %v, Err() = %v, want nil", err, d.Err())
			}
			if got := d.Update().Add(nil); got.Number != test.want {
				t.Errorf("the first new object has the number %d, want %d", got.Number, test.want)
			}
		})
	}
}

func TestPlaceholder(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{"plain": onePageFile(), "encrypted": encrypted(t, encryptAES256, "", "owner")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, file)
			u := d.Update()
			contents := &Placeholder{Text: []byte("<00000000>")}
			byteRange := &Placeholder{Text: []byte("0                  ")}
			secret := String("reason of signing")
			ref := u.Add(NewDict(Entry{"Type", Name("Sig")}, Entry{"ByteRange", byteRange}, Entry{"Reason", secret}, Entry{"Contents", contents}))
			tail, err := u.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			all := append(bytes.Clone(file), tail...)
			for _, p := range []*Placeholder{contents, byteRange} {
				if got := all[p.Offset : p.Offset+int64(len(p.Text))]; !bytes.Equal(got, p.Text) {
					t.Errorf("text at offset %d = %q, want %q", p.Offset, got, p.Text)
				}
			}
			copy(all[byteRange.Offset:], "[0 1 2 3]")
			copy(all[contents.Offset:], "<DEADBEEF>")
			requireClean(t, all)
			value := open(t, all).Dict(ref)
			if value.Get("Contents") != String("\xde\xad\xbe\xef") || value.Get("Reason") != secret {
				t.Errorf("signature dictionary = %v, want the changed /Contents and the original /Reason", value)
			}
			if name == "encrypted" && bytes.Contains(tail, []byte(secret)) {
				t.Error("/Reason is not encrypted")
			}
		})
	}
}

// An update can change a page that is a direct object, even if all its ancestors
// are direct objects.
func TestUpdateOfDirectPage(t *testing.T) {
	t.Parallel()
	page := "<</Type/Page/MediaBox[0 0 9 9]>>"
	for name, bodies := range map[string][]string{
		"page":                    {"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[" + page + page + "]/Count 2>>"},
		"kids in an array object": {"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids 3 0 R/Count 2>>", "[" + page + page + "]"},
		"node":                    {"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[<</Type/Pages/Count 2/Kids[" + page + page + "]>>]/Count 2>>"},
		"whole tree in catalog":   {"<</Type/Catalog/Pages<</Type/Pages/Kids[" + page + page + "]/Count 2>>>>"},
		"node in catalog":         {"<</Type/Catalog/Pages<</Type/Pages/Kids[<</Type/Pages/Count 2/Kids[" + page + page + "]>>]/Count 2>>>>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := pdftest.File("", bodies...)
			d := open(t, file)
			tail, err := stampPage(d, firstPage(t, d))
			if err != nil {
				t.Fatal(err)
			}
			d = open(t, append(file, tail...))
			if got := content(t, d, firstPage(t, d)); !strings.Contains(got, "/CvTest Do") {
				t.Errorf("content of the first page = %q, want a stamp", got)
			}
			second, err := d.Page(1)
			if err != nil {
				t.Fatal(err)
			}
			if second.Dict.Has("Contents") {
				t.Error("the second page has /Contents, want none")
			}
			if d.PageCount() != 2 {
				t.Errorf("PageCount() = %d, want 2", d.PageCount())
			}
		})
	}
}

func TestUpdateWithShortStream(t *testing.T) {
	t.Parallel()
	d := open(t, onePageFile())
	u := d.Update()
	u.Add(NewStreamFrom(nil, strings.NewReader("short"), 10))
	if _, err := u.WriteTo(io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("WriteTo returned %v, want io.ErrUnexpectedEOF", err)
	}
	if _, err := u.WriteTo(io.Discard); err == nil {
		t.Error("the second WriteTo succeeded, want an error")
	}
}

func TestSerialize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		obj  Object
		want string
	}{
		{nil, "null"},
		{Boolean(true), "true"},
		{Integer(-5), "-5"},
		{Real("+000.50"), "+000.50"},
		{Name(""), "/"},
		{Name("A B#(\xff"), "/A#20B#23#28#FF"},
		{String(`a(b)\`), `(a\(b\)\\)`},
		{String("\x00\xff"), "<00ff>"},
		{Array{Integer(1), Real(".5"), Name("N"), nil, Ref{3, 0}, String("s"), Array{}}, "[1 .5/N null 3 0 R(s)[]]"},
		{NewDict(Entry{"K", Name("")}, Entry{"", Integer(1)}, Entry{"D", NewDict()}), "<</K// 1/D<<>>>>"},
	} {
		s := newSerializer(io.Discard, 0, nil)
		s.object(test.obj, Ref{}, false, 0)
		if string(s.buf) != test.want || s.err != nil {
			t.Errorf("got %s, want %s (error %v)", s.buf, test.want, s.err)
		}
		l := lexer{buf: s.buf}
		obj, err := l.object(0, true)
		if err != nil {
			t.Fatal(err)
		}
		s.buf = nil
		if s.object(obj, Ref{}, false, 0); string(s.buf) != test.want {
			t.Errorf("after parsing and writing again: got %s, want %s", s.buf, test.want)
		}
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out)
	pages := w.Reserve()
	unset := w.Reserve()
	body := bytes.Repeat([]byte("copied "), 50_000)
	attachment := w.Add(NewStreamFrom(NewDict(Entry{"Type", Name("EmbeddedFile")}), bytes.NewReader(body), int64(len(body))))
	page := w.Add(NewDict(Entry{"Type", Name("Page")}, Entry{"Parent", pages}, Entry{"MediaBox", Rectangle{0, 0, 200, 100}.Array()},
		Entry{"Contents", w.Add(NewStream(nil, bytes.Repeat([]byte("0 0 10 10 re f\n"), 20)))}, Entry{"Unset", unset}))
	w.Set(pages, NewDict(Entry{"Type", Name("Pages")}, Entry{"Kids", Array{page}}, Entry{"Count", Integer(1)}))
	root := w.Add(NewDict(Entry{"Type", Name("Catalog")}, Entry{"Pages", pages}))
	info := w.Add(NewDict(Entry{"Title", TextString("Prüfung")}))
	if err := w.Close(root, info); err != nil {
		t.Fatal(err)
	}
	if w.Written() != int64(out.Len()) {
		t.Errorf("Written() = %d, want %d", w.Written(), out.Len())
	}
	requireClean(t, out.Bytes())
	d := open(t, out.Bytes())
	if got := d.Text(d.Dict(d.Trailer().Get("Info")).Get("Title")); got != "Prüfung" {
		t.Errorf("title = %q, want Prüfung", got)
	}
	s, ok := d.Resolve(attachment).(*Stream)
	if !ok {
		t.Fatal("the attachment is not a stream")
	}
	raw, err := s.Raw()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(raw); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the attachment has %d bytes (error %v), want the %d bytes of the body", len(got), err, len(body))
	}
	if got := content(t, d, firstPage(t, d)); len(got) != 301 {
		t.Errorf("the content has %d bytes, want 301", len(got))
	}
}

// WithDict keeps the data of a stream, even if the file is encrypted.
func TestStreamWithDict(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{"plain": onePageFile(), "encrypted": encrypted(t, encryptAES128, "", "owner")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, file)
			page := firstPage(t, d)
			s, ok := d.Resolve(page.Contents()[0]).(*Stream)
			if !ok {
				t.Fatal("/Contents is not a stream")
			}
			u := d.Update()
			u.SetPage(page, page.Dict.Clone().Set("Contents", u.Add(s.WithDict(s.Dict.Clone().Set("Changed", Boolean(true))))))
			tail, err := u.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			all := append(bytes.Clone(file), tail...)
			requireClean(t, all)
			d = open(t, all)
			if got := content(t, d, firstPage(t, d)); got != "0 0 10 10 re f\n" {
				t.Errorf("content = %q, want the original content", got)
			}
		})
	}
}
