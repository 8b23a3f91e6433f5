package seal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// pagePDF is a PDF of one page for tests. page, catalog and resources are entries of the dictionaries
// with these names. Each body is an object; the first has the number 5.
type pagePDF struct {
	media, page, catalog, content, resources string
	bodies                                   []string
}

func (p pagePDF) bytes() []byte {
	media := p.media
	if media == "" {
		media = "0 0 595 842"
	}
	objects := []string{
		"<</Type/Catalog/Pages 2 0 R" + p.catalog + ">>",
		"<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[" + media + "]/Resources<<" + p.resources + ">>/Contents 4 0 R" + p.page + ">>",
		pdftest.Stream("", p.content),
	}
	return pdftest.File("", append(objects, p.bodies...)...)
}

// mustSeal returns the verified PDF of data, and all bytes of that PDF.
func mustSeal(t testing.TB, name string, data []byte, p Placement) (*Verified, []byte) {
	t.Helper()
	o := original(t, name, data)
	stamp := testStamp()
	stamp.Placement = p
	v, err := sealer(t).Seal(t.Context(), o, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return v, wholeFile(t, o, v)
}

func mustOpen(t testing.TB, data []byte) *pdf.Document {
	t.Helper()
	doc, err := pdf.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func codes(notices []Notice) string {
	var out []string
	for _, n := range notices {
		out = append(out, n.Code)
	}
	return strings.Join(out, " ")
}

// signedPDF returns a PDF with a signature whose DocMDP permission is p; 0 means no DocMDP.
func signedPDF(p int, content string) []byte {
	perms, reference := "", ""
	if p > 0 {
		perms = "/Perms<</DocMDP 6 0 R>>"
		reference = fmt.Sprintf("/Reference[<</Type/SigRef/TransformMethod/DocMDP/TransformParams<</Type/TransformParams/P %d/V/1.2>>>>]", p)
	}
	return pagePDF{
		content: content,
		catalog: "/AcroForm<</SigFlags 3/Fields[5 0 R]>>" + perms,
		page:    "/Annots[5 0 R]",
		bodies: []string{
			"<</Type/Annot/Subtype/Widget/FT/Sig/T(Signature1)/V 6 0 R/F 132/Rect[0 0 0 0]/P 3 0 R>>",
			"<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/adbe.pkcs7.detached/ByteRange[0 10 20 10]/Contents<00>" + reference + ">>",
		},
	}.bytes()
}
