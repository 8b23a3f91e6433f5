package credential

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The namespaces of the element with a credential. The specification requires bakedNamespace (OB, 5.3.2.1),
// but some issuers use otherNamespace.
const (
	bakedNamespace = "https://purl.imsglobal.org/ob/v3p0"
	otherNamespace = "https://purl.imsglobal.org/spec/ob/v3p0"
)

// maxElements limits the elements of an SVG picture.
const maxElements = 200_000

// BakeSVG adds a credential, in JSON or as compact JWS, to an SVG picture in UTF-8 (OB, 5.3.2.1). It
// returns an error if the picture already has a credential.
func BakeSVG(picture, credential []byte) ([]byte, error) {
	if _, err := unbakeSVG(picture); !errors.Is(err, ErrNoCredential) {
		if err == nil {
			err = errors.New("the picture already has a credential")
		}
		return nil, fmt.Errorf("baking a badge: %w", err)
	}
	end, err := rootEnd(picture)
	if err != nil {
		return nil, fmt.Errorf("baking a badge: %w", err)
	}
	if !utf8.Valid(credential) {
		return nil, fmt.Errorf("baking a badge: %w", errNotUTF8)
	}
	element := `<openbadges:credential verify="` + string(credential) + `"></openbadges:credential>`
	if !compactJWS.Match(credential) {
		element = "<openbadges:credential><![CDATA[" + inCDATA(string(credential)) + "]]></openbadges:credential>"
	}
	attribute := ` xmlns:openbadges="` + bakedNamespace + `"`
	return slices.Concat(picture[:end-1], []byte(attribute+">"+element), picture[end:]), nil
}

// inCDATA escapes the text in JSON that a CDATA section cannot contain: "]]>" and two characters that XML
// does not allow. JSON contains them only in strings, where escapes are allowed.
func inCDATA(json string) string {
	return strings.NewReplacer("]]>", `]]\u003e`, "\ufffe", `\ufffe`, "\uffff", `\uffff`).Replace(json)
}

// rootEnd returns the offset after the start tag of the root element.
func rootEnd(picture []byte) (int, error) {
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := d.RawToken()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrPicture, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		end := int(d.InputOffset())
		switch {
		case start.Name.Local != "svg":
			return 0, fmt.Errorf("%w: it is not SVG", ErrPicture)
		case bytes.HasSuffix(picture[:end], []byte("/>")):
			return 0, fmt.Errorf("%w: it is empty", ErrPicture)
		}
		for _, a := range start.Attr {
			if a.Name.Space == "xmlns" && a.Name.Local == "openbadges" {
				return 0, fmt.Errorf("%w: it uses the prefix openbadges", ErrPicture)
			}
		}
		return end, nil
	}
}

// unbakeSVG returns the credential in an SVG picture (OB, 5.3.2.2). encoding/xml expands only the
// five predefined entities of XML, so the text cannot become larger than the picture.
func unbakeSVG(data []byte) ([]byte, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	var found []byte
	for depth, elements := 0, 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPicture, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if elements++; elements > maxElements || depth > 256 {
				return nil, errTooMany
			}
			if depth == 0 && token.Name.Local != "svg" {
				return nil, ErrNoCredential
			}
			if token.Name.Local != "credential" || token.Name.Space != bakedNamespace && token.Name.Space != otherNamespace {
				depth++
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("%w: it has two credentials", ErrPicture)
			}
			if found, err = bakedText(d, token); err != nil {
				return nil, err
			}
		case xml.EndElement:
			depth--
		}
	}
	if found == nil {
		return nil, ErrNoCredential
	}
	return found, nil
}

// bakedText reads the rest of an element with a credential. It returns the text of the element or, if the
// text is empty, the attribute verify.
func bakedText(d *xml.Decoder, start xml.StartElement) ([]byte, error) {
	content := []byte{}
	for {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPicture, err)
		}
		switch token := token.(type) {
		case xml.CharData:
			content = append(content, token...)
		case xml.StartElement:
			return nil, fmt.Errorf("%w: the credential contains elements", ErrPicture)
		case xml.EndElement:
			for _, a := range start.Attr {
				if a.Name.Local == "verify" && a.Value != "" && len(trim(content)) == 0 {
					return []byte(a.Value), nil
				}
			}
			return content, nil
		}
	}
}
