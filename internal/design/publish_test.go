package design

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// pngPicture returns a PNG image in one colour.
func pngPicture(tb testing.TB, width, height int, c color.Color) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, plainImage(width, height, c)); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func plainImage(width, height int, c color.Color) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.Set(x, y, c)
		}
	}
	return img
}

// three returns a design of three pages. The first page is rotated.
func three() []byte {
	page := func(rotate int) string {
		return fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 600]/Rotate %d/Contents 6 0 R/Resources<</Font<</CvB0 7 0 R>>>>>>", rotate)
	}
	return pdftest.File("/Info 8 0 R",
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 4 0 R 5 0 R]/Count 3>>", page(90), page(0), page(0),
		pdftest.Stream("", "BT /CvB0 12 Tf 20 20 Td (Design) Tj ET"), "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", "<</Title(Old)/Author(Ann)>>")
}

// Publish does not change a page without fields other than the QR code. A certificate changes only pages
// with variable fields.
func TestPagesWithoutFields(t *testing.T) {
	font := Font{Family: "Inter"}
	l := &Layout{Title: "New", Language: "fr", Fields: []Field{
		{ID: "n", Kind: Name, Page: 1, Box: Box{50, 50, 400, 40}, Text: "{name}", Font: font, Size: 20},
		{ID: "s", Kind: Text, Page: 2, Box: Box{50, 50, 300, 40}, Text: "Page two", Font: font, Size: 20},
		{ID: "q", Kind: QR, Page: 3, Box: Box{50, 50, 80, 80}},
	}}
	base, template := publish(t, three(), l, noPictures)
	file := draw(t, base, template, &Values{Name: "Zoë"})
	was, is := open(t, three()), open(t, file)
	for i, want := range []bool{true, true, false} {
		before, err := was.Page(i)
		if err != nil {
			t.Fatal(err)
		}
		after, err := is.Page(i)
		if err != nil {
			t.Fatal(err)
		}
		if changed := len(after.Contents()) != len(before.Contents()); changed != want {
			t.Errorf("page %d: changed = %v, want %v", i+1, changed, want)
		}
	}
	if len(template.pages) != 1 || template.pages[0].geometry.Rotate != 90 {
		t.Errorf("a certificate changes %d pages, want only the first page", len(template.pages))
	}
	got := text(t, file)
	if !strings.Contains(got, "Zoë") || !strings.Contains(got, "Page two") || strings.Count(got, "Design") != 3 {
		t.Errorf("the text is\n%s\nwant Zoë, Page two, and Design on each page", got)
	}
	info := is.Dict(is.Trailer().Get("Info"))
	catalog, _ := is.Catalog()
	if is.Text(info.Get("Title")) != "New" || is.Text(info.Get("Author")) != "Ann" || is.Text(catalog.Get("Lang")) != "fr" || catalog.Has("MarkInfo") {
		t.Errorf("Info is %v and the catalog is %v, want the title New, the author Ann, the language fr and no MarkInfo", info, catalog)
	}
	page, box := template.QR()
	if want := [4]float64{0.125, 50.0 / 600, 0.325, 130.0 / 600}; page != 3 || box != want {
		t.Errorf("QR() = %d, %v, want 3, %v", page, box, want)
	}
}

// If Clean returns true, the page with the QR code is clean in each certificate, even if a value contains
// operators.
func TestClean(t *testing.T) {
	design := func(content string) []byte {
		return pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
			"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 600]/Resources<<>>>>",
			"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 600]/Contents 5 0 R/Resources<<>>>>", pdftest.Stream("", content))
	}
	name := Field{ID: "n", Kind: Name, Page: 1, Box: Box{50, 50, 300, 40}, Text: "{name}", Font: Font{Family: "Inter"}, Size: 20}
	code := Field{ID: "q", Kind: QR, Page: 2, Box: Box{50, 50, 80, 80}}
	named := Field{ID: "t", Kind: Text, Page: 2, Box: Box{50, 200, 300, 40}, Text: "{name} Q BT (", Font: Font{Family: "Inter"}, Size: 20}
	for _, tc := range []struct {
		content string
		fields  []Field
		want    bool
	}{
		{"0 0 10 10 re f", []Field{name, code}, true},
		{"q 0 0 10 10 re f", []Field{name, code}, false},
		{"Q 0 0 10 10 re f", []Field{name, code}, false},
		{"0 0 10 10 re f", []Field{name, named, code}, true},
		{"q 0 0 10 10 re f", []Field{name, named, code}, true}, // Publish adds the missing Q
	} {
		base, template := publish(t, design(tc.content), &Layout{Title: "New", Fields: tc.fields}, noPictures)
		if template.Clean() != tc.want {
			t.Errorf("%q with %d fields: Clean = %v, want %v", tc.content, len(tc.fields), template.Clean(), tc.want)
		}
		for _, who := range []string{"Zoë", "Q BT (] Q", "محمد"} {
			doc := open(t, draw(t, base, template, &Values{Name: who}))
			page, err := doc.Page(1)
			if err != nil {
				t.Fatal(err)
			}
			b, err := doc.ContentBalance(page)
			if err != nil || template.Clean() && (!b.Clean || b.Faulty || len(b.WrongLength) > 0) {
				t.Errorf("%q with %q: the balance is %+v, %v, want a clean page", tc.content, who, b, err)
			}
		}
	}
}

