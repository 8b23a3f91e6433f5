package pades

import (
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// Identifier octets of DER (ITU-T X.690): class, constructed bit, tag number.
const (
	tagBoolean         = 0x01
	tagInteger         = 0x02
	tagBitString       = 0x03
	tagOctetString     = 0x04
	tagNull            = 0x05
	tagOID             = 0x06
	tagUTF8String      = 0x0c
	tagGeneralizedTime = 0x18
	tagSequence        = 0x30
	tagSet             = 0x31
	tagContext         = 0x80 // [0], primitive
	tagContextCons     = 0xa0 // [0], constructed
)

// errDER means that bytes are not DER or are not the expected element. In DER, every value has
// exactly one encoding (X.690, 10), so no byte can change without a change of the value.
var errDER = errors.New("not DER")

// der is a DER encoding. Its methods read one element after the other.
type der []byte

// element reads the next element: its tag, its content, and the whole element.
func (d *der) element() (tag byte, body, full []byte, err error) {
	b := *d
	if len(b) < 2 || b[0]&0x1f == 0x1f { // no type used here has a high tag number
		return 0, nil, nil, errDER
	}
	length, at := int(b[1]), 2
	if b[1] >= 0x80 {
		n := int(b[1] & 0x7f)
		if n == 0 || n > 3 || len(b) < 2+n || b[2] == 0 { // indefinite, longer than 3 bytes, or not minimal (10.1)
			return 0, nil, nil, errDER
		}
		length = 0
		for _, c := range b[2 : 2+n] {
			length = length<<8 | int(c)
		}
		if length < 0x80 {
			return 0, nil, nil, errDER
		}
		at += n
	}
	if length > len(b)-at {
		return 0, nil, nil, errDER
	}
	*d = b[at+length:]
	return b[0], b[at : at+length : at+length], b[: at+length : at+length], nil
}

// next reads an element that must have the tag and returns its content.
func (d *der) next(tag byte) (der, error) {
	found, body, _, err := d.element()
	if err == nil && found != tag {
		err = errDER
	}
	if err != nil {
		return nil, fmt.Errorf("%w: tag %#02x expected", err, tag)
	}
	return body, nil
}

// whole reads an element that must have the tag and returns the whole element.
func (d *der) whole(tag byte) ([]byte, error) {
	if !d.is(tag) {
		return nil, fmt.Errorf("%w: tag %#02x expected", errDER, tag)
	}
	_, _, full, err := d.element()
	return full, err
}

// is reports whether the next element has the tag.
func (d *der) is(tag byte) bool { return len(*d) > 0 && (*d)[0] == tag }

// end returns an error if bytes remain.
func (d *der) end() error {
	if len(*d) > 0 {
		return fmt.Errorf("%w: %d bytes remain", errDER, len(*d))
	}
	return nil
}

// integer reads an INTEGER.
func (d *der) integer() (*big.Int, error) {
	full, err := d.whole(tagInteger)
	if err != nil {
		return nil, err
	}
	n := new(big.Int)
	if _, err := asn1.Unmarshal(full, &n); err != nil {
		return nil, fmt.Errorf("%w: %w", errDER, err)
	}
	return n, nil
}

// small reads an INTEGER from 0 to 255.
func (d *der) small() (int, error) {
	n, err := d.integer()
	if err != nil {
		return 0, err
	}
	if n.Sign() < 0 || n.BitLen() > 8 {
		return 0, fmt.Errorf("%w: an integer is out of range", errDER)
	}
	return int(n.Int64()), nil
}

// oid reads an OBJECT IDENTIFIER.
func (d *der) oid() (asn1.ObjectIdentifier, error) {
	full, err := d.whole(tagOID)
	if err != nil {
		return nil, err
	}
	var id asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(full, &id); err != nil {
		return nil, fmt.Errorf("%w: %w", errDER, err)
	}
	return id, nil
}

// tlv encodes an element.
func tlv(tag byte, contents ...[]byte) []byte {
	n := 0
	for _, c := range contents {
		n += len(c)
	}
	out := make([]byte, 0, n+5)
	out = append(out, tag)
	switch {
	case n < 0x80:
		out = append(out, byte(n))
	case n < 1<<8:
		out = append(out, 0x81, byte(n))
	case n < 1<<16:
		out = append(out, 0x82, byte(n>>8), byte(n))
	default:
		out = append(out, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	for _, c := range contents {
		out = append(out, c...)
	}
	return out
}

// derInteger encodes a non-negative INTEGER.
func derInteger(n *big.Int) []byte {
	b := n.Bytes()
	if len(b) == 0 || b[0] >= 0x80 {
		return tlv(tagInteger, []byte{0}, b)
	}
	return tlv(tagInteger, b)
}

// derOID encodes an OBJECT IDENTIFIER in base 128 (X.690, 8.19).
func derOID(id asn1.ObjectIdentifier) []byte {
	body := appendBase128(nil, id[0]*40+id[1])
	for _, arc := range id[2:] {
		body = appendBase128(body, arc)
	}
	return tlv(tagOID, body)
}

func appendBase128(out []byte, n int) []byte {
	shift := 0
	for n>>shift >= 0x80 {
		shift += 7
	}
	for ; shift > 0; shift -= 7 {
		out = append(out, byte(n>>shift)|0x80) //nolint:gosec // seven bits at a time
	}
	return append(out, byte(n)&0x7f) //nolint:gosec // the last seven bits
}
