package design

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// If a file cannot be a design, Prepare returns a Refusal with a code and a reason.
func TestRefusals(t *testing.T) {
	page := func(box, content string) []byte {
		return pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page/Parent 2 0 R/MediaBox["+box+"]/Contents 4 0 R>>", pdftest.Stream("", content))
	}
	for code, file := range map[string][]byte{
		"design_empty":      {},
		"design_type":       []byte("GIF89a, which is a picture of another type, and no PDF"),
		"design_svg":        []byte("\xEF\xBB\xBF <svg width='1'/>"),
		"design_size":       make([]byte, maxDesign+1),
		"design_small":      page("0 0 141 400", ""),
		"design_page_large": page("0 0 14500 400", ""),
		"design_faulty":     page("0 0 400 400", "1 0 0 rg\ncm\n1e5 0 m"),
		"design_pages":      corpusFile(t, "long/made-pages-600.pdf"),
		"design_signed":     corpusFile(t, "signed/pades-bb.pdf"),
		"design_password":   corpusFile(t, "enc-password/aes256-r6-user.pdf"),
		"design_portfolio":  corpusFile(t, "embedded/portfolio-package.pdf"),
		"design_damaged":    corpusFile(t, "not-pdf-or-truncated/made-truncated-half.pdf"),
	} {
		_, err := Prepare(t.Context(), file)
		refusal := (*Refusal)(nil)
		if !errors.As(err, &refusal) || refusal.Code != code || !strings.HasSuffix(refusal.Reason, ".") {
			t.Errorf("%s: error = %v, want a Refusal with this code and a reason", code, err)
		}
	}
}

func corpusFile(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(corpus, "pdf", name))
	if err != nil {
		skip(t, "the corpus is missing")
	}
	return file
}

// Prepare removes forms, scripts and attachments from the file, and suggests a field for each text field.
func TestRemoved(t *testing.T) {
	file := pdftest.File("/Info 12 0 R",
		"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[5 0 R 6 0 R]>>/OpenAction<</S/JavaScript/JS(SECRET1)>>/Names<</JavaScript<</Names[(a)<</S/JavaScript/JS(SECRET2)>>]>>/EmbeddedFiles<</Names[(f)8 0 R]>>/Dests<</Names[(d)[3 0 R/Fit]]>>>>/StructTreeRoot 10 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 600 400]/Rotate 90>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R/AA<</O<</S/JavaScript/JS(SECRET3)>>>>/Annots[5 0 R 6 0 R 7 0 R 13 0 R]/PieceInfo<</X(SECRET4)>>>>",
		pdftest.Stream("", "0 0 50 50 re f"),
		"<</Type/Annot/Subtype/Widget/FT/Tx/T(full_name)/TU(Recipient's name)/V(SECRET5)/Rect[100 200 300 230]/Q 1>>",
		"<</Type/Annot/Subtype/Widget/FT/Tx/T(Grade {x})/Rect[100 100 300 160]/Ff 4096>>",
		"<</Type/Annot/Subtype/Link/Rect[0 0 10 10]/A<</S/URI/URI(https://example.org)>>>>",
		"<</Type/Filespec/F(SECRET6)/EF<</F 9 0 R>>>>",
		pdftest.Stream("/Type/EmbeddedFile", "SECRET7"),
		"<</Type/StructTreeRoot/K 11 0 R>>",
		"<</Type/StructElem/S/Form/P 10 0 R/Pg 3 0 R/K[<</Type/OBJR/Obj 5 0 R>> 0]>>",
		"<</Title(A form)/Author(Ann)>>",
		"<</Type/Annot/Subtype/Link/Rect[0 0 10 10]/A<</S/Launch/F(SECRET8)>>>>",
	)
	d, err := Prepare(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"SECRET", "Widget", "JavaScript", "AcroForm", "OBJR"} {
		if bytes.Contains(d.PDF, []byte(secret)) {
			t.Errorf("the design contains %q, want it removed", secret)
		}
	}
	for _, kept := range []string{"https://example.org", "StructElem", "A form", "/Dests"} {
		if !bytes.Contains(d.PDF, []byte(kept)) {
			t.Errorf("the design does not contain %q, want it kept", kept)
		}
	}
	var codes []string
	for _, w := range d.Warnings {
		codes = append(codes, w.Code)
	}
	if want := []string{"form_removed", "actions_removed", "attachments_removed", "author"}; !slices.Equal(codes, want) {
		t.Errorf("the warnings are %v, want %v", codes, want)
	}
	encrypted := func(file []byte) bool {
		text, err := tool(t, file, "qpdf", "--encrypt", "", "owner", "256", "--", "FILE", "-")
		if err != nil {
			t.Fatalf("encrypting: %v", err)
		}
		d, err := Prepare(t.Context(), []byte(text))
		if err != nil {
			t.Fatalf("preparing an encrypted file: %v", err)
		}
		return slices.ContainsFunc(d.Warnings, func(w Warning) bool { return w.Code == "encrypted" })
	}
	if encrypted(file) || !encrypted(blank()) {
		t.Error("want the warning \"encrypted\" for the unchanged file and not for the rewritten file")
	}
	if len(d.Fields) != 2 {
		t.Fatalf("there are %d suggestions, want 2", len(d.Fields))
	}
	first, second := d.Fields[0], d.Fields[1]
	if first.Kind != Name || first.Text != "{name}" || first.Box != (Box{200, 100, 30, 200}) || first.Align != "center" || first.Label != "Recipient's name" {
		t.Errorf("the first suggestion is %+v, want a centered name", first)
	}
	if second.Kind != Column || second.Text != "{column:Grade (x)}" || second.Lines != 4 {
		t.Errorf("the second suggestion is %+v, want the column Grade (x) with 4 lines", second)
	}
	if out, err := tool(t, d.PDF, "qpdf", "--check", "FILE"); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("qpdf: %v\n%s", err, out)
	}
	l := &Layout{Fields: append(d.Fields, Field{ID: "q", Kind: QR, Page: 1, Box: Box{10, 10, 60, 60}})}
	if problems := l.Check(d.Pages); len(problems) > 0 {
		t.Errorf("the suggestions have problems: %v", problems)
	}
}

// Prepare does not change a file without forms, scripts or attachments.
func TestUnchanged(t *testing.T) {
	for _, name := range []string{"producer/word-m365.pdf", "structure/pdfa2b-pass.pdf", "producer/google-docs-skia.pdf"} {
		file := corpusFile(t, name)
		d, err := Prepare(t.Context(), file)
		if err != nil || !bytes.Equal(d.PDF, file) {
			t.Errorf("%s: the design differs from the file, error = %v", name, err)
		}
	}
}