// The digest of an original can be computed from State and the fields tail.
func TestDigest(t *testing.T) {
	base, template := publish(t, blank(), certificate(), noPictures)
	file := draw(t, base, template, values())
	hash := sha256.New()
	state, ok := hash.(encoding.BinaryUnmarshaler)
	if !ok || state.UnmarshalBinary(template.State()) != nil {
		t.Fatal("UnmarshalBinary of the state failed")
	}
	hash.Write(file[template.Size():])
	if want := sha256.Sum256(file); !bytes.Equal(hash.Sum(nil), want[:]) || template.SHA256() != sha256.Sum256(base.PDF) {
		t.Error("the digest of the base or of the original is wrong")
	}
}

// The base contains a picture once, even if two fields show it. The field of a missing logo is not drawn.
func TestPictures(t *testing.T) {
	id := strings.Repeat("ab", 32)
	l := certificate()
	l.Fields = append(
		l.Fields,
		Field{ID: "logo", Kind: Image, Page: 1, Box: Box{600, 20, 100, 100}, Image: "logo"},
		Field{ID: "left", Kind: Image, Page: 1, Box: Box{300, 400, 100, 50}, Image: id, Label: "Signature of Ada"},
		Field{ID: "right", Kind: Image, Page: 1, Box: Box{450, 400, 100, 50}, Image: id, Align: "right"},
	)
	picture := pngPicture(t, 2000, 2000, color.NRGBA{255, 0, 0, 255})
	pictures := func(name string) ([]byte, error) {
		if name == id {
			return picture, nil
		}
		return nil, ErrNoPicture
	}
	base, template := publish(t, blank(), l, pictures)
	file := draw(t, base, template, values())
	out, err := tool(t, file, "pdfimages", "-list", "FILE")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || len(lines) != 4 || strings.Fields(lines[2])[10] != strings.Fields(lines[3])[10] {
		t.Errorf("the images are\n%s, want one object in two places", out)
	} else if strings.Fields(lines[2])[3] != "209" {
		t.Errorf("the picture is %s pixels wide, want 209", strings.Fields(lines[2])[3])
	}
	k := rendered / 842.0
	var left, right image.Rectangle
	for p := range reds(t, file) {
		r := image.Rectangle{p, p.Add(image.Pt(1, 1))}
		if p.X < int(425*k) {
			left = left.Union(r)
		} else {
			right = right.Union(r)
		}
	}
	for _, c := range []struct{ got, want image.Rectangle }{
		{left, image.Rect(int(300*k), int(400*k), int(350*k), int(450*k))}, {right, image.Rect(int(500*k), int(400*k), int(550*k), int(450*k))},
	} {
		if !c.got.In(c.want.Inset(-2)) || !c.want.Inset(2).In(c.got) {
			t.Errorf("a picture is at %v, want %v", c.got, c.want)
		}
	}
	if out, err = tool(t, file, "pdfinfo", "-struct", "FILE"); err != nil || strings.Count(out, "Figure") != 3 {
		t.Errorf("pdfinfo: error = %v, want 3 figures in\n%s", err, out)
	}
	l.Fields[len(l.Fields)-1].Image = strings.Repeat("00", 32)
	d := &Design{PDF: blank(), Pages: a4}
	problems := Problems(nil)
	if _, err := Publish(d, l, testFonts(t), pictures); !errors.As(err, &problems) || problems.Error() != "field right: field_invalid image" {
		t.Errorf("publishing without a picture: error = %v, want field right: field_invalid image", err)
	}
}

