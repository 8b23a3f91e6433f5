package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Verification is the public information about a certificate. Only the reference id and the status
// are set while the certificate is processed.
type Verification struct {
	ReferenceID      string     `json:"reference_id"`
	Status           string     `json:"status"` // valid, revoked, replaced, expired or processing
	Institution      *string    `json:"institution"`
	CertificateTitle *string    `json:"certificate_title"`
	FullName         *string    `json:"full_name"`
	IssueDate        *string    `json:"issue_date"`
	ApprovedAt       *time.Time `json:"approved_at"`
	RevokedAt        *time.Time `json:"revoked_at"`
	Reason           *string    `json:"reason"`
	Checks           []Check    `json:"checks"`
	ExpiresOn        *string    `json:"expires_on"` // YYYY-MM-DD, the last day of validity
	// Replaces is the certificate that this one has replaced, and ReplacedBy the one that has replaced
	// this one. Both may be nil. Replaces is nil after the certificate was revoked.
	Replaces   *PublicLink `json:"replaces"`
	ReplacedBy *PublicLink `json:"replaced_by"`
}

// PublicLink is another certificate, with its public page.
type PublicLink struct {
	ReferenceID string `json:"reference_id"`
	URL         string `json:"url"`
}

// Check is the result of one check of a certificate.
type Check struct {
	Name      string     `json:"name"`
	Result    string     `json:"result"` // passed, failed or not_run
	CheckedAt *time.Time `json:"checked_at"`
}

// Verify returns the public information for a reference id, without a token. If the certificate is
// unknown, the error is ErrNotFound.
func (c *Client) Verify(ctx context.Context, referenceID string) (*Verification, error) {
	return one[Verification](ctx, c, &call{method: http.MethodGet, path: "/verify/" + url.PathEscape(referenceID), public: true})
}

// FileMatch is the result of VerifyFile.
type FileMatch struct {
	// Match is "verified" for a verified PDF, and "original" for a file from which certificates were
	// created.
	Match string `json:"match"`
	// Count is the number of certificates created from the file.
	Count int `json:"count"`
	// Certificate is nil if several certificates were created from the file.
	Certificate *Verification `json:"data"`
	// Certificates is set if several institutions created certificates from the file. It has the
	// certificate of each institution that created exactly one.
	Certificates []*Verification `json:"records"`
}

// VerifyFile computes the SHA-256 of a file and requests the certificates with this hash; it does
// not send the file. If the file is unknown, the error is ErrNotFound.
func (c *Client) VerifyFile(ctx context.Context, r io.Reader) (*FileMatch, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return nil, fmt.Errorf("reading the file to verify: %w", err)
	}
	var match FileMatch
	k := &call{method: http.MethodGet, path: "/verify/file/" + hex.EncodeToString(hash.Sum(nil)), public: true}
	if err := c.do(ctx, k, &match); err != nil {
		return nil, err
	}
	return &match, nil
}
