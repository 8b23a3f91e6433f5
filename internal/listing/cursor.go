package listing

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

// macSize is how much of the MAC a cursor carries.
const macSize = 16

// maxCursor bounds a cursor in bytes; a name of 255 characters makes the
// longest.
const maxCursor = 8 << 10

var errCursor = fault.OfField("cursor", "The cursor does not belong to this list: its filters and its order must stay the same. Begin again with an empty cursor.")

// Cursors makes and reads the cursors of lists of one kind.
//
// A cursor is a place in a list and a MAC over it and the list: whoever made
// one up, or brings one of another list, is told. The place is that of the last
// record that was given, not how many were: so a record that stays where it is
// comes exactly once, whatever comes and goes around it.
type Cursors struct {
	ring *keyring.Ring
	kind string
}

// NewCursors gives those of a kind of lists. Kinds of different names do not
// take each other's.
func NewCursors(ring *keyring.Ring, kind string) Cursors { return Cursors{ring, kind} }

// Make gives the cursor of what stands behind a place. What list and place are
// is told by their JSON; list holds whose it is, its filters and its order.
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

// Open reads the place of a cursor that Make gave for the same list.
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

// mac binds a place to a list.
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
