package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

func TestSignedPDF(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		data []byte
		want Mode
	}{
		{"approval signature", signedPDF(0, ""), Annotation},
		{"annotations allowed", signedPDF(3, ""), Annotation},
		{"forms allowed", signedPDF(2, ""), Cover},
		{"no change allowed", signedPDF(1, ""), Cover},
		{"no blank place", signedPDF(0, fullPage()), Cover},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, data := mustSeal(t, "diploma.pdf", c.data, Placement{Mode: Strip})
			if v.Placement != c.want {
				t.Fatalf("placement = %s, want %s", v.Placement, c.want)
			}
			checkQR(t, file(t, "after.pdf", data), v)
			if c.want != Cover {
				if !bytes.HasPrefix(data, c.data) {
					t.Error("the verified PDF does not begin with the original")
				}
				return
			}
			path := file(t, "cover.pdf", data)
			out, err := tool(t, "qpdf", "--check", path)
			if err != nil {
				t.Errorf("qpdf --check reports an error in the cover: %v\n%s", err, out)
			}
			got, err := tool(t, "qpdf", "--show-attachment=diploma.pdf", path)
			if err != nil || got != string(c.data) {
				t.Errorf("the attachment differs from the original, or qpdf failed: error = %v", err)
			}
			if out, _ := tool(t, "qpdf", "--json", "--json-stream-data=none", path); !strings.Contains(out, `"/AFRelationship": "/Source"`) {
				t.Error("the cover has no /AFRelationship /Source")
			}
		})
	}
}

func TestActiveContentIsUnreferenced(t *testing.T) {
	t.Parallel()
	data := pagePDF{
		catalog: "/OpenAction<</S/JavaScript/JS(app.alert(1))>>/AA<</WC 5 0 R>>/Names<</JavaScript<</Names[(a) 5 0 R]>>>>/AcroForm 6 0 R",
		page:    "/AA<</O 5 0 R>>/Annots[7 0 R<</Type/Annot/Subtype/Link/Rect[1 1 2 2]/A<</S/Launch/F(calc.exe)>>>>]",
		bodies: []string{
			"<</S/JavaScript/JS(app.alert(2))>>",
			"<</Fields[8 0 R]/XFA(x)>>",
			"<</Type/Annot/Subtype/Link/Rect[10 10 20 20]/A<</S/URI/URI(https://example.com)/Next 5 0 R>>>>",
			"<</FT/Tx/T(f)/AA<</K 5 0 R>>>>",
		},
	}.bytes()
	o := original(t, "a.pdf", data)
	report, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"javascript", "launch_action", "open_action", "additional_actions", "xfa"} {
		if !strings.Contains(codes(report.Notices), code) {
			t.Errorf("notices = %q, want %q among them", codes(report.Notices), code)
		}
	}
	if !report.HasActiveContent {
		t.Error("HasActiveContent = false, want true")
	}
	_, sealed := mustSeal(t, "a.pdf", data, Placement{})
	if f := mustOpen(t, sealed).Inspect(); f.JavaScript || f.Launch || f.OpenAction || f.AdditionalAction || f.XFA {
		t.Errorf("the verified PDF has active content: %+v", f)
	}
	if !bytes.HasPrefix(sealed, data) {
		t.Error("the verified PDF does not begin with the original")
	}
}

