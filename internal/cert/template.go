package cert

import (
	"context"
	"encoding/json"
	"io"

	"github.com/certvault/certvault/internal/seal"
)

// TemplateUse is the use of a template for one certificate.
type TemplateUse struct {
	// VersionID is the number of the version of the template, which never changes.
	VersionID int64
	// Values are the values of the certificate other than its text, in JSON. Only the Drawer reads
	// them. They are nil after the files of the certificate were erased.
	Values json.RawMessage
	// FieldsSize is the size of the fields tail in bytes. It is 0 until the certificate is approved.
	FieldsSize int64
}

// Drawer draws the originals of certificates that are made from templates. Drawing is deterministic:
// until a certificate is approved, each attempt draws its original again.
type Drawer interface {
	// Draw draws the original of a certificate. The error is a *seal.Refusal if the certificate can
	// never be drawn, and wraps blob.ErrNotFound if a file of the template is missing. The base can be
	// read after Draw.
	Draw(ctx context.Context, c *Certificate) (*Drawn, error)
}

// Drawn is a drawn original: the base, which all certificates of the version of the template share,
// followed by the fields tail.
type Drawn struct {
	Base     io.ReaderAt
	BaseSize int64
	Fields   []byte
	// SHA256, State and Size are those of the original.
	SHA256 [32]byte
	State  []byte
	Size   int64
	// Page and Box are the place of the QR code. Trusted reports whether the place was proved at the
	// publication of the version.
	Page    int
	Box     seal.Box
	Trusted bool
}
