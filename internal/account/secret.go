package account

import (
	"crypto/rand"
	"crypto/sha256"
)

// NewSecret returns the secret of a link or of a session: 130 random bits as text.
func NewSecret() string { return rand.Text() }

// HashSecret returns the hash that is stored in place of a secret. A random secret needs neither a salt
// nor a slow hash.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
