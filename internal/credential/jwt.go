package credential

import (
	"crypto"
	"fmt"
	"time"
)

// The media types of credentials. The type of a JWT is its media type without "application/" (VC-JOSE, 3.1).
const (
	MediaTypeVC    = "application/vc"
	MediaTypeVCJWT = "application/vc+jwt"
	MediaTypeSDJWT = "application/dc+sd-jwt"

	typVCJWT = "vc+jwt"
)

// header is the header of a JWS (RFC 7515, 4.1).
type header struct {
	Alg string `json:"alg"`
	Typ string `json:"typ"`
	Cty string `json:"cty,omitempty"`
	Kid string `json:"kid"`
}

// claims is a credential as the payload of a JWT: the members of the credential (VC-JOSE, 3.1.1), and the
// registered claims that Open Badges requires, which repeat values of the members (OB, 8.2.3).
type claims struct {
	document

	Iss string `json:"iss"`
	Jti string `json:"jti"`
	Nbf int64  `json:"nbf"`
	Exp int64  `json:"exp,omitempty"`
	Sub string `json:"sub,omitempty"`
}

// SignJWT returns the credential as a VC-JWT with ES256. The key is a P-256 key of the issuer.
func (c *Credential) SignJWT(key crypto.Signer) (string, error) {
	payload := claims{
		document: c.document,
		Iss:      c.document.Issuer.ID, Jti: c.document.ID, Sub: c.document.CredentialSubject.ID,
		Nbf: startOfDay(c.in.IssuedOn).Unix(),
	}
	if !c.in.ExpiresOn.IsZero() {
		payload.Exp = endOfDay(c.in.ExpiresOn).Unix()
	}
	method, err := MethodID(payload.Iss, key.Public())
	if err != nil {
		return "", fmt.Errorf("signing a JWT: %w", err)
	}
	return signJWT(key, method, typVCJWT, "vc", payload)
}

// signJWT returns a compact JWS with ES256 (RFC 7515, 7.1).
func signJWT(key crypto.Signer, kid, typ, cty string, payload any) (string, error) {
	head, err := marshal(header{Alg: "ES256", Typ: typ, Cty: cty, Kid: kid})
	if err != nil {
		return "", fmt.Errorf("signing a JWT: %w", err)
	}
	body, err := marshal(payload)
	if err != nil {
		return "", fmt.Errorf("signing a JWT: %w", err)
	}
	message := base64url(head) + "." + base64url(body)
	signature, err := signES256(key, []byte(message))
	if err != nil {
		return "", fmt.Errorf("signing a JWT: %w", err)
	}
	return message + "." + base64url(signature), nil
}

// unixTime returns the time of a NumericDate claim (RFC 7519, 2), and whether the claim is present.
func unixTime(claims map[string]any, name string) (time.Time, bool, error) {
	v, ok := claims[name]
	if !ok {
		return time.Time{}, false, nil
	}
	seconds, ok := v.(float64)
	if !ok || seconds < -1e11 || seconds > 1e12 {
		return time.Time{}, false, fmt.Errorf("the claim %q is not a time", name)
	}
	return time.Unix(int64(seconds), 0).UTC(), true, nil
}
