package cert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/db"
)

// Match is what a file is to the certificates that the public may know of.
type Match string

const (
	// MatchVerified files are the verified PDF of a certificate.
	MatchVerified Match = "verified"
	// MatchOriginal files were submitted, and certificates were made of them.
	MatchOriginal Match = "original"
)

// countOriginals is how far the certificates made of one original are counted.
const countOriginals = 10_000

// FileMatch is what is known of a file.
type FileMatch struct {
	Match Match
	// Count is how many certificates the file matches, up to 10,000.
	Count int
	// Certificate is nil where more than one matches: which of them is meant the
	// file does not tell.
	Certificate *Certificate
}

// ByDigest tells what the public may know of a file by its SHA-256. It knows
// approved and revoked certificates alone: a file that is staged, waits or
// failed is unknown.
func (s *Service) ByDigest(ctx context.Context, sum [sha256.Size]byte) (*FileMatch, error) {
	c, err := one(s.db.QueryRowContext(ctx,
		`SELECT `+Columns+` FROM certificates WHERE verified_sha256 = $1 AND status IN ('approved', 'revoked') ORDER BY id LIMIT 1`, sum[:]))
	if err == nil {
		return &FileMatch{Match: MatchVerified, Count: 1, Certificate: c}, nil
	}
	if !errors.Is(err, errNotFound) {
		return nil, err
	}
	m := &FileMatch{Match: MatchOriginal}
	if err := s.db.QueryRowContext(ctx, fmt.Sprintf(`
		SELECT count(*) FROM (SELECT 1 FROM certificates WHERE sha256 = $1 AND status IN ('approved', 'revoked') LIMIT %d) AS counted`, countOriginals),
		sum[:]).Scan(&m.Count); err != nil {
		return nil, fmt.Errorf("looking a file up: %w", err)
	}
	switch m.Count {
	case 0:
		return nil, errNotFound
	case 1:
		m.Certificate, err = one(s.db.QueryRowContext(ctx,
			`SELECT `+Columns+` FROM certificates WHERE sha256 = $1 AND status IN ('approved', 'revoked') ORDER BY id LIMIT 1`, sum[:]))
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// alike are characters of reference ids that people and machines read for each
// other. What FoldReference makes one is not here.
var alike = []string{"0DQ", "1T7", "2Z", "5S", "6G", "8B", "UVY", "MN", "CG", "EF", "PR", "KX", "VW", "4A", "9G"}

// Near gives the reference id of the one certificate, approved or revoked, that
// differs from what was typed by a single character that is easily misread, or
// by two neighbours that changed places; "" where there is none or more than one.
func (s *Service) Near(ctx context.Context, typed string) (id string, err error) {
	candidates := neighbours(FoldReference(typed))
	if len(candidates) == 0 {
		return "", nil
	}
	args := make([]any, len(candidates))
	for i, c := range candidates {
		args[i] = c
	}
	found, err := db.Column[string](s.db.QueryContext(ctx, `
		SELECT reference_id FROM certificates WHERE reference_folded IN (`+db.Places(1, len(args))+`) AND status IN ('approved', 'revoked') LIMIT 2`, args...))
	if err != nil {
		return "", fmt.Errorf("looking for a reference id that is near: %w", err)
	}
	if len(found) != 1 {
		return "", nil
	}
	return found[0], nil
}

// neighbours lists what a folded reference id may have been meant to be.
func neighbours(folded string) []string {
	start := len(folded) - codeLen
	if start < 1 || start > maxPrefixLen {
		return nil
	}
	var list []string
	b := []byte(folded)
	for i := start; i < len(b); i++ {
		was := b[i]
		for _, set := range alike {
			if strings.IndexByte(set, was) < 0 {
				continue
			}
			for _, c := range []byte(set) {
				if c != was && strings.IndexByte(crockford, c) >= 0 {
					b[i] = c
					list = append(list, string(b))
				}
			}
		}
		b[i] = was
		if i > start && b[i-1] != was {
			b[i-1], b[i] = b[i], b[i-1]
			list = append(list, string(b))
			b[i-1], b[i] = b[i], b[i-1]
		}
	}
	return list
}
