package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxToken is the maximum number of encoded bytes of one name or value of a JSON body: JSON may
	// encode a byte in six bytes, and the rest is room for white space.
	maxToken      = 8 * maxBulkValue
	malformedJSON = "The request body is not a JSON object, or incomplete."
)

// json reads {"entries": [{...}, ...]} or {"entries": {"<n>": {...}, ...}}, one field at a time. It
// ignores unknown members. The error is fault.Invalid if the body is malformed.
func (in *bulkInput) json(body io.Reader) error {
	guard := &tokenGuard{r: body, left: maxToken}
	d := &jsonInput{bulkInput: in, guard: guard, dec: json.NewDecoder(guard)}
	err := d.document()
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.Wrap(fault.Invalid, malformedJSON, err)
}

// jsonInput is the JSON body of a bulk upload.
type jsonInput struct {
	*bulkInput

	guard *tokenGuard
	dec   *json.Decoder
	// seen reports whether the member entries was read before.
	seen bool
}

var errShape = errors.New("the document is not an object")

func (d *jsonInput) document() error {
	open, err := d.token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return errShape
	}
	for d.dec.More() {
		name, err := d.name()
		if err != nil {
			return err
		}
		if err := d.member(name); err != nil {
			return err
		}
	}
	if _, err := d.token(); err != nil {
		return err
	}
	if _, err := d.token(); !errors.Is(err, io.EOF) {
		return errors.Join(errShape, err)
	}
	return nil
}

// token reads the next token. The guard limits its size.
func (d *jsonInput) token() (json.Token, error) {
	d.guard.left = maxToken
	return d.dec.Token()
}

// name reads the name of a member.
func (d *jsonInput) name() (string, error) {
	token, err := d.token()
	if err != nil {
		return "", err
	}
	name, ok := token.(string)
	if !ok {
		return "", errShape
	}
	return name, nil
}

func (d *jsonInput) member(name string) error {
	if name != "entries" {
		return d.skip()
	}
	if d.seen {
		return fault.OfField(name, "The entries field is given more than once.")
	}
	d.seen = true
	open, err := d.token()
	if err != nil {
		return err
	}
	switch open {
	case json.Delim('['):
		for i := 0; d.dec.More(); i++ {
			if err := d.entry(i); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		indexes := map[int]bool{}
		for d.dec.More() {
			if err := d.numbered(indexes); err != nil {
				return err
			}
		}
	default:
		return fault.OfField(name, "The entries field must be an array, or an object by the numbers of entries.")
	}
	_, err = d.token()
	return err
}

// numbered reads a number and the entry that follows it.
func (d *jsonInput) numbered(indexes map[int]bool) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	index, ok := readIndex(name)
	if !ok {
		if err := d.count(); err != nil {
			return err
		}
		d.draft.AddMalformed(shorten("entries."+name), codeBadIndex)
		return d.skip()
	}
	if indexes[index] {
		if err := d.draft.Refuse(index, cert.Problem{Code: batch.CodeRepeated}); err != nil {
			return err
		}
		return d.skip()
	}
	indexes[index] = true
	return d.entry(index)
}

func (d *jsonInput) entry(index int) error {
	if err := d.draft.Entry(index); err != nil {
		return err
	}
	open, err := d.token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		if err := d.draft.Refuse(index, cert.Problem{Code: codeNotEntry}); err != nil {
			return err
		}
		return d.skipRest(open)
	}
	for d.dec.More() {
		if err := d.count(); err != nil {
			return err
		}
		field, err := d.name()
		if err != nil {
			return err
		}
		if known, ok := entryFields[field]; ok {
			err = d.field(index, field, known)
		} else {
			err = d.skip()
		}
		if err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}

// field reads the value of a field of an entry: text, or null for no value.
func (d *jsonInput) field(index int, name string, field cert.Field) error {
	// Check the raw text, because decoding replaces half of a surrogate pair with the replacement
	// character.
	raw, err := d.value()
	switch {
	case err != nil:
		return err
	case raw[0] == 'n':
		return nil
	case raw[0] != '"':
		d.fingerprint(index, name, raw)
		return d.draft.Refuse(index, cert.Problem{Field: field, Code: codeNotString})
	case !utf8.Valid(raw) || loneSurrogate(raw):
		return d.draft.Set(index, field, "\xff") // this causes the same error as text that is not UTF-8
	}
	var value string
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	return d.set(fieldName{index: index, field: name}, []byte(value))
}

// value reads a value of any type. The guard limits its size.
func (d *jsonInput) value() (raw json.RawMessage, err error) {
	d.guard.left = maxToken
	if err := d.dec.Decode(&raw); err != nil {
		return nil, err
	}
	return raw, nil
}

func (d *jsonInput) skip() error {
	_, err := d.value()
	return err
}

// skipRest reads the rest of a value that begins with open.
func (d *jsonInput) skipRest(open json.Token) error {
	depth := 0
	for token := open; ; {
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if token, err = d.token(); err != nil {
			return err
		}
	}
}

var errToken = fault.New(fault.Invalid, fmt.Sprintf("A value in the JSON body is longer than %d bytes.", maxToken))

// tokenGuard limits the memory for one value. Before a value is read, left is set to the maximum
// number of bytes to read.
type tokenGuard struct {
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (g *tokenGuard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errToken
	}
	n, err := g.r.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}
