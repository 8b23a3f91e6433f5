//nolint:dupword // operators are repeated
package pdf

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func TestScanContent(t *testing.T) {
	t.Parallel()
	noise := "\x00EI\xff EI \x01\x02 EI\n\x80\x90"
	// Only the length of these 20 bytes shows that the image does not end at the first EI.
	data := "\x80 EI" + strings.Repeat(" q", 8)
	tests := []struct {
		name, content, prefix, suffix string
	}{
		{"empty", "", "q\n", "\nQ\n"},
		{"balanced", "q 1 0 0 1 0 0 cm Q", "q\n", "\nQ\n"},
		{"q left open", "q q Q q", "q\n", "\nQ\nQ\nQ\n"},
		{"two Q too many", "Q q Q Q", "q\nq\nq\n", "\nQ\n"},
		{"one Q too many, then q left open", "Q q", "q\nq\n", "\nQ\nQ\n"},
		{"open text object", "BT /F1 12 Tf (a) Tj", "q\n", "\nET\nQ\n"},
		{"nested text objects", "BT BT ET", "q\n", "\nQ\n"},
		{"open marked content", "/P BMC /Span <</Lang(en)>> BDC EMC", "q\n", "\nEMC\nQ\n"},
		{"all constructs, innermost first", "q BT /A BMC BX", "q\n", "\nEX\nEMC\nET\nQ\nQ\n"},
		{"crossed constructs", "q BT Q", "q\n", "\nET\nQ\n"},
		{"open path", "0 0 m 10 10 l", "q\n", "\nn\nQ\n"},
		{"open path to clip", "0 0 10 10 re W", "q\n", "\nn\nQ\n"},
		{"painted path", "0 0 10 10 re W n 0 0 m f*", "q\n", "\nQ\n"},
		{"open string", "(q) Tj (a\\)q", "q\n", ")\nQ\n"},
		{"open string that ends in an escape", "(q\\", "q\n", " )\nQ\n"},
		{"open nested string", "q (a(b", "q\n", "))\nQ\nQ\n"},
		{"open hexadecimal string", "<41", "q\n", ">\nQ\n"},
		{"open array", "[(a) 1", "q\n", "]\nQ\n"},
		{"open string in array", "[(a", "q\n", ")]\nQ\n"},
		{"open dictionary", "/P <</A [1", "q\n", "]>>\nQ\n"},
		{"operators in a comment", "% q q q\rq", "q\n", "\nQ\nQ\n"},
		{"comment at the end", "Q % q", "q\nq\n", "\nQ\n"},
		{"operators in strings and names", "(q q) /q <71> [(q)] Q", "q\nq\n", "\nQ\n"},
		{"operators that run together with operands", "q(a)Tj[(b)]TJ/F 1 Tf Q", "q\n", "\nQ\n"},
		{"operators that run together with numbers", "1 0 0 1 0 0cm 0Q 5q", "q\nq\n", "\nQ\nQ\n"},
		{"unknown operators", "foo q' barbarbarbarbarbarbarbar", "q\n", "\nQ\n"},
		{"inline image of known length", "BI /W 20 /H 1 /BPC 8 /CS /G ID " + data + "\nEI q", "q\n", "\nQ\nQ\n"},
		{"inline image of PDF 2.0", "BI /W 9 /H 9 /F /DCT /Length 20 ID " + data + "\nEI q", "q\n", "\nQ\nQ\n"},
		{"inline image mask", "BI /W 160 /H 1 /IM true ID " + data + " EI q", "q\n", "\nQ\nQ\n"},
		{"inline image of unknown length", "BI /W 9 /H 9 /F/Fl ID " + noise + "\nEI q", "q\n", "\nQ\nQ\n"},
		{"inline image of wrong length", "BI /W 3 /H 1 /BPC 8 /CS /RGB ID " + noise + "\nEI q", "q\n", "\nQ\nQ\n"},
		{"inline image at the end", "BI /W 9 /H 9 /F/Fl ID " + noise + "\nEI", "q\n", "\nQ\n"},
		{"inline image without EI", "q BI /W 9 /H 9 /F/Fl ID abc q q", "q\n", "\nEI\nQ\nQ\n"},
		{"ID without BI", "ID q EI", "q\n", "\nQ\nQ\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, err := ScanContent(strings.NewReader(test.content))
			if err != nil {
				t.Fatal(err)
			}
			if string(b.Prefix) != test.prefix || string(b.Suffix) != test.suffix {
				t.Errorf("prefix = %q, suffix = %q, want %q and %q", b.Prefix, b.Suffix, test.prefix, test.suffix)
			}
			if clean := test.prefix == string(CleanBalance().Prefix) && test.suffix == string(CleanBalance().Suffix); b.Clean != clean {
				t.Errorf("Clean = %v, want %v", b.Clean, clean)
			}
			requireBalanced(t, test.content)
		})
	}
}

