package public

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// different means that a file is neither the original nor the verified PDF of the certificate that it was
// compared with.
const different cert.Match = "different"

var errUnknownFile = fault.New(fault.NotFound, "File not found.")

// fileMatch is the result of a look-up of a file.
type fileMatch struct {
	Match cert.Match `json:"match"`
	// Count is the number of certificates that the file matches.
	Count int           `json:"count"`
	Data  *verification `json:"data,omitempty"`
	// Records is set if several institutions have certificates of the file. It has the certificate of
	// each institution that has only one.
	Records []*verification `json:"records,omitempty"`

	// Issuers are the institutions with certificates of the file, if there are several. The field is only
	// for pages.
	Issuers []issuerCount `json:"-"`
}

// issuerCount is an institution and the number of its certificates of a file. Record is nil if the
// institution has several.
type issuerCount struct {
	Name   string
	Count  int
	Record *verification
}

// comparison is the data of the page about a file that differs from the files of a certificate.
type comparison struct {
	*verification

	Digest string
	// Other is the reference id of another certificate whose verified PDF is this file, or "".
	Other string
}

// Band returns nil, because the institution's colour must not appear above a file that the
// institution did not issue.
func (*comparison) Band() *colour.Brand { return nil }

// digest shows the certificate of a file. The request contains only the SHA-256 digest of the file,
// not the file itself. If the query has a reference id, the file is compared with the certificate
// of this reference id.
func (p *Pages) digest(w http.ResponseWriter, r *http.Request) error {
	noStore(w)
	ctx := r.Context()
	given, err := hex.DecodeString(r.PathValue("what"))
	if err != nil || len(given) != sha256.Size {
		return errUnknownFile
	}
	var result *fileMatch
	err = p.read(ctx, func(ctx context.Context) (err error) {
		result, err = p.match(ctx, r, [sha256.Size]byte(given))
		if err == nil && result.Data != nil && result.Data.Status == processing && db.FromReplica(ctx) {
			return errProcessing
		}
		return err
	})
	if fault.Is(err, fault.NotFound) && !page.WantsJSON(r) {
		return p.view.Draw(w, r, http.StatusNotFound, "unknown_file.html", hex.EncodeToString(given))
	}
	if err != nil {
		return err
	}
	p.count(r, append(result.Records, result.Data)...)
	if page.WantsJSON(r) {
		return web.WriteJSON(w, http.StatusOK, result)
	}
	switch {
	case result.Data == nil:
		return p.view.Draw(w, r, http.StatusOK, "originals.html", result)
	case result.Match == different && result.Data.Status != processing:
		c := &comparison{verification: result.Data, Digest: hex.EncodeToString(given)}
		if m, err := p.Certs.ByDigest(ctx, [sha256.Size]byte(given)); err == nil && m.Match == cert.MatchVerified {
			c.Other = m.Certificate.ReferenceID
		} else if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		return p.view.Draw(w, r, http.StatusOK, "differs.html", c)
	}
	result.Data.Match = result.Match
	return p.show(w, r, result.Data)
}

// match compares a file with the certificate whose reference id is in the query. If the query has
// no reference id or an unknown reference id, match searches for a certificate with the file.
func (p *Pages) match(ctx context.Context, r *http.Request, sum [sha256.Size]byte) (*fileMatch, error) {
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
	result := &fileMatch{Match: m.Match, Count: m.Count}
	if m.Certificate != nil {
		if result.Data, err = p.describe(ctx, m.Certificate); err != nil {
			return nil, err
		}
		return result, nil
	}
	if len(m.Issuers) > 1 {
		err = p.addIssuers(ctx, result, m.Issuers)
	}
	return result, err
}

// addIssuers adds the institutions with certificates of a file to the result. It adds the record of each
// institution with one certificate. Otherwise, an institution could hide the record of another
// institution by uploading the same file.
func (p *Pages) addIssuers(ctx context.Context, result *fileMatch, list []cert.Issuer) error {
	for _, i := range list {
		if i.Certificate == nil {
			profile, err := p.Accounts.PublicProfile(ctx, i.InstitutionID)
			if err != nil {
				return err
			}
			result.Issuers = append(result.Issuers, issuerCount{Name: profile.Name, Count: i.Count})
			continue
		}
		v, err := p.describe(ctx, i.Certificate)
		if err != nil {
			return err
		}
		result.Records = append(result.Records, v)
		result.Issuers = append(result.Issuers, issuerCount{Name: v.Profile.Name, Count: i.Count, Record: v})
	}
	return nil
}

// compare compares a file with a certificate. The files of a certificate in processing are not
// public, so every file is different.
func compare(v *verification, sum [sha256.Size]byte) *fileMatch {
	c := v.certificate
	switch {
	case v.Status != processing && c.Verified != nil && c.Verified.SHA256 == sum:
		return &fileMatch{Match: cert.MatchVerified, Count: 1, Data: v}
	case v.Status != processing && c.HasDigest() && c.File.SHA256 == sum:
		return &fileMatch{Match: cert.MatchOriginal, Count: 1, Data: v}
	}
	return &fileMatch{Match: different, Data: v}
}
