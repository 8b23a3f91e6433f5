// Package seal converts an original (PDF, JPEG or PNG) to the verified PDF. The verified PDF shows
// the QR code of the public page that verifies the certificate. The package also draws the QR code
// and the barcode as SVG.
//
// The package decides which files are accepted and where the stamp is, and proves that the stamp is
// readable and, except at an exact place, covers nothing. PDF syntax is in package pdf, rendering
// in package pdfium, and signatures in package pades. The package uses no database.
package seal

import (
	"context"
	"io"

	"github.com/certvault/certvault/internal/colour"
)

// MediaType is the media type of an original, as in Content-Type (RFC 9110).
type MediaType string

// These are the supported types.
const (
	PDF  MediaType = "application/pdf"
	JPEG MediaType = "image/jpeg"
	PNG  MediaType = "image/png"
)

// Original is a file to seal.
type Original struct {
	Name string
	Type MediaType
	R    io.ReaderAt
	Size int64
	// SHA256 is the digest of the whole file, and State the encoding.BinaryMarshaler state of
	// crypto/sha256 after the last byte of the file. Without State, Seal reads the file again.
	SHA256 [32]byte
	State  []byte
	// Recipient is the name that the text of the file should contain. If the text does not contain the
	// name, Seal returns a Notice. If Recipient is empty, Seal does not read the text.
	Recipient string
}

// Report is the result of Check for a file that can be sealed.
type Report struct {
	Pages   int // 1 for an image
	Notices []Notice
	// HasActiveContent reports whether the PDF has JavaScript, actions that start a program or run
	// automatically, an XFA form, or video, sound or 3D content. If the PDF is not signed, Seal removes
	// the references to active content, except to video, sound and 3D content. A caller can refuse the
	// file with ErrActive instead.
	HasActiveContent bool
}

// Notice is a remark for the institution about a file that can be sealed. Code is a short stable
// identifier in snake_case. Message is a sentence for the user.
type Notice struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Refusal is the reason why a file can never become a verified PDF. Code is a short stable
// identifier in snake_case. Reason is a sentence for the user who uploaded the file.
type Refusal struct{ Code, Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// Mode is a way to place the stamp.
type Mode string

// These are the modes. If the requested mode is not possible, Seal uses another mode. A Notice reports the
// change, except the change from Auto to Annotation. For an image, Auto means Strip. The result for a signed
// file is an annotation in a blank place, or a cover.
const (
	Auto        Mode = "auto"         // a blank place on the page, preferably near a corner
	TopLeft     Mode = "top-left"     // in the top left corner of the page
	TopRight    Mode = "top-right"    // in the top right corner of the page
	BottomLeft  Mode = "bottom-left"  // in the bottom left corner of the page
	BottomRight Mode = "bottom-right" // in the bottom right corner of the page
	Exact       Mode = "exact"        // centred in Placement.Box
	Strip       Mode = "strip"        // a strip below the page; the boxes of the page are enlarged
	Appended    Mode = "appended"     // a new page at the end
	// Annotation is only a result: an annotation on a page whose content is signed or cannot be extended.
	Annotation Mode = "annotation"
	// Cover is only a result: a new file that contains the original as an embedded file.
	Cover Mode = "cover"
)

// Figure is the form of a stamp.
type Figure string

// These are the forms of a stamp.
const (
	// Usual is the QR code with the reference id and, if there is room, the host of the code's address.
	Usual Figure = ""
	// CodeOnly is the QR code alone, with its quiet zone. It is for designs that have a place for the
	// code. The code is as large as possible in Placement.Box on Placement.Page, and may cover content
	// there. If the code is not readable, Seal tries no other place and returns a *Refusal.
	CodeOnly Figure = "code"
)

// Box is a rectangle x0, y0, x1, y1 in fractions of the page as displayed, from its top left
// corner.
type Box [4]float64

// Layout is a place at which a stamp was readable. Width and Height are the size of the page as
// displayed, in whole points. Box is the place of the stamp.
type Layout struct {
	Width, Height int
	Box           Box
}

// Placement is the requested place of the stamp. The zero value is Auto on page one.
type Placement struct {
	Mode Mode
	Page int // from 1; 0 means 1
	Box  Box // the place for Exact and CodeOnly
	// Figure is the form of the stamp. For CodeOnly, Mode is ignored.
	Figure Figure
	// Trusted reports whether an earlier stamp at this place of the same page was readable. Seal then
	// renders and checks only about one in a hundred CodeOnly stamps. The reference id decides which.
	Trusted bool
	// Clean reports whether the content of the page is known to be clean and without fault, as in
	// pdf.Balance. Seal then does not read the content for a stamp that is Trusted and is not checked.
	Clean bool
	// EarlierLayouts lists the places of earlier stamps of the same institution, latest first. Auto first
	// tries the first usable place for the size of the page.
	EarlierLayouts []Layout
}

// Stamp is the content that the verified PDF adds to the original.
type Stamp struct {
	ReferenceID string
	VerifyURL   string
	Institution string
	Placement   Placement
	// Colour is the colour of the stamp's frame. Plain selects the stamp of earlier versions: the QR code
	// and the reference id, without a frame.
	Colour colour.Colour
	Plain  bool
	// Sheet returns the contents of the verification sheet, for Appended and Cover. If Sheet is nil or
	// Plain is true, the verified PDF has no verification sheet.
	Sheet func(context.Context) (*Sheet, error)
	// Signature configures the signature. If Signature is nil, the verified PDF is not signed.
	Signature *Signature
}

// Verified is a verified PDF.
type Verified struct {
	// Body is the data to store. If Whole is true, for an image or a cover, Body is the entire verified
	// PDF. Otherwise the verified PDF is the original followed by Body.
	Body  *io.SectionReader
	Whole bool

	SHA256 [32]byte // of the verified PDF
	Size   int64    // size of the verified PDF in bytes

	Placement Mode
	Page      int // page that has the stamp, from 1
	Box       Box // place of the stamp on that page
	// Layout is a new value for Placement.EarlierLayouts. Its Width is 0 if the place is one of
	// EarlierLayouts, or is not suitable for other certificates.
	Layout  Layout
	Notices []Notice
}
