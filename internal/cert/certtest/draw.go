package certtest

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"fmt"

	"github.com/certvault/certvault/internal/pdf"
)

// Drawing is the original that Draw draws on a base.
type Drawing struct {
	Fields []byte // the fields tail
	State  []byte // the hash state of the base and the fields tail
	SHA256 [32]byte
	Size   int64
}

// Draw adds a text to the first page of a base that was created by pdftest.Page. For the same base and
// text, Draw returns the same bytes.
func Draw(base []byte, text string) (*Drawing, error) {
	doc, err := pdf.Open(bytes.NewReader(base), int64(len(base)))
	if err != nil {
		return nil, err
	}
	page, err := doc.Page(0)
	if err != nil {
		return nil, err
	}
	u := doc.Update()
	content := fmt.Appendf(nil, "BT /F1 24 Tf 72 500 Td %s Tj ET", hexString(text))
	contents := append(pdf.Array{}, page.Contents()...)
	contents = append(contents, u.Add(pdf.NewStream(nil, content)))
	u.SetPage(page, u.PageDict(page).Clone().Set("Contents", contents))
	d := &Drawing{}
	if d.Fields, err = u.Bytes(); err != nil {
		return nil, err
	}
	hash := sha256.New()
	hash.Write(base)
	hash.Write(d.Fields)
	state, ok := hash.(encoding.BinaryMarshaler)
	if !ok {
		return nil, fmt.Errorf("the state of a %T cannot be encoded", hash)
	}
	if d.State, err = state.MarshalBinary(); err != nil {
		return nil, err
	}
	d.SHA256, d.Size = [32]byte(hash.Sum(nil)), int64(len(base)+len(d.Fields))
	return d, nil
}

// hexString returns a text as a PDF hexadecimal string.
func hexString(text string) string { return fmt.Sprintf("<%X>", text) }
