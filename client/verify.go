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

// Verification is what anyone may know of a certificate. Of one in processing it
// is the reference id alone.
type Verification struct {
	ReferenceID      string     `json:"reference_id"`
	Status           string     `json:"status"` // valid, revoked or processing
	Institution      *string    `json:"institution"`
	CertificateTitle *string    `json:"certificate_title"`
	FullName         *string    `json:"full_name"`
	IssueDate        *string    `json:"issue_date"`
	ApprovedAt       *time.Time `json:"approved_at"`
	RevokedAt        *time.Time `json:"revoked_at"`
	Reason           *string    `json:"reason"`
	Checks           []Check    `json:"checks"`
}

// Check is what was found when something about a certificate was looked at.
type Check struct {
	Name      string     `json:"name"`
	Result    string     `json:"result"` // passed, failed or not_run
	CheckedAt *time.Time `json:"checked_at"`
}

// Verify asks the public page of a reference id, with no token. A certificate
// that is not known is ErrNotFound.
func (c *Client) Verify(ctx context.Context, referenceID string) (*Verification, error) {
	return one[Verification](ctx, c, &call{method: http.MethodGet, path: "/verify/" + url.PathEscape(referenceID), public: true})
}

// FileMatch says what a vault knows of a file.
type FileMatch struct {
	// Match is verified for a verified PDF, original for a file of which
	// certificates were made.
	Match string `json:"match"`
	// Count is of how many certificates it is the original.
	Count int `json:"count"`
	// Certificate is nil where several certificates were made of the file.
	Certificate *Verification `json:"data"`
}

// VerifyFile hashes a file and asks whether it is known; the file is not sent. One
// that is not known is ErrNotFound.
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
