package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"

	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdfium"
)

// These are the dimensions of the cover, an A4 page, in points.
const (
	coverWidth  = 595.276
	coverHeight = 841.89
	coverSide   = 50 * millimetre // side of the QR code
)

// cover returns a new PDF of one page with the stamp. The PDF contains the unchanged original as an
// embedded file (ISO 32000-2, 7.11.4). A cover is for a signed file that allows no change, whose page
// tree is damaged, or that has no blank place. reason is a sentence for the notice.
func (j *job) cover(ctx context.Context, reason string) (*Verified, error) {
	if err := j.loadSheet(ctx); err != nil {
		return nil, err
	}
	f := frame{coverWidth, coverHeight, [6]float64{1, 0, 0, 1, 0, 0}}
	var file bytes.Buffer
	file.Grow(int(j.size) + 32<<10)
	embedded, s, err := j.writeCover(&file, f)
	if err != nil {
		return nil, err
	}
	j.original.Form, j.original.Stream = pades.Stream, embedded
	j.checkNameOfOriginal(ctx)
	data := file.Bytes()
	src := pdfium.Source{Head: bytes.NewReader(data), HeadSize: int64(len(data))}
	if err := j.prove(ctx, src, stampedUpdate{number: 1, frame: f, spot: s}); err != nil {
		if errors.Is(err, errNotReadable) {
			return nil, refuse("not_readable", "The QR code on the cover page of the signed file cannot be scanned. "+
				"Replace the certificate with a copy of the file that is not signed.")
		}
		return nil, err
	}
	if data, err = j.signWhole(ctx, data); err != nil {
		return nil, err
	}
	j.note("cover", reason+" The verified PDF is a cover page that contains the unchanged original as an attachment.")
	v := &Verified{Placement: Cover, Page: 1, Box: s.box(f), Notices: j.notices}
	v.setWhole(data)
	return v, nil
}

// writeCover writes the cover. It returns the reference of the stream whose data is the original, and
// the place of the stamp.
func (j *job) writeCover(out io.Writer, f frame) (pdf.Ref, spot, error) {
	w := pdf.NewWriter(out)
	name := fileName(j.name)
	stream := w.Add(pdf.NewStreamFrom(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("EmbeddedFile")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name(PDF)},
		pdf.Entry{Key: "Params", Value: pdf.NewDict(pdf.Entry{Key: "Size", Value: pdf.Integer(j.size)})},
	), io.NewSectionReader(j.r, 0, j.size), j.size))
	attachment := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Filespec")},
		pdf.Entry{Key: "F", Value: pdf.TextString(name)},
		pdf.Entry{Key: "UF", Value: pdf.TextString(name)},
		pdf.Entry{Key: "Desc", Value: pdf.TextString("The original certificate, unchanged")},
		pdf.Entry{Key: "AFRelationship", Value: pdf.Name("Source")},
		pdf.Entry{Key: "EF", Value: pdf.NewDict(
			pdf.Entry{Key: "F", Value: stream},
			pdf.Entry{Key: "UF", Value: stream},
		)},
	))
	content, resources, s, err := j.coverPage(w, f)
	if err != nil {
		return stream, s, err
	}
	pages := w.Reserve()
	page := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
		pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: numbers(0, 0, f.width, f.height)},
		pdf.Entry{Key: "Resources", Value: resources},
		pdf.Entry{Key: "Contents", Value: w.Add(pdf.NewStream(nil, content))},
	))
	w.Set(pages, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Pages")},
		pdf.Entry{Key: "Kids", Value: pdf.Array{page}},
		pdf.Entry{Key: "Count", Value: pdf.Integer(1)},
	))
	title := "Certificate " + j.stamp.ReferenceID
	metadata := w.Add(pdf.NewStream(metadataDict(nil), []byte(newPacket(title, j.stamp))))
	root := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")},
		pdf.Entry{Key: "Pages", Value: pages},
		pdf.Entry{Key: "Lang", Value: pdf.TextString(j.language())},
		pdf.Entry{Key: "Metadata", Value: metadata},
		pdf.Entry{Key: "PageMode", Value: pdf.Name("UseAttachments")},
		pdf.Entry{Key: "AF", Value: pdf.Array{attachment}},
		pdf.Entry{Key: "Names", Value: pdf.NewDict(pdf.Entry{Key: "EmbeddedFiles", Value: pdf.NewDict(
			pdf.Entry{Key: "Names", Value: pdf.Array{pdf.TextString(name), attachment}})})},
		pdf.Entry{Key: "ViewerPreferences", Value: pdf.NewDict(pdf.Entry{Key: "DisplayDocTitle", Value: pdf.Boolean(true)})},
	))
	info := w.Add(pdf.NewDict(pdf.Entry{Key: "Title", Value: pdf.TextString(title)}))
	if err := w.Close(root, info); err != nil {
		return stream, s, fmt.Errorf("writing the cover: %w", err)
	}
	return stream, s, nil
}

// coverPage returns the content and the resources of the page, and the place of the stamp. The page is
// the verification sheet, or the stamp with an explanation if there is no sheet.
func (j *job) coverPage(w *pdf.Writer, f frame) ([]byte, *pdf.Dict, spot, error) {
	if j.sheet != nil {
		p, s, err := j.drawSheet(f, true)
		if err != nil {
			return nil, nil, s, err
		}
		return p.content.Bytes(), p.resources(w), s, nil
	}
	s := spot{scale: coverSide / float64(j.figures[0].symbol.full()), figure: j.figures[0]}
	s.x, s.y = (f.width-s.width())/2, f.height*0.5
	content, err := j.coverContent(f, s)
	return content, pdf.NewDict(), s, err
}

// coverContent returns the content of the page: the stamp and an explanation below it.
func (j *job) coverContent(f frame, s spot) ([]byte, error) {
	var b bytes.Buffer
	drawArtifact(&b, f, s)
	y := s.y - 40
	for _, line := range []struct {
		text string
		grid float64
	}{
		{j.stamp.Institution, 2},
		{"Certificate " + j.stamp.ReferenceID, 1.6},
		{"", 1},
		{"This file carries the original certificate, signed and unchanged.", 1},
		{"Open its attachments to see it, or scan the code to verify it.", 1},
	} {
		drawn := strings.ToUpper(line.text)
		if _, err := strokes(drawn); err != nil || drawn == "" {
			y -= 15 // the line is empty, or has a character that strokes cannot draw
			continue
		}
		n := len([]rune(drawn))
		grid := min(line.grid, (f.width-80)/float64(textWidth(n)))
		x := (f.width - float64(textWidth(n))*grid) / 2
		fmt.Fprintf(&b, "q %.2f 0 0 %.2f %.2f %.2f cm 0 G 1 J 1 j %v w\n", grid, grid, x, y, strokeWidth)
		if err := textOperators(&b, drawn, 0, 0); err != nil {
			return nil, err
		}
		b.WriteString("S Q\n")
		y -= 18 * max(grid, 1)
	}
	return b.Bytes(), nil
}

// fileName returns the name of the attachment: the original's name without folders and with a limited
// length. It replaces unprintable characters, and characters that are special in file names, by '_'. If
// no usable name remains, fileName returns "original.pdf".
func fileName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`<>:"|?*/`, r) {
			return '_'
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > 120 {
		name = string(runes[:100]) + path.Ext(name)
	}
	if name == "" || name == "." || len(name) > 500 {
		return "original.pdf"
	}
	return name
}
