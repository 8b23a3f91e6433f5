package pades

import "fmt"

// maxBER is the maximum nesting depth of elements.
const maxBER = 32

// fromBER converts an element in BER (ITU-T X.690, 8), because many signers write BER
// although DER is required. The result has definite lengths of minimal size, and
// primitive octet strings. fromBER also returns the bytes after the element.
func fromBER(b []byte, depth int) (element, rest []byte, err error) {
	if len(b) < 2 || depth > maxBER || b[0]&0x1f == 0x1f {
		return nil, nil, errDER
	}
	tag, length, at := b[0], int(b[1]), 2
	if b[1] > 0x80 {
		n := int(b[1] & 0x7f)
		if n > 4 || len(b) < 2+n {
			return nil, nil, errDER
		}
		length = 0
		for _, c := range b[2 : 2+n] {
			length = length<<8 | int(c)
		}
		at += n
	}
	indefinite := b[1] == 0x80
	const constructed = 0x20
	switch {
	case indefinite && tag&constructed == 0:
		return nil, nil, errDER
	case !indefinite && (length < 0 || length > len(b)-at):
		return nil, nil, fmt.Errorf("%w: truncated", errDER)
	case !indefinite && tag&constructed == 0:
		return tlv(tag, b[at:at+length]), b[at+length:], nil
	}
	inner, rest := b[at:], []byte(nil)
	if !indefinite {
		inner, rest = b[at:at+length], b[at+length:]
	}
	var body []byte
	for {
		if indefinite && len(inner) >= 2 && inner[0] == 0 && inner[1] == 0 { // end-of-contents (8.1.5)
			rest = inner[2:]
			break
		}
		if !indefinite && len(inner) == 0 {
			break
		}
		var part []byte
		if part, inner, err = fromBER(inner, depth+1); err != nil {
			return nil, nil, err
		}
		if tag == tagOctetString|constructed { // a constructed string (8.7.3)
			d := der(part)
			piece, err := d.next(tagOctetString)
			if err != nil {
				return nil, nil, err
			}
			part = piece
		}
		body = append(body, part...)
	}
	if tag == tagOctetString|constructed {
		tag = tagOctetString
	}
	return tlv(tag, body), rest, nil
}
