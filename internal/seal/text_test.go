package seal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/pdfium"
)

// unicodePDF returns a PDF of one page with a line for each text. If mapped is true, the font has a
// ToUnicode CMap (ISO 32000-2, 9.10.3) with the characters of the texts. The glyphs are drawn from left to
// right, so the caller must reverse a text in a script that is written from right to left.
func unicodePDF(mapped bool, texts ...string) []byte {
	var cmap, content strings.Builder
	glyphs := map[rune]int{}
	for i, text := range texts {
		fmt.Fprintf(&content, "BT /F1 20 Tf 60 %d Td <", 780-40*i)
		for _, c := range text {
			if glyphs[c] == 0 {
				glyphs[c] = len(glyphs) + 1
				fmt.Fprintf(&cmap, "<%04x> <%04x>\n", glyphs[c], c)
			}
			fmt.Fprintf(&content, "%04x", glyphs[c])
		}
		content.WriteString("> Tj ET\n")
	}
	toUnicode := ""
	if mapped {
		toUnicode = "/ToUnicode 8 0 R"
	}
	return pagePDF{
		content:   content.String(),
		resources: "/Font<</F1 5 0 R>>",
		bodies: []string{
			"<</Type/Font/Subtype/Type0/BaseFont/Test/Encoding/Identity-H/DescendantFonts[6 0 R]" + toUnicode + ">>",
			"<</Type/Font/Subtype/CIDFontType2/BaseFont/Test/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/FontDescriptor 7 0 R/DW 600>>",
			"<</Type/FontDescriptor/FontName/Test/Flags 4/FontBBox[0 -200 1000 800]/ItalicAngle 0/Ascent 800/Descent -200/CapHeight 700/StemV 80>>",
			pdftest.Stream("", "begincmap /CMapName /T def /CMapType 2 def\n"+
				"1 begincodespacerange <0000> <ffff> endcodespacerange\n"+
				fmt.Sprintf("%d beginbfchar\n%sendbfchar\n", len(glyphs), cmap.String())+"endcmap"),
		},
	}.bytes()
}

// latinPDF returns a PDF with a page for each text. Line feeds separate the lines of a text.
func latinPDF(pages ...string) []byte {
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"}
	var kids strings.Builder
	for i, page := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
		var content strings.Builder
		for j, line := range strings.Split(page, "\n") {
			fmt.Fprintf(&content, "BT /F1 %d Tf 60 %d Td (%s) Tj ET\n", 14+4*(j%4), 780-40*j, line)
		}
		objects = append(objects,
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>", 5+2*i),
			pdftest.Stream("", content.String()))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", len(pages), kids.String())
	return pdftest.File("", objects...)
}

func reversed(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}

