package cert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// Match is the relation between a file and the certificates that are public.
type Match string

const (
	// MatchVerified means that the file is the verified PDF of a certificate.
	MatchVerified Match = "verified"
	// MatchOriginal means that the file is the original of one or more certificates.
	MatchOriginal Match = "original"
)

// maxCount bounds the number of certificates of one original that ByDigest counts.
const maxCount = 10_000

// FileMatch is the public information about a file.
type FileMatch struct {
	Match Match
	// Count is the number of certificates that the file matches, up to 10,000.
	Count int
	// Certificate is nil if more than one certificate matches.
	Certificate *Certificate
}

// ByDigest returns the public information about a file with a SHA-256. It considers only approved
// and revoked certificates, and returns a fault of kind NotFound for any other file.
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
	if err := s.db.QueryRowContext(ctx, fmt.Sprintf(`
		SELECT count(*) FROM (SELECT 1 FROM certificates WHERE sha256 = $1 AND status IN ('approved', 'revoked') LIMIT %d) AS counted`, maxCount),
		sum[:]).Scan(&m.Count); err != nil {
		return nil, fmt.Errorf("counting the certificates of a file: %w", err)
	}
	switch m.Count {
	case 0:
		return nil, errNotFound
	case 1:
		m.Certificate, err = scanRow(s.db.QueryRowContext(ctx,
			`SELECT `+Columns+` FROM certificates WHERE sha256 = $1 AND status IN ('approved', 'revoked') ORDER BY id LIMIT 1`, sum[:]))
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// confusable has sets of characters of reference ids that people and machines confuse. It omits the
// characters that FoldReference makes equal.
var confusable = []string{"0DQ", "1T7", "2Z", "5S", "6G", "8B", "UVY", "MN", "CG", "EF", "PR", "KX", "VW", "4A", "9G"}

// Similar returns the reference id of the approved or revoked certificate that differs from the
// typed id by a single character that is easily misread, or by two swapped neighbours. It returns
// "" if there is none or more than one.
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
