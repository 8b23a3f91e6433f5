package seal

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// dateGrammar matches dates with all fields (ISO 32000-2, 7.9.4). The dates that the vault writes have
// all fields.
var dateGrammar = regexp.MustCompile(`^D:\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])([01]\d|2[0-3])[0-5]\d[0-5]\d(Z|[+-]([01]\d|2[0-3])'[0-5]\d)$`)

// dateKeys are keys of dictionaries whose values are dates.
var dateKeys = map[pdf.Name]bool{"M": true, "CreationDate": true, "ModDate": true}

// datesIn calls yield for each date in an object. isDate reports whether the object itself must be a date.
func datesIn(obj pdf.Object, isDate bool, yield func(string)) {
	switch v := obj.(type) {
	case pdf.String:
		if isDate || strings.HasPrefix(string(v), "D:") {
			yield(string(v))
		}
	case pdf.Array:
		for _, element := range v {
			datesIn(element, false, yield)
		}
	case *pdf.Dict:
		for key, value := range v.All() {
			datesIn(value, dateKeys[key], yield)
		}
	case *pdf.Stream:
		datesIn(v.Dict, false, yield)
	}
}

// Every date in every form of the verified PDF follows the grammar. The originals of this test have
// no dates.
func TestWrittenDatesFollowTheGrammar(t *testing.T) {
	t.Parallel()
	signature := testSignature(t)
	for name, data := range map[string][]byte{
		"plain.pdf":     pagePDF{content: "1 0 0 rg 10 10 50 50 re f\n"}.bytes(),
		"form.pdf":      pagePDF{catalog: "/AcroForm<</Fields[5 0 R]>>", bodies: []string{"<</FT/Tx/T(f)>>"}}.bytes(),
		"signed.pdf":    signedPDF(0, "0 0 1 rg 20 20 30 30 re f\n"),
		"certified.pdf": signedPDF(1, "0 0 1 rg 20 20 30 30 re f\n"),
		"picture.png":   picturePNG(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := original(t, name, data)
			stamp := testStamp()
			stamp.Signature = signature
			v, err := sealer(t).Seal(t.Context(), o, stamp)
			if err != nil {
				t.Fatal(err)
			}
			doc := mustOpen(t, wholeFile(t, o, v))
			count := 0
			check := func(date string) {
				if count++; !dateGrammar.MatchString(date) {
					t.Errorf("the date %q does not follow the grammar", date)
				}
			}
			size, _ := doc.Int(doc.Trailer().Get("Size"))
			for number := range size {
				datesIn(doc.Object(pdf.Ref{Number: number}), false, check)
			}
			datesIn(doc.Trailer(), false, check)
			if count == 0 {
				t.Error("the verified PDF has no date, want the time of signing")
			}
		})
	}
}

// A file that needs a user password is refused at upload, even if its owner password is empty:
// viewers ask for a password, and PDFium cannot open it.
func TestFileThatNeedsAUserPasswordIsRefusedAtUpload(t *testing.T) {
	t.Parallel()
	plain := file(t, "plain.pdf", pagePDF{content: "0 0 9 9 re f"}.bytes())
	for _, args := range []string{"256 --allow-insecure", "256 --allow-insecure --force-R5", "128 --use-aes=y", "40"} {
		for _, owner := range []string{"", "owner"} {
			t.Run(args+" "+owner, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "encrypted.pdf")
				command := append([]string{"--allow-weak-crypto", "--encrypt", "user", owner}, strings.Fields(args)...)
				if out, err := tool(t, "qpdf", append(command, "--", plain, path)...); err != nil {
					t.Fatalf("encrypting the file with qpdf: %v: %s", err, out)
				}
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				_, err = Check(t.Context(), original(t, "a.pdf", data))
				if r, ok := errors.AsType[*Refusal](err); !ok || r.Code != "password" {
					t.Errorf("Check returned %v, want a refusal with the code password", err)
				}
			})
		}
	}
}

// A link to a javascript: URI is active content: Check reports the link, and Seal removes its action.
// Other links keep their actions.
func TestJavaScriptLinkIsActiveContent(t *testing.T) {
	t.Parallel()
	link := func(uri string) string {
		return "<</Type/Annot/Subtype/Link/Rect[10 10 20 20]/A<</S/URI/URI(" + uri + ")>>>>"
	}
	data := pagePDF{page: "/Annots[5 0 R 6 0 R]", bodies: []string{link(" JavaScript:alert\\(1\\)"), link("https://example.com")}}.bytes()
	report, err := Check(t.Context(), original(t, "a.pdf", data))
	if err != nil {
		t.Fatal(err)
	}
	if !report.HasActiveContent || !strings.Contains(codes(report.Notices), "javascript") {
		t.Errorf("HasActiveContent = %v, notices = %q, want true and javascript", report.HasActiveContent, codes(report.Notices))
	}
	_, sealed := mustSeal(t, "a.pdf", data, Placement{})
	doc := mustOpen(t, sealed)
	if f := doc.Inspect(); f.JavaScript {
		t.Error("the verified PDF has a link to JavaScript")
	}
	if !doc.Dict(pdf.Ref{Number: 6}).Has("A") {
		t.Error("the link to https://example.com has no action")
	}
}

// The numbers of new objects are above every number that the original refers to. Otherwise an object of
// the stamp would become the ToUnicode CMap of the font.
func TestStampIsNoTargetOfADanglingReference(t *testing.T) {
	t.Parallel()
	data := pagePDF{
		resources: "/Font<</F 5 0 R>>", content: "BT /F 12 Tf 20 20 Td (text) Tj ET",
		bodies: []string{"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R/FontDescriptor 9 0 R>>"},
	}.bytes()
	for _, name := range []string{"unsigned", "signed"} {
		o := original(t, "a.pdf", data)
		stamp := testStamp()
		if name == "signed" {
			stamp.Signature = testSignature(t)
		}
		v, err := sealer(t).Seal(t.Context(), o, stamp)
		if err != nil {
			t.Fatal(err)
		}
		doc := mustOpen(t, wholeFile(t, o, v))
		for _, number := range []int{6, 9} {
			if got := doc.Object(pdf.Ref{Number: number}); got != nil {
				t.Errorf("%s: the dangling reference to object %d has the target %v, want none", name, number, got)
			}
		}
	}
}
