package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf"
)

// Signature configures the signature of the verified PDF. The signature and the stamp are one
// revision of the file, except for a cover, whose signature is a revision of its own.
type Signature struct {
	Signer *pades.Signer
	// Time is the signing time in the signature.
	Time time.Time
}

// fieldSize is the approximate size in bytes of the field and the dictionary of a signature, without the
// CMS data.
const fieldSize = 1200

// prepare adds the signature to an otherwise complete update. It returns nil if no signature is
// requested.
func (j *job) prepare(u *pdf.Update, doc *pdf.Document, found pdf.Findings, page *pdf.Page) (*pades.Pending, error) {
	s := j.stamp.Signature
	if s == nil {
		return nil, nil //nolint:nilnil // without a signature nothing is pending
	}
	p, err := s.Signer.Prepare(u, doc, found, page, pades.Statement{
		Name: j.stamp.Institution, Reason: "Issued as " + j.stamp.ReferenceID, Time: s.Time, Original: j.original,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the signature: %w", err)
	}
	return p, nil
}

// complete signs an update. If the time stamp needs more space than reserved, complete builds the update
// again with the required space.
func (j *job) complete(ctx context.Context, a attempt, p *stampedUpdate) error {
	if p.pending == nil {
		return nil
	}
	err := p.pending.Complete(ctx, j.head(), p.tail)
	if errors.Is(err, pades.ErrReserve) {
		if *p, err = j.place(a, p.metadata); err != nil {
			return err
		}
		err = p.pending.Complete(ctx, j.head(), p.tail)
	}
	if err != nil {
		return fmt.Errorf("signing the verified PDF: %w", err)
	}
	return nil
}

func (j *job) head() pades.BaseFile { return pades.BaseFile{R: j.r, Size: j.size, State: j.state} }

// signWhole signs a complete new file in an incremental update. If the time stamp needs more space
// than reserved, signWhole repeats the update once.
func (j *job) signWhole(ctx context.Context, file []byte) ([]byte, error) {
	if j.stamp.Signature == nil {
		return file, nil
	}
	for range 2 {
		doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return nil, fmt.Errorf("signing the verified PDF: %w", err)
		}
		page, err := doc.Page(0)
		if err != nil {
			return nil, fmt.Errorf("signing the verified PDF: %w", err)
		}
		u := doc.Update()
		pending, err := j.prepare(u, doc, doc.Inspect(), page)
		if err != nil {
			return nil, err
		}
		tail, err := u.Bytes()
		if err != nil {
			return nil, fmt.Errorf("signing the verified PDF: %w", err)
		}
		err = pending.Complete(ctx, pades.BaseFile{R: bytes.NewReader(file), Size: int64(len(file))}, tail)
		if errors.Is(err, pades.ErrReserve) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("signing the verified PDF: %w", err)
		}
		return append(file, tail...), nil
	}
	return nil, fmt.Errorf("signing the verified PDF: %w", pades.ErrReserve)
}
