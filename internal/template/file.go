package template

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// readAll reads at most limit bytes. If there are more, the error is fault.Invalid with the message for
// the field.
func readAll(r io.Reader, limit int, field, message string) ([]byte, error) {
	file, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("reading a file: %w", err)
	}
	if len(file) > limit {
		return nil, fault.OfField(field, message)
	}
	return file, nil
}

// restore is the advice in messages about a missing or damaged file.
const restore = "Restore it from a backup. The command certvault doctor --files names the file."

// checkDigest returns nil if the SHA-256 digest of a stored file is digest. Otherwise the error is
// fault.Damaged and wraps cert.ErrDamagedTemplate.
func checkDigest(file, digest []byte) error {
	if sum := sha256.Sum256(file); !bytes.Equal(sum[:], digest) {
		return fault.Wrap(fault.Damaged, "A file of the template is damaged in the vault's storage. "+restore, cert.ErrDamagedTemplate)
	}
	return nil
}

// store stores a file under a new key. Then it calls use in a transaction, and use stores the key in a
// row. If the transaction fails, store deletes the file, except after fault.Internal, because the commit
// may have succeeded then.
func (s *Service) store(ctx context.Context, key string, file []byte, use func(tx *db.Tx) error) error {
	return blob.Receive(ctx, s.blobs, key, bytes.NewReader(file), func(int64) error { return nil }, func() error { return s.db.Tx(ctx, use) })
}

// load returns a stored file. The error is fault.Damaged and wraps blob.ErrNotFound if the file is missing.
func (s *Service) load(ctx context.Context, key string) (_ []byte, err error) {
	o, err := s.blobs.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fault.Wrap(fault.Damaged, "A file of the template is missing from the vault's storage. "+restore, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening a file of a template: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	file := make([]byte, o.Size())
	if _, err := io.ReadFull(io.NewSectionReader(o, 0, o.Size()), file); err != nil {
		return nil, fmt.Errorf("reading a file of a template: %w", err)
	}
	return file, nil
}
