package credential

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxDisclosures limits the disclosures of an SD-JWT.
const maxDisclosures = 128

// openSDJWT reads a credential as SD-JWT VC, with the disclosures that the file has (RFC 9901, 7.1).
func (v *verifier) openSDJWT(text string) (*signed, error) {
	s := &signed{format: MediaTypeSDJWT}
	parts := strings.Split(text, "~")
	j, err := parseJWS(parts[0])
	if err != nil {
		return s, err
	}
	if !slices.Contains([]string{SDJWTCurrent.typ(), SDJWTDraft5.typ()}, j.typ) {
		return s, notRun(CodeUnknownProof, fmt.Errorf("the type of the JWT is %q", j.typ))
	}
	if last := parts[len(parts)-1]; last != "" && !strings.Contains(last, ".") {
		return s, errors.New("it ends with a disclosure") // RFC 9901, 4: only a key binding JWT has no "~" after it
	}
	claims, err := disclose(j.payload, parts[1:len(parts)-1])
	if err != nil {
		return s, err
	}
	if s.statement, err = readSDJWT(claims); err != nil {
		return s, err
	}
	s.verify = func() (error, error) { return v.verifySDJWT(j, s.statement.IssuerID) }
	s.status = func() error { return v.tokenStatus(claims, s.statement.IssuerID) }
	if e, err := tokenEntry(claims); err == nil {
		s.places = []StatusEntry{e}
	}
	return s, nil
}

// readSDJWT returns what an SD-JWT VC states. It reads the claims that SignSDJWT writes.
func readSDJWT(claims map[string]any) (Statement, error) {
	s := Statement{
		ID: text(claims, "jti"), Title: text(claims, "title"), IssuerID: text(claims, "iss"), IssuerName: text(claims, "issuer_name"),
		Recipient: text(claims, "name"),
	}
	if text(claims, "vct") == "" || s.IssuerID == "" { // SD-JWT VC, 2.2.2.2
		return s, errors.New("the type or the issuer is missing")
	}
	s.IssuerSite = site(s.IssuerID)
	s.readAchievement(claims["achievement"])
	var err error
	if s.ValidFrom, _, err = unixTime(claims, "nbf"); err != nil {
		return s, err
	}
	s.ValidUntil, _, err = unixTime(claims, "exp")
	return s, err
}

// verifySDJWT verifies a JWT of an issuer with a DID or an https address. The metadata of an issuer with an
// https address contains its keys (SD-JWT VC, 2.5).
func (v *verifier) verifySDJWT(j *jws, issuer string) (key, proof error) {
	if strings.HasPrefix(issuer, "did:") {
		return v.verifyJWS(j, issuer)
	}
	public, err := v.metadataKey(issuer, j.kid)
	if err != nil {
		return err, notRun(CodeNoKey, errors.New("the key of the signature is not known"))
	}
	return nil, j.verify(public)
}

// metadataKey returns the key with the id kid from the metadata of an issuer (SD-JWT VC, 3.3).
func (v *verifier) metadataKey(issuer, kid string) (crypto.PublicKey, error) {
	address, err := issuerMetadataURL(issuer)
	if err != nil {
		return nil, notRun(CodeUnknownIssuer, err)
	}
	metadata, err := v.sources.object(v.ctx, address, "application/json")
	if err != nil {
		return nil, err
	}
	if metadata["issuer"] != issuer {
		return nil, failed(CodeNotIssuersKey, fmt.Errorf("%s is the metadata of %q", address, metadata["issuer"]))
	}
	set, ok := metadata["jwks"].(map[string]any)
	if uri := text(metadata, "jwks_uri"); !ok && uri != "" {
		if set, err = v.sources.object(v.ctx, uri, "application/json"); err != nil {
			return nil, err
		}
	}
	for _, k := range list(set["keys"]) {
		object, ok := k.(map[string]any)
		if !ok || kid == "" || text(object, "kid") != kid {
			continue
		}
		key, err := parseJWK(object)
		if err != nil {
			return nil, notRun(CodeUnknownProof, err)
		}
		return key, nil
	}
	return nil, failed(CodeNotIssuersKey, fmt.Errorf("%s has no key %q", address, kid))
}

