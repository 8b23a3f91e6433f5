package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// The parameters of argon2id are those of RFC 9106, 4, the second recommended option, for less
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

// CheckPassword returns an error if a password is not allowed. The length is the only rule (NIST SP
// 800-63B, 3.1.1.2).
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

// hashing bounds the passwords that are hashed at once, and with them the memory. One hash uses
// four threads, so more at once would not be faster.
var hashing = make(chan struct{}, max(1, runtime.NumCPU()/argonThreads))

// argonKeyOf computes argon2id after it has acquired a slot.
func argonKeyOf(ctx context.Context, password string, salt []byte, time, memory uint32, threads uint8, size uint32) ([]byte, error) {
	select {
	case hashing <- struct{}{}:
		defer func() { <-hashing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to hash a password: %w", ctx.Err())
	}
	return argon2.IDKey([]byte(password), salt, time, memory, threads, size), nil
}

// HashPassword returns the hash of a password as a PHC string.
func HashPassword(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("making a salt: %w", err)
	}
	key, err := argonKeyOf(ctx, password, salt, argonTime, argonMemory, argonThreads, argonKey)
	if err != nil {
		return "", err
	}
	return phc(salt, key), nil
}

func phc(salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, b64(salt), b64(key))
}

// NoPassword returns a hash that no password has. Verifying it takes as long as verifying another
// hash.
func NoPassword() string {
	random := make([]byte, argonSalt+argonKey)
	_, _ = rand.Read(random) // it never fails
	return phc(random[:argonSalt], random[argonSalt:])
}

// VerifyPassword reports whether a hash is that of a password.
func VerifyPassword(ctx context.Context, password, hash string) (bool, error) {
	var version int
	var memory, time uint32
	var threads uint8
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return false, errHash
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &time, &threads); err != nil || version != argon2.Version {
		return false, errHash
	}
	salt, saltErr := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	want, keyErr := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if saltErr != nil || keyErr != nil || len(want) < argonKey || time < 1 || threads < 1 || memory > 4*argonMemory || time > 4*argonTime {
		return false, errHash
	}
	got, err := argonKeyOf(ctx, password, salt, time, memory, threads, uint32(len(want)))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

var errHash = errors.New("the stored hash of a password cannot be read")
