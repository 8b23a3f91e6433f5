package account

import (
	"crypto/rand"
	"crypto/sha256"
)

// NewSecret returns 130 random bits as text, for the secret of a link. Package identity uses twice as many.
func NewSecret() string { return rand.Text() }

// HashSecret returns the hash that is stored in place of a secret. A random secret needs neither a salt
// nor a slow hash.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
