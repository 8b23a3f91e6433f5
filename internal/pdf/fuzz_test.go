//nolint:dupword // operators are repeated
package pdf

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// FuzzOpen opens, inspects and stamps a file. Any input must lead to a stamped
// file or to an error of this package. A stamped file must have the stamp and a
// valid page tree, unless reading it exceeds a limit.
func FuzzOpen(f *testing.F) {
	for _, file := range [][]byte{
		onePageFile(), compressed(f), hybrid(f), repairedObjectStream(f), moveStartxref(f, onePageFile(), -50),
		encrypted(f, encryptRC440, "", "o"), encrypted(f, encryptAES128, "", "o"), encrypted(f, encryptAES256, "", "o"),
		junkInOffsets(f), pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Kids[3 0 R<</Kids[2 0 R 3 0 R]/Count 1>>]/Count -1>>", "<</Type/Page>>"),
		pdftest.File("", "<</Type/Catalog/Pages<</Type/Pages/Kids[<</Type/Page>>]>>/AcroForm<</Fields[2 0 R]>>>>", "<</FT/Sig/V<</ByteRange[0 1 2 3]>>/Kids[2 0 R]>>"),
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		tail, err := stampFile(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			for _, refusal := range refusals {
				if errors.Is(err, refusal) {
					return
				}
			}
			t.Fatalf("stamping returned %v, want nil or an error of this package", err)
		}
		stamped := append(bytes.Clone(file), tail...)
		d, err := Open(bytes.NewReader(stamped), int64(len(stamped)))
		if err != nil {
			if errors.Is(err, ErrLimit) { // the stamp exceeded the limit
				return
			}
			t.Fatalf("opening the stamped file: %v", err)
		}
		if page, err := d.Page(0); err == nil && d.Dict(page.Resources().Get("XObject")).Get("CvTest") == nil && d.Err() == nil {
			t.Error("the first page of the stamped file has no stamp")
		}
		if d.FaultyPageTree() && d.Err() == nil {
			t.Error("FaultyPageTree() = true for the stamped file, want false")
		}
	})
}

// FuzzAvoidReferenced searches a file for references. The search must not fail or
// change the error of the document. The numbers of new objects must be higher than
// the numbers in the references.
func FuzzAvoidReferenced(f *testing.F) {
	for _, file := range [][]byte{onePageFile(), compressed(f), hybrid(f), repairedObjectStream(f), encrypted(f, encryptAES256, "", "o")} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		before := d.Err()
		if err := d.AvoidReferenced(); err != nil || !errors.Is(d.Err(), before) {
			t.Fatalf("AvoidReferenced returned %v, Err returns %v, want nil and %v", err, d.Err(), before)
		}
		if number := d.Update().Reserve().Number; number <= d.maxReferenced && d.maxReferenced <= maxReference {
			t.Errorf("the first new object has the number %d, want more than %d", number, d.maxReferenced)
		}
	})
}

// FuzzLexer parses an object and writes it. Parsing and writing the text again
// must produce the same text.
func FuzzLexer(f *testing.F) {
	for _, text := range []string{
		"<</Type/Page/Kids[12 0 R]/A(b\\)\\053c)/B<4142>/C 12.5/D true/E null>>", "[1 --2 .5 +3 1e5 /A#20B () <>]", "(a(b)\\\r\nc", "<</A[1 2>>",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l := lexer{buf: text}
		obj, err := l.object(0, true)
		if _, ok := obj.(keyword); ok || err != nil {
			return
		}
		s := newSerializer(io.Discard, 0, nil)
		s.object(obj, Ref{}, false, 0)
		if errors.Is(s.err, ErrLimit) {
			return
		}
		written := bytes.Clone(s.buf)
		l = lexer{buf: written}
		again, err := l.object(0, true)
		if err != nil {
			t.Fatalf("parsing %q: %v", written, err)
		}
		s.buf = s.buf[:0]
		if s.object(again, Ref{}, false, 0); !bytes.Equal(s.buf, written) {
			t.Fatalf("parsing and writing %q produced %q, want the same text", written, s.buf)
		}
	})
}

