// Package wallet owns the addresses that wallets and verifiers of credentials use: DID documents and other
// metadata, status lists, pictures of achievements, and the issuing of credentials to wallets (OpenID for
// Verifiable Credential Issuance 1.0). Clients are programs, including scripts of other websites. Therefore
// errors are JSON, and scripts of every origin can read the responses. The handlers use no cookies.
package wallet

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
)

// prefixes are the path prefixes of this package.
var prefixes = []string{
	"/institutions", "/credentials", "/.well-known/openid-credential-issuer", "/.well-known/oauth-authorization-server", credential.IssuerMetadataPath,
}

// Owns reports whether a path belongs to this package.
func Owns(path string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
}

// API serves the routes of this package.
type API struct {
	Issuer *issuer.Service
	// Limit counts the requests of each client address.
	Limit *limit.Counter

	patterns []string
}

const (
	// documentAge is the time in seconds for which a document with keys or metadata may be cached. A
	// new key is used at once. A verifier with a cached document cannot check the signatures of the new
	// key until the document expires.
	documentAge = "60"
	// maxBody is the maximum size of the body of a request in bytes.
	maxBody = 64 << 10
)

// statusAge is the time in seconds for which a status list may be cached.
var statusAge = strconv.Itoa(int(issuer.ListCached.Seconds()))

// Handler returns the handler for all routes.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, f web.Func) {
		a.patterns = append(a.patterns, pattern)
		mux.Handle(pattern, web.Handler(web.WriteJSONError, f))
	}
	route("GET /institutions/{uuid}/did.json", a.forInstitution(a.did))
	route("GET "+credential.IssuerMetadataPath+"/institutions/{uuid}", a.forInstitution(a.issuerMetadata))
	route("GET /institutions/{uuid}/achievements/{achievement}/{file}", a.forInstitution(a.picture))
	route("GET /credentials/status/{id}", a.status)
	route("GET "+issuer.TypePath, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Cache-Control", "public, max-age="+statusAge)
		return web.WriteJSON(w, http.StatusOK, a.Issuer.TypeMetadata())
	})
	a.protocolRoutes(route)
	return open(web.Throttled(a.Limit, web.WriteJSONError, web.Routes(mux, web.WriteJSONError)))
}

// Patterns returns the patterns of all routes. Call Handler first.
func (a *API) Patterns() []string { return a.patterns }

// open lets scripts of every origin read the responses (Fetch, 3.3), and responds to their preflight
// requests. This is safe because the handlers use no authentication that a browser adds by itself, such as
// cookies.
func open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		web.SetRoute(r, "(preflight)")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}

var errUnknown = fault.New(fault.NotFound, "The route could not be found.")

// forInstitution returns a handler that finds the institution in the path.
func (a *API) forInstitution(f func(w http.ResponseWriter, r *http.Request, i *account.Institution) error) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		i, err := a.institution(r.Context(), r.PathValue("uuid"))
		if err != nil {
			return err
		}
		return f(w, r, i)
	}
}

// institution returns the institution with a UUID, which must be in lower case and with hyphens.
func (a *API) institution(ctx context.Context, id string) (*account.Institution, error) {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return nil, errUnknown
	}
	return a.Issuer.Institution(ctx, id)
}

// did writes the DID document of an institution (did:web Method Specification, 3.2).
func (a *API) did(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	document, err := a.Issuer.DIDDocument(r.Context(), i)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", web.Accepted(r, "application/did+ld+json", "application/did+json", "application/ld+json", "application/json"))
	h.Set("Cache-Control", "public, max-age="+documentAge)
	h.Add("Vary", "Accept")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(document))
	return nil
}

// issuerMetadata writes the keys of an institution for SD-JWT VC (SD-JWT VC, 3).
func (a *API) issuerMetadata(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	m, err := a.Issuer.IssuerMetadata(r.Context(), i)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "public, max-age="+documentAge)
	web.SendJSON(w, http.StatusOK, m)
	return nil
}

// status writes a status list (Bitstring Status List 1.0), or the same list as a token for credentials
// in SD-JWT (Token Status List, 8.1).
func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil || id.String() != r.PathValue("id") {
		return errUnknown
	}
	list, err := a.Issuer.List(r.Context(), id.String())
	if err != nil {
		return err
	}
	content, tag := list.VC, list.Tag
	mediaType := web.Accepted(r, string(issuer.FormatVC), "application/ld+json", "application/json", credential.MediaTypeStatusJWT)
	if mediaType == credential.MediaTypeStatusJWT {
		content, tag = list.Token, tag+"-token"
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "public, max-age="+statusAge)
	h.Set("ETag", `"`+tag+`"`)
	h.Add("Vary", "Accept")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}

// picture writes the picture of an achievement. The file name in the URL contains the digest of the
// picture, so that the picture can be cached for a year.
func (a *API) picture(w http.ResponseWriter, r *http.Request, i *account.Institution) error {
	digest, ok := strings.CutSuffix(r.PathValue("file"), ".png")
	if !ok {
		return errUnknown
	}
	content, err := a.Issuer.Picture(r.Context(), i.ID, r.PathValue("achievement"), digest)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", web.FilePolicy)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}
