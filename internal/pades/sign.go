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

// ErrReserve tells that a time stamp takes more room than was kept for it. The
// room is known now: preparing the update anew leads to a signature.
var ErrReserve = errors.New("the signature takes more room than was kept for it")

// Head is the file that an update follows.
type Head struct {
	R    io.ReaderAt
	Size int64
	// State is what crypto/sha256 marshals of itself after the last byte of the
	// file. Without it the file is read.
	State []byte
}

// digest returns the state after the head.
func (h Head) digest() (hash.Hash, error) {
	d := sha256.New()
	state, ok := d.(encoding.BinaryUnmarshaler)
	if ok && h.stateFits() && state.UnmarshalBinary(h.State) == nil {
		return d, nil
	}
	d.Reset()
	if _, err := io.Copy(d, io.NewSectionReader(h.R, 0, h.Size)); err != nil {
		return nil, fmt.Errorf("read what is to be signed: %w", err)
	}
	return d, nil
}

// stateFits tells whether the state is one after as many bytes as the head has, which
// it ends in. One of another file would lead to a signature that fits nothing.
func (h Head) stateFits() bool {
	n := len(h.State) - 8
	return n >= 0 && binary.BigEndian.Uint64(h.State[n:]) == uint64(h.Size) //nolint:gosec // no file has a negative size
}

// Complete signs head followed by tail, the bytes that the update was written as,
// and puts the signature into tail. Its length stays. An error is, or wraps,
// ErrKey, ErrTimeStamp, ErrReserve or what the key said.
func (p *Pending) Complete(ctx context.Context, head Head, tail []byte) error {
	from := p.contents.Offset - head.Size
	to := from + int64(len(p.contents.Text))
	if at := p.byteRange.Offset - head.Size; at < 0 || from < 0 || to > int64(len(tail)) || at+int64(len(p.byteRange.Text)) > from {
		return fmt.Errorf("sign: %w", errOtherUpdate)
	}
	// 12.8.1: all of the file but the string that is the value of /Contents.
	ranges := fmt.Sprintf("[0 %d %d %d]", head.Size+from, head.Size+to, int64(len(tail))-to)
	if len(ranges) > len(p.byteRange.Text) {
		return fmt.Errorf("sign: %w", errOtherUpdate)
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
		return fmt.Errorf("%w: %d bytes, not %d", ErrReserve, len(cms), len(p.contents.Text)/2-1)
	}
	hex.Encode(tail[from+1:], cms)
	return nil
}

// errOtherUpdate is a fault of the caller.
var errOtherUpdate = errors.New("the update was not written to this tail")

// Size returns by how much the value of the signature makes the update longer.
func (p *Pending) Size() int { return len(p.contents.Text) + len(p.byteRange.Text) }
