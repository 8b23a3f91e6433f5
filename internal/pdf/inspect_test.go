package pdf

import (
	"reflect"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	js := "<</S/JavaScript/JS(app.alert(1))>>"
	signature := "<</Type/Sig/SubFilter/ETSI.CAdES.detached/ByteRange[0 1 2 3]/Contents<00>/Reference[<</TransformMethod/DocMDP/TransformParams<</P %>>>>]>>"
	certified := func(p string) string { return strings.ReplaceAll(signature, "%", p) }
	field := SignatureField{Field: Ref{Number: 5}, Value: Ref{Number: 6}, Name: "S", SubFilter: "ETSI.CAdES.detached", ByteRange: []int64{0, 1, 2, 3}}
	tests := []struct {
		name    string
		catalog string
		page    string
		others  []string // objects from number 5
		want    Findings
	}{
		{name: "no features"},
		{name: "destination as open action", catalog: "/OpenAction[3 0 R/Fit]"},
		{name: "GoTo as open action", catalog: "/OpenAction<</S/GoTo/D[3 0 R/Fit]>>"},
		{name: "printing as open action", catalog: "/OpenAction<</S/Named/N/Print>>", want: Findings{OpenAction: true}},
		{name: "script as open action", catalog: "/OpenAction 5 0 R", others: []string{js}, want: Findings{OpenAction: true, JavaScript: true}},
		{name: "script after GoTo", catalog: "/OpenAction<</S/GoTo/Next[<</S/URI>>" + js + "]>>", want: Findings{OpenAction: true, JavaScript: true}},
		{name: "actions that loop", catalog: "/OpenAction 5 0 R", others: []string{"<</S/Launch/Next[5 0 R 5 0 R]>>"}, want: Findings{OpenAction: true, Launch: true}},
		{name: "script by name", catalog: "/Names<</JavaScript<</Names[(a)" + js + "]>>>>", want: Findings{JavaScript: true}},
		{name: "empty name tree", catalog: "/Names<</JavaScript<<>>/EmbeddedFiles<</Names[]>>>>"},
		{name: "additional actions", catalog: "/AA<</WC" + js + ">>", want: Findings{AdditionalAction: true, JavaScript: true}},
		{name: "additional action of a page", page: "/AA<</O<</S/SubmitForm>>>>", want: Findings{AdditionalAction: true, ExternalActions: true}},
		{name: "action of an annotation", page: "/Annots[<</Subtype/Link/A<</S/Launch>>>><</Subtype/Link/A<</S/URI>>>>]", want: Findings{Launch: true}},
		{name: "link to a web page", page: "/Annots[<</Subtype/Link/A<</S/URI/URI(https://example.org/javascript:)>>>>]"},
		{name: "link to a script", page: "/Annots[<</Subtype/Link/A<</S/URI/URI( java\\nScript\\072alert\\(1\\))>>>>]", want: Findings{JavaScript: true}},
		{name: "link to a script in another object", page: "/Annots[<</Subtype/Link/A<</S/URI/URI 5 0 R>>>>]", others: []string{"(JAVASCRIPT:x)"}, want: Findings{JavaScript: true}},
		{name: "action of an outline item", catalog: "/Outlines<</First 5 0 R>>", others: []string{"<</A<</S/GoToR>>/Next 5 0 R>>"}, want: Findings{ExternalActions: true}},
		{
			name: "additional action of a field", catalog: "/AcroForm<</Fields[5 0 R]>>",
			others: []string{"<</FT/Tx/Kids[<</AA<</K" + js + ">>>>5 0 R]>>"},
			want:   Findings{AcroForm: true, AdditionalAction: true, JavaScript: true},
		},
		{name: "embedded files", catalog: "/Names<</EmbeddedFiles<</Kids[5 0 R]>>>>", want: Findings{EmbeddedFiles: true}},
		{name: "associated files", catalog: "/AF[5 0 R]", want: Findings{EmbeddedFiles: true}},
		{name: "attachment annotation", page: "/Annots[<</Subtype/FileAttachment>>]", want: Findings{EmbeddedFiles: true}},
		{name: "rich media", page: "/Annots[<</Subtype/RichMedia>>]", want: Findings{RichMedia: true}},
		{name: "portfolio", catalog: "/Collection<<>>", want: Findings{Portfolio: true}},
		{name: "layers", catalog: "/OCProperties<</OCGs[5 0 R]>>", want: Findings{Layers: true}},
		{name: "form and XFA", catalog: "/AcroForm<</Fields[]/XFA[(a)5 0 R]>>", others: []string{pdftest.Stream("", "")}, want: Findings{XFA: true}},
		{name: "usage rights", catalog: "/Perms<</UR3 5 0 R>>", others: []string{"<<>>"}, want: Findings{UsageRights: true}},
		{name: "unsigned field", catalog: "/AcroForm<</Fields[5 0 R]>>", others: []string{"<</FT/Sig/T(S)/Lock<</Action/All/P 1>>>>"}, want: Findings{AcroForm: true}},
		{
			name: "approval signature", catalog: "/AcroForm<</Fields[5 0 R]>>",
			others: []string{"<</FT/Sig/T(S)/V 6 0 R>>", strings.Replace(signature, "/DocMDP", "/Identity", 1)},
			want:   Findings{AcroForm: true, Signatures: []SignatureField{field}},
		},
		{
			name: "certification", catalog: "/AcroForm<</Fields[5 0 R]>>/Perms<</DocMDP 6 0 R>>",
			others: []string{"<</FT/Sig/T(S)/V 6 0 R>>", certified("1")},
			want:   Findings{AcroForm: true, Certified: true, DocMDP: 1, Signatures: []SignatureField{field}},
		},
		{
			name: "certification without P", catalog: "/AcroForm<</Fields[5 0 R]>>/Perms<</DocMDP 6 0 R>>",
			others: []string{"<</FT/Sig/T(S)/V 6 0 R>>", certified("null")},
			want:   Findings{AcroForm: true, Certified: true, DocMDP: 2, Signatures: []SignatureField{field}},
		},
		{
			name: "certification with a lock", catalog: "/AcroForm<</Fields[5 0 R]>>/Perms<</DocMDP 6 0 R>>",
			others: []string{"<</FT/Sig/T(S)/V 6 0 R/Lock<</Action/All/P 1>>>>", certified("3")},
			want:   Findings{AcroForm: true, Certified: true, DocMDP: 1, FieldsLocked: true, Signatures: []SignatureField{field}},
		},
		{
			name: "inherited field type", catalog: "/AcroForm<</Fields[<</FT/Sig/Kids[5 0 R]>>]>>",
			others: []string{"<</T(S)/V 6 0 R>>", strings.Replace(signature, "/DocMDP", "/FieldMDP", 1)},
			want:   Findings{AcroForm: true, FieldsLocked: true, Signatures: []SignatureField{field}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bodies := onePage("")
			bodies[0] = "<</Type/Catalog/Pages 2 0 R" + test.catalog + ">>"
			bodies[2] = "<</Type/Page/Parent 2 0 R" + test.page + ">>"
			d := open(t, pdftest.File("", append(bodies, test.others...)...))
			if got := d.Inspect(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("Inspect() = %+v\nwant %+v", got, test.want)
			}
			if d.Err() != nil || d.Repaired() {
				t.Errorf("Err() = %v, Repaired() = %v, want nil and false", d.Err(), d.Repaired())
			}
		})
	}
}

// The traversal ends after a fixed number of pages and annotations.
func TestInspectIsLimited(t *testing.T) {
	t.Parallel()
	d := open(t, benchFile(t, 600, 10, 10))
	if f := d.Inspect(); !f.Incomplete {
		t.Error("Incomplete = false for 600 pages, want true")
	}
	bodies := onePage("")
	bodies[2] = "<</Type/Page/Parent 2 0 R/Annots[" + strings.Repeat("<</Subtype/Link>>", 2*maxSeenAnnots) + "]>>"
	if f := open(t, pdftest.File("", bodies...)).Inspect(); !f.Incomplete {
		t.Error("Incomplete = false for too many annotations, want true")
	}
}
