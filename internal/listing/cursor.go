package listing

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

// macSize is the length of the MAC in a cursor in bytes.
const macSize = 16

// maxCursor is the maximum length of a cursor in bytes. The longest cursor contains a name of 255
// characters.
const maxCursor = 8 << 10

var errCursor = fault.OfField("cursor", "The cursor does not belong to this list: its filters and its order must stay the same. Begin again with an empty cursor.")

// Cursors makes and reads the cursors of lists of one kind.
//
// A cursor is a position in a list with a MAC over the position and the list. Therefore forged
// cursors and cursors of other lists are refused. The position is the sort key of a record, and not
// the number of records before it. Therefore a record whose sort key does not change is returned
// exactly once, even if other records are added or deleted.
type Cursors struct {
	ring *keyring.Ring
	kind string
}

// NewCursors returns the Cursors for one kind of list. A cursor of one kind is not valid for
// another kind.
func NewCursors(ring *keyring.Ring, kind string) Cursors { return Cursors{ring, kind} }

// Make returns a cursor for the position place. The value list identifies the list by its institution,
// its filters and its order. Both values are encoded as JSON.
func (c Cursors) Make(list, place any) (string, error) {
	text, err := json.Marshal(place)
	if err != nil {
		return "", fmt.Errorf("encoding a cursor: %w", err)
	}
	mac, err := c.mac(list, text)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(mac, text...)), nil
}

// Open reads a cursor that Make returned for the same list, and stores its position in place. It
// returns a fault of kind Invalid for any other cursor.
func (c Cursors) Open(list any, cursor string, place any) error {
	if len(cursor) > maxCursor {
		return errCursor
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < macSize {
		return errCursor
	}
	mac, err := c.mac(list, raw[macSize:])
	if err != nil {
		return err
	}
	if !hmac.Equal(mac, raw[:macSize]) {
		return errCursor
	}
	if err := json.Unmarshal(raw[macSize:], place); err != nil {
		return fmt.Errorf("decoding a cursor: %w", err)
	}
	return nil
}

// mac returns the MAC of a position in a list.
func (c Cursors) mac(list any, place []byte) ([]byte, error) {
	text, err := json.Marshal([]any{c.kind, list})
	if err != nil {
		return nil, fmt.Errorf("encoding a cursor: %w", err)
	}
	// A NUL separates the two parts, because JSON contains no NUL.
	mac, err := c.ring.MAC(keyring.ListCursor, append(append(text, 0), place...))
	if err != nil {
		return nil, err
	}
	return mac[:macSize], nil
}
