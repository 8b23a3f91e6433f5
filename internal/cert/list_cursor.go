package cert

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

// A cursor is a place in a list and a MAC over it and the list: whoever made
// one up, or brings one of another list, is told.
//
// The place is that of the last record that was given, not how many were: so
// a record that stays where it is comes exactly once, whatever comes and goes
// around it.

// macSize is how much of the MAC a cursor carries.
const macSize = 16

// maxCursor bounds a cursor in bytes; a name of 255 characters makes the
// longest.
const maxCursor = 8 << 10

var errCursor = fault.OfField("cursor", "The cursor does not belong to this list: its filters and its order must stay the same. Begin again with an empty cursor.")

func (s *Service) cursor(v *view, at place) (string, error) {
	text, err := json.Marshal(at)
	if err != nil {
		return "", fmt.Errorf("writing a cursor: %w", err)
	}
	mac, err := s.cursorMAC(v, text)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(mac, text...)), nil
}

func (s *Service) openCursor(v *view, cursor string) (*place, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if len(cursor) > maxCursor || err != nil || len(raw) < macSize {
		return nil, errCursor
	}
	mac, err := s.cursorMAC(v, raw[macSize:])
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(mac, raw[:macSize]) {
		return nil, errCursor
	}
	at := &place{}
	if err := json.Unmarshal(raw[macSize:], at); err != nil {
		return nil, fmt.Errorf("reading a cursor: %w", err)
	}
	return at, nil
}

// cursorMAC binds a place to a list.
func (s *Service) cursorMAC(v *view, text []byte) ([]byte, error) {
	list, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing a cursor: %w", err)
	}
	// JSON holds no NUL.
	mac, err := s.ring.MAC(keyring.ListCursor, append(append(list, 0), text...))
	if err != nil {
		return nil, err
	}
	return mac[:macSize], nil
}
