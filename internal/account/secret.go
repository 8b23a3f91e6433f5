package account

import (
	"crypto/rand"
	"crypto/sha256"
)

// NewSecret makes the secret of a link or of a session: 130 random bits as text.
func NewSecret() string { return rand.Text() }

// HashSecret gives what is kept of a secret, and by which it is found: one that is
// random needs no salt and no slow hash.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