// Publish refuses a template whose pictures are too large in total.
func TestTooManyPictures(t *testing.T) {
	l := certificate()
	files := map[string][]byte{}
	for i := range 7 {
		id := strings.Repeat(strconv.Itoa(i), 64)
		files[id] = pngPicture(t, 4000, 4000, color.NRGBA{byte(i), 0, 0, 255})
		l.Fields = append(l.Fields, Field{ID: id[:2], Kind: Image, Page: 1, Box: Box{20, 20, 50, 50}, Image: id})
	}
	read := 0
	_, err := Publish(&Design{PDF: blank(), Pages: a4}, l, testFonts(t), func(id string) ([]byte, error) {
		read++
		return files[id], nil
	})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Code != "pictures_large" || read != len(files) {
		t.Errorf("112 megapixels: err = %v after %d pictures, want pictures_large after %d", err, read, len(files))
	}
}

// The structure has a figure for the design, and the texts in the order of the fields. Arabic texts have
// ActualText.
func TestStructure(t *testing.T) {
	base, template := publish(t, blank(), certificate(), noPictures)
	v := values()
	v.Name, v.Title, v.Language = "محمد (12)", "علم", "ar"
	file := draw(t, base, template, v)
	doc := open(t, file)
	catalog, _ := doc.Catalog()
	tree := doc.Dict(catalog.Get("StructTreeRoot"))
	document := doc.Dict(doc.Array(tree.Get("K"))[0])
	var kinds []string
	var actual, languages string
	for _, kid := range doc.Array(document.Get("K")) {
		e := doc.Dict(kid)
		kinds = append(kinds, string(doc.Name(e.Get("S"))))
		actual += doc.Text(e.Get("ActualText"))
		languages += doc.Text(e.Get("Lang"))
	}
	if want := []string{"Figure", "P", "P", "H1", "P", "P", "P", "P"}; !slices.Equal(kinds, want) {
		t.Errorf("the structure is %v, want %v", kinds, want)
	}
	if actual != v.Name+"12 مارس 2026" {
		t.Errorf("ActualText of all elements = %q, want the name and the date", actual)
	}
	if document := doc.Text(document.Get("Lang")); languages != "enen" || document != "ar" {
		t.Errorf("Lang of the elements = %q, want enen; Lang of the document = %q, want ar", languages, document)
	}
	if doc.Text(catalog.Get("Lang")) != "en" || doc.Resolve(doc.Dict(catalog.Get("MarkInfo")).Get("Marked")) != pdf.Boolean(true) ||
		doc.Resolve(doc.Dict(catalog.Get("ViewerPreferences")).Get("DisplayDocTitle")) != pdf.Boolean(true) {
		t.Errorf("the catalog is %v, want Lang en, Marked and DisplayDocTitle", catalog)
	}
}

// A sample shows the certificate and the mark, and has no reference id. Sample refuses a base of another
// size.
func TestSample(t *testing.T) {
	l := certificate()
	d, err := Prepare(t.Context(), three())
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.Kind == QR {
			f.Box = Box{300, 250, 80, 80}
			continue
		}
		f.Box[0], f.Box[2] = f.Box[0]/2, f.Box[2]/2
		f.Box[1] *= 0.6
		f.Size = min(f.Size, 12)
		f.MinSize = min(f.MinSize, 4)
	}
	base, template := publishDesign(t, d, l, noPictures)
	v := values()
	v.Reference = "NWU-SECRET"
	file, err := template.Sample(base.PDF, v, "MUSTER")
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, file)
	if strings.Contains(got, "SECRET") || !strings.Contains(got, "José García Márquez") {
		t.Errorf("the text of the sample is\n%s\nwant the name and no reference id", got)
	}
	if letters := strings.Count(letters(got), "M"); letters < 5 { // on three pages, in the name, and in place of the reference id
		t.Errorf("the mark is not on each page:\n%s", got)
	}
	if out, err := tool(t, file, "qpdf", "--check", "FILE"); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("qpdf: %v\n%s", err, out)
	}
	if _, err := template.Sample(base.PDF[1:], v, "MUSTER"); err == nil {
		t.Error("Sample with a base of another size: error = nil, want an error")
	}
}

