// Package pdftest writes small PDF files for tests. It does not import package
// pdf, because the tests of pdf import pdftest.
package pdftest

import (
	"bytes"
	"fmt"
	"strings"
)

// File returns a PDF file of the objects, numbered from 1, with a cross-reference
// table (ISO 32000-2, 7.5.4). The first object must be the catalog. The text in
// trailer is added to the trailer dictionary.
func File(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	// The offset has a constant width, so that Sized can compute the length of
	// its padding.
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%010d\n%%%%EOF\n", len(objects)+1, trailer, start)
	return b.Bytes()
}

// Stream returns a stream object. The text in dict is added to its dictionary.
func Stream(dict, data string) string {
	return fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dict, len(data), data)
}

// Page returns a file of one A4 page that shows text.
func Page(text string) []byte { return File("", page(text)...) }

// Sized returns a file of one A4 page that shows text, padded to size bytes by a
// stream that the page does not use. size must be at least 1,000, or 0 for a file
// without padding.
func Sized(text string, size int) []byte {
	if size == 0 {
		return Page(text)
	}
	padded := func(n int) []byte {
		return File("", append(page(text), fmt.Sprintf("<</Length %010d>>\nstream\n%s\nendstream", n, strings.Repeat("x", n)))...)
	}
	return padded(size - len(padded(0)))
}

func page(text string) []string {
	return []string{
		"<</Type/Catalog/Pages 2 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		Stream("", "BT /F1 24 Tf 72 700 Td ("+text+") Tj ET"),
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
	}
}

// Blank returns a file of one empty page. width and height are in points.
func Blank(width, height int) []byte {
	objects := page("")
	objects[2] = fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Resources<<>>>>", width, height)
	return File("", objects[:3]...)
}
