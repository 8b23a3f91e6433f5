package public

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// different means that a file is not the one of the certificate that it was compared with.
const different cert.Match = "different"

var errUnknownFile = fault.New(fault.NotFound, "No such file here.")

// fileAnswer is the answer to a lookup of a file.
type fileAnswer struct {
	Match cert.Match `json:"match"`
	// Count is the number of certificates that the file matches.
	Count int           `json:"count"`
	Data  *verification `json:"data,omitempty"`
}

// comparison is the result for a file that differs from the file of a reference id.
type comparison struct {
	*verification

	Digest string
	// Other is the reference id of the certificate to which the file belongs as verified PDF.
	Other string
}

// Band returns nil: the institution's colour must not appear above a file that it did not issue.
func (*comparison) Band() *colour.Brand { return nil }

// digest looks a file up by its SHA-256; the file stays with the visitor. With a reference id, it
// compares the file with that certificate.
func (p *Pages) digest(w http.ResponseWriter, r *http.Request) error {
	notStored(w)
	ctx := r.Context()
	given, err := hex.DecodeString(r.PathValue("what"))
	if err != nil || len(given) != sha256.Size {
		return errUnknownFile
	}
	answer, err := p.match(r, [sha256.Size]byte(given))
	if fault.Is(err, fault.NotFound) && !page.WantsJSON(r) {
		return p.view.Draw(w, r, http.StatusNotFound, "unknown_file.html", hex.EncodeToString(given))
	}
	if err != nil {
		return err
	}
	if page.WantsJSON(r) {
		return web.WriteJSON(w, http.StatusOK, answer)
	}
	switch {
	case answer.Data == nil:
		return p.view.Draw(w, r, http.StatusOK, "originals.html", answer)
	case answer.Match == different && answer.Data.Status != processing:
		c := &comparison{verification: answer.Data, Digest: hex.EncodeToString(given)}
		if m, err := p.Certs.ByDigest(ctx, [sha256.Size]byte(given)); err == nil && m.Match == cert.MatchVerified {
			c.Other = m.Certificate.ReferenceID
		} else if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		return p.view.Draw(w, r, http.StatusOK, "differs.html", c)
	}
	answer.Data.Match = answer.Match
	return p.show(w, r, answer.Data)
}

// match looks a file up, or compares it with the certificate that the request names. An unknown
// reference id is ignored.
func (p *Pages) match(r *http.Request, sum [sha256.Size]byte) (*fileAnswer, error) {
	ctx := r.Context()
	if typed := referenceIn(r.URL.Query().Get("reference_id")); typed != "" {
		v, err := p.find(ctx, typed)
		if err == nil {
			return compare(v, sum), nil
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	m, err := p.Certs.ByDigest(ctx, sum)
	if fault.Is(err, fault.NotFound) {
		return nil, errUnknownFile
	}
	if err != nil {
		return nil, err
	}
	answer := &fileAnswer{Match: m.Match, Count: m.Count}
	if m.Certificate != nil {
		if answer.Data, err = p.describe(ctx, m.Certificate); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// compare compares a file with one certificate. The files of a certificate in processing are not
// public yet.
func compare(v *verification, sum [sha256.Size]byte) *fileAnswer {
	c := v.certificate
	switch {
	case v.Status != processing && c.Verified != nil && c.Verified.SHA256 == sum:
		return &fileAnswer{Match: cert.MatchVerified, Count: 1, Data: v}
	case v.Status != processing && c.File.SHA256 == sum:
		return &fileAnswer{Match: cert.MatchOriginal, Count: 1, Data: v}
	}
	return &fileAnswer{Match: different, Data: v}
}
