package account

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Parameters of argon2id: RFC 9106, 4, the second recommended option with less
// memory.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	argonKey     = 32
	argonSalt    = 16

	minPassword = 8
	maxPassword = 1000
)

var errPassword = fmt.Errorf("the password must have %d to %d characters", minPassword, maxPassword)

// CheckPassword tells whether a password may be taken; length is the only rule
// (NIST SP 800-63B, 3.1.1.2).
func CheckPassword(password string) error {
	n := utf8.RuneCountInString(password)
	if n < minPassword || n > maxPassword {
		return errPassword
	}
	if !utf8.ValidString(password) {
		return errors.New("the password must be text")
	}
	return nil
}

// HashPassword gives the password's hash as a PHC string.
func HashPassword(password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("making a salt: %w", err)
	}
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, b64(salt), b64(key)), nil
}