// Actions that run a script are found even if they follow other actions, or are in arrays or in the
// outline. Seal does not follow each chain if a PDF has very many chains of actions.
func TestHiddenActiveContentIsUnreferenced(t *testing.T) {
	t.Parallel()
	const script = "<</S/JavaScript/JS(app.alert(1))>>"
	many := pagePDF{catalog: "/Names<</JavaScript<</Names[(a) 5 0 R]>>>>", page: "/Annots[<</Type/Annot/Subtype/Link/Rect[1 1 2 2]/A 6 0 R>>]", bodies: []string{script}}
	for i := range 12 {
		many.bodies = append(many.bodies, fmt.Sprintf("<</S/GoTo/D[3 0 R/Fit]/Next[%s]>>", strings.Repeat(fmt.Sprintf("%d 0 R ", i+7), 20)))
	}
	for name, p := range map[string]pagePDF{
		"after an open action": {catalog: "/OpenAction<</S/GoTo/D[3 0 R/Fit]/Next[" + script + "]>>"},
		"after a link":         {page: "/Annots[<</Type/Annot/Subtype/Link/Rect[1 1 2 2]/A<</S/GoTo/D[3 0 R/Fit]/Next[<</S/GoTo/D[3 0 R/Fit]/Next " + script + ">>]>>>>]"},
		"in the outline": {catalog: "/Outlines 5 0 R", bodies: []string{
			"<</Type/Outlines/First 6 0 R/Last 6 0 R/Count 1>>",
			"<</Title(a)/Parent 5 0 R/First 7 0 R/Last 7 0 R/Count 1>>",
			"<</Title(b)/Parent 6 0 R/A " + script + ">>",
		}},
		"many chains": many,
	} {
		data := p.bytes()
		if f := mustOpen(t, data).Inspect(); !f.JavaScript {
			t.Errorf("%s: JavaScript = false in the original, want true", name)
		}
		_, sealed := mustSeal(t, "a.pdf", data, Placement{})
		if f := mustOpen(t, sealed).Inspect(); f.JavaScript || f.OpenAction {
			t.Errorf("%s: the verified PDF has active content: %+v", name, f)
		}
	}
}

func TestOpenDestinationIsKept(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"[3 0 R/Fit]", "<</S/GoTo/D[3 0 R/Fit]>>"} {
		_, sealed := mustSeal(t, "a.pdf", pagePDF{catalog: "/OpenAction" + action + "/AA<<>>"}.bytes(), Placement{})
		if catalog, _ := mustOpen(t, sealed).Catalog(); !catalog.Has("OpenAction") {
			t.Errorf("the open action %s is missing", action)
		}
	}
}

func packetOf(t *testing.T, data []byte) string {
	t.Helper()
	doc := mustOpen(t, data)
	catalog, _ := doc.Catalog()
	stream, ok := doc.Resolve(catalog.Get("Metadata")).(*pdf.Stream)
	if !ok {
		t.Fatal("the document has no metadata")
	}
	r, err := stream.Decoded()
	if err != nil {
		t.Fatal(err)
	}
	packet, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(packet)
}

func TestMetadataIsExtended(t *testing.T) {
	t.Parallel()
	own := `<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">` +
		`<rdf:Description rdf:about="uuid:1" xmlns:dc="http://purl.org/dc/elements/1.1/">` +
		`<dc:creator><rdf:Seq><rdf:li>Faculty</rdf:li></rdf:Seq></dc:creator></rdf:Description></rdf:RDF></x:xmpmeta>` +
		strings.Repeat(" ", 2000) + `<?xpacket end="w"?>`
	with := pagePDF{catalog: "/Lang(de)/Metadata 5 0 R", bodies: []string{"<</Type/Metadata/Subtype/XML/Length " + "0 >>\nstream\n\nendstream"}}
	with.bodies[0] = strings.Replace(with.bodies[0], "0 >>\nstream\n", strconv.Itoa(len(own))+">>\nstream\n"+own, 1)
	for name, data := range map[string][]byte{"extended": with.bytes(), "new": pagePDF{}.bytes()} {
		_, sealed := mustSeal(t, "a.pdf", data, Placement{})
		packet := packetOf(t, sealed)
		for _, want := range []string{testID, testURL, "Northwind University"} {
			if !strings.Contains(packet, want) {
				t.Errorf("%s: the metadata does not contain %q:\n%s", name, want, packet)
			}
		}
		if name == "extended" {
			if !strings.Contains(packet, "Faculty") || strings.Count(packet, `rdf:about="uuid:1"`) != 2 {
				t.Errorf("the metadata of the original is missing, or the description of the stamp has another rdf:about:\n%s", packet)
			}
			if catalog, _ := mustOpen(t, sealed).Catalog(); mustOpen(t, sealed).Text(catalog.Get("Lang")) != "de" {
				t.Error("the language of the document is missing")
			}
		}
	}
}

