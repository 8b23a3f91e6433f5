package credential

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Holder is the owner of a key that a credential is bound to.
type Holder struct {
	// DID is the did:key or did:jwk identifier of the key.
	DID string
	// Key is an Ed25519 or P-256 key, and Thumbprint its SHA-256 thumbprint (RFC 7638).
	Key        crypto.PublicKey
	Thumbprint string
}

// HolderProof is a proof that a wallet has a key (OpenID4VCI 1.0, Appendix F.1).
type HolderProof struct {
	Holder

	// Audience is the identifier of the issuer for which the proof was made.
	Audience string
	// Nonce is the nonce from the issuer, or "".
	Nonce    string
	IssuedAt time.Time
}

// typHolderProof is the type of a holder's proof.
const typHolderProof = "openid4vci-proof+jwt"

// maxHolderProof is the maximum size of a proof in bytes.
const maxHolderProof = 16 << 10

var errHolderProof = errors.New("the proof of possession is not valid")

// ParseHolderProof parses a proof and verifies its signature with the key in its header. The caller must
// check the audience, the nonce and the time.
func ParseHolderProof(token string) (*HolderProof, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxHolderProof || len(parts) != 3 {
		return nil, fmt.Errorf("%w: it is not a JWT", errHolderProof)
	}
	var objects [2]map[string]any
	for i := range objects {
		data, err := unbase64url(parts[i])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errHolderProof, err)
		}
		if objects[i], err = parseObject(data); err != nil {
			return nil, fmt.Errorf("%w: %w", errHolderProof, err)
		}
	}
	head, body := objects[0], objects[1]
	// A proof with crit must be refused, because the vault supports no extensions (RFC 7515, 4.1.11).
	if _, critical := head["crit"]; critical {
		return nil, fmt.Errorf("%w: its header has crit", errHolderProof)
	}
	if text(head, "typ") != typHolderProof {
		return nil, fmt.Errorf("%w: its type is not %s", errHolderProof, typHolderProof)
	}
	p := &HolderProof{Audience: text(body, "aud"), Nonce: text(body, "nonce")}
	var err error
	if p.Holder, err = holderOf(head); err != nil {
		return nil, fmt.Errorf("%w: %w", errHolderProof, err)
	}
	algorithm := "ES256"
	if _, ok := p.Key.(ed25519.PublicKey); ok {
		algorithm = "EdDSA"
	}
	if alg := text(head, "alg"); alg != algorithm && (algorithm != "EdDSA" || alg != "Ed25519") { // RFC 9864, 2.2
		return nil, fmt.Errorf("%w: the algorithm is not that of the key", errHolderProof)
	}
	signature, err := unbase64url(parts[2])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHolderProof, err)
	}
	if err := verifySignature(p.Key, []byte(parts[0]+"."+parts[1]), signature); err != nil {
		return nil, fmt.Errorf("%w: %w", errHolderProof, err)
	}
	at, ok, err := unixTime(body, "iat")
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: it has no time", errHolderProof)
	}
	p.IssuedAt = at
	return p, nil
}

// holderOf returns the holder in the header of a proof. The header must have either jwk, or kid with a
// did:key or did:jwk identifier.
func holderOf(head map[string]any) (Holder, error) {
	object, embedded := head["jwk"].(map[string]any)
	kid := text(head, "kid")
	var h Holder
	var err error
	did, name, _ := strings.Cut(kid, "#")
	switch {
	case embedded == (kid != ""):
		return h, errors.New("the header must have either jwk or kid")
	case embedded:
		if _, private := object["d"]; private {
			return h, errors.New("the header has a private key")
		}
		h.Key, err = parseJWK(object)
	case strings.HasPrefix(did, "did:jwk:"):
		h.DID = did
		if name != "" && name != "0" { // did:jwk, "Read"
			return h, errDID
		}
		h.Key, err = didJWK(did)
	default:
		h.DID = did
		if name != "" && did != "did:key:"+name { // did:key, 3.1.2
			return h, errDID
		}
		h.Key, err = didKey(did)
	}
	if err != nil {
		return h, err
	}
	k, err := newJWK(h.Key)
	if err != nil {
		return h, err
	}
	if h.Thumbprint, err = k.thumbprint(); err != nil {
		return h, err
	}
	if h.DID == "" {
		data, err := marshal(k)
		if err != nil {
			return h, err
		}
		h.DID = "did:jwk:" + base64url(data)
	}
	return h, nil
}

// didJWK returns the key that a did:jwk identifier encodes.
func didJWK(did string) (crypto.PublicKey, error) {
	data, err := unbase64url(strings.TrimPrefix(did, "did:jwk:"))
	if err != nil {
		return nil, errDID
	}
	object, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	if _, private := object["d"]; private {
		return nil, errDID
	}
	return parseJWK(object)
}
