package identity

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 4226 and authenticator programs use HMAC-SHA-1, which is not broken
	"encoding/binary"
	"fmt"
)

// oneTimePassword returns the HOTP value of a key and a counter, with codeDigits
// digits (RFC 4226, 5.3).
func oneTimePassword(key []byte, counter int64) string {
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, counter) // a hash never fails to write
	sum := mac.Sum(nil)
	// Dynamic truncation: the low bits of the last byte select four bytes.
	offset := sum[len(sum)-1] & 0x0F
	number := binary.BigEndian.Uint32(sum[offset:]) & 0x7FFFFFFF
	return fmt.Sprintf("%0*d", codeDigits, number%1_000_000)
}
