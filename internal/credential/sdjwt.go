package credential

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SDJWTDraft is a version of the SD-JWT VC draft. SD-JWT itself is RFC 9901, but the credential format that
// uses it is still a draft.
type SDJWTDraft int

const (
	// SDJWTCurrent is draft 6 and later, with the type dc+sd-jwt.
	SDJWTCurrent SDJWTDraft = iota
	// SDJWTDraft5 is draft 5 and earlier, with the type vc+sd-jwt, for older wallets.
	SDJWTDraft5
)

func (d SDJWTDraft) typ() string {
	if d == SDJWTDraft5 {
		return "vc+sd-jwt"
	}
	return "dc+sd-jwt"
}

// SDJWTOptions contains the values that only the SD-JWT VC format needs.
type SDJWTOptions struct {
	Draft SDJWTDraft
	// Type identifies the kind of credential, as a URL or URN: the claim vct (SD-JWT VC, 2.2.2.1).
	Type string
	// Holder is the Ed25519 or P-256 key of the recipient, who proved its possession. Optional.
	Holder  crypto.PublicKey
	Created time.Time
}

// SignSDJWT returns the credential as SD-JWT VC with ES256. The recipient can withhold each of these claims:
// title, name, issue_date, expiry_date, achievement and document_sha256. The key is a P-256 key of the issuer.
func (c *Credential) SignSDJWT(key crypto.Signer, o SDJWTOptions) (string, error) {
	claims, err := c.sdClaims(o)
	if err != nil {
		return "", fmt.Errorf("signing an SD-JWT: %w", err)
	}
	var disclosures, digests []string
	for _, d := range c.disclosures() {
		encoded, err := d.encode()
		if err != nil {
			return "", fmt.Errorf("signing an SD-JWT: %w", err)
		}
		disclosures = append(disclosures, encoded)
		digests = append(digests, disclosureDigest(encoded))
	}
	slices.Sort(digests) // hides the order of the claims (RFC 9901, 4.2.4.1)
	claims["_sd"], claims["_sd_alg"] = digests, "sha-256"
	name, err := fragment(key.Public())
	if err != nil {
		return "", fmt.Errorf("signing an SD-JWT: %w", err)
	}
	token, err := signJWT(key, name, o.Draft.typ(), "", claims)
	if err != nil {
		return "", err
	}
	return token + "~" + strings.Join(disclosures, "~") + "~", nil
}

// sdClaims returns the claims that are always disclosed (SD-JWT VC, 2.2.2.2).
func (c *Credential) sdClaims(o SDJWTOptions) (map[string]any, error) {
	if o.Type == "" {
		return nil, errors.New("the type is missing")
	}
	iss, err := IssuerURL(c.document.Issuer.ID)
	if err != nil {
		return nil, err
	}
	claims := map[string]any{
		"iss": iss, "vct": o.Type, "jti": c.document.ID, "iat": o.Created.Unix(),
		"nbf": startOfDay(c.in.IssuedOn).Unix(), "issuer_name": c.in.Issuer.Name,
	}
	if !c.in.ExpiresOn.IsZero() {
		claims["exp"] = endOfDay(c.in.ExpiresOn).Unix()
	}
	if s := c.in.Status; s != nil { // TSL, 6.2
		claims["status"] = map[string]any{"status_list": map[string]any{"idx": s.Index, "uri": s.List}}
	}
	if o.Holder != nil { // RFC 7800, 3.2
		holder, err := newJWK(o.Holder)
		if err != nil {
			return nil, err
		}
		claims["cnf"] = map[string]any{"jwk": holder}
	}
	if c.in.Recipient.DID != "" {
		claims["sub"] = c.in.Recipient.DID
	}
	return claims, nil
}

// disclosure is a claim that the holder may withhold (RFC 9901, 4.2.1).
type disclosure struct {
	name  string
	value any
}

func (c *Credential) disclosures() []disclosure {
	out := []disclosure{
		{"title", c.in.Title},
		{"issue_date", c.in.IssuedOn.UTC().Format(time.DateOnly)},
		{"achievement", c.document.CredentialSubject.Achievement},
	}
	if c.in.Recipient.Name != "" {
		out = append(out, disclosure{"name", c.in.Recipient.Name})
	}
	if !c.in.ExpiresOn.IsZero() {
		out = append(out, disclosure{"expiry_date", c.in.ExpiresOn.UTC().Format(time.DateOnly)})
	}
	if d := c.in.Document; d != nil {
		out = append(out, disclosure{"document_sha256", hex.EncodeToString(d.SHA256[:])})
	}
	return out
}

// encode returns the disclosure with a new salt of 128 bits (RFC 9901, 4.2.1 and 9.3).
func (d disclosure) encode() (string, error) {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	data, err := marshal([]any{base64url(salt), d.name, d.value})
	if err != nil {
		return "", err
	}
	return base64url(data), nil
}

// disclosureDigest returns the digest of an encoded disclosure (RFC 9901, 4.2.3).
func disclosureDigest(encoded string) string {
	sum := sha256.Sum256([]byte(encoded))
	return base64url(sum[:])
}