var errDisclosure = errors.New("the disclosures do not match the credential")

// discloser replaces digests with the disclosed claims.
type discloser struct {
	byDigest map[string][]any
	seen     map[string]bool
	used     int
}

// disclose returns the claims of an SD-JWT with the disclosed values (RFC 9901, 7.1, step 3). Each
// disclosure must be used exactly once.
func disclose(payload map[string]any, disclosures []string) (map[string]any, error) {
	if len(disclosures) > maxDisclosures {
		return nil, notRun(CodeTooComplex, errTooMany)
	}
	if alg, ok := payload["_sd_alg"]; ok && alg != "sha-256" {
		return nil, notRun(CodeUnknownProof, fmt.Errorf("the digests are %q", alg))
	}
	d := discloser{byDigest: map[string][]any{}, seen: map[string]bool{}}
	for _, encoded := range disclosures {
		data, err := unbase64url(encoded)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDisclosure, err)
		}
		object, err := parseObject(slices.Concat([]byte(`{"d":`), data, []byte("}"))) // parseObject accepts only an object
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDisclosure, err)
		}
		values, ok := object["d"].([]any)
		if !ok || len(values) < 2 || len(values) > 3 || len(object) != 1 {
			return nil, errDisclosure
		}
		d.byDigest[disclosureDigest(encoded)] = values
	}
	if len(d.byDigest) != len(disclosures) {
		return nil, errDisclosure
	}
	claims, err := d.object(payload, 0)
	if err != nil {
		return nil, err
	}
	if d.used < len(d.byDigest) {
		return nil, fmt.Errorf("%w: one is not used", errDisclosure)
	}
	return claims, nil
}

// take returns the elements of the disclosure with a digest, or false if the holder withheld the disclosure.
// The number of elements must be length. A digest may occur only once, even if its disclosure is withheld
// (RFC 9901, 7.1, step 4).
func (d *discloser) take(digest any, length int) ([]any, bool, error) {
	s, ok := digest.(string)
	if !ok {
		return nil, false, fmt.Errorf("%w: a digest is not a string", errDisclosure)
	}
	if d.seen[s] {
		return nil, false, fmt.Errorf("%w: a digest occurs twice", errDisclosure)
	}
	d.seen[s] = true
	values, ok := d.byDigest[s]
	if !ok {
		return nil, false, nil
	}
	d.used++
	if len(values) != length {
		return nil, false, errDisclosure
	}
	return values, true, nil
}

func (d *discloser) object(object map[string]any, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, notRun(CodeTooComplex, errTooDeep)
	}
	out := map[string]any{}
	for name, value := range object {
		if name == "_sd" || name == "_sd_alg" {
			continue
		}
		var err error
		if out[name], err = d.value(value, depth+1); err != nil {
			return nil, err
		}
	}
	for _, digest := range list(object["_sd"]) {
		values, disclosed, err := d.take(digest, 3)
		if err != nil {
			return nil, err
		}
		if !disclosed {
			continue
		}
		name, ok := values[1].(string)
		_, twice := out[name]
		if !ok || twice || name == "_sd" || name == "_sd_alg" || name == "..." {
			return nil, errDisclosure
		}
		if depth == 0 && slices.Contains([]string{"iss", "nbf", "exp", "cnf", "vct", "status"}, name) { // SD-JWT VC, 2.2.2.2
			return nil, fmt.Errorf("%w: the claim %q may not be withheld", errDisclosure, name)
		}
		if out[name], err = d.value(values[2], depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *discloser) value(v any, depth int) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		return d.object(v, depth)
	case []any:
		return d.array(v, depth)
	}
	return v, nil
}

func (d *discloser) array(items []any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, notRun(CodeTooComplex, errTooDeep)
	}
	out := []any{}
	for _, item := range items {
		object, ok := item.(map[string]any)
		digest, withheld := object["..."]
		if !ok || !withheld {
			value, err := d.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
			continue
		}
		values, disclosed, err := d.take(digest, 2)
		if err != nil {
			return nil, err
		}
		if disclosed {
			value, err := d.value(values[1], depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
	}
	return out, nil
}
