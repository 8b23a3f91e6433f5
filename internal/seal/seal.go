// Package seal turns an approved original (PDF, JPEG or PNG) into the verified
// PDF that carries the QR code of its public verification page, and draws the
// QR code and the barcode as SVG.
//
// It owns what may be sealed, where the stamp goes, and the proof that the
// stamp reads and covers nothing. It owns neither the syntax of PDF
// (package pdf) nor its rendering (package pdfium), and it knows no database,
// date or network: the same input gives the same bytes.
package seal

import "io"

// MediaType is the type of an original, as in an RFC 9110 Content-Type.
type MediaType string

// The types that can be sealed.
const (
	PDF  MediaType = "application/pdf"
	JPEG MediaType = "image/jpeg"
	PNG  MediaType = "image/png"
)

// Original is an uploaded file. R is read with ReadAt only and stays open
// until the Body of the Verified made from it is no longer needed.
type Original struct {
	Name string
	Type MediaType
	R    io.ReaderAt
	Size int64
	// SHA256 is the digest of the whole file, and State the encoding.BinaryMarshaler
	// state of crypto/sha256 after its last byte. Without State the file is read again.
	SHA256 [32]byte
	State  []byte
}

// Report is the answer of Check for a file that can be sealed.
type Report struct {
	Pages   int // 1 for an image
	Notices []Notice
	// Active tells that the PDF has JavaScript, Launch or other actions that run by
	// themselves. They are taken out of reach; ErrActive refuses them instead.
	Active bool
}

// Notice is something the institution should know about a file that is sealed all the same.
// Code is a short stable snake_case word, Message a sentence for people.
type Notice struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Refusal is why a file can never become a verified PDF. Code is a short stable
// snake_case word, Reason one plain sentence for the person who uploaded it.
type Refusal struct{ Code, Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// Mode is a way to find the place of the stamp.
type Mode string

// The modes. A mode that cannot be carried out falls back to the next of
// auto, strip and appended, and a Notice says so.
const (
	Auto        Mode = "auto"         // a blank place on the page, corners first; otherwise a strip
	TopLeft     Mode = "top-left"     // that corner of the page
	TopRight    Mode = "top-right"    // that corner of the page
	BottomLeft  Mode = "bottom-left"  // that corner of the page
	BottomRight Mode = "bottom-right" // that corner of the page
	Exact       Mode = "exact"        // Placement.Box
	Strip       Mode = "strip"        // a strip below the page, whose boxes are enlarged
	Appended    Mode = "appended"     // a page of its own after the last one
	Annotation  Mode = "annotation"   // result only: an annotation on a page of a signed file
	Cover       Mode = "cover"        // result only: a new file that carries the original as an embedded file
)

// Box is a rectangle x0, y0, x1, y1 in fractions of the page as shown, from its top left.
type Box [4]float64

// Layout is a place that worked: on pages of this size as shown (whole points) the stamp stood at Box.
type Layout struct {
	Width, Height int
	Box           Box
}

// Placement says where the stamp is wanted. The zero value is Auto on page one.
type Placement struct {
	Mode Mode
	Page int // 1-based; 0 is 1
	Box  Box // Exact: where
	// Remembered are places that worked for earlier certificates of the same
	// institution, latest first; Auto tries those of the page's size before any other.
	Remembered []Layout
}

// Stamp is what the verified PDF says beyond the original.
type Stamp struct {
	ReferenceID string
	VerifyURL   string
	Institution string
	Placement   Placement
	// Signature signs the verified PDF; nil leaves it unsigned.
	Signature *Signature
}

// Verified is a verified PDF.
type Verified struct {
	// Body is what has to be stored. If Whole, it is the entire verified file (from an
	// image, or a cover); otherwise the verified file is the original followed by Body.
	// It may read from Original.R, so store it before the original is closed.
	Body  *io.SectionReader
	Whole bool

	SHA256 [32]byte // of the verified file
	Size   int64    // of the verified file in bytes

	Placement Mode
	Page      int // 1-based page of the verified file that carries the stamp
	Box       Box // of the stamp on that page
	// Layout is worth remembering for Placement.Remembered; its Width is 0 if it is not.
	Layout  Layout
	Notices []Notice
}
