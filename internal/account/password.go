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

// Cost is the cost of hashing a password by argon2id (RFC 9106, 3.1).
type Cost struct {
	// Time is the number of passes. Memory is in KiB.
	Time, Memory uint32
	Threads      uint8
}

// DefaultCost is the second recommended option of RFC 9106, 4, for environments with less memory. Only
// tests use another cost.
var DefaultCost = Cost{Time: 3, Memory: 64 << 10, Threads: 4}

const (
	argonKey  = 32
	argonSalt = 16

	minPassword = 8
	maxPassword = 1000
)

var errPassword = fmt.Errorf("the password must have %d to %d characters", minPassword, maxPassword)

// CheckPassword returns an error if a password is not acceptable. A password must be valid UTF-8.
// The only other rule is about its length (NIST SP 800-63B, 3.1.1.2).
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

// hashing limits the number of passwords that are hashed concurrently, and thereby the memory for
// hashing. A hash uses four threads, so more concurrent hashes would not be faster.
var hashing = newSlots(max(1, runtime.NumCPU()/int(DefaultCost.Threads)))

// key waits until hashing has a free slot, and computes argon2id. known is as in VerifyPassword.
func (c Cost) key(ctx context.Context, password string, salt []byte, size uint32, known bool) ([]byte, error) {
	if err := hashing.acquire(ctx, known); err != nil {
		return nil, fmt.Errorf("waiting to hash a password: %w", err)
	}
	defer hashing.release()
	return argon2.IDKey([]byte(password), salt, c.Time, c.Memory, c.Threads, size), nil
}

// Hash returns the hash of a password as a PHC string. Callers must have identified the person, for
// example by a session or a mailed link, because Hash has the priority of known clients.
func (c Cost) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("creating a salt: %w", err)
	}
	key, err := c.key(ctx, password, salt, argonKey, true)
	if err != nil {
		return "", err
	}
	return c.phc(salt, key), nil
}

func (c Cost) phc(salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.Memory, c.Time, c.Threads, b64(salt), b64(key))
}

// NoPassword returns a text that looks like a hash but matches no password. A check against it
// takes as long as a check against a hash.
func (c Cost) NoPassword() string {
	random := make([]byte, argonSalt+argonKey)
	_, _ = rand.Read(random) // rand.Read never fails
	return c.phc(random[:argonSalt], random[argonSalt:])
}

// VerifyPassword reports whether a hash was computed from a password. known means that the client is a
// known browser of the person. Known clients have priority. If known is false and too many unknown
// clients wait, VerifyPassword returns ErrBusy at once.
func VerifyPassword(ctx context.Context, password, hash string, known bool) (bool, error) {
	var version int
	var c Cost
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return false, errHash
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &c.Memory, &c.Time, &c.Threads); err != nil || version != argon2.Version {
		return false, errHash
	}
	salt, saltErr := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	want, keyErr := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if saltErr != nil || keyErr != nil || len(want) < argonKey || c.Time < 1 || c.Threads < 1 || c.Memory > 4*DefaultCost.Memory || c.Time > 4*DefaultCost.Time {
		return false, errHash
	}
	got, err := c.key(ctx, password, salt, uint32(len(want)), known)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

var errHash = errors.New("the stored hash of a password cannot be read")
