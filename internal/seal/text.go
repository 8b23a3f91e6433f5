package seal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/doctext"
	"github.com/certvault/certvault/internal/pdf"
	"github.com/certvault/certvault/internal/pdfium"
)

// The text of a file is read up to these limits. A usual certificate has one page of a few hundred
// characters.
const (
	maxTextPages = 20
	maxTextChars = 50_000
	textTimeout  = 500 * time.Millisecond
)

// NoticeNameNotInFile is the code of the notice that the text of a file does not contain the name of
// its recipient.
const NoticeNameNotInFile = "name_not_in_file"

// NameNotice returns the notice with the code NoticeNameNotInFile.
func NameNotice() Notice {
	return Notice{NoticeNameNotInFile, "The recipient's name does not appear in the file's text."}
}

// Text is the text of an original.
type Text struct {
	lines []doctext.Line
	words *doctext.Text
	// complete reports whether lines has the whole text of the file.
	complete bool
}

// Lacks reports whether a name is missing in the text of the file. It returns false if the file has no
// text, like a scan, or if a part of the text was not read.
func (t *Text) Lacks(name string) bool { return t.complete && t.words.Lacks(name) }

// Size returns the length of the text in bytes.
func (t *Text) Size() (n int) {
	for _, l := range t.lines {
		n += len(l.Text)
	}
	return n
}

// Suggest returns the names, the issue dates and the addresses that the text probably contains.
func (t *Text) Suggest() doctext.Suggestion { return doctext.Suggest(t.lines) }

// Text reads the text of an original. Text that cannot be read is missing in the result. The error
// is a *Refusal if the file needs a password; any other error is temporary.
func (s *Sealer) Text(ctx context.Context, o Original) (*Text, error) {
	if o.Type != PDF {
		return NewText(nil, true), nil
	}
	if s.renderer == nil {
		return nil, pdfium.ErrUnavailable
	}
	doc, err := s.renderer.Open(ctx, pdfium.Source{Head: o.R, HeadSize: o.Size})
	if errors.Is(err, pdfium.ErrPassword) {
		return nil, pdfError(pdf.ErrPassword)
	}
	if isPermanent(ctx, err) {
		return NewText(nil, false), nil
	}
	if err != nil {
		return nil, err
	}
	defer doc.Close()
	bounded, cancel := context.WithTimeout(ctx, textTimeout)
	defer cancel()
	r := newTextReader(doc, doc.Pages(), true)
	for r.next(bounded) {
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the text of a file: %w", err)
	}
	return NewText(r.lines, r.complete), nil
}

// NewText returns the text that consists of lines. complete reports whether the file has no other text.
func NewText(lines []doctext.Line, complete bool) *Text {
	var all strings.Builder
	for _, l := range lines {
		all.WriteString(l.Text)
		all.WriteByte('\n')
	}
	return &Text{lines: lines, words: doctext.NewText(all.String()), complete: complete}
}

// textReader reads the text of a document page by page, within the limits.
type textReader struct {
	doc         *pdfium.Document
	page, pages int // the next page, from 0, and the number of pages
	sizes       bool
	chars       int

	lines []doctext.Line
	// complete is false if a part of the text could not be read or is beyond the limits.
	complete bool
}

func newTextReader(doc *pdfium.Document, pages int, sizes bool) *textReader {
	return &textReader{doc: doc, pages: pages, sizes: sizes, complete: true}
}

// next reads the next page and reports whether it was read. It returns false at the end of the document,
// at the limits, after an error, and after a page whose text is not complete.
func (r *textReader) next(ctx context.Context) bool {
	if r.page >= r.pages || !r.complete {
		return false
	}
	if r.page >= maxTextPages || r.chars >= maxTextChars {
		r.complete = false
		return false
	}
	t, err := r.doc.Text(ctx, r.page, maxTextChars-r.chars, r.sizes)
	if err != nil {
		r.complete = false
		return false
	}
	r.page++
	r.complete = t.Complete
	for _, l := range t.Lines {
		r.chars += len(l.Text)
		r.lines = append(r.lines, doctext.Line(l))
	}
	return true
}

// checkName adds a notice if the name of the recipient is missing in the text of the document. Only the
// first call has an effect. The caller must not use doc after checkName, because doc is unusable after a
// timeout.
func (j *job) checkName(ctx context.Context, doc *pdfium.Document) {
	name := j.recipient
	if name == "" {
		return
	}
	j.recipient = ""
	ctx, cancel := context.WithTimeout(ctx, textTimeout)
	defer cancel()
	r := newTextReader(doc, j.doc.PageCount(), false)
	for read := 0; r.next(ctx); read = len(r.lines) {
		if NewText(r.lines[read:], true).words.Contains(name) {
			return
		}
	}
	if NewText(r.lines, r.complete).Lacks(name) {
		j.notices = append(j.notices, NameNotice())
	}
}

// checkNameOfOriginal is like checkName, but opens the original itself.
func (j *job) checkNameOfOriginal(ctx context.Context) {
	if j.recipient == "" {
		return
	}
	doc, err := j.openPages(ctx, j.source)
	if err != nil {
		j.recipient = "" // do not search the cover, which has the name too
		return
	}
	defer doc.Close()
	j.checkName(ctx, doc)
}
