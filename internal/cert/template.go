package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// TemplateUse is the use of a template for one certificate.
type TemplateUse struct {
	// VersionID is the id of the version of the template. It never changes.
	VersionID int64
	// Values are the values of the certificate that are not in Text, as JSON. This package does not
	// interpret them. They are nil after the files of the certificate were erased or deleted by retention.
	Values json.RawMessage
	// FieldsSize is the size of the fields tail in bytes. It is 0 until the certificate is approved.
	FieldsSize int64
}

// HasDigest reports whether the size and the digest of the original are known. For a certificate from a
// template, they are known after its approval. For an application with a file, they are known after a
// reviewer has approved the application.
func (c *Certificate) HasDigest() bool {
	if c.Template != nil {
		return c.Template.FieldsSize > 0
	}
	return c.File.Type != ""
}

// OriginalDigest returns the SHA-256 digest of the original in hexadecimal, or "" if it is not known.
func (c *Certificate) OriginalDigest() string {
	if !c.HasDigest() {
		return ""
	}
	return hex.EncodeToString(c.File.SHA256[:])
}

// Drawer draws the originals of certificates that are made from templates. Drawing must be
// deterministic, because an original is drawn again for each use until the certificate is approved.
type Drawer interface {
	// Draw draws the original of a certificate. The error wraps a *seal.Refusal if the certificate
	// cannot be drawn, blob.ErrNotFound if a file of the template is missing, and ErrDamagedTemplate
	// if a file of the template is damaged. The base can be read after Draw returns.
	Draw(ctx context.Context, c *Certificate) (*Drawn, error)
}

// Drawn is a drawn original: the base, which all certificates of the version of the template share,
// followed by the fields tail.
type Drawn struct {
	Base     io.ReaderAt
	BaseSize int64
	Fields   []byte
	// SHA256, State and Size are those of the whole original, as in seal.Original.
	SHA256 [32]byte
	State  []byte
	Size   int64
	// Page and Box are the place of the QR code. Trusted reports whether the publication of the version
	// proved that a QR code at this place is readable. Clean has the meaning of Clean in seal.Placement.
	Page    int
	Box     seal.Box
	Trusted bool
	Clean   bool
}

// whole returns the original.
func (d *Drawn) whole() io.ReaderAt {
	return &joined{head: d.Base, tail: bytes.NewReader(d.Fields), split: d.BaseSize}
}

var errNoDrawer = errors.New("this process cannot draw the certificates of templates")

// drawn draws the original of a certificate.
func (s *Service) drawn(ctx context.Context, c *Certificate) (*Drawn, error) {
	if s.drawer == nil {
		return nil, errNoDrawer
	}
	d, err := s.drawer.Draw(ctx, c)
	if errors.Is(err, blob.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errNoBase, err)
	}
	if err != nil {
		return nil, fmt.Errorf("drawing a certificate: %w", err)
	}
	return d, nil
}

// drawnInput returns the input for sealing a certificate from a template.
func (s *Service) drawnInput(ctx context.Context, c *Certificate, inst *account.Institution) (*input, error) {
	if err := s.checkApproved(ctx, c); err != nil {
		return nil, err
	}
	d, err := s.drawn(ctx, c)
	if err != nil {
		return nil, err
	}
	return &input{
		Original: seal.Original{Name: c.File.Name, Type: seal.PDF, R: d.whole(), Size: d.Size, SHA256: d.SHA256, State: d.State},
		stamp: seal.Stamp{
			ReferenceID: c.ReferenceID, VerifyURL: s.verifyURL(c.ReferenceID), Institution: inst.Name,
			Placement: seal.Placement{Mode: seal.Exact, Page: d.Page, Box: d.Box, Figure: seal.CodeOnly, Trusted: d.Trusted, Clean: d.Clean},
		},
		fields: d.Fields,
	}, nil
}

// checkBase compares the stored base of a certificate from a template with the base in the input. The two
// differ if the stored file was damaged while a copy of the base was in memory.
func (s *Service) checkBase(ctx context.Context, c *Certificate, in *input) (err error) {
	if c.Template == nil {
		return nil
	}
	o, err := s.blobs.Open(ctx, c.File.Key)
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoBase, err)
	}
	if err != nil {
		return fmt.Errorf("opening the base: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	size := in.Size - int64(len(in.fields))
	stored, drawn := sha256.New(), sha256.New()
	if _, err := io.Copy(stored, io.NewSectionReader(o, 0, o.Size())); err != nil {
		return fmt.Errorf("%w: %w", ErrDamagedTemplate, err)
	}
	if _, err := io.Copy(drawn, io.NewSectionReader(in.R, 0, size)); err != nil {
		return fmt.Errorf("reading the base: %w", err)
	}
	if !bytes.Equal(stored.Sum(nil), drawn.Sum(nil)) {
		return fmt.Errorf("%w: the stored base differs from the one that was drawn on", ErrDamagedTemplate)
	}
	return nil
}

// drawOriginal returns the drawn original of a certificate that is not approved.
func (s *Service) drawOriginal(ctx context.Context, c *Certificate) (*Content, error) {
	d, err := s.drawn(ctx, c)
	if refusal, ok := errors.AsType[*seal.Refusal](err); ok {
		return nil, fault.Wrap(fault.NotFound, refusal.Reason, err)
	}
	if err != nil {
		return nil, err
	}
	return &Content{SectionReader: io.NewSectionReader(d.whole(), 0, d.Size)}, nil
}
