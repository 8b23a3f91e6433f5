package cert

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// Match is the relation between a file and the public certificates.
type Match string

const (
	// MatchVerified means that the file is the verified PDF of a certificate.
	MatchVerified Match = "verified"
	// MatchOriginal means that the file is the original of one or more certificates.
	MatchOriginal Match = "original"
)

const (
	// maxCount bounds the number of certificates of one original that ByDigest counts for one
	// institution.
	maxCount = 10_000
	// maxIssuers bounds the number of institutions that ByDigest finds for one original. ByDigest
	// begins with the oldest institution, so that new institutions cannot displace an older one.
	maxIssuers = 20
)

// FileMatch is the public information about a file.
type FileMatch struct {
	Match Match
	// Count is the number of certificates that the file matches, up to 10,000 of each institution
	// in Issuers.
	Count int
	// Certificate is the matching certificate, or nil if more than one certificate matches.
	Certificate *Certificate
	// Issuers lists the institutions with certificates of an original. It is empty for a verified PDF.
	Issuers []Issuer
}

// Issuer is an institution with certificates of one original.
type Issuer struct {
	InstitutionID int64
	// Count is the number of certificates, up to 10,000.
	Count int
	// Certificate is the only certificate, or nil if Count is more than 1.
	Certificate *Certificate

	// valid reports whether one of the certificates is not revoked.
	valid bool
}

// ByDigest returns the public information about a file with a SHA-256 digest. It considers only
// approved and revoked certificates. If the file belongs to none of them, the error is a fault of kind
// NotFound.
//
// Any institution can upload any original. Therefore an institution that has revoked all its
// certificates of an original is ignored if another institution has a certificate of the original that
// is not revoked.
func (s *Service) ByDigest(ctx context.Context, sum [sha256.Size]byte) (*FileMatch, error) {
	c, err := scanRow(s.db.QueryRowContext(ctx,
		`SELECT `+Columns+` FROM certificates WHERE verified_sha256 = $1 AND status IN ('approved', 'revoked') ORDER BY id LIMIT 1`, sum[:]))
	if err == nil {
		return &FileMatch{Match: MatchVerified, Count: 1, Certificate: c}, nil
	}
	if !errors.Is(err, errNotFound) {
		return nil, err
	}
	m := &FileMatch{Match: MatchOriginal}
	if m.Issuers, err = s.issuers(ctx, sum); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(m.Issuers, func(i Issuer) bool { return i.valid }) {
		m.Issuers = slices.DeleteFunc(m.Issuers, func(i Issuer) bool { return !i.valid })
	}
	for i := range m.Issuers {
		issuer := &m.Issuers[i]
		if m.Count += issuer.Count; issuer.Count > 1 {
			continue
		}
		if issuer.Certificate, err = scanRow(s.db.QueryRowContext(ctx,
			`SELECT `+Columns+` FROM certificates WHERE sha256 = $1 AND institution_id = $2 AND status IN ('approved', 'revoked') ORDER BY id LIMIT 1`,
			sum[:], issuer.InstitutionID)); err != nil {
			return nil, err
		}
	}
	switch m.Count {
	case 0:
		return nil, errNotFound
	case 1:
		m.Certificate = m.Issuers[0].Certificate
	}
	return m, nil
}

// issuers returns the institutions with approved or revoked certificates of an original, oldest
// first.
func (s *Service) issuers(ctx context.Context, sum [sha256.Size]byte) (list []Issuer, err error) {
	var last int64
	for len(list) < maxIssuers {
		i := Issuer{}
		err := s.db.QueryRowContext(ctx, `
			SELECT institution_id FROM certificates
			WHERE sha256 = $1 AND institution_id > $2 AND status IN ('approved', 'revoked') ORDER BY institution_id LIMIT 1`, sum[:], last).Scan(&i.InstitutionID)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("finding the institutions of a file: %w", err)
		}
		if err := s.db.QueryRowContext(ctx, fmt.Sprintf(`
			SELECT count(*), count(CASE WHEN status = 'approved' THEN 1 END) > 0
			FROM (SELECT status FROM certificates WHERE sha256 = $1 AND institution_id = $2 AND status IN ('approved', 'revoked') LIMIT %d) AS counted`, maxCount),
			sum[:], i.InstitutionID).Scan(&i.Count, &i.valid); err != nil {
			return nil, fmt.Errorf("counting the certificates of a file: %w", err)
		}
		list, last = append(list, i), i.InstitutionID
	}
	return list, nil
}

// confusable has sets of characters that people and machines confuse. It omits O, I and L, which
// FoldReference replaces.
var confusable = []string{"0DQ", "1T7", "2Z", "5S", "6G", "8B", "UVY", "MN", "CG", "EF", "PR", "KX", "VW", "4A", "9G"}

// Similar returns the reference id of the approved or revoked certificate whose id is similar to the
// typed id: after the prefix, one character is easily confused with the typed character, or two
// adjacent characters are swapped. It returns "" if there is no such certificate or more than one.
func (s *Service) Similar(ctx context.Context, typed string) (id string, err error) {
	candidates := neighbours(FoldReference(typed))
	if len(candidates) == 0 {
		return "", nil
	}
	args := make([]any, len(candidates))
	for i, c := range candidates {
		args[i] = c
	}
	found, err := db.Column[string](s.db.QueryContext(ctx, `
		SELECT reference_id FROM certificates WHERE reference_folded IN (`+db.Placeholders(1, len(args))+`) AND status IN ('approved', 'revoked') LIMIT 2`, args...))
	if err != nil {
		return "", fmt.Errorf("finding similar reference ids: %w", err)
	}
	if len(found) != 1 {
		return "", nil
	}
	return found[0], nil
}

// neighbours returns the reference ids that are similar to a folded reference id.
func neighbours(folded string) []string {
	start := len(folded) - codeLen
	if start < 1 || start > maxPrefixLen {
		return nil
	}
	var list []string
	b := []byte(folded)
	for i := start; i < len(b); i++ {
		original := b[i]
		for _, set := range confusable {
			if strings.IndexByte(set, original) < 0 {
				continue
			}
			for _, c := range []byte(set) {
				if c != original && strings.IndexByte(crockford, c) >= 0 {
					b[i] = c
					list = append(list, string(b))
				}
			}
		}
		b[i] = original
		if i > start && b[i-1] != original {
			b[i-1], b[i] = b[i], b[i-1]
			list = append(list, string(b))
			b[i-1], b[i] = b[i], b[i-1]
		}
	}
	return list
}
