package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// The limits of a JSON document. JSON-LD expansion takes up to 0.3 ms for each object.
const (
	maxDocument = 2 << 20 // bytes; a picture may be embedded as a data URL
	maxDepth    = 32
	maxValues   = 8192
	maxObjects  = 512
)

var (
	errTooLarge = errors.New("the document is too large")
	errTooDeep  = errors.New("the document is nested too deeply")
	errTooMany  = errors.New("the document has too many values")
	errNotUTF8  = errors.New("the text is not UTF-8")
)

// parseObject parses a JSON object that may come from another party. It limits the size of the text, the
// depth, and the numbers of values and objects. Unlike json.Unmarshal, it rejects text that is not UTF-8. It
// also rejects duplicate member names (RFC 7493, 2.3), because programs differ in which of the members they
// read.
func parseObject(data []byte) (map[string]any, error) {
	if len(data) > maxDocument {
		return nil, errTooLarge
	}
	if !utf8.Valid(data) {
		return nil, errNotUTF8
	}
	p := parser{decoder: json.NewDecoder(bytes.NewReader(data))}
	value, err := p.value(0)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the document is not a JSON object")
	}
	if _, err := p.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the document continues after the JSON object")
	}
	return object, nil
}

type parser struct {
	decoder *json.Decoder
	values  int
	objects int
}

func (p *parser) value(depth int) (any, error) {
	token, err := p.decoder.Token()
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if p.values++; p.values > maxValues {
		return nil, errTooMany
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, errTooDeep
	}
	if delim == '[' {
		return p.array(depth)
	}
	return p.object(depth)
}

func (p *parser) array(depth int) (any, error) {
	list := []any{}
	for p.decoder.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, p.end()
}

func (p *parser) object(depth int) (any, error) {
	if p.objects++; p.objects > maxObjects {
		return nil, errTooMany
	}
	object := map[string]any{}
	for p.decoder.More() {
		token, err := p.decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("reading JSON: a member has no name")
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("the member %q occurs twice", name)
		}
		if object[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return object, p.end()
}

func (p *parser) end() error {
	if _, err := p.decoder.Token(); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	return nil
}

// marshal returns a value as JSON. Unlike json.Marshal, it does not escape HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// list returns the values of a member, which may be one value or an array.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// text returns the member with the given name if it is a string, and otherwise "".
func text(object map[string]any, name string) string {
	s, _ := object[name].(string)
	return s
}

// has reports whether a member is the string want, or an array that contains it.
func has(v any, want string) bool {
	for _, item := range list(v) {
		if s, ok := item.(string); ok && s == want {
			return true
		}
	}
	return false
}
