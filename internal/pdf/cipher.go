package pdf

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5" //nolint:gosec // required by the standard
	"crypto/rc4" //nolint:gosec // required by the standard
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// objectKey returns the key for the strings and streams of an object (algorithms
// 1 and 1.A).
func (c *crypt) objectKey(ref Ref, method cryptMethod) []byte {
	if method == cryptAESV3 {
		return c.key
	}
	var id [8]byte
	binary.LittleEndian.PutUint32(id[0:], uint32(ref.Number))     //nolint:gosec // its low three bytes
	binary.LittleEndian.PutUint32(id[3:], uint32(ref.Generation)) //nolint:gosec // its low two bytes
	h := md5.New()                                                //nolint:gosec // required by the standard
	h.Write(c.key)
	h.Write(id[:5])
	if method == cryptAESV2 {
		h.Write([]byte("sAlT"))
	}
	return h.Sum(nil)[:min(16, len(c.key)+5)]
}

// decryptStrings decrypts the strings of an object that was just read, and returns the object. It
// changes containers in place. The strings of a cross-reference stream and the /Contents of a
// signature are not encrypted.
func (c *crypt) decryptStrings(obj Object, ref Ref) Object {
	if c.strings == cryptIdentity {
		return obj
	}
	key := c.objectKey(ref, c.strings)
	stream, ok := obj.(*Stream)
	if !ok {
		return c.decryptObject(obj, key)
	}
	if stream.Dict.Get("Type") != Name("XRef") {
		c.decryptObject(stream.Dict, key)
	}
	return stream
}

func (c *crypt) decryptObject(obj Object, key []byte) Object {
	switch v := obj.(type) {
	case String:
		return String(decryptBytes([]byte(v), key, c.strings))
	case Array:
		for i := range v {
			v[i] = c.decryptObject(v[i], key)
		}
	case *Dict:
		signature := isSignature(v)
		for i, e := range v.entries {
			if signature && e.Key == "Contents" {
				continue
			}
			v.entries[i].Value = c.decryptObject(e.Value, key)
		}
	}
	return obj
}

// isSignature reports whether d is a signature dictionary, whose /Contents is
// never encrypted (7.6.2).
func isSignature(d *Dict) bool { return d.Has("ByteRange") && d.Has("Contents") }

// decryptBytes decrypts data in place and returns the decrypted part of data. For AES,
// it returns nil if data is shorter than two blocks.
func decryptBytes(data, key []byte, method cryptMethod) []byte {
	switch method {
	case cryptIdentity:
	case cryptRC4:
		rc4XOR(key, data)
	case cryptAESV2, cryptAESV3:
		block, err := aes.NewCipher(key)
		if err != nil || len(data) < 2*aes.BlockSize {
			return nil
		}
		iv, body := data[:aes.BlockSize], data[aes.BlockSize:]
		body = body[:len(body)/aes.BlockSize*aes.BlockSize]
		cipher.NewCBCDecrypter(block, iv).CryptBlocks(body, body)
		return unpad(body)
	}
	return data
}

// unpad removes the padding of RFC 8018, 6.1.1. It checks only the last byte, and
// returns data unchanged if that byte is not a valid padding length.
func unpad(data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	if n := int(data[len(data)-1]); n >= 1 && n <= aes.BlockSize && n <= len(data) {
		return data[:len(data)-n]
	}
	return data
}

// encryptBytes encrypts the data of an object. For AES, the initialization vector
// is derived from the file key, the object number and the data, so that it is
// unpredictable without the key and the same update always produces the same bytes.
func (c *crypt) encryptBytes(data []byte, ref Ref, method cryptMethod) []byte {
	key := c.objectKey(ref, method)
	switch method {
	case cryptIdentity:
	case cryptRC4:
		data = bytes.Clone(data)
		rc4XOR(key, data)
	case cryptAESV2, cryptAESV3:
		block, err := aes.NewCipher(key)
		if err != nil { // a key of 16 or 32 bytes is always valid
			return nil
		}
		h := sha256.New()
		h.Write(c.key)
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(ref.Number))) //nolint:gosec // not negative
		h.Write(data)
		pad := aes.BlockSize - len(data)%aes.BlockSize
		out := make([]byte, 0, aes.BlockSize+len(data)+pad)
		out = append(out, h.Sum(nil)[:aes.BlockSize]...)
		out = append(out, data...)
		out = append(out, bytes.Repeat([]byte{byte(pad)}, pad)...)
		body := out[aes.BlockSize:]
		cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(body, body)
		return out
	}
	return data
}

// streamMethod returns the encryption method of a stream. A cross-reference
// stream is not encrypted. A stream whose first filter is Crypt (7.4.10) has the
// method of that filter. Metadata is not encrypted if /EncryptMetadata is false.
// All other streams have the default method for streams.
func (c *crypt) streamMethod(d *Document, dict *Dict) cryptMethod {
	kind := d.Name(dict.Get("Type"))
	if kind == "XRef" {
		return cryptIdentity
	}
	if filters, err := d.filters(dict); err == nil && len(filters) > 0 && filters[0].name == "Crypt" {
		return c.filters[d.Name(filters[0].parms.Get("Name"))] // default: Identity
	}
	if kind == "Metadata" && !c.encryptMetadata {
		return cryptIdentity
	}
	return c.streams
}

// streamReader returns a reader that decrypts in, the data of a stream.
func (c *crypt) streamReader(d *Document, s *Stream, in *bufio.Reader) (*bufio.Reader, error) {
	method := c.streamMethod(d, s.Dict)
	key := c.objectKey(s.ref, method)
	switch method {
	case cryptIdentity:
		return in, nil
	case cryptRC4:
		stream, err := rc4.NewCipher(key) //nolint:gosec // required by the standard
		if err != nil {
			return nil, err
		}
		return bufio.NewReader(cipher.StreamReader{S: stream, R: in}), nil
	case cryptAESV2, cryptAESV3:
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(&cbcReader{in: in, block: block}), nil
}

// cbcReader decrypts AES-CBC data that begins with the initialization vector
// and ends with padding.
type cbcReader struct {
	in      io.Reader
	block   cipher.Block
	mode    cipher.BlockMode
	buf     [chunkOverlap]byte
	last    [aes.BlockSize]byte // the last decrypted block, which may contain the padding
	hasLast bool
	unread  []byte // decrypted bytes that are not yet read
	err     error
}

func (r *cbcReader) Read(p []byte) (int, error) {
	for len(r.unread) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

// fill decrypts as much as fits in the buffer. It keeps the last block for the next
// call, because it must remove the padding at the end of the data.
func (r *cbcReader) fill() {
	if r.mode == nil {
		iv := make([]byte, aes.BlockSize)
		if _, err := io.ReadFull(r.in, iv); err != nil {
			r.err = eofIfTruncated(err)
			return
		}
		r.mode = cipher.NewCBCDecrypter(r.block, iv)
	}
	from := 0
	if r.hasLast {
		from = copy(r.buf[:], r.last[:])
	}
	n, err := io.ReadFull(r.in, r.buf[from:])
	n = n / aes.BlockSize * aes.BlockSize
	r.mode.CryptBlocks(r.buf[from:from+n], r.buf[from:from+n])
	data := r.buf[:from+n]
	if err != nil {
		r.err = eofIfTruncated(err)
		if errors.Is(r.err, io.EOF) {
			data = unpad(data)
		}
		r.unread = data
		return
	}
	keep := len(data) - aes.BlockSize
	copy(r.last[:], data[keep:])
	r.hasLast = true
	r.unread = data[:keep]
}
