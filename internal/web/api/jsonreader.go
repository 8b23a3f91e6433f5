package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/fault"
)

const malformedJSON = "The request body is not a JSON object, or incomplete."

var errShape = errors.New("the document is not an object")

// jsonReader reads a JSON body of a request, one value at a time.
type jsonReader struct {
	guard *tokenGuard
	dec   *json.Decoder
	// limit is the maximum number of encoded bytes of a value.
	limit int
}

func newJSONReader(body io.Reader, limit int) jsonReader {
	guard := &tokenGuard{r: body, left: limit, limit: limit}
	return jsonReader{guard, json.NewDecoder(guard), limit}
}

// document reads the body, which must be one object. For each member whose name is in the map, it calls
// the function under this name, which reads the value. It ignores other members. The error is
// fault.Invalid if the body is malformed, or if a member whose name is in the map is repeated.
func (r *jsonReader) document(members map[string]func() error) error {
	err := r.object(members)
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.Wrap(fault.Invalid, malformedJSON, err)
}

func (r *jsonReader) object(members map[string]func() error) error {
	open, err := r.token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return errShape
	}
	given := map[string]bool{}
	for r.dec.More() {
		name, err := r.memberName()
		if err != nil {
			return err
		}
		read := members[name]
		switch {
		case read == nil:
			err = r.skip()
		case given[name]:
			return fault.OfField(name, "The "+name+" field is given more than once.")
		default:
			given[name] = true
			err = read()
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.token(); err != nil {
		return err
	}
	if _, err := r.token(); !errors.Is(err, io.EOF) {
		return errors.Join(errShape, err)
	}
	return nil
}

// token reads the next token. The guard limits the size of the token.
func (r *jsonReader) token() (json.Token, error) {
	r.guard.left = r.limit
	return r.dec.Token()
}

// memberName reads the name of a member.
func (r *jsonReader) memberName() (string, error) {
	token, err := r.token()
	if err != nil {
		return "", err
	}
	name, ok := token.(string)
	if !ok {
		return "", errShape
	}
	return name, nil
}

// value reads a value of any type. The guard limits the size of the value.
func (r *jsonReader) value() (raw json.RawMessage, err error) {
	r.guard.left = r.limit
	if err := r.dec.Decode(&raw); err != nil {
		return nil, err
	}
	return raw, nil
}

func (r *jsonReader) skip() error {
	_, err := r.value()
	return err
}

// tokenGuard limits the bytes that are read for one value, and so the memory for the value. The
// jsonReader sets left to limit before it reads a value.
type tokenGuard struct {
	r           io.Reader
	left, limit int
}

// Read implements io.Reader.
func (g *tokenGuard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, fault.New(fault.Invalid, fmt.Sprintf("A value in the JSON body is longer than %d bytes.", g.limit))
	}
	n, err := g.r.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}
