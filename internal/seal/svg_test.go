package seal

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"
)

// rasterise returns the first path of an SVG of this package as PNG. The path consists of rectangles such
// as M1 2h3v4h-3z.
func rasterise(t *testing.T, svg []byte, w, h int) []byte {
	t.Helper()
	const scale = 4
	img := image.NewGray(image.Rect(0, 0, w*scale, h*scale))
	for i := range img.Pix {
		img.Pix[i] = 0xFF
	}
	_, d, _ := strings.Cut(string(svg), ` d="`)
	d, _, _ = strings.Cut(d, `"`)
	for part := range strings.SplitSeq(d, "z") {
		if part == "" {
			continue
		}
		var v [4]int
		fields := strings.FieldsFunc(part, func(r rune) bool { return strings.ContainsRune("M hv", r) })
		for i := range v {
			for _, c := range fields[i] {
				v[i] = v[i]*10 + int(c-'0')
			}
		}
		for y := v[1] * scale; y < (v[1]+v[3])*scale; y++ {
			for x := v[0] * scale; x < (v[0]+v[2])*scale; x++ {
				img.SetGray(x, y, color.Gray{})
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "http") && a.Name.Local != "xmlns" {
					t.Errorf("the image refers to %q, want no reference", a.Value)
				}
			}
		}
	}
}

func TestQRCodeSVGReads(t *testing.T) {
	t.Parallel()
	for _, url := range []string{testURL, "https://a.example/verify/AB-0", "https://a.example/verify/" + strings.Repeat("x", 170)} {
		svg, err := QRCodeSVG(url)
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg)
		s, err := newSymbol(url)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tool(t, "zbarimg", "-q", "--raw", "-Sdisable", "-Sqrcode.enable", file(t, "qr.png", rasterise(t, svg, s.full(), s.full())))
		if err != nil || strings.TrimSpace(out) != url {
			t.Errorf("zbarimg reads %q, error = %v; want %q", out, err, url)
		}
	}
	for _, url := range []string{"", strings.Repeat("x", 201)} {
		if _, err := QRCodeSVG(url); err == nil {
			t.Errorf("QRCodeSVG of a URL of %d bytes succeeded, want an error", len(url))
		}
	}
}

func TestQRCodeSVGEscapesItsDescription(t *testing.T) {
	t.Parallel()
	svg, err := QRCodeSVG(`https://a.example/?a=1&b="<script>`)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg)
	if bytes.Contains(svg, []byte("<script>")) {
		t.Error("the image contains unescaped markup")
	}
}

func TestBarcodeSVGReads(t *testing.T) {
	t.Parallel()
	for _, id := range []string{testID, "ABCDEFGHJK-0123456789ABCDEF", "A1-00000000"} {
		svg, err := BarcodeSVG(id)
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg)
		out, err := tool(t, "zbarimg", "-q", "--raw", "-Sdisable", "-Scode128.enable", file(t, "bars.png", rasterise(t, svg, 400, 60)))
		if err != nil || strings.TrimSpace(out) != id {
			t.Errorf("zbarimg reads %q, error = %v; want %q", out, err, id)
		}
	}
	for _, id := range []string{"", "abc", "A_1", strings.Repeat("A", 65)} {
		if _, err := BarcodeSVG(id); err == nil {
			t.Errorf("BarcodeSVG(%q) succeeded, want an error", id)
		}
	}
}
