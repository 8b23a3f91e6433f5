package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

var errNotJSON = fault.New(fault.Unsupported, "The request must be application/json.")

// maxJSON is the maximum size of a JSON body in bytes.
const maxJSON = 64 << 10

// readJSON reads the JSON object of a request into v, and its fields into the fingerprint. If a
// field has the wrong type, the error contains the name of the field. readJSON rejects invalid UTF-8
// and unpaired surrogates, because package json would replace them. It also rejects repeated fields,
// because package json would use the last one.
func readJSON(w http.ResponseWriter, x *exchange, v any) error { return readJSONUpTo(w, x, maxJSON, v) }

// readJSONUpTo is readJSON for a body of at most size bytes.
func readJSONUpTo(w http.ResponseWriter, x *exchange, size int64, v any) error {
	r := x.call.Request
	if mediaType(r) != "application/json" {
		return errNotJSON
	}
	if err := body.CheckEncoding(r); err != nil {
		return err
	}
	body.Limit(w, r, body.Limits{
		Size: size, TooLarge: fault.New(fault.TooLarge, fmt.Sprintf("The request body is larger than %d KiB.", size>>10)),
		Broken: fault.New(fault.Invalid, "The request body could not be read to its end."),
	})
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) || loneSurrogate(text) {
		return fault.New(fault.Invalid, "The request body must be text in UTF-8 without unpaired surrogates.")
	}
	if !json.Valid(text) {
		return fault.New(fault.Invalid, notObject)
	}
	if err := addFields(x, text); err != nil {
		return err
	}
	err = json.Unmarshal(text, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		kind := "a " + wrong.Type.String()
		if wrong.Type.Kind() == reflect.Bool {
			kind = "true or false"
		}
		return fault.OfField(wrong.Field, "The "+wrong.Field+" field must be "+kind+".")
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, notObject, err)
	}
	return nil
}

const notObject = "The request body is not a JSON object."

// addFields adds the fields of a JSON object to the fingerprint and calls exchange.complete. It
// returns fault.Invalid if the JSON is not an object or if a field is repeated. Names that differ only
// in case are the same field, as in package json.
func addFields(x *exchange, object []byte) error {
	dec := json.NewDecoder(bytes.NewReader(object))
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
		content, end := x.field(name)
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return fault.Wrap(fault.Invalid, notObject, err)
		}
		_, _ = compact.WriteTo(content) // writing to a hash cannot fail
		end()
		folded := strings.ToLower(name)
		if given[folded] {
			bad.Add(folded, "The field is given more than once.")
		}
		given[folded] = true
	}
	if err := x.complete(); err != nil {
		return err
	}
	return bad.Err()
}

// loneSurrogate reports whether JSON text has an escape of an unpaired surrogate (RFC 8259, 8.2).
func loneSurrogate(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(text[i:])
		if !ok {
			i++ // skip the second character of the escape, which may be a backslash
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

// escapedUnit returns the UTF-16 code unit of the escape \uXXXX at the beginning of text, and reports
// whether text begins with such an escape.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
