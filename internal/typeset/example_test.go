package typeset_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/typeset"
)

// The size of a name is reduced until it fits the width. The fonts of the page have only the glyphs of the
// name.
func Example() {
	fonts, err := typeset.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	style := typeset.Style{Font: typeset.Font{Family: typeset.EBGaramond}, Size: 40, MinSize: 16, Align: typeset.Center}
	block, err := fonts.Layout("Dr. María-José Núñez (محمد)", style, 300)
	if err != nil {
		fmt.Println(err)
		return
	}
	var content bytes.Buffer
	content.WriteString("0 g\n")
	subsets := typeset.NewSubsets("CV")
	block.Draw(&content, subsets, 72, 400)
	resources := pdf.NewDict(pdf.Entry{Key: "Font", Value: subsets.Objects(pdf.NewWriter(io.Discard))})
	fmt.Printf("%d line of %.1f points in %d fonts\n", block.Lines(), block.Size, resources.Get("Font").(*pdf.Dict).Len())
	// Output: 1 line of 26.6 points in 2 fonts
}