// sealFor seals a file for a recipient and returns the codes of the notices.
func sealFor(t *testing.T, name string, data []byte, recipient string, p Placement) string {
	t.Helper()
	o := original(t, name, data)
	o.Recipient = recipient
	stamp := testStamp()
	stamp.Placement = p
	v, err := sealer(t).Seal(t.Context(), o, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return codes(v.Notices)
}

// TestNameNotInFile checks that Seal reports a name that is missing in the text of a file, in several
// scripts, and reports nothing for a file without text.
func TestNameNotInFile(t *testing.T) {
	english := latinPDF("Certificate of Completion\nThis is to certify that\nGrace Hopper\nhas completed the course")
	for _, c := range []struct {
		name      string
		data      []byte
		recipient string
		missing   bool
	}{
		{"named", english, "Grace Hopper", false},
		{"other order", english, "HOPPER, Grace", false},
		{"other person", english, "Ada Lovelace", true},
		{"other given name", english, "Vincent Hopper", true},
		{"no name to check", english, "", false},
		{"marks", unicodePDF(true, "otorgado a", "José Núñez Løwe"), "Jose Nunez Lowe", false},
		{"marks, other person", unicodePDF(true, "otorgado a", "José Núñez Løwe"), "Pedro Núñez", true},
		{"ligature", unicodePDF(true, "awarded to", "Soﬁa Griﬃth"), "Sofia Griffith", false},
		{"Arabic", unicodePDF(true, reversed("تشهد الجامعة بأن"), reversed("أحمد حسن علي")), "أحمد حسن علي", false},
		{"Arabic, other person", unicodePDF(true, reversed("تشهد الجامعة بأن"), reversed("أحمد حسن علي")), "محمد يوسف", true},
		{"Devanagari", unicodePDF(true, "प्रमाणित किया जाता है कि", "कवतिा शमार्"), "कविता शर्मा", false},
		{"Devanagari, other person", unicodePDF(true, "प्रमाणित किया जाता है कि", "कवतिा शमार्"), "राम वर्मा", true},
		{"Chinese", unicodePDF(true, "兹证明王小明同学"), "王小明", false},
		{"Chinese, other person", unicodePDF(true, "兹证明王小明同学"), "李小红", true},
		{"font without characters", unicodePDF(false, "This is to certify that", "Grace Hopper"), "Ada Lovelace", false},
		{"no text", pagePDF{content: "0 0 m 100 100 l S"}.bytes(), "Ada Lovelace", false},
		{"page number only", latinPDF("Page 1"), "Ada Lovelace", false},
		{"name on the third page", latinPDF("Certificate of Completion", "Regulations of the course", "awarded to Ada Lovelace"), "Ada Lovelace", false},
		{"more pages than are read", latinPDF(slices.Repeat([]string{"Regulations of the course"}, maxTextPages+1)...), "Ada Lovelace", false},
		{"all pages read", latinPDF(slices.Repeat([]string{"Regulations of the course"}, maxTextPages)...), "Ada Lovelace", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sealFor(t, "a.pdf", c.data, c.recipient, Placement{}); strings.Contains(got, NoticeNameNotInFile) != c.missing {
				t.Errorf("notices = %q; %s among them = %v, want %v", got, NoticeNameNotInFile, !c.missing, c.missing)
			}
			text, err := sealer(t).Text(t.Context(), original(t, "a.pdf", c.data))
			if err != nil {
				t.Fatal(err)
			}
			if text.Lacks(c.recipient) != c.missing {
				t.Errorf("Lacks = %v, want %v", !c.missing, c.missing)
			}
		})
	}
}

// TestNameIsCheckedForEveryPlacement checks that the notice does not depend on how the stamp is
// placed, and that it occurs once.
func TestNameIsCheckedForEveryPlacement(t *testing.T) {
	text := "Certificate of Completion\nawarded to Grace Hopper"
	page := latinPDF(text)
	v, _ := mustSeal(t, "a.pdf", page, Placement{})
	signed := func(p int) []byte { return signedPDF(p, "") }
	for _, c := range []struct {
		name string
		data []byte
		p    Placement
		text bool
	}{
		{"auto", page, Placement{}, true},
		{"earlier place", page, Placement{EarlierLayouts: []Layout{v.Layout}}, true},
		{"corner", page, Placement{Mode: TopRight}, true},
		{"exact", page, Placement{Mode: Exact, Box: Box{0.1, 0.7, 0.4, 0.9}}, true},
		{"strip", page, Placement{Mode: Strip}, true},
		{"appended", page, Placement{Mode: Appended}, true},
		{"signed without text", signed(0), Placement{}, false},
		{"cover without text", signed(1), Placement{}, false},
		{"cover", signedText(1, text), Placement{}, true},
		{"signed", signedText(0, text), Placement{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := 0
			if c.text {
				want = 1
			}
			if got := sealFor(t, "a.pdf", c.data, "Ada Lovelace", c.p); strings.Count(got, NoticeNameNotInFile) != want {
				t.Errorf("notices = %q, want %s %d times", got, NoticeNameNotInFile, want)
			}
			if got := sealFor(t, "a.pdf", c.data, "Grace Hopper", c.p); strings.Contains(got, NoticeNameNotInFile) {
				t.Errorf("notices for the name in the file = %q, want no %s", got, NoticeNameNotInFile)
			}
		})
	}
}

