package seal

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/pdf"
)

// maxChecked is the maximum size of the decoded data of a PNG image that Check decodes, in bytes.
// Only Seal decodes larger images.
const maxChecked = 8 << 20

// A PNG image is a decompression bomb if it expands to more than bombSize bytes, and by a factor of more
// than bombRatio.
const (
	bombSize  = 256 << 20
	bombRatio = 200
)

func refuse(code, reason string) *Refusal { return &Refusal{Code: code, Reason: reason} }

// Check checks at upload whether a file can be sealed, without rendering it. An error is a
// *Refusal, or a temporary failure such as the end of ctx.
func Check(ctx context.Context, o Original) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("checking the original: %w", err)
	}
	found, err := Sniff(o.Name, o.R, o.Size)
	if err != nil {
		return Report{}, err
	}
	if found != o.Type {
		return Report{}, refuse("type_mismatch", fmt.Sprintf("The file was announced as %s, but it is %s.", describe(o.Type), describe(found)))
	}
	switch o.Type {
	case JPEG:
		return checkJPEG(o)
	case PNG:
		return checkPNG(ctx, o)
	case PDF:
	}
	return checkPDF(o)
}

func checkJPEG(o Original) (Report, error) {
	img, err := readJPEG(o.R, o.Size)
	if err != nil {
		return Report{}, err
	}
	return Report{Pages: 1, Notices: imageNotices(img.end < o.Size)}, nil
}

func checkPNG(ctx context.Context, o Original) (Report, error) {
	img, err := readPNG(o.R, o.Size)
	if err != nil {
		return Report{}, err
	}
	raw := int64(img.stride(img.width)) * int64(img.height)
	if _, compressed := img.compressed(o.R); raw > bombSize && raw/bombRatio > compressed {
		return Report{}, refuse("too_complex", "The PNG image expands to far more data than any certificate needs.")
	}
	if raw <= maxChecked {
		if err := img.rows(ctx, o.R, func([]byte, byte) error { return nil }); err != nil {
			return Report{}, err
		}
	}
	return Report{Pages: 1, Notices: imageNotices(img.end < o.Size)}, nil
}

func imageNotices(trailing bool) []Notice {
	if !trailing {
		return nil
	}
	return []Notice{{"trailing_data", "The image file has data after the end of the image. The verified PDF does not contain it."}}
}

// ErrActive is the refusal of a file whose Report has HasActiveContent set, for an institution that
// does not accept such files.
var ErrActive error = &Refusal{
	Code:   "active_content",
	Reason: "The PDF contains JavaScript or other actions that run by themselves, which this institution does not accept.",
}

func checkPDF(o Original) (Report, error) {
	doc, err := pdf.Open(o.R, o.Size)
	if err != nil {
		return Report{}, pdfError(err)
	}
	pages := doc.PageCount()
	page, err := doc.Page(0)
	if err != nil {
		return Report{}, pdfError(err)
	}
	// Content that cannot be decoded is accepted, but a decompression bomb is not.
	if _, err := doc.ContentBalance(page); errors.Is(err, pdf.ErrLimit) {
		return Report{}, pdfError(err)
	}
	findings := doc.Inspect()
	if err := doc.Err(); err != nil {
		return Report{}, pdfError(err)
	}
	return Report{Pages: pages, Notices: notices(doc, findings), HasActiveContent: active(findings)}, nil
}

// refusals lists the errors of package pdf for files that can never be sealed, each with the code
// and the reason of the refusal.
var refusals = []struct {
	err          error
	code, reason string
}{
	{pdf.ErrEmpty, "empty", "The file is empty."},
	{pdf.ErrNotPDF, "type_mismatch", "The file has the extension of a PDF document, but its content is something else."},
	{pdf.ErrTruncated, "truncated", "The PDF is cut off: its end is missing."},
	{pdf.ErrPassword, "password", "The PDF needs a password to be opened. Remove the password and upload it again."},
	{pdf.ErrEncryption, "unsupported_encryption", "The PDF is encrypted in a way that is not supported. Save it without encryption."},
	{pdf.ErrNoPages, "no_pages", "The PDF has no pages."},
	{pdf.ErrLimit, "too_complex", "The PDF expands to far more data than any certificate needs."},
	{pdf.ErrDamaged, "damaged", "The PDF is damaged and cannot be repaired. Save or export it again."},
}

// pdfError converts an error of package pdf to a *Refusal, unless the error is temporary.
func pdfError(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return refuse(r.code, r.reason)
		}
	}
	return fmt.Errorf("reading the PDF: %w", err)
}
