package pdf

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// benchFile returns a file with the given number of pages. Each page has content
// of about contentSize bytes, and all pages share an incompressible image of
// imageSize bytes.
func benchFile(tb testing.TB, pages, contentSize, imageSize int) []byte {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	var out bytes.Buffer
	w := NewWriter(&out)
	root, tree := w.Reserve(), w.Reserve()
	image := w.Add(NewRawStream(NewDict(
		Entry{"Type", Name("XObject")}, Entry{"Subtype", Name("Image")}, Entry{"Width", Integer(imageSize)}, Entry{"Height", Integer(1)},
		Entry{"ColorSpace", Name("DeviceGray")}, Entry{"BitsPerComponent", Integer(8)}), noise(imageSize)))
	kids := Array{}
	for page := range pages {
		var content bytes.Buffer
		for content.Len() < contentSize {
			fmt.Fprintf(&content, "BT /F1 %d Tf %d.%03d %d Td [(Certificate %d) -%d (of merit)] TJ ET\n",
				8+random.IntN(9), random.IntN(600), random.IntN(1000), random.IntN(800), page, random.IntN(500))
		}
		contents := w.Add(NewStream(nil, content.Bytes()))
		kids = append(kids, w.Add(NewDict(
			Entry{"Type", Name("Page")}, Entry{"Parent", tree}, Entry{"Contents", contents},
			Entry{"MediaBox", Array{Integer(0), Integer(0), Real("595.276"), Real("841.890")}},
			Entry{"Resources", NewDict(Entry{"XObject", NewDict(Entry{"Im0", image})})})))
	}
	w.Set(tree, NewDict(Entry{"Type", Name("Pages")}, Entry{"Kids", kids}, Entry{"Count", Integer(pages)}))
	w.Set(root, NewDict(Entry{"Type", Name("Catalog")}, Entry{"Pages", tree}))
	if err := w.Close(root, Ref{}); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// stampFile opens, inspects and stamps a file, as sealing does.
func stampFile(r io.ReaderAt, size int64) ([]byte, error) {
	d, err := Open(r, size)
	if err != nil {
		return nil, err
	}
	d.Inspect()
	page, err := d.Page(0)
	if err != nil {
		return nil, err
	}
	return stampPage(d, page)
}

// stampPage returns an update that appends a small form to the content of a page.
// The update also balances the content, and rewrites content streams with a wrong
// /Length.
func stampPage(d *Document, page *Page) ([]byte, error) {
	balance, err := d.ContentBalance(page)
	if err != nil {
		return nil, err
	}
	u := d.Update()
	for _, ref := range balance.WrongLength {
		u.Set(ref, d.Object(ref))
	}
	form := u.Add(NewStream(NewDict(
		Entry{"Type", Name("XObject")}, Entry{"Subtype", Name("Form")},
		Entry{"BBox", Array{Integer(0), Integer(0), Integer(10), Integer(10)}}, Entry{"Resources", NewDict()}), []byte("0 0 10 10 re f\n")))
	resources := page.Resources().Clone()
	resources.Set("XObject", d.Dict(resources.Get("XObject")).Clone().Set("CvTest", form))
	contents := Array{u.Add(NewStream(nil, balance.Prefix))}
	contents = append(contents, page.Contents()...)
	contents = append(contents, u.Add(NewStream(nil, append(balance.Suffix, "/Artifact BMC q 1 0 0 1 5 5 cm /CvTest Do Q EMC\n"...))))
	u.SetPage(page, u.PageDict(page).Clone().Set("Resources", resources).Set("Contents", contents))
	return u.Bytes()
}

func benchmarkStamp(b *testing.B, file []byte) {
	b.Helper()
	b.ReportAllocs()
	b.ReportMetric(float64(len(file)), "file-bytes")
	for b.Loop() {
		if _, err := stampFile(bytes.NewReader(file), int64(len(file))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStamp70kB stamps a certificate of 70 kB.
func BenchmarkStamp70kB(b *testing.B) { benchmarkStamp(b, benchFile(b, 1, 40_000, 60_000)) }

// BenchmarkStamp500Pages stamps a document of 500 pages.
func BenchmarkStamp500Pages(b *testing.B) { benchmarkStamp(b, benchFile(b, 500, 3_000, 10_000)) }

// BenchmarkStamp20MB stamps a file of 20 MB.
func BenchmarkStamp20MB(b *testing.B) { benchmarkStamp(b, benchFile(b, 1, 10_000, 20<<20)) }

func BenchmarkScanContent(b *testing.B) {
	content := bytes.Repeat([]byte("BT /F1 12 Tf 72.5 700 Td [(Certificate) -250 (of merit)] TJ ET q 1 0 0 1 0 0 cm /Im0 Do Q\n"), 3000)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ScanContent(bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
}