func TestScanContentFaulty(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		"BT /F1 12 Tf 1 0 0 1 0 0 Tm [(a) 1] TJ (b)' 1 2 (c)\" ET":  false,
		"/P <</A [1 2]>> BDC 0 0 10 10 re W n true foo 1 w [1] 0 d": false,
		"BI /W 1 ID a\nEI q 1 0 0 1 0 0 cm Q":                       false,
		"/F1 Tf":                                                    true,
		"1 g 1 2 rg":                                                true,
		"/F1 1e2 Tf":                                                true,
		"[1 2 3 4 5 6] cm":                                          true,
		"1 0 0 % 1\n1 0 cm":                                         true,
	} {
		if b, err := ScanContent(strings.NewReader(content)); err != nil || b.Faulty != want {
			t.Errorf("%s: Faulty = %v (error %v), want %v", content, b.Faulty, err, want)
		}
	}
}

// A stream with a wrong /Length can be rewritten.
func TestContentBalanceWrongLength(t *testing.T) {
	t.Parallel()
	bodies := onePage("")
	bodies[3] = "<</Length 5>>\nstream\n0 0 10 10 re f\nendstream"
	file := pdftest.File("", bodies...)
	if code, _ := qpdfCheck(t, file); code == 0 {
		t.Error("qpdf reports no problem in the original, want at least one")
	}
	stamped(t, file)
}

// requireBalanced fails the test unless content is balanced between its prefix
// and its suffix. Content that exceeds a limit passes.
func requireBalanced(tb testing.TB, content string) {
	tb.Helper()
	b, err := ScanContent(strings.NewReader(content))
	if err != nil {
		if !errors.Is(err, ErrLimit) {
			tb.Errorf("scanning the content: %v", err)
		}
		return
	}
	whole := string(b.Prefix) + content + string(b.Suffix)
	again, err := ScanContent(strings.NewReader(whole))
	if err != nil || !again.Clean {
		tb.Errorf("with the prefix %q and the suffix %q, the content still needs %q and %q (error %v), want clean content", b.Prefix, b.Suffix, again.Prefix, again.Suffix, err)
	}
}

// Tokens do not span the streams of a page, but open constructs do.
func TestContentBalanceOfSeveralStreams(t *testing.T) {
	t.Parallel()
	bodies := onePage("q BT")
	bodies[2] = "<</Type/Page/Parent 2 0 R/Contents[4 0 R 5 0 R null 99 0 R 6 0 R 4 0 R]>>"
	bodies = append(bodies, pdftest.Stream("", "ET Q Q"), pdftest.Stream("/Filter/JPXDecode", "q q q"))
	d := open(t, pdftest.File("", bodies...))
	b, err := d.ContentBalance(firstPage(t, d))
	if err != nil {
		t.Fatal(err)
	}
	if string(b.Prefix) != "q\nq\n" || string(b.Suffix) != "\nET\nQ\nQ\n" {
		t.Errorf("prefix = %q, suffix = %q, want %q and %q", b.Prefix, b.Suffix, "q\nq\n", "\nET\nQ\nQ\n")
	}
}

func TestContentBalanceLimits(t *testing.T) {
	t.Parallel()
	bomb := zlibOf(t, bytes.Repeat([]byte("q Q "), maxDecoded/4+1))
	for name, body := range map[string]string{
		"decompression bomb": pdftest.Stream("/Filter/FlateDecode", string(bomb)),
		"too many q":         pdftest.Stream("", strings.Repeat("q ", maxOpen+1)),
		"too many Q":         pdftest.Stream("", strings.Repeat("Q ", maxOpen+2)),
		"sum of the streams": pdftest.Stream("/Filter/FlateDecode", string(zlibOf(t, make([]byte, maxDecoded/2)))),
		"too many filters":   pdftest.Stream("/Filter[/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85/A85]", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (name == "decompression bomb" || name == "sum of the streams") {
				t.Skip("decoding the maximum number of bytes takes seconds")
			}
			bodies := onePage("")
			bodies[2] = "<</Type/Page/Parent 2 0 R/Contents[4 0 R 4 0 R 4 0 R]>>"
			bodies[3] = body
			d := open(t, pdftest.File("", bodies...))
			if _, err := d.ContentBalance(firstPage(t, d)); !errors.Is(err, ErrLimit) {
				t.Errorf("ContentBalance returned %v, want ErrLimit", err)
			}
			if _, err := d.Update().Bytes(); !errors.Is(err, ErrLimit) {
				t.Errorf("Bytes of the update returned %v, want ErrLimit", err)
			}
		})
	}
}
