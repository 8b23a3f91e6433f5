package seal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// runCode adds only the QR code, in Placement.Box. The design has this place for the code, so runCode
// tries no other place and returns no notices.
func (j *job) runCode(ctx context.Context) (*Verified, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	p := j.stamp.Placement
	s, ok := j.frame.within(j.figures[0], p.Box)
	switch {
	case j.signed():
		return nil, refuse("design_signed", "The design is signed, and a change would break its signature.")
	case !ok, j.page.Index+1 != max(1, p.Page):
		return nil, refuse("code_not_on_page", "The place of the QR code is not on a page of the design.")
	}
	j.trusted = p.Trusted && !isSpotCheck(j.stamp.ReferenceID)
	v, err := j.try(ctx, attempt{mode: Exact, page: j.page, frame: j.frame, spot: s})
	if errors.Is(err, errNotReadable) {
		return nil, errors.Join(refuse("code_not_readable", "The QR code cannot be read at its place on the design."), err)
	}
	if err != nil {
		return nil, err
	}
	v.Layout = Layout{} // the place is not suitable for other documents
	return v, nil
}

// On average, one stamp in spotChecks at trusted places is proved to be readable.
const spotChecks = 100

// isSpotCheck reports whether a stamp at a trusted place is proved. The digest of the random reference
// id decides, so the choice is the same for each attempt, and no one can influence it.
func isSpotCheck(referenceID string) bool {
	sum := sha256.Sum256([]byte(referenceID))
	return binary.BigEndian.Uint64(sum[:])%spotChecks == 0
}
