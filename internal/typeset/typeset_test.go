package typeset

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// document returns a PDF with a page per block.
func document(t testing.TB, blocks ...*Block) []byte {
	t.Helper()
	const width, height = 600, 400
	subsets := NewSubsets("CV")
	contents := make([]string, len(blocks))
	for i, b := range blocks {
		var content bytes.Buffer
		b.Draw(&content, subsets, 50, height-100)
		contents[i] = content.String()
	}
	return pages(t, width, height, subsets, contents)
}

// page returns a PDF of one page without fonts.
func page(t testing.TB, width, height float64, content string) []byte {
	t.Helper()
	return pages(t, width, height, NewSubsets(""), []string{content})
}

func pages(t testing.TB, width, height float64, subsets *Subsets, contents []string) []byte {
	t.Helper()
	return pagesWith(t, width, height, subsets.Objects, contents)
}

// pagesWith returns a PDF with a page per content, and the fonts that the function add adds.
func pagesWith(t testing.TB, width, height float64, add func(Adder) *pdf.Dict, contents []string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pdf.NewWriter(&out)
	pages := w.Reserve()
	fonts := add(w)
	var kids pdf.Array
	for _, content := range contents {
		ref := w.Add(pdf.NewStream(nil, []byte(content)))
		kids = append(kids, w.Add(pdf.NewDict(
			pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
			pdf.Entry{Key: "Parent", Value: pages},
			pdf.Entry{Key: "MediaBox", Value: pdf.Array{pdf.Integer(0), pdf.Integer(0), pdf.Number(width), pdf.Number(height)}},
			pdf.Entry{Key: "Resources", Value: pdf.NewDict(pdf.Entry{Key: "Font", Value: fonts})},
			pdf.Entry{Key: "Contents", Value: ref},
		)))
	}
	w.Set(pages, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Pages")},
		pdf.Entry{Key: "Kids", Value: kids},
		pdf.Entry{Key: "Count", Value: pdf.Integer(len(kids))},
	))
	root := w.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: pages}))
	if err := w.Close(root, pdf.Ref{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var sharedFonts = sync.OnceValues(func() (*Fonts, error) { return New() })

// testFonts returns the embedded fonts.
func testFonts(t testing.TB) *Fonts {
	t.Helper()
	f, err := sharedFonts()
	if err != nil {
		skipOrFail(t, err.Error())
	}
	return f
}

// skipOrFail skips the test. If the environment variable CI is set, the test fails instead.
func skipOrFail(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// tool runs a program and returns its output. The argument FILE is replaced with the path of a file with
// the data.
func tool(t testing.TB, data []byte, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		skipOrFail(t, name+" is not installed")
	}
	path := filepath.Join(t.TempDir(), "test.pdf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range args {
		if args[i] == "FILE" {
			args[i] = path
		}
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}
