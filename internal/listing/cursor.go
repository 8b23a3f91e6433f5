package listing

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

// macSize is the length of the MAC in a cursor.
const macSize = 16

// maxCursor bounds a cursor in bytes. A name of 255 characters makes the longest.
const maxCursor = 8 << 10

var errCursor = fault.OfField("cursor", "The cursor does not belong to this list: its filters and its order must stay the same. Begin again with an empty cursor.")

// Cursors makes and reads the cursors of lists of one kind.
//
// A cursor is a position in a list with a MAC over the position and the list, so
// that an invented cursor and one of another list are refused. The position is that
// of the last record returned, and not a number of records. So a record that keeps
// its position is returned exactly once, even if others come and go.
type Cursors struct {
	ring *keyring.Ring
	kind string
}

// NewCursors returns the cursors of a kind of lists. Kinds of different names do not
// accept each other's cursors.
func NewCursors(ring *keyring.Ring, kind string) Cursors { return Cursors{ring, kind} }

// Make returns the cursor of the records behind a position. It includes the JSON of list
// and position. The list has its institution, its filters and its order.
func (c Cursors) Make(list, place any) (string, error) {
	text, err := json.Marshal(place)
	if err != nil {
		return "", fmt.Errorf("writing a cursor: %w", err)
	}
	mac, err := c.mac(list, text)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(mac, text...)), nil
}

// Open reads the position of a cursor that Make returned for the same list. It returns a
// fault of kind Invalid for any other cursor.
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
		return fmt.Errorf("reading a cursor: %w", err)
	}
	return nil
}

// mac binds a position to a list.
func (c Cursors) mac(list any, place []byte) ([]byte, error) {
	of, err := json.Marshal([]any{c.kind, list})
	if err != nil {
		return nil, fmt.Errorf("writing a cursor: %w", err)
	}
	// JSON holds no NUL.
	mac, err := c.ring.MAC(keyring.ListCursor, append(append(of, 0), place...))
	if err != nil {
		return nil, err
	}
	return mac[:macSize], nil
}
