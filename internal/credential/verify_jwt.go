package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// jws is a parsed compact JWS (RFC 7515, 7.1).
type jws struct {
	alg, typ, kid string
	issuerKey     bool // the header contains a key (jwk)
	payload       map[string]any
	message       []byte
	signature     []byte
}

// parseJWS reads a compact JWS whose payload is a JSON object.
func parseJWS(token string) (*jws, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("it is not a compact JWS")
	}
	var decoded [3][]byte
	for i, p := range parts {
		var err error
		if decoded[i], err = unbase64url(p); err != nil {
			return nil, fmt.Errorf("it is not a compact JWS: %w", err)
		}
	}
	head, err := parseObject(decoded[0])
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	payload, err := parseObject(decoded[1])
	if err != nil {
		return nil, fmt.Errorf("reading the payload: %w", err)
	}
	j := &jws{
		alg: text(head, "alg"), typ: text(head, "typ"), kid: text(head, "kid"), payload: payload,
		message: []byte(parts[0] + "." + parts[1]), signature: decoded[2],
	}
	_, j.issuerKey = head["jwk"]
	if _, ok := head["crit"]; ok { // RFC 7515, 4.1.11: extensions that must be understood
		return nil, notRun(CodeUnknownProof, errors.New("the header has extensions"))
	}
	if _, ok := head["b64"]; ok { // RFC 7797
		return nil, notRun(CodeUnknownProof, errors.New("the header has extensions"))
	}
	return j, nil
}

// verify verifies the signature. The algorithm must match the type of the key (RFC 8725, 3.1).
func (j *jws) verify(key crypto.PublicKey) error {
	want := ""
	switch key.(type) {
	case ed25519.PublicKey:
		want = "EdDSA"
	case *ecdsa.PublicKey:
		want = "ES256"
	case *rsa.PublicKey:
		want = "RS256"
	}
	if j.alg != want && (want != "EdDSA" || j.alg != "Ed25519") { // RFC 9864
		return failed(CodeSignature, fmt.Errorf("the algorithm %q is not that of the key", j.alg))
	}
	if err := verifySignature(key, j.message, j.signature); err != nil {
		return failed(CodeSignature, err)
	}
	return nil
}

// openJWT reads a credential as VC-JWT. The credential is the payload (VC-JOSE, 3.1) or, in version 1.1, the
// claim vc of the payload (Verifiable Credentials Data Model 1.1, 6.3.1).
func (v *verifier) openJWT(token string) (*signed, error) {
	s := &signed{format: MediaTypeVCJWT}
	j, err := parseJWS(token)
	if err != nil {
		return s, err
	}
	if !slices.Contains([]string{"", "JWT", typVCJWT, "vc+ld+jwt", "vc-ld+jwt", "application/vc+jwt"}, j.typ) {
		return s, notRun(CodeUnknownProof, fmt.Errorf("the type of the JWT is %q", j.typ))
	}
	document := j.payload
	if vc, ok := document["vc"].(map[string]any); ok {
		if document, err = expandClaims(j.payload, vc); err != nil {
			return s, err
		}
	}
	if s.statement, err = readVC(document); err != nil {
		return s, err
	}
	if err := s.readClaims(j.payload); err != nil {
		return s, err
	}
	s.verify = func() (error, error) { return v.verifyJWS(j, s.statement.IssuerID) }
	s.status = func() error { return v.entries(document, s.statement.IssuerID) }
	s.places = places(document)
	return s, nil
}

// expandClaims sets the missing members of a credential of version 1.1 to the values of the registered
// claims, and returns the credential.
func expandClaims(payload, vc map[string]any) (map[string]any, error) {
	for claim, member := range map[string]string{"iss": "issuer", "jti": "id"} {
		if value, ok := payload[claim]; ok && vc[member] == nil {
			vc[member] = value
		}
	}
	for claim, member := range map[string]string{"nbf": "issuanceDate", "exp": "expirationDate"} {
		at, ok, err := unixTime(payload, claim)
		if err != nil {
			return nil, err
		}
		if ok && vc[member] == nil {
			vc[member] = at.Format(time.RFC3339)
		}
	}
	return vc, nil
}

// readClaims returns an error if the claim iss or jti differs from the credential. The claims nbf and exp can
// only shorten the time for which the credential is valid (VC-JOSE, 3.1.3; OB, 8.2.3).
func (s *signed) readClaims(payload map[string]any) error {
	for claim, want := range map[string]string{"iss": s.statement.IssuerID, "jti": s.statement.ID} {
		if got, ok := payload[claim]; ok && got != want {
			return fmt.Errorf("the claim %q is %q, and the credential states %q", claim, got, want)
		}
	}
	from, ok, err := unixTime(payload, "nbf")
	if err != nil {
		return err
	}
	if ok && from.After(s.statement.ValidFrom) {
		s.statement.ValidFrom = from
	}
	until, ok, err := unixTime(payload, "exp")
	if err != nil {
		return err
	}
	if ok && (s.statement.ValidUntil.IsZero() || until.Before(s.statement.ValidUntil)) {
		s.statement.ValidUntil = until
	}
	return nil
}

// verifyJWS verifies a JWS with the key that its header names. The issuer must have a DID. verifyJWS returns
// the results of CheckIssuer and CheckProof.
func (v *verifier) verifyJWS(j *jws, issuer string) (key, proof error) {
	unsigned := notRun(CodeNoKey, errors.New("the key of the signature is not known"))
	switch {
	case j.alg == "none" || j.alg == "":
		return noKey, failed(CodeUnsigned, errors.New("it is not signed"))
	case !strings.HasPrefix(issuer, "did:"):
		return notRun(CodeUnknownIssuer, fmt.Errorf("the keys of %q cannot be found", issuer)), unsigned
	case j.kid == "" && j.issuerKey:
		return notRun(CodeUnknownIssuer, errors.New("the key is in the credential; nothing shows that it is the issuer's")), unsigned
	case j.kid == "":
		return noKey, unsigned
	}
	public, err := v.sources.key(v.ctx, issuer, absolute(issuer, j.kid))
	if err != nil {
		return err, unsigned
	}
	return nil, j.verify(public)
}