// signedText is like signedPDF, with text on the page.
func signedText(p int, text string) []byte {
	var content strings.Builder
	for i, line := range strings.Split(text, "\n") {
		fmt.Fprintf(&content, "BT /F1 20 Tf 60 %d Td (%s) Tj ET\n", 780-40*i, line)
	}
	perms, reference := "", ""
	if p > 0 {
		perms = "/Perms<</DocMDP 6 0 R>>"
		reference = fmt.Sprintf("/Reference[<</Type/SigRef/TransformMethod/DocMDP/TransformParams<</Type/TransformParams/P %d/V/1.2>>>>]", p)
	}
	return pagePDF{
		content: content.String(), resources: "/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>",
		catalog: "/AcroForm<</SigFlags 3/Fields[5 0 R]>>" + perms, page: "/Annots[5 0 R]",
		bodies: []string{
			"<</Type/Annot/Subtype/Widget/FT/Sig/T(Signature1)/V 6 0 R/F 132/Rect[0 0 0 0]/P 3 0 R>>",
			"<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/adbe.pkcs7.detached/ByteRange[0 10 20 10]/Contents<00>" + reference + ">>",
		},
	}.bytes()
}

// TestPictureHasNoText checks that Seal returns no notice about the name for a picture.
func TestPictureHasNoText(t *testing.T) {
	for _, c := range corpus(t, "png/") {
		if c.expected != "accept" {
			continue
		}
		if got := sealFor(t, "a.png", c.read(t), "Ada Lovelace", Placement{}); strings.Contains(got, NoticeNameNotInFile) {
			t.Errorf("%s: notices = %q, want no %s", c.path, got, NoticeNameNotInFile)
		}
		break
	}
}

// TestTextOfCorpus checks that Text reads or refuses each accepted PDF of the corpus. For each complete
// text of at least 40 bytes, it checks Lacks with the first two words of each line, and with a name that is
// in no file.
func TestTextOfCorpus(t *testing.T) {
	s := sealer(t)
	readable := 0
	for _, c := range corpus(t, "pdf/") {
		if c.expected != "accept" {
			continue
		}
		text, err := s.Text(t.Context(), original(t, "a.pdf", c.read(t)))
		if err != nil {
			mustRefuse(t, err)
			continue
		}
		if !text.complete || text.Size() < 40 {
			continue
		}
		readable++
		if !text.Lacks("Xaverius Zwoelfboth") {
			t.Errorf("%s: Lacks = false for a name that is not in the file, want true", c.path)
		}
		for _, l := range text.lines {
			if words := strings.Fields(l.Text); len(words) > 1 && text.Lacks(words[0]+" "+words[1]) {
				t.Errorf("%s: Lacks(%q) = true for words of the file, want false", c.path, words[0]+" "+words[1])
			}
		}
	}
	if readable == 0 && !testing.Short() {
		t.Error("no file of the corpus has readable text")
	}
}

// TestSuggestFromFile checks that the suggestions are from the text of a file, and that names in larger
// letters are first.
func TestSuggestFromFile(t *testing.T) {
	text, err := sealer(t).Text(t.Context(), original(t, "a.pdf", latinPDF("Grace Hopper\nCertificate\nPeter Miller\nIssued on 21 November 2026")))
	if err != nil {
		t.Fatal(err)
	}
	got := text.Suggest()
	if want := []string{"Peter Miller", "Grace Hopper"}; !slices.Equal(got.Names, want) || !slices.Equal(got.Dates, []string{"2026-11-21"}) {
		t.Errorf("suggestions = %+v, want the names %q and the date 2026-11-21", got, want)
	}
}

// BenchmarkCheckName measures the check of the name in a document that is already open and rendered, as in
// Seal. The text is that of a usual certificate.
func BenchmarkCheckName(b *testing.B) {
	data := latinPDF("Northwest University\nCertificate of Completion\nThis is to certify that\nGrace Hopper\n" +
		"has successfully completed the course\nIntroduction to Compilers\nwith 12 lessons of 90 minutes each\nSeattle, 21 November 2026\nDean of Studies")
	o := original(b, "a.pdf", data)
	j := benchJob(b, o)
	j.sealer = sealer(b)
	doc, err := j.openPages(b.Context(), j.source)
	if err != nil {
		b.Fatal(err)
	}
	defer doc.Close()
	if _, _, err := j.render(b.Context(), doc, pdfium.Request{MaxSide: 400}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		j.recipient = "Grace Hopper"
		j.checkName(b.Context(), doc)
	}
	if len(j.notices) > 0 {
		b.Errorf("notices = %q, want none", codes(j.notices))
	}
}