// Open refuses a plan or a layout that does not belong to the base.
func TestOpenChecks(t *testing.T) {
	base, _ := publish(t, blank(), certificate(), noPictures)
	fonts := testFonts(t)
	other := certificate()
	other.Fields[1].ID = "other"
	for name, open := range map[string]func() (*Template, error){
		"no plan":        func() (*Template, error) { return Open(base.PDF, nil, certificate(), fonts) },
		"an empty plan":  func() (*Template, error) { return Open(base.PDF, []byte("{}"), certificate(), fonts) },
		"another layout": func() (*Template, error) { return Open(base.PDF, base.Plan, other, fonts) },
		"another base":   func() (*Template, error) { return Open(blank(), base.Plan, certificate(), fonts) },
		"no base":        func() (*Template, error) { return Open(nil, base.Plan, certificate(), fonts) },
		"no QR code": func() (*Template, error) {
			l := certificate()
			l.Fields = l.Fields[:7]
			return Open(base.PDF, base.Plan, l, fonts)
		},
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s: error = nil, want an error", name)
		}
	}
}

// FromPicture returns a design with one page of the given format that shows the whole picture upright.
func TestFromPicture(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips designs from large pictures")
	}
	red := color.NRGBA{255, 0, 0, 255}
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, plainImage(600, 300, red), nil); err != nil {
		t.Fatal(err)
	}
	turned := withExif(photo.Bytes(), 6)
	for _, test := range []struct {
		name, format string
		file         []byte
		want         Page
		red          float64 // the part of the page that is red
	}{
		{"PNG", "a4", pngPicture(t, 3508, 2480, red), Page{841.89, 595.28}, 1},
		{"portrait", "letter", pngPicture(t, 600, 900, red), Page{612, 792}, 612.0 * 2 / 3 / (612 * 792.0 / 792)},
		{"JPEG", "16:9", photo.Bytes(), Page{960, 540}, 480.0 / 540},
		{"turned", "16:9", turned, Page{540, 960}, 480.0 / 540},
		{"own size", "", pngPicture(t, 400, 300, red), Page{300, 225}, 1},
		{"gray and transparent", "", pngPicture(t, 400, 300, color.NRGBA{0, 0, 0, 100}), Page{300, 225}, 0},
	} {
		d, err := FromPicture(t.Context(), test.file, test.format)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if d.Pages[0] != test.want {
			t.Errorf("%s: the page is %v, want %v", test.name, d.Pages[0], test.want)
		}
		pixels := reds(t, d.PDF)
		area := rendered * rendered * min(test.want.Width, test.want.Height) / max(test.want.Width, test.want.Height)
		part := float64(len(pixels)) / area
		if test.name == "portrait" {
			test.red = 792 * 2.0 / 3 * 792 / (612 * 792)
		}
		if part < test.red-0.02 || part > test.red+0.02 {
			t.Errorf("%s: %.2f of the page is red, want %.2f", test.name, part, test.red)
		}
		if out, err := tool(t, d.PDF, "qpdf", "--check", "FILE"); err != nil || strings.Contains(out, "WARNING") {
			t.Errorf("%s: qpdf: %v\n%s", test.name, err, out)
		}
		again, err := Prepare(t.Context(), d.PDF)
		if err != nil || !bytes.Equal(again.PDF, d.PDF) {
			t.Errorf("%s: Prepare changed the design or failed, error = %v", test.name, err)
		}
	}
	for code, file := range map[string][]byte{
		"design_picture": []byte("GIF89a"), "design_svg": []byte("<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
		"design_small": pngPicture(t, 100, 100, red),
	} {
		refusal := (*Refusal)(nil)
		if _, err := FromPicture(t.Context(), file, ""); !errors.As(err, &refusal) || refusal.Code != code {
			t.Errorf("%s: error = %v, want a Refusal with this code", code, err)
		}
	}
}

