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

// Verification is the public information about a certificate. While the status is processing, only the
// reference id and the status are set.
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
	// Replaces is the certificate that this certificate has replaced, or nil. It is nil if this certificate
	// is revoked. ReplacedBy is the replacement of this certificate, or nil.
	Replaces   *PublicLink `json:"replaces"`
	ReplacedBy *PublicLink `json:"replaced_by"`
}

// PublicLink is the reference id of a certificate and the URL of its public page.
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
	// Match is "verified" for a verified PDF, and "original" for an original.
	Match string `json:"match"`
	// Count is the number of certificates that the file matches, at most 10,000 of each institution.
	Count int `json:"count"`
	// Certificate is nil if the file matches several certificates.
	Certificate *Verification `json:"data"`
	// Certificates is set if the file matches certificates of several institutions. It contains the
	// certificate of each institution that has exactly one.
	Certificates []*Verification `json:"records"`
}

// VerifyFile computes the SHA-256 of a file and looks up the certificates that match it. It does not send
// the file. If the file is unknown, the error is ErrNotFound.
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
