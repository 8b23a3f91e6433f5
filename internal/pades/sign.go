package pades

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// ErrReserve reports that a time stamp needs more space than was reserved. After this error the
// required space is known, so a new update with a new Pending succeeds.
var ErrReserve = errors.New("the signature needs more space than was reserved")

// BaseFile describes the file before the update.
type BaseFile struct {
	R    io.ReaderAt
	Size int64
	// State is the marshalled state of crypto/sha256 after the last byte of the
	// file. If State is missing or does not match Size, the file is read.
	State []byte
}

// digest returns the hash state after the last byte of the file.
func (h BaseFile) digest() (hash.Hash, error) {
	d := sha256.New()
	state, ok := d.(encoding.BinaryUnmarshaler)
	if ok && h.stateFits() && state.UnmarshalBinary(h.State) == nil {
		return d, nil
	}
	d.Reset()
	if _, err := io.Copy(d, io.NewSectionReader(h.R, 0, h.Size)); err != nil {
		return nil, fmt.Errorf("reading the bytes to sign: %w", err)
	}
	return d, nil
}

// stateFits reports whether the state was saved after exactly h.Size bytes. The last
// 8 bytes of the state are that number. With a state after another number of bytes,
// the signature would be invalid.
func (h BaseFile) stateFits() bool {
	n := len(h.State) - 8
	return n >= 0 && binary.BigEndian.Uint64(h.State[n:]) == uint64(h.Size) //nolint:gosec // no file has a negative size
}

// Complete signs head followed by tail, and inserts the signature in tail. tail contains the
// written bytes of the update, and its length does not change. The error wraps ErrKey,
// ErrTimeStamp, ErrReserve, or the error of the key or of reading head. Another error reports that
// tail does not belong to this update.
func (p *Pending) Complete(ctx context.Context, head BaseFile, tail []byte) error {
	from := p.contents.Offset - head.Size
	to := from + int64(len(p.contents.Text))
	if at := p.byteRange.Offset - head.Size; at < 0 || from < 0 || to > int64(len(tail)) || at+int64(len(p.byteRange.Text)) > from {
		return fmt.Errorf("completing the signature: %w", errOtherUpdate)
	}
	// The byte range is the whole file except the string that is the value of /Contents (12.8.1).
	ranges := fmt.Sprintf("[0 %d %d %d]", head.Size+from, head.Size+to, int64(len(tail))-to)
	if len(ranges) > len(p.byteRange.Text) {
		return fmt.Errorf("completing the signature: %w", errOtherUpdate)
	}
	copy(tail[p.byteRange.Offset-head.Size:], ranges)
	d, err := head.digest()
	if err != nil {
		return err
	}
	d.Write(tail[:from])
	d.Write(tail[to:])
	cms, err := p.signer.sign(ctx, d.Sum(nil))
	if err != nil {
		return err
	}
	if 2*len(cms) > len(p.contents.Text)-2 {
		return fmt.Errorf("%w: %d bytes, and %d are reserved", ErrReserve, len(cms), len(p.contents.Text)/2-1)
	}
	hex.Encode(tail[from+1:], cms)
	return nil
}

// errOtherUpdate reports that the caller passed a tail that does not belong to
// the Pending.
var errOtherUpdate = errors.New("the tail does not belong to the update")

// Size returns the number of bytes that the values of /Contents and /ByteRange
// add to the update.
func (p *Pending) Size() int { return len(p.contents.Text) + len(p.byteRange.Text) }
