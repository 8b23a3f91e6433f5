// Package design draws certificates from templates: it sets the texts of a certificate in the fields
// of a design, which is a PDF.
//
// A published template is a base: the design, followed by everything that all certificates of the
// template share. Each certificate adds a fields tail with its own texts, an incremental update (ISO
// 32000-2, 7.5.6). The verified PDF adds the stamp and the signature as another update. So the base
// is stored and hashed once.
//
// The package decides where a text is and whether it fits. Shaping is in package typeset, PDF syntax
// in package pdf, and the QR code in package seal. The package uses no database, no network and no
// clock. The same input yields the same bytes.
package design

// Kind is the kind of a field.
type Kind string

// These are the kinds of fields. A template has exactly one field of kind QR, and at least one field with
// the placeholder {name}.
const (
	Name      Kind = "name"      // the recipient's name
	Title     Kind = "title"     // the title of the certificate
	Date      Kind = "date"      // the issue date or the expiry date
	Reference Kind = "reference" // the reference id
	Details   Kind = "details"   // the details of the certificate
	Column    Kind = "column"    // a value of a column of the list
	Text      Kind = "text"      // text that may contain placeholders
	Signature Kind = "signature" // the picture of a signatory's signature
	Image     Kind = "image"     // a picture, such as a logo
	QR        Kind = "qr"        // the QR code, which package seal draws
)

// Layout describes the fields on the pages of a design. It is stored as JSON.
type Layout struct {
	Fields []Field `json:"fields"`
	// Language is the BCP 47 tag of the texts. Title is the default title of the certificates.
	Language string `json:"language,omitempty"`
	Title    string `json:"title,omitempty"`
	// Alt describes the design for people who cannot see it.
	Alt string `json:"alt,omitempty"`
}

// Field is a place on a page for a text, a picture or the QR code. Lengths are in points of 1/72
// inch, and angles are clockwise in degrees.
type Field struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Page int    `json:"page"` // from 1
	// Box is x, y, width and height, from the top left of the page as displayed.
	Box Box `json:"box"`
	// Rotate is the angle about the center of the box.
	Rotate float64 `json:"rotate,omitempty"`
	// Text is the text with its placeholders, such as "{name}". A field with placeholders whose values
	// are all empty is not drawn. In a field of kind Signature, Text is the placeholder of the
	// signatory, such as "{signatory:1}".
	Text string `json:"text,omitempty"`
	// Label is the name of the field for people who edit the template.
	Label string `json:"label,omitempty"`

	Font Font `json:"font,omitzero"`
	// Size is the font size. Text that does not fit is drawn smaller, down to MinSize. A MinSize
	// of 0 means Size.
	Size    float64 `json:"size,omitempty"`
	MinSize float64 `json:"min_size,omitempty"`
	// Lines is the maximum number of lines; 0 is 1. Leading is the distance between two baselines as
	// a multiple of the size; 0 is 1.2.
	Lines   int     `json:"lines,omitempty"`
	Leading float64 `json:"leading,omitempty"`
	// Align is "left", "center" or "right"; "" is left. VAlign is "top", "middle" or "bottom"; "" is
	// middle.
	Align  string `json:"align,omitempty"`
	VAlign string `json:"valign,omitempty"`
	// Color is the color of the text as "#rrggbb"; "" is black.
	Color string `json:"color,omitempty"`
	// Tracking is additional space between letters in thousandths of the size.
	Tracking float64 `json:"tracking,omitempty"`
	// Case is "none", "upper" or "lower"; "" is none.
	Case string `json:"case,omitempty"`
	// Language is the BCP 47 tag of the text; "" is the language of the layout.
	Language string `json:"language,omitempty"`
	// Format is the format of dates: "long" (12 March 2026), "month" (March 2026), "year" or "iso"
	// (2026-03-12). "" is long.
	Format string `json:"format,omitempty"`
	// Required means that a row must have a value for each placeholder of the field. A row must always have
	// a value for {name}.
	Required bool `json:"required,omitempty"`
	// Image identifies the picture of an image field: "logo", or the SHA-256 of a stored picture in
	// hexadecimal.
	Image string `json:"image,omitempty"`
}

// Box is a rectangle: x, y, width and height.
type Box [4]float64

// Font identifies a font of a field.
type Font struct {
	Family string `json:"family"`
	Weight int    `json:"weight,omitempty"` // 100 to 900; 0 is 400
	Italic bool   `json:"italic,omitempty"`
}

// Values are the data of one certificate.
type Values struct {
	Name, Title, Reference, Details, Institution string
	// IssueDate and ExpiresOn are dates such as "2026-03-12". ExpiresOn may be "".
	IssueDate, ExpiresOn string
	// Columns maps the names of the columns of the list to the values in the certificate's row.
	Columns map[string]string
	// Signatories are the signatories in the order of their index. The first has the index 1.
	Signatories []Signatory
	// Language is the language of the certificate; "" is the language of the layout. It determines, for
	// example, the names of months and the forms of Han characters.
	Language string
}

// Signatory is a person who signs a certificate.
type Signatory struct {
	Name, Designation string
	// Picture is the picture of the signature, or nil.
	Picture *SignaturePicture
}

// These are the codes of problems.
const (
	CodeMissingCharacters = "missing_characters" // some characters are in no font; Detail lists at most five of them
	CodeNoRoom            = "no_room"            // the text does not fit at the smallest size
	CodeValueMissing      = "value_missing"      // a required value is empty; Detail is the placeholder
	CodeValueUnknown      = "value_unknown"      // no placeholder uses the column; Detail is its name
	CodeFieldInvalid      = "field_invalid"      // a property of the field or of the layout is not valid; Detail is the property
	CodePlaceholder       = "placeholder"        // the placeholder is unknown; Detail is its text
	CodeQRMissing         = "qr_missing"         // the layout has no QR code, or more than one
	CodeQRTooSmall        = "qr_too_small"       // the QR code is smaller than 20 mm
	CodeQRCovered         = "qr_covered"         // another field overlaps the QR code; Detail is the id of that field
	CodeNameMissing       = "name_missing"       // no field has the placeholder {name}
	CodeFieldsOverlap     = "fields_overlap"     // a warning: the field overlaps an earlier field; Detail is the id of the earlier field
	CodeSignatoryMissing  = "signatory_missing"  // the template has no such signatory; Detail is the index
)

// Problem is a reason why a layout cannot be published or a certificate cannot be drawn, or a warning.
type Problem struct {
	// Field is the id of the field, or "" for the layout or the row as a whole.
	Field string `json:"field,omitempty"`
	Code  string `json:"code"`
	// Detail depends on Code. The comments of the codes explain it.
	Detail string `json:"detail,omitempty"`
}

// Problems is the list of problems of a layout or of one certificate. It is an error.
type Problems []Problem
