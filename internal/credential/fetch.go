package credential

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Fetcher returns the documents that a credential refers to: the DID document or the metadata of its
// issuer, and its status list.
type Fetcher interface {
	// Fetch returns the body of the document at an https URL. accept is the list of accepted media types,
	// as in the header Accept. Fetch returns an error for a document of more than MaxFetch bytes, and
	// ErrOffline if fetching is not allowed.
	Fetch(ctx context.Context, url, accept string) ([]byte, error)
}

// MaxFetch is the size in bytes of the largest document that a verification fetches.
const MaxFetch = maxDocument

// ErrOffline reports that a document is needed, and that fetching is not allowed.
var ErrOffline = errors.New("fetching is not allowed")

// Offline is a Fetcher that fetches nothing.
type Offline struct{}

// Fetch returns ErrOffline.
func (Offline) Fetch(context.Context, string, string) ([]byte, error) { return nil, ErrOffline }

// maxFetches is the maximum number of documents that one verification fetches.
const maxFetches = 6

// sources fetches the documents of one verification, each document once.
type sources struct {
	fetcher Fetcher
	fetched map[string]fetched
}

type fetched struct {
	data []byte
	err  error
}

// get returns a document. The error is that of ctx, or a problem with CodeOffline, CodeUnreachable or
// CodeTooComplex.
func (s *sources) get(ctx context.Context, address, accept string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, notRun(CodeUnreachable, fmt.Errorf("%q is not an https address", address))
	}
	key := accept + " " + address
	f, ok := s.fetched[key]
	if !ok {
		if len(s.fetched) == maxFetches {
			return nil, notRun(CodeTooComplex, errors.New("the credential refers to too many documents"))
		}
		f.data, f.err = s.fetcher.Fetch(ctx, address, accept)
		s.fetched[key] = f
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(f.err, ErrOffline):
		return nil, notRun(CodeOffline, fmt.Errorf("%s was not fetched", address))
	case f.err != nil:
		return nil, notRun(CodeUnreachable, fmt.Errorf("%s cannot be fetched: %w", address, f.err))
	case len(f.data) > MaxFetch:
		return nil, notRun(CodeUnreachable, fmt.Errorf("%s is too large", address))
	}
	return f.data, nil
}

// object returns a document that is a JSON object. The errors are those of get.
func (s *sources) object(ctx context.Context, address, accept string) (map[string]any, error) {
	data, err := s.get(ctx, address, accept)
	if err != nil {
		return nil, err
	}
	object, err := parseObject(data)
	if err != nil {
		return nil, notRun(CodeUnreachable, fmt.Errorf("%s cannot be read: %w", address, err))
	}
	return object, nil
}

// key returns the key of a verification method of an issuer. A credential can name any verification
// method, so the part of the method before "#" must be the issuer.
func (s *sources) key(ctx context.Context, issuer, method string) (crypto.PublicKey, error) {
	did, _, ok := strings.Cut(method, "#")
	if !ok || did != issuer {
		return nil, failed(CodeNotIssuersKey, fmt.Errorf("the issuer is %q, and the key of the signature is %q", issuer, method))
	}
	switch {
	case strings.HasPrefix(did, "did:key:"):
		key, err := didKey(did)
		if err != nil {
			return nil, notRun(CodeUnknownIssuer, fmt.Errorf("%s: %w", did, err))
		}
		if method != did+"#"+strings.TrimPrefix(did, "did:key:") {
			return nil, failed(CodeNotIssuersKey, fmt.Errorf("%s has no key %q", did, method))
		}
		return key, nil
	case strings.HasPrefix(did, "did:web:"):
		address, err := didURL(did)
		if err != nil {
			return nil, failed(CodeMalformed, fmt.Errorf("%w: %q", err, did))
		}
		document, err := s.object(ctx, address, "application/did+json, application/json")
		if err != nil {
			return nil, err
		}
		key, err := methodKey(document, did, method)
		if errors.Is(err, errKeyType) {
			return nil, notRun(CodeUnknownProof, err)
		}
		if err != nil {
			return nil, failed(CodeNotIssuersKey, err)
		}
		return key, nil
	}
	return nil, notRun(CodeUnknownIssuer, fmt.Errorf("the keys of %q cannot be found", did))
}

// site returns the website that an issuer's identifier denotes, without "https://", or "" if the identifier
// denotes no website.
func site(issuer string) string {
	if origin, path, err := didPage(issuer); err == nil {
		return strings.TrimPrefix(origin, "https://") + path
	}
	if _, err := issuerMetadataURL(issuer); err == nil {
		return strings.TrimPrefix(issuer, "https://")
	}
	return ""
}

// Address returns the address at which a document is published, so that a saved copy of the document can
// be used instead of fetching it. The document is the DID document or the metadata of an issuer, or a
// status list.
func Address(document []byte) (string, error) {
	document = trim(document)
	var object map[string]any
	var err error
	if len(document) > 0 && document[0] != '{' {
		var j *jws
		if j, err = parseJWS(string(document)); err == nil {
			object = j.payload
		}
	} else {
		object, err = parseObject(document)
	}
	if err != nil {
		return "", err
	}
	switch id := text(object, "id"); {
	case strings.HasPrefix(id, "did:web:"):
		return didURL(id)
	case has(object["type"], typeStatusListVC) && id != "":
		return id, nil
	case object["jwks"] != nil:
		return issuerMetadataURL(text(object, "issuer"))
	case object["status_list"] != nil && text(object, "sub") != "":
		return text(object, "sub"), nil
	}
	return "", errors.New("it is neither the DID document or the metadata of an issuer, nor a status list")
}