// FuzzFilters decodes data with each filter except Crypt, with parameters from the input.
// ErrLimit is the only error that is allowed.
func FuzzFilters(f *testing.F) {
	for _, data := range [][]byte{
		zlibOf(f, []byte("some data that is packed")), lzwOf(f, []byte("abababababab")), earlyLZW([]byte("abababab")),
		[]byte("48656C6C6F>"), []byte("87cURD]i,\"Ebo7&~>"), []byte("\x02abc\xfex\x80"),
	} {
		f.Add(data, byte(12), byte(8), byte(3), byte(2))
	}
	f.Fuzz(func(t *testing.T, data []byte, kind, bits, colors, columns byte) {
		d := &Document{src: newSource(bytes.NewReader(data), int64(len(data)))}
		d.reset()
		parms := NewDict(Entry{"Predictor", Integer(kind)}, Entry{"BitsPerComponent", Integer(bits)},
			Entry{"Colors", Integer(colors)}, Entry{"Columns", Integer(columns)}, Entry{"EarlyChange", Integer(kind & 1)})
		for _, name := range []Name{"FlateDecode", "LZWDecode", "ASCIIHexDecode", "ASCII85Decode", "RunLengthDecode"} {
			r, err := d.decode(filter{name, parms}, bufio.NewReader(bytes.NewReader(data)))
			if errors.Is(err, ErrLimit) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil {
				t.Fatalf("decoding with %s returned %v, want no error", name, err)
			}
		}
	})
}

// FuzzContent scans content. With the prefix and the suffix of its Balance, the
// content must leave nothing open and have no unmatched Q.
func FuzzContent(f *testing.F) {
	for _, content := range []string{
		"q 1 0 0 1 0 0 cm BT /F1 12 Tf [(a) -250 (b)] TJ ET Q", "Q Q q BT /P <</MCID 0>> BDC (a\\)(b", "0 0 10 10 re W",
		"BI /W 4 /H 1 /BPC 8 /CS /G ID abcd\nEI Q", "BI /F/Fl ID \x00\xff EI \x80 EI Q", "[<41 <</A[(", "% q\rQ",
	} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) { requireBalanced(t, string(content)) })
}

// FuzzCrypt opens and stamps files with arbitrary encryption dictionaries. Only
// the errors in refusals are allowed.
func FuzzCrypt(f *testing.F) {
	for _, how := range []int{encryptRC440, encryptRC4128, encryptAES128, encryptAES256R5, encryptAES256} {
		file := encrypted(f, how, "", "o")
		_, dict, _ := bytes.Cut(file, []byte("5 0 obj\n"))
		dict, _, _ = bytes.Cut(dict, []byte("\nendobj"))
		f.Add(dict, []byte("0123456789abcdef"), []byte("data of a stream that is long enough for a block"))
	}
	f.Fuzz(func(t *testing.T, dict, id, data []byte) {
		var ids bytes.Buffer
		s := newSerializer(&ids, 0, nil)
		s.object(Array{String(id)}, Ref{}, false, 0)
		bodies := append(onePage(string(data)), string(dict))
		file := pdftest.File("/Encrypt 5 0 R/ID"+string(s.buf), bodies...)
		_, err := stampFile(bytes.NewReader(file), int64(len(file)))
		for _, refusal := range refusals {
			if errors.Is(err, refusal) {
				return
			}
		}
		if err != nil {
			t.Fatalf("stamping returned %v, want nil or an error of this package", err)
		}
	})
}

// FuzzText decodes a text string. Encoding and decoding the text again must
// return the same text.
func FuzzText(f *testing.F) {
	for _, text := range []string{"plain", "\xfe\xff\x00A\xd8\x3d\xde\x00", "\xff\xfeA\x00", "\xef\xbb\xbfa\x1ben\x1bb"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		decoded := String(text).Text()
		if strings.ContainsRune(decoded, 0x1b) || strings.ContainsRune(decoded, '\ufffd') {
			return // Text changes escapes and invalid bytes
		}
		if got := TextString(decoded).Text(); got != decoded {
			t.Errorf("encoding and decoding %q returned %q, want the same text", decoded, got)
		}
	})
}
