package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	secretSize   = 32
	// overlap is the time after a rotation for which the old secret also signs.
	overlap = 24 * time.Hour
)

// newSecret returns a new signing secret: "whsec_" and the base64 of 32 random bytes, as Standard
// Webhooks defines.
func newSecret() (string, error) {
	key := make([]byte, secretSize)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("generating a signing secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// keys are the keys of an endpoint at a certain time.
type keys struct {
	// plain is the key of X-Webhook-Signature: the secret as the user sees it.
	plain string
	// standard are the keys of webhook-signature, newest first: the secrets without the prefix, decoded
	// from base64.
	standard [][]byte
}

// rotation is the state of the last rotation of a secret. secret is the old secret, and until is the
// end of the overlap. promoted reports whether the new secret is the key of X-Webhook-Signature.
type rotation struct {
	secret   string
	until    time.Time
	promoted bool
}

// keysAt returns the keys at a time. During the overlap both secrets sign in webhook-signature.
// X-Webhook-Signature contains one signature, which uses the old secret until the new secret is
// promoted or the overlap ends.
func keysAt(now time.Time, secret string, r rotation) (keys, error) {
	k := keys{plain: secret}
	secrets := []string{secret}
	if r.secret != "" && now.Before(r.until) {
		secrets = append(secrets, r.secret)
		if !r.promoted {
			k.plain = r.secret
		}
	}
	for _, s := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, secretPrefix))
		if err != nil {
			return keys{}, fmt.Errorf("reading a signing secret: %w", err)
		}
		k.standard = append(k.standard, key)
	}
	return k, nil
}

// sign sets the headers of one attempt that identify and sign the delivery. The interface defines
// X-Webhook-Signature as the HMAC of the body alone. The webhook-* headers are those of Standard
// Webhooks 1.0: the signature covers id, time and body, so that a receiver can detect the replay
// of a recorded delivery.
func (k keys) sign(h http.Header, endpoint, eventID string, name Name, body []byte, at time.Time) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(k.standard))
	for i, key := range k.standard {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac(key, []byte(eventID+"."+seconds+"."), body))
	}
	// The names are written as the interface spells them, not in Go's canonical form.
	for name, value := range map[string]string{
		"X-Webhook-Signature": hex.EncodeToString(mac([]byte(k.plain), body)),
		"X-Webhook-Event":     string(name),
		"X-Webhook-ID":        endpoint,
		"X-Webhook-Timestamp": at.UTC().Format(time.RFC3339),
		"webhook-id":          eventID,
		"webhook-timestamp":   seconds,
		"webhook-signature":   strings.Join(signatures, " "),
	} {
		h[name] = []string{value}
	}
}

func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
