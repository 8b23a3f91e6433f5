package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/fault"
)

// maxJSON bounds a JSON body in bytes.
const maxJSON = 64 << 10

// readJSON reads a JSON object into v; a field of the wrong type is named. Package
// json by itself would put a replacement for what is no text, and take the last of
// a field that is given twice.
func readJSON(w http.ResponseWriter, r *http.Request, p *fingerprint, v any) error {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return fault.New(fault.Unsupported, "The request must be application/json.")
	}
	if err := checkEncoding(r); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Wrap(fault.TooLarge, fmt.Sprintf("The request body is larger than %d KiB.", tooLarge.Limit>>10), err)
	}
	if err != nil {
		return unread("The request body could not be read to its end.", err)
	}
	if !utf8.Valid(body) || loneSurrogate(body) {
		return fault.New(fault.Invalid, "The request body must be text in UTF-8 without half surrogate pairs.")
	}
	if !json.Valid(body) {
		return fault.New(fault.Invalid, notObject)
	}
	if err := noteJSON(p, body); err != nil {
		return err
	}
	err = json.Unmarshal(body, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fault.OfField(wrong.Field, "The "+wrong.Field+" field must be a "+wrong.Type.String()+".")
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, notObject, err)
	}
	return nil
}

const notObject = "The request body is not a JSON object."

// noteJSON notes the fields of an object, each of which may be given once: by
// names without case, as package json takes them.
func noteJSON(p *fingerprint, body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fault.Wrap(fault.Invalid, notObject, err)
	}
	var bad fault.Fields
	given := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return fault.Wrap(fault.Invalid, notObject, err)
		}
		name, _ := token.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fault.Wrap(fault.Invalid, notObject, err)
		}
		content, end := p.entry(ofField, name)
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return fault.Wrap(fault.Invalid, notObject, err)
		}
		_, _ = compact.WriteTo(content) // a hash takes everything
		end()
		folded := strings.ToLower(name)
		if given[folded] {
			bad.Add(folded, "The field is given more than once.")
		}
		given[folded] = true
	}
	p.end()
	return bad.Err()
}

// loneSurrogate tells whether JSON text has an escape of half a surrogate pair
// (RFC 8259, 8.2), which is no character.
func loneSurrogate(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(text[i:])
		if !ok {
			i++ // of a two-character escape, which may be a backslash, past the second
			continue
		}
		i += 5
		if !utf16.IsSurrogate(unit) {
			continue
		}
		next, ok := escapedUnit(text[i+1:])
		if !ok || utf16.DecodeRune(unit, next) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads \uXXXX.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
