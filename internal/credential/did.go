package credential

import (
	"crypto"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// DIDWeb returns the did:web identifier for a base URL and the segments of a path (did:web, 2.3). In the
// identifier, %3A precedes a port, and a colon precedes each segment.
func DIDWeb(base string, segments ...string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is not the address of a website", base)
	}
	did := "did:web:" + strings.ReplaceAll(strings.ToLower(u.Host), ":", "%3A")
	if path := strings.Trim(u.Path, "/"); path != "" {
		segments = append(strings.Split(path, "/"), segments...)
	} else {
		segments = slices.Clone(segments)
	}
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	did = strings.Join(append([]string{did}, segments...), ":")
	if _, err := didURL(did); err != nil {
		return "", err
	}
	return did, nil
}

var errDID = errors.New("the DID is damaged")

// maxDID limits the length of a DID.
const maxDID = 1024

// didURL returns the address of the document of a did:web identifier (did:web, 2.5.2).
func didURL(did string) (string, error) {
	page, path, err := didPage(did)
	if err != nil {
		return "", err
	}
	if path == "" {
		return page + "/.well-known/did.json", nil
	}
	return page + path + "/did.json", nil
}

// didPage returns the origin and the path that a did:web identifier denotes.
func didPage(did string) (origin, path string, err error) {
	id, ok := strings.CutPrefix(did, "did:web:")
	if !ok || len(did) > maxDID {
		return "", "", errDID
	}
	segments := strings.Split(id, ":")
	host, err := url.PathUnescape(segments[0])
	if err != nil {
		return "", "", errDID
	}
	for _, s := range segments[1:] {
		plain, err := url.PathUnescape(s)
		if err != nil || plain == "" || plain == "." || plain == ".." || strings.ContainsAny(plain, `/\`) || strings.ContainsAny(s, "/?#") {
			return "", "", errDID
		}
		path += "/" + s
	}
	// The comparison rejects an identifier whose first segment is not only a host and a port.
	u, err := url.Parse("https://" + host + path)
	if err != nil || u.Host != host || u.Hostname() == "" || strings.HasSuffix(host, ":") || u.User != nil || u.EscapedPath() != path {
		return "", "", errDID
	}
	return "https://" + host, path, nil
}

// IssuerURL returns the https address that a did:web identifier denotes. An SD-JWT VC names its issuer
// by this address, because the draft does not define how to find the keys of a DID (SD-JWT VC, 2.5).
func IssuerURL(did string) (string, error) {
	origin, path, err := didPage(did)
	if err != nil {
		return "", fmt.Errorf("%w: %q", err, did)
	}
	return origin + path, nil
}

// issuerMetadataURL returns the address of the metadata of an SD-JWT VC issuer. In this address,
// IssuerMetadataPath is between the host and the path of the issuer (SD-JWT VC, 3).
func issuerMetadataURL(issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not the address of an issuer", issuer)
	}
	return "https://" + u.Host + IssuerMetadataPath + strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// IssuerMetadataPath is the beginning of the path of IssuerMetadata. The path of IssuerURL follows it.
const IssuerMetadataPath = "/.well-known/jwt-vc-issuer"

// IssuerMetadata returns the metadata of an SD-JWT VC issuer with the P-256 keys among keys (SD-JWT VC,
// 3.2). keys must contain all keys that ever signed, so that credentials stay valid after a change of keys.
func IssuerMetadata(did string, keys []crypto.PublicKey) ([]byte, error) {
	issuer, err := IssuerURL(did)
	if err != nil {
		return nil, err
	}
	set := []jwk{}
	for _, key := range keys {
		m, err := newMethod(did, key)
		if err != nil {
			return nil, fmt.Errorf("writing the metadata of %s: %w", issuer, err)
		}
		if m.PublicKeyJWK != nil {
			set = append(set, *m.PublicKeyJWK)
		}
	}
	return marshal(map[string]any{"issuer": issuer, "jwks": map[string]any{"keys": set}})
}

// didDocument is the document of a DID (DID, 5; CID, 2).
type didDocument struct {
	Context            []string             `json:"@context"`
	ID                 string               `json:"id"`
	VerificationMethod []verificationMethod `json:"verificationMethod"`
	AssertionMethod    []string             `json:"assertionMethod"`
}

type verificationMethod struct {
	ID                 string `json:"id"`
	Type               string `json:"type"`
	Controller         string `json:"controller"`
	PublicKeyMultibase string `json:"publicKeyMultibase,omitempty"`
	PublicKeyJWK       *jwk   `json:"publicKeyJwk,omitempty"`
}

// DIDDocument returns the document of a DID with keys. keys must contain all keys that ever signed, so that
// credentials stay valid after a change of keys. Ed25519 keys are of type Multikey (CID, 2.2.2), and P-256
// keys are of type JsonWebKey (CID, 2.2.3).
func DIDDocument(did string, keys []crypto.PublicKey) ([]byte, error) {
	d := didDocument{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1", "https://w3id.org/security/jwk/v1"},
		ID:      did, VerificationMethod: []verificationMethod{}, AssertionMethod: []string{},
	}
	for _, key := range keys {
		m, err := newMethod(did, key)
		if err != nil {
			return nil, fmt.Errorf("writing the document of %s: %w", did, err)
		}
		d.VerificationMethod = append(d.VerificationMethod, m)
		d.AssertionMethod = append(d.AssertionMethod, m.ID)
	}
	return marshal(d)
}

func newMethod(did string, key crypto.PublicKey) (verificationMethod, error) {
	name, err := fragment(key)
	if err != nil {
		return verificationMethod{}, err
	}
	m := verificationMethod{ID: did + "#" + name, Type: "Multikey", Controller: did}
	k, err := newJWK(key)
	if err != nil {
		return verificationMethod{}, err
	}
	if k.Kty == "EC" {
		k.Kid, k.Alg = name, "ES256"
		m.Type, m.PublicKeyJWK = "JsonWebKey", &k
		return m, nil
	}
	m.PublicKeyMultibase, err = multikey(key)
	return m, err
}

// methodKey returns the key of a verification method that the subject of a DID document may use for
// assertions (CID, 3.3).
func methodKey(document map[string]any, did, method string) (crypto.PublicKey, error) {
	if text(document, "id") != did {
		return nil, fmt.Errorf("the document is not that of %s", did)
	}
	allowed := false
	var found map[string]any
	methods := list(document["verificationMethod"])
	for _, v := range list(document["assertionMethod"]) {
		switch v := v.(type) {
		case string:
			allowed = allowed || absolute(did, v) == method
		case map[string]any: // the method is embedded (CID, 2.3.2)
			methods = append(methods, v)
			allowed = allowed || absolute(did, text(v, "id")) == method
		}
	}
	if !allowed {
		return nil, fmt.Errorf("the document of %s does not permit the key %q to sign credentials", did, method)
	}
	for _, v := range methods {
		if m, ok := v.(map[string]any); ok && absolute(did, text(m, "id")) == method {
			if found != nil {
				return nil, fmt.Errorf("the document of %s has the key %q twice", did, method)
			}
			found = m
		}
	}
	if found == nil || text(found, "controller") != did {
		return nil, fmt.Errorf("the document of %s does not contain the key %q", did, method)
	}
	if object, ok := found["publicKeyJwk"].(map[string]any); ok {
		return parseJWK(object)
	}
	return parseMultikey(text(found, "publicKeyMultibase"))
}

// absolute returns the absolute form of an id that may be relative to the DID (DID, 3.2.2).
func absolute(did, id string) string {
	if strings.HasPrefix(id, "#") {
		return did + id
	}
	return id
}

// didKey returns the key that a did:key identifier encodes.
func didKey(did string) (crypto.PublicKey, error) {
	id, ok := strings.CutPrefix(did, "did:key:")
	if !ok {
		return nil, errDID
	}
	return parseMultikey(id)
}
