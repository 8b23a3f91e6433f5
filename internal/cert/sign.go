package cert

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
)

// Verifier verifies the signatures of a file. pades.Verify implements it.
type Verifier func(r io.ReaderAt, size int64, o pades.Options) (*pades.Report, error)

// errNotValid is the error for a verified PDF whose signature is not valid.
var errNotValid = errors.New("the signature of the verified PDF is not valid")

// signature returns the signature settings of one attempt, with the current key of the institution,
// and the trust anchors of the institution. The key can be used until ctx ends.
func (s *Service) signature(ctx context.Context, institution string) (*seal.Signature, []*x509.Certificate, error) {
	signer, err := s.keys.Signer(ctx, institution)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the signing key: %w", err)
	}
	return &seal.Signature{Signer: &pades.Signer{Key: signer.Key, Chain: signer.Chain, TimeStamps: s.timeStamps}, Time: s.now()}, signer.Anchors, nil
}

// anchors returns the trust anchors for the signatures of an institution.
func (s *Service) anchors(ctx context.Context, institution string) ([]*x509.Certificate, error) {
	anchors, err := s.keys.Anchors(ctx, institution)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of the signing key: %w", err)
	}
	return anchors, nil
}

// verifySignature verifies the signature of a stored verified PDF against the trust anchors of the
// institution. It returns NotRun if the signature cannot be verified at this time, and an error
// that wraps errNotValid if the signature is not valid.
func (s *Service) verifySignature(r io.ReaderAt, size int64, anchors []*x509.Certificate) (Result, error) {
	report, err := s.report(r, size, anchors)
	if err != nil {
		return NotRun, err
	}
	switch report.Verdict {
	case pades.Valid:
		return Passed, nil
	case pades.Invalid:
		return FailedCheck, fmt.Errorf("%w: %s", errNotValid, report.Reason)
	case pades.Unknown:
		return NotRun, nil
	}
	return NotRun, nil
}

// report verifies the signatures of a verified PDF.
func (s *Service) report(r io.ReaderAt, size int64, anchors []*x509.Certificate) (*pades.Report, error) {
	report, err := s.verify(r, size, pades.Options{Roots: anchors, TimeStampRoots: stampRoots, Now: s.now()})
	if err != nil {
		return nil, fmt.Errorf("verifying the signature: %w", err)
	}
	return report, nil
}

// Signature verifies the signatures of the stored verified PDF of a certificate and returns the report.
func (s *Service) Signature(ctx context.Context, c *Certificate) (_ *pades.Report, err error) {
	institution, err := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	anchors, err := s.anchors(ctx, institution.UUID)
	if err != nil {
		return nil, err
	}
	content, err := s.OpenVerified(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return s.report(content, content.Size(), anchors)
}

// stampRoots returns the root certificates of the operating system, for the verification of time stamps.
// If it returns nil because the certificates cannot be read, time stamps are not verified.
func stampRoots() *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil
	}
	return pool
}

// checkSigned verifies the signature of the stored file v before the certificate is approved.
func (s *Service) checkSigned(ctx context.Context, c *Certificate, v *Verified, anchors []*x509.Certificate) (_ Result, err error) {
	stored := *c
	stored.Verified = v
	content, err := s.openVerified(ctx, &stored)
	if err != nil {
		return NotRun, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return s.verifySignature(content, content.Size(), anchors)
}

// signingFailure returns the failure for an error of the key, of the time-stamp authority or of the
// signature. It returns false for other errors.
func signingFailure(err error) (Failure, bool) {
	if f, ok := errors.AsType[*authority.Fault](err); ok {
		return Failure{Code: f.Code, Message: f.Message()}, true
	}
	switch {
	case errors.Is(err, pades.ErrTimeStamp):
		return Failure{Code: "timestamp_unavailable", Message: "The time-stamp authority returned no time stamp. Retry when it is available again."}, true
	case errors.Is(err, pades.ErrKey):
		return Failure{Code: "key_unusable", Message: "The institution's signing key cannot sign documents. Its certificate may have expired. Replace the key, then retry."}, true
	case errors.Is(err, errNotValid):
		return Failure{Code: "signature_invalid", Message: "The signature of the verified PDF is not valid, so the file was not published. " +
			"The vault's log has the details. Inform the operator of this vault, then retry."}, true
	}
	return Failure{}, false
}