// A refused picture is reported with one reason.
func TestReasonsOfRefusedPictures(t *testing.T) {
	var large bytes.Buffer
	if err := png.Encode(&large, image.NewPaletted(image.Rect(0, 0, 8000, 5001), color.Palette{color.White})); err != nil {
		t.Fatal(err)
	}
	damaged := pngPicture(t, 100, 100, color.White)
	damaged = damaged[:len(damaged)-20]
	for want, file := range map[string][]byte{
		"The picture cannot be used: it is neither a PNG nor a JPEG image.":               []byte("GIF89a"),
		"The picture cannot be used: it has more than 40 megapixels.":                     large.Bytes(),
		"The picture cannot be used: it is damaged: png: invalid format: unexpected EOF.": damaged,
	} {
		_, err := FromPicture(t.Context(), file, "a4")
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != want {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	const want = "the picture of a signature cannot be used: it is damaged: png: invalid format: unexpected EOF"
	if _, err := PrepareSignature(damaged); !errors.Is(err, ErrSignaturePicture) || err.Error() != want {
		t.Errorf("the error of a signature is %v, want %q", err, want)
	}
}

// withExif returns a JPEG image with an Exif orientation.
func withExif(file []byte, orientation byte) []byte {
	body := "Exif\x00\x00MM\x00\x2A\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00" + string(rune(orientation)) + "\x00\x00\x00\x00\x00\x00"
	n := len(body) + 2
	return slices.Concat(file[:2], []byte{0xFF, 0xE1, byte(n >> 8), byte(n)}, []byte(body), file[2:])
}

// The design does not contain the metadata of the picture, because metadata may name a place.
func TestPictureWithoutMetadata(t *testing.T) {
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, plainImage(600, 300, color.White), nil); err != nil {
		t.Fatal(err)
	}
	file := withExif(photo.Bytes(), 1)
	d, err := FromPicture(t.Context(), file, "a4")
	if err != nil || bytes.Contains(d.PDF, []byte("Exif")) || !bytes.Contains(d.PDF, []byte("DCTDecode")) {
		t.Errorf("error = %v, want a design with the JPEG image and without its Exif metadata", err)
	}
}

// A certificate from a design with PDF/A keeps the claim, and has the title in the XMP metadata and in Info.
// The colours of its fields are in DeviceRGB if the output intent is sRGB.
func TestArchival(t *testing.T) {
	d, err := FromPicture(t.Context(), pngPicture(t, 842, 595, color.NRGBA{255, 250, 240, 255}), "a4")
	if err != nil {
		t.Fatal(err)
	}
	base, template := publishDesign(t, d, certificate(), noPictures)
	doc := open(t, draw(t, base, template, values()))
	catalog, _ := doc.Catalog()
	packet := readMetadata(doc, catalog)
	if !strings.Contains(packet, "<pdfaid:part>2</pdfaid:part>") || !strings.Contains(packet, ">Certificate of completion</rdf:li>") || doc.Text(doc.Dict(doc.Trailer().Get("Info")).Get("Title")) != "Certificate of completion" {
		t.Errorf("the metadata is\n%s\nwant PDF/A-2, and the title there and in Info", packet)
	}
	intent := doc.Dict(doc.Array(catalog.Get("OutputIntents"))[0])
	if profile := doc.Dict(intent.Get("DestOutputProfile")); doc.Name(intent.Get("S")) != "GTS_PDFA1" || profile.Get("N") != pdf.Integer(3) {
		t.Errorf("the output intent is %v, want GTS_PDFA1 with a profile of 3 components", intent)
	}
	if template.plan.Space {
		t.Error("plan.Space = true, want false, because the output intent is sRGB")
	}
}

// If a design claims PDF/A-1 and has no output intent for RGB, the colours of the fields have a profile and
// pictures have no transparency.
func TestProfile(t *testing.T) {
	claim := strings.Replace(packet("Old"), "<pdfaid:part>2", "<pdfaid:part>1", 1)
	design := pdftest.File("",
		"<</Type/Catalog/Pages 2 0 R/Metadata 4 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page/Parent 2 0 R/MediaBox[0 0 842 595]>>",
		pdftest.Stream("/Type/Metadata/Subtype/XML", claim),
	)
	l := certificate()
	l.Fields[1].Color = "#ff0000"
	l.Fields = append(l.Fields, Field{ID: "logo", Kind: Image, Page: 1, Box: Box{600, 20, 100, 100}, Image: "logo"})
	base, template := publish(t, design, l, func(string) ([]byte, error) { return pngPicture(t, 100, 100, color.NRGBA{255, 0, 0, 128}), nil })
	file := draw(t, base, template, values())
	if !template.plan.Space || len(reds(t, file)) < 50 {
		t.Errorf("plan.Space = %v, want true; the name has %d red pixels, want at least 50", template.plan.Space, len(reds(t, file)))
	}
	if bytes.Contains(file, []byte("SMask")) {
		t.Error("a picture is transparent, which PDF/A-1 does not allow")
	}
	if out, err := tool(t, file, "qpdf", "--check", "FILE"); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("qpdf: %v\n%s", err, out)
	}
	if n := len(sRGB()); n > 1024 {
		t.Errorf("the profile has %d bytes, want at most 1024", n)
	}
}
