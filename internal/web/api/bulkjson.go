package api

import (
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// maxToken is the maximum size of one encoded name or value of a JSON body in bytes. JSON may encode a byte
// as six bytes, and the rest is for white space.
const maxToken = 8 * maxBulkValue

// json reads {"entries": [{...}, ...]} or {"entries": {"<n>": {...}, ...}}, one field at a time. It
// ignores unknown members. The error is fault.Invalid if the body is malformed.
func (in *bulkInput) json(body io.Reader) error {
	d := &jsonInput{in, newJSONReader(body, maxToken)}
	return d.document(map[string]func() error{"entries": d.list, notifyName: d.notifyMember})
}

// jsonInput is the JSON body of a bulk upload.
type jsonInput struct {
	*bulkInput
	jsonReader
}

// notifyMember reads the member notify, which must be text or null. With null, recipients get mail at the
// approval.
func (d *jsonInput) notifyMember() error {
	raw, err := d.value()
	if err != nil || raw[0] == 'n' {
		return err
	}
	text, ok := readText(raw)
	if !ok {
		return errNotifyText
	}
	return d.setNotify([]byte(text))
}

// list reads the member entries, which must be an array or an object.
func (d *jsonInput) list() error {
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
		return fault.OfField("entries", "The entries field must be an array, or an object whose member names are the numbers of the entries.")
	}
	_, err = d.token()
	return err
}

// numbered reads a member of the object of entries: the number of an entry, and the entry. indexes contains
// the numbers of the entries that were read before.
func (d *jsonInput) numbered(indexes map[int]bool) error {
	name, err := d.memberName()
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
		field, err := d.memberName()
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

// field reads the value of a field of an entry, which must be text or null. null means no value.
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
		return d.draft.Set(index, field, "\xff") // \xff is not UTF-8, so Set records the problem for such text
	}
	var value string
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	return d.set(fieldName{index: index, field: name}, []byte(value))
}

// skipRest reads the rest of a value whose first token, open, was already read.
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
