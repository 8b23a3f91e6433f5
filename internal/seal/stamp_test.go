package seal

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/colour"
)

// TestFigures checks that no text of a shape extends beyond the right or the lower edge of the figure, and
// that each text has at least 4.5 points on a stamp of the usual size. It also checks the number of shapes
// for a short and a long host.
func TestFigures(t *testing.T) {
	t.Parallel()
	fonts, err := testFonts()
	if err != nil {
		skipOrFail(t, err.Error())
	}
	for host, want := range map[string]int{"example.edu": 5, "certificates.northwest-university.example.edu:8443": 2} {
		s, err := newSymbol("https://" + host + "/verify/" + testID)
		if err != nil {
			t.Fatal(err)
		}
		figures, strips, err := newFigures(&lettering{fonts: fonts}, s, Stamp{ReferenceID: testID, VerifyURL: "https://" + host + "/verify/" + testID, Institution: "東京大学"})
		if err != nil {
			t.Fatal(err)
		}
		if len(figures) < want {
			t.Errorf("%s: %d shapes on a page, want at least %d", host, len(figures), want)
		}
		for i, f := range append(figures, strips...) {
			for _, l := range f.labels {
				if size := l.size * preferredSide / float64(s.full()); size < 4.5 {
					t.Errorf("%s: shape %d: text size = %.1f points, want at least 4.5", host, i, size)
				}
				if right := l.x + l.wide(l.size); right > f.width || l.y < 0 {
					t.Errorf("%s: shape %d: a label ends at x = %.1f, y = %.1f; want x at most %.1f and y at least 0", host, i, right, l.y, f.width)
				}
			}
		}
	}
}

// TestPlainStamp checks that an institution can keep the stamp of earlier versions.
func TestPlainStamp(t *testing.T) {
	t.Parallel()
	stamp := testStamp()
	stamp.Plain = true
	o := original(t, "a.pdf", pagePDF{}.bytes())
	v, err := sealer(t).Seal(t.Context(), o, stamp)
	if err != nil {
		t.Fatal(err)
	}
	// The plain stamp is the QR code with five short lines beside it.
	if ratio := (v.Box[2] - v.Box[0]) * 595 / ((v.Box[3] - v.Box[1]) * 842); ratio > 1.5 || v.Body.Size() > 3000 {
		t.Errorf("the plain stamp is %.1f times as wide as high and adds %d bytes; want at most 1.5 and 3000", ratio, v.Body.Size())
	}
	checkQR(t, file(t, "plain.pdf", wholeFile(t, o, v)), v)
}

// TestSheet checks that poppler finds the text of the verification sheet in both languages, and that the
// QR code is readable, on an appended page and on a cover.
func TestSheet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data []byte
		mode Mode
	}{
		"appended": {pagePDF{}.bytes(), Appended},
		"cover":    {signedPDF(1, "0 g 0 0 595 842 re f"), Cover},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := original(t, "a.pdf", c.data)
			stamp := testStamp()
			stamp.Placement.Mode, stamp.Colour = Appended, colour.Colour{B: 200}
			stamp.Sheet = func(context.Context) (*Sheet, error) {
				return &Sheet{Title: "Diplôme d’ingénieur", Name: "سارة يوسف", Texts: []SheetTexts{
					{Language: "fr", Heading: "Fiche de vérification", Page: "Avec le certificat.", Cover: "Original joint.", NameLabel: "Délivré à", Steps: "Étapes", Phone: "Scannez", Web: "Ouvrez", Offline: "Lisez"},
					{Language: "en", Heading: "Verification sheet", Page: "With the certificate.", Cover: "Original attached.", NameLabel: "Issued to", Steps: "Steps", Phone: "Scan", Web: "Open", Offline: "Read"},
				}}, nil
			}
			v, err := sealer(t).Seal(t.Context(), o, stamp)
			if err != nil {
				t.Fatal(err)
			}
			if v.Placement != c.mode {
				t.Fatalf("placement = %s, want %s", v.Placement, c.mode)
			}
			path := file(t, "sheet.pdf", wholeFile(t, o, v))
			text, err := tool(t, "pdftotext", "-layout", path, "-")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"Diplôme d’ingénieur", "Fiche de vérification", "Issued to", "1. Scannez", "3. Read", "NWU-7K3M 9QXR ABCD EFGH", groupedDigest(o.SHA256[:])} {
				if !strings.Contains(text, want) {
					t.Errorf("the sheet does not contain %q:\n%s", want, text)
				}
			}
			if purpose := map[Mode]string{Appended: "With the certificate.", Cover: "Original attached."}[c.mode]; !strings.Contains(text, purpose) {
				t.Errorf("the sheet does not contain %q", purpose)
			}
			if fonts, err := tool(t, "pdffonts", path); err != nil || strings.Count(fonts, strings.Repeat("yes ", 3)) < 2 {
				t.Errorf("pdffonts: error = %v, want embedded subsets with Unicode in:\n%s", err, fonts)
			}
			if out, err := tool(t, "qpdf", "--check", path); err != nil {
				t.Errorf("qpdf --check: error = %v\n%s", err, out)
			}
			checkQR(t, path, v)
		})
	}
}