func TestMetadataOfPDFADescribesItsProperties(t *testing.T) {
	t.Parallel()
	head := `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" pdfaid:part="2"/>`
	schemas := `<rdf:Description rdf:about=""><pdfaExtension:schemas> <rdf:Bag><rdf:li>own</rdf:li></rdf:Bag></pdfaExtension:schemas></rdf:Description>`
	for _, packet := range []string{head + "</rdf:RDF>", head + schemas + "</rdf:RDF>"} {
		got, ok := extendPacket(packet, testStamp())
		if !ok || strings.Count(got, "<pdfaExtension:schemas>") != 1 || strings.Count(got, "<rdf:Bag>") != 1 || !strings.Contains(got, namespace+"</pdfaSchema:namespaceURI>") {
			t.Errorf("extendPacket = %v, want true and one extension schema in:\n%s", ok, got)
		}
	}
}

func TestSealReturnsContextError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sealer(t).Seal(ctx, original(t, "a.pdf", pagePDF{}.bytes()), testStamp())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
}

func TestPNGOfVerifiedPDF(t *testing.T) {
	t.Parallel()
	_, data := mustSeal(t, "a.pdf", pagePDF{}.bytes(), Placement{})
	picture, err := sealer(t).PNG(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil || c.Height != pictureSide {
		t.Errorf("picture is %d x %d, error = %v; want a height of %d", c.Width, c.Height, err, pictureSide)
	}
	out, err := tool(t, "zbarimg", "-q", "--raw", "-Sdisable", "-Sqrcode.enable", file(t, "page.png", picture))
	if err != nil || strings.TrimSpace(out) != testURL {
		t.Errorf("zbarimg reads %q from the picture, error = %v; want the verification URL", out, err)
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	plain := pagePDF{}.bytes()
	zipEnd := "PK\x05\x06" + strings.Repeat("\x00", 18)
	for _, c := range []struct {
		name string
		data string
		want MediaType
		code string
	}{
		{"a.pdf", string(plain), PDF, ""},
		{"A.PDF", string(plain), PDF, ""},
		{"a.pdf", "\xEF\xBB\xBF\n" + string(plain), PDF, ""},
		{"a.jpeg", string(sampleJPEG(t, 8, 8)), JPEG, ""},
		{"a.png", string(plain), "", "type_mismatch"},
		{"a.pdf", string(sampleJPEG(t, 8, 8)), "", "type_mismatch"},
		{"a.docx", string(plain), "", "unsupported_type"},
		{"a", string(plain), "", "unsupported_type"},
		{"a.pdf", "", "", "empty"},
		{"a.pdf", "PK\x03\x04" + string(plain), "", "polyglot"},
		{"a.pdf", string(plain) + zipEnd, "", "polyglot"},
		{"a.pdf", "MZ\x90" + string(plain), "", "polyglot"},
		{"a.pdf", "<HTML><script>" + string(plain), "", "polyglot"},
		{"a.pdf", strings.Replace(string(plain), "endobj", zipEnd+"endobj", 1), PDF, ""}, // a ZIP end record that is not at the end
	} {
		got, err := Sniff(c.name, strings.NewReader(c.data), int64(len(c.data)))
		if c.code != "" {
			if r := mustRefuse(t, err); r.Code != c.code {
				t.Errorf("%s %.10q: code = %q, want %q", c.name, c.data, r.Code, c.code)
			}
			continue
		}
		if got != c.want || err != nil {
			t.Errorf("%s %.10q: type = %q, error = %v; want %q", c.name, c.data, got, err, c.want)
		}
	}
}
