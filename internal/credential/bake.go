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

// MaxFile is the size of the largest file that Unbake and Verify accept.
const MaxFile = 10 << 20

// ErrNoCredential reports a file without a credential.
var ErrNoCredential = errors.New("the file contains no credential")

// ErrPicture reports a picture that is damaged.
var ErrPicture = errors.New("the picture is damaged")

// compactJWS matches a compact JWS, optionally with the disclosures and the key binding of SD-JWT.
var compactJWS = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+(~[\w-]*)*(~[\w-]+\.[\w-]+\.[\w-]+)?$`)

// Unbake returns the credential in a file: a credential in JSON, a compact JWS or SD-JWT, or a PNG or
// SVG picture with one of them. It returns ErrNoCredential if the file is something else.
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

// trim removes white space, and the byte order mark that some editors add.
func trim(data []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
}
