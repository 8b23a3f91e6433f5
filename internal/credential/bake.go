package credential

import (
	"bytes"
	"errors"
	"regexp"
)

// Carrier is the kind of file that contains a credential.
type Carrier string

const (
	// CarrierText is a file with only the credential.
	CarrierText Carrier = "text"
	// CarrierPNG is a PNG picture with a baked credential.
	CarrierPNG Carrier = "png"
	// CarrierSVG is an SVG picture with a baked credential.
	CarrierSVG Carrier = "svg"
)

// MaxFile is the size in bytes of the largest file that Unbake and Verify accept.
const MaxFile = 10 << 20

// ErrNoCredential reports a file without a credential.
var ErrNoCredential = errors.New("the file contains no credential")

// ErrPicture reports a picture that is damaged.
var ErrPicture = errors.New("the picture is damaged")

// compactJWS matches a compact JWS, optionally with the disclosures and the key binding JWT of an SD-JWT.
var compactJWS = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+(~[\w-]*)*(~[\w-]+\.[\w-]+\.[\w-]+)?$`)

// Unbake returns the credential in a file and the kind of the file. The credential is a JSON object, a compact
// JWS or an SD-JWT. It is the whole file, or is baked into a PNG or SVG picture. Unbake returns
// ErrNoCredential if the file contains no credential, and ErrPicture if the picture is damaged.
func Unbake(data []byte) ([]byte, Carrier, error) {
	if len(data) > MaxFile {
		return nil, "", errTooLarge
	}
	text, carrier := data, CarrierText
	var err error
	switch trimmed := trim(data); {
	case bytes.HasPrefix(data, pngSignature):
		carrier = CarrierPNG
		text, err = unbakePNG(data)
	case bytes.HasPrefix(trimmed, []byte("<")):
		carrier = CarrierSVG
		text, err = unbakeSVG(data)
	}
	if err != nil {
		return nil, carrier, err
	}
	text = trim(text)
	if len(text) > maxDocument {
		return nil, carrier, errTooLarge
	}
	if !bytes.HasPrefix(text, []byte("{")) && !compactJWS.Match(text) {
		return nil, carrier, ErrNoCredential
	}
	return text, carrier, nil
}

// trim removes a byte order mark at the beginning, which some editors add, and white space at both ends.
func trim(data []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
}
