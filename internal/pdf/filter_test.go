package pdf

import (
	"bufio"
	"bytes"
	"compress/lzw"
	"compress/zlib"
	"encoding/ascii85"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// zlibOf returns data in the zlib format.
func zlibOf(tb testing.TB, data []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	if _, err := z.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// lzwOf returns data encoded for LZWDecode with /EarlyChange 0.
func lzwOf(tb testing.TB, data []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := lzw.NewWriter(&out, lzw.MSB, 8)
	if _, err := w.Write(data); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// decode decodes the data of a stream with the given dictionary entries.
func decode(tb testing.TB, dict string, data []byte) ([]byte, error) {
	tb.Helper()
	file := pdftest.File("", append(onePage(""), pdftest.Stream(dict, string(data)))...)
	d := open(tb, file)
	s, ok := d.Object(Ref{Number: 5}).(*Stream)
	if !ok {
		tb.Fatal("object 5 is not a stream")
	}
	r, err := s.Decoded()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(iotest.OneByteReader(r))
}

func TestFilters(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a certificate of merit, ", 400)
	flate := zlibOf(t, []byte(text))
	lz := lzwOf(t, []byte(text))
	a85 := make([]byte, ascii85.MaxEncodedLen(len(text)))
	a85 = a85[:ascii85.Encode(a85, []byte(text))]
	tests := []struct {
		name, dict, data, want string
	}{
		{"none", "", text, text},
		{"flate", "/Filter/FlateDecode", string(flate), text},
		{"flate, abbreviated", "/Filter/Fl", string(flate), text},
		{"flate after a newline", "/Filter/FlateDecode", "\r\n" + string(flate), text},
		{"flate without a checksum", "/Filter/FlateDecode", string(flate[:len(flate)-4]), text},
		{"flate with a wrong checksum", "/Filter/FlateDecode", string(flate[:len(flate)-4]) + "abcd", text},
		{"flate followed by junk", "/Filter/FlateDecode", string(flate) + "junk", text},
		{"flate without a header", "/Filter/FlateDecode", string(flate[2:]), text},
		{"flate of no data", "/Filter/FlateDecode", "", ""},
		{"flate of invalid data", "/Filter/FlateDecode", "no sense", ""},
		{"LZW", "/Filter/LZWDecode/DecodeParms<</EarlyChange 0>>", string(lz), text},
		{"LZW, example of the standard", "/Filter/LZWDecode", "\x80\x0B\x60\x50\x22\x0C\x0C\x85\x01", "-----A---B"},
		{"LZW of invalid data", "/Filter/LZWDecode", "\xff\xff\xff", ""},
		{"hexadecimal", "/Filter/ASCIIHexDecode", hex.EncodeToString([]byte(text)) + ">", text},
		{"hexadecimal, odd and spaced", "/Filter/ASCIIHexDecode", " 4 1\n4 >42", "A@"},
		{"base 85", "/Filter/ASCII85Decode", string(a85) + "~>", text},
		{"base 85 of zero bytes", "/Filter/A85", "z!!~>", "\x00\x00\x00\x00\x00"},
		{"run length", "/Filter/RunLengthDecode", "\x02abc\xfex\x80ignored", "abcxxx"},
		{"run length, truncated", "/Filter/RunLengthDecode", "\x05abc", "abc"},
		{"chain", "/Filter[/AHx/FlateDecode]/DecodeParms[null null]", hex.EncodeToString(flate), text},
		{"crypt", "/Filter[/Crypt/FlateDecode]", string(flate), text},
		{"PNG up", "/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 3>>", string(zlibOf(t, []byte("\x02abc\x02\x01\x01\x01\x00xyz"))), "abcbcdxyz"},
		{"PNG sub, average, Paeth", "/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 2/Colors 2>>",
			string(zlibOf(t, []byte("\x01\x01\x02\x03\x04\x03\x01\x01\x01\x01\x04\x01\x01\x01\x01"))), "\x01\x02\x04\x06\x01\x02\x03\x05\x02\x03\x04\x06"},
		{"PNG, short last row", "/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 3>>", string(zlibOf(t, []byte("\x02abc\x02\x01"))), "abcb"},
		{"TIFF, bytes", "/Filter/FlateDecode/DecodeParms<</Predictor 2/Columns 3>>", string(zlibOf(t, []byte("\x01\x01\x01\x05\x01\x01"))), "\x01\x02\x03\x05\x06\x07"},
		{"TIFF, 16 bits", "/Filter/FlateDecode/DecodeParms<</Predictor 2/Columns 2/BitsPerComponent 16>>", string(zlibOf(t, []byte("\x00\xff\x00\x02"))), "\x00\xff\x01\x01"},
		{"TIFF, 4 bits", "/Filter/FlateDecode/DecodeParms<</Predictor 2/Columns 4/BitsPerComponent 4>>", string(zlibOf(t, []byte("\x11\x1f"))), "\x12\x32"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := decode(t, test.dict, []byte(test.data))
			if err != nil || string(got) != test.want {
				t.Errorf("got %.60q (%d bytes, error %v), want %.60q", got, len(got), err, test.want)
			}
		})
	}
}

func TestFilterErrors(t *testing.T) {
	t.Parallel()
	bomb := zlibOf(t, make([]byte, maxDecoded+1))
	for _, test := range []struct {
		name, dict string
		data       []byte
		want       error
	}{
		{"an image filter", "/Filter/DCTDecode", nil, ErrFilter},
		{"an unknown filter", "/Filter[/FlateDecode/Foo]", zlibOf(t, nil), ErrFilter},
		{"a decompression bomb", "/Filter/FlateDecode", bomb, ErrLimit},
		{"a bomb within a bomb", "/Filter[/FlateDecode/FlateDecode]", zlibOf(t, bomb), ErrLimit},
		{"too many filters", "/Filter[" + strings.Repeat("/AHx", 100) + "]", nil, ErrLimit},
		{"rows that are too long", "/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 2000000000/Colors 32>>", zlibOf(t, nil), ErrLimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && strings.HasSuffix(test.name, " bomb") {
				t.Skip("-short skips the decoding of the maximum number of bytes")
			}
			if _, err := decode(t, test.dict, test.data); !errors.Is(err, test.want) {
				t.Errorf("error = %v, want %v", err, test.want)
			}
		})
	}
}

func TestLZWEarlyChange(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for i := range 3000 {
		fmt.Fprintf(&text, "%x", i*i)
	}
	got, err := io.ReadAll(newLZWReader(bufio.NewReader(bytes.NewReader(earlyLZW(text.Bytes()))), true))
	if err != nil || !bytes.Equal(got, text.Bytes()) {
		t.Errorf("got %d bytes (error %v), want the %d bytes of the text", len(got), err, text.Len())
	}
}

// earlyLZW returns data encoded for LZWDecode with /EarlyChange 1, the default.
func earlyLZW(data []byte) []byte {
	var out []byte
	var bits, nbits uint
	width := uint(9)
	emit := func(code int) {
		bits, nbits = bits<<width|uint(code), nbits+width
		for ; nbits >= 8; nbits -= 8 {
			out = append(out, byte(bits>>(nbits-8)))
		}
	}
	codes := map[string]int{}
	code := func(s []byte) int {
		if len(s) == 1 {
			return int(s[0])
		}
		return codes[string(s)]
	}
	emit(lzwClear)
	from, next := 0, lzwFirst
	for i := 1; i <= len(data); i++ {
		if i < len(data) {
			if _, ok := codes[string(data[from:i+1])]; ok {
				continue
			}
		}
		emit(code(data[from:i]))
		if i == len(data) {
			break
		}
		codes[string(data[from:i+1])] = next
		next++
		from = i
		switch {
		case next == 4095:
			emit(lzwClear)
			clear(codes)
			next, width = lzwFirst, 9
		case next+1 > 1<<width:
			width++
		}
	}
	emit(lzwEnd)
	bits, nbits = bits<<7, nbits+7
	return append(out, byte(bits>>(nbits-8)))
}
