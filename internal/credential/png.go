package credential

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf8"
)

var pngSignature = []byte("\x89PNG\r\n\x1a\n")

// bakedKeyword is the keyword of the iTXt chunk with a credential (OB, 5.3.1.1).
const bakedKeyword = "openbadgecredential"

// chunk is a part of a PNG datastream (PNG, 5.3).
type chunk struct {
	kind string
	data []byte
	raw  []byte // with length, kind and CRC
}

// nextChunk returns the first chunk of data, and the data after that chunk.
func nextChunk(data []byte) (chunk, []byte, error) {
	if len(data) < 12 {
		return chunk{}, nil, fmt.Errorf("%w: it ends early", ErrPicture)
	}
	length := int64(binary.BigEndian.Uint32(data))
	if length > int64(len(data)-12) {
		return chunk{}, nil, fmt.Errorf("%w: it ends early", ErrPicture)
	}
	end := int(length) + 8
	if crc32.ChecksumIEEE(data[4:end]) != binary.BigEndian.Uint32(data[end:]) {
		return chunk{}, nil, fmt.Errorf("%w: the checksum of a chunk is wrong", ErrPicture)
	}
	return chunk{string(data[4:8]), data[8:end], data[:end+4]}, data[end+4:], nil
}

// BakePNG adds a credential, in JSON or as compact JWS, to a PNG picture (OB, 5.3.1.1). It replaces a
// credential that the picture already has.
func BakePNG(picture, credential []byte) ([]byte, error) {
	if !bytes.HasPrefix(picture, pngSignature) {
		return nil, fmt.Errorf("baking a badge: %w: it is not PNG", ErrPicture)
	}
	if !utf8.Valid(credential) {
		return nil, fmt.Errorf("baking a badge: %w", errNotUTF8)
	}
	out := bytes.Clone(pngSignature)
	for rest := picture[len(pngSignature):]; len(rest) > 0; {
		c, next, err := nextChunk(rest)
		if err != nil {
			return nil, fmt.Errorf("baking a badge: %w", err)
		}
		if len(out) == len(pngSignature) && c.kind != "IHDR" {
			return nil, fmt.Errorf("baking a badge: %w: it has no header", ErrPicture)
		}
		if !c.baked() {
			out = append(out, c.raw...)
		}
		if c.kind == "IHDR" {
			out = appendBaked(out, credential)
		}
		if c.kind == "IEND" {
			return out, nil
		}
		rest = next
	}
	return nil, fmt.Errorf("baking a badge: %w: it ends early", ErrPicture)
}

// appendBaked appends an iTXt chunk without compression, language or translated keyword (PNG, 11.3.3.4).
func appendBaked(out, credential []byte) []byte {
	data := append([]byte("iTXt"+bakedKeyword+"\x00\x00\x00\x00\x00"), credential...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(data)-4)) //nolint:gosec // at most maxDocument
	out = append(out, data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(data))
}

// baked reports whether a chunk contains a credential.
func (c chunk) baked() bool {
	return c.kind == "iTXt" && bytes.HasPrefix(c.data, []byte(bakedKeyword+"\x00"))
}

// unbakePNG returns the credential in a PNG picture (OB, 5.3.1.2).
func unbakePNG(data []byte) ([]byte, error) {
	var found []byte
	for rest := data[len(pngSignature):]; len(rest) > 0; {
		c, next, err := nextChunk(rest)
		if err != nil {
			return nil, err
		}
		if c.baked() {
			if found != nil { // OB, 5.3.1.1: at most one
				return nil, fmt.Errorf("%w: it has two credentials", ErrPicture)
			}
			if found, err = c.text(); err != nil {
				return nil, err
			}
		}
		if c.kind == "IEND" {
			break
		}
		rest = next
	}
	if found == nil {
		return nil, ErrNoCredential
	}
	return found, nil
}

// text returns the text of an iTXt chunk with a credential. It accepts compressed text, although the
// specification forbids it, but limits the size of the result: the text can be a thousand times as large
// as the chunk.
func (c chunk) text() ([]byte, error) {
	rest := c.data[len(bakedKeyword)+1:]
	if len(rest) < 2 {
		return nil, fmt.Errorf("%w: the text ends early", ErrPicture)
	}
	compressed := rest[0] == 1
	_, rest, ok := bytes.Cut(rest[2:], []byte{0}) // the language
	if ok {
		_, rest, ok = bytes.Cut(rest, []byte{0}) // the translated keyword
	}
	if !ok {
		return nil, fmt.Errorf("%w: the text ends early", ErrPicture)
	}
	if !compressed {
		return append([]byte{}, rest...), nil
	}
	r, err := zlib.NewReader(bytes.NewReader(rest))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	if len(text) > maxDocument {
		return nil, errTooLarge
	}
	return text, nil
}