// TestSheetWithoutFont checks that a notice reports a text that is left out, because no font has all of its
// characters.
func TestSheetWithoutFont(t *testing.T) {
	t.Parallel()
	stamp := testStamp()
	stamp.Placement.Mode = Appended
	stamp.Sheet = func(context.Context) (*Sheet, error) {
		return &Sheet{Title: "学位記", Name: "Ada", Texts: []SheetTexts{{Language: "en", NameLabel: "Issued to"}}}, nil
	}
	v, err := sealer(t).Seal(t.Context(), original(t, "a.pdf", pagePDF{}.bytes()), stamp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testFonts(); err == nil && !strings.Contains(codes(v.Notices), "sheet_incomplete") {
		t.Errorf("notices = %q, want sheet_incomplete", codes(v.Notices))
	}
}

// englishSheet returns a stamp with a verification sheet, which edit may change.
func englishSheet(edit func(*Sheet)) Stamp {
	stamp := testStamp()
	stamp.Placement.Mode = Appended
	stamp.Sheet = func(context.Context) (*Sheet, error) {
		s := &Sheet{Title: "Certificate of Completion", Name: "Grace Hopper", Texts: []SheetTexts{{
			Language: "en", Heading: "Verification sheet", Page: "This page belongs to the certificate. It explains how to check that the certificate is genuine.",
			NameLabel: "Issued to", IssuerLabel: "Issued by", DateLabel: "Issue date", IDLabel: "Reference id",
			DigestLabel: "Fingerprint of the original file (SHA-256)", Date: "22 November 2026", Steps: "How to verify this certificate",
			Phone:   "Phone: scan the code with the camera. The page that opens must be at certs.university.example.",
			Web:     "Web: open certs.university.example and enter the reference id.",
			Offline: "Offline: open this file in a PDF reader that shows digital signatures and look at the signature.",
		}}}
		edit(s)
		return s, nil
	}
	return stamp
}

// TestSheetTail checks the maximum size of the tail with a verification sheet without a logo, and with a
// logo of few colours.
func TestSheetTail(t *testing.T) {
	t.Parallel()
	logo := image.NewRGBA(image.Rect(0, 0, 600, 200))
	for i := range logo.Pix {
		logo.Pix[i] = 255
		if x, y := i/4%600-100, i/4/600-100; i%4 != 3 && x*x+y*y < 9000 {
			logo.Pix[i] = []uint8{178, 34, 52}[i%4]
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, logo); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		logo []byte
		most int64
	}{"sheet": {nil, 10_500}, "logo": {file.Bytes(), 12_500}} {
		v, err := sealer(t).Seal(t.Context(), original(t, "a.pdf", pagePDF{}.bytes()), englishSheet(func(s *Sheet) { s.Logo = c.logo }))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, v.Body.Size())
		if v.Body.Size() > c.most {
			t.Errorf("%s: the tail has %d bytes, want at most %d", name, v.Body.Size(), c.most)
		}
	}
}

// TestSheetPlaces checks that the address is below the quiet zone of the QR code and near to it, and that
// a sheet in a language that is written from right to left is mirrored.
func TestSheetPlaces(t *testing.T) {
	t.Parallel()
	for _, rtl := range []bool{false, true} {
		o := original(t, "a.pdf", pagePDF{}.bytes())
		v, err := sealer(t).Seal(t.Context(), o, englishSheet(func(s *Sheet) { s.Texts[0].RightToLeft = rtl }))
		if err != nil {
			t.Fatal(err)
		}
		if atLeft := v.Box[2] < 0.5; atLeft != rtl {
			t.Errorf("right to left = %v: QR code on the left = %v, want %v", rtl, atLeft, rtl)
		}
		path := file(t, "sheet.pdf", wholeFile(t, o, v))
		page := strconv.Itoa(v.Page)
		picture := filepath.Join(t.TempDir(), "page")
		if out, err := tool(t, "pdftoppm", "-r", "288", "-gray", "-png", "-singlefile", "-f", page, path, picture); err != nil {
			t.Fatal(err, out)
		}
		data, err := os.ReadFile(picture + ".png")
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		size := img.Bounds().Size()
		const point = 4
		ink := -1
		for y := int(v.Box[3] * float64(size.Y)); y < size.Y && ink < 0; y++ {
			for x := int(v.Box[0] * float64(size.X)); x < int(v.Box[2]*float64(size.X)); x++ {
				if r, _, _, _ := img.At(x, y).RGBA(); r < 0x8000 {
					ink = y - int(v.Box[3]*float64(size.Y))
					break
				}
			}
		}
		if ink < point || ink > 8*point {
			t.Errorf("right to left = %v: the address is %d pixels below the QR code, want %d to %d", rtl, ink, point, 8*point)
		}
	}
}
