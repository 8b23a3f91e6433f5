// Package api is the HTTP interface for the programs of institutions. Its routes are below
// /business/, clients authenticate with bearer tokens, and responses other than files are JSON. The package
// defines the wire types and the permissions of each route. Package cert has the rules for certificates.
package api

import (
	"context"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/replica"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

// API has the handlers of the routes below /business/.
type API struct {
	Certs   *cert.Service
	Search  *search.Service
	Batches *batch.Service
	// Templates has the templates, and issues certificates from them.
	Templates *template.Service
	// Applications has the offers and the applications.
	Applications *application.Service
	OfferCursors listing.Cursors
	Tokens       *token.Service
	Links        *web.Links
	Limit        *limit.Counter
	// InstitutionLimit counts the requests of institutions that have a limit of their own.
	InstitutionLimit *limit.Counter
	Keys             *limit.Keys
	Log              *slog.Logger
	// Replica is the replica from which lists may be read. It may be nil.
	Replica *replica.Replica
	// Verifications has the numbers of verifications.
	Verifications *verification.Service
	// Issuer has the credentials of certificates.
	Issuer *issuer.Service

	patterns []string
}

// call is an authenticated request.
type call struct {
	*http.Request

	token       *token.Token
	institution *account.Institution
}

// endpoint handles a call that is authenticated and permitted.
type endpoint func(w http.ResponseWriter, c *call) error

// Handler returns the handler for all routes. The handler authenticates each request before it matches
// the route. Therefore a client without a valid token cannot find out which routes exist.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, f endpoint, allowed ...token.Permission) {
		a.patterns = append(a.patterns, pattern)
		mux.Handle(pattern, web.Handler(writeError, func(w http.ResponseWriter, r *http.Request) error {
			c := callOf(r)
			if !c.token.Has(allowed...) {
				return fault.New(fault.Forbidden, "Forbidden - Insufficient permissions")
			}
			c.Request = r
			return f(w, c)
		}))
	}
	route("POST /business/certificate-vault", a.upload, token.VaultCreate)
	route("GET /business/certificate-vault", a.list, token.VaultList)
	route("GET /business/certificate-vault/{uuid}", a.view, token.VaultView)
	route("GET /business/certificate-vault/{uuid}/download", a.download, token.VaultDownload)
	route("POST /business/certificate-vault/{uuid}/retry", a.retry, token.VaultUpdate)
	route("POST /business/certificate-vault/{uuid}/revoke", a.revoke, token.VaultRevoke)
	route("POST /business/certificate-vault/{uuid}/replace", a.replace, token.VaultCreate)
	route("POST /business/certificate-vault/upload-file", a.uploadFile, token.VaultCreate)
	route("POST /business/certificate-vault/bulk", a.bulk, token.VaultCreate)
	route("GET /business/batches", a.batches, token.BatchList, token.VaultList)
	route("GET /business/batches/{batch_id}", a.batch, token.BatchView, token.VaultView)
	route("GET /business/certificates", a.generalList, token.CertificateList, token.VaultList)
	route("GET /business/certificates/{uuid}", a.generalView, token.CertificateView, token.VaultView)
	route("GET /business/certificates/{uuid}/download", a.generalDownload, token.CertificateDownload, token.VaultDownload)
	route("GET /business/certificates/{uuid}/credential", a.credential, token.CertificateDownload, token.VaultDownload)
	route("GET /business/certificate-templates", a.templates, token.TemplateList, token.TemplateIssue, token.VaultList)
	route("GET /business/certificate-templates/{id}", a.template, token.TemplateList, token.TemplateIssue)
	route("GET /business/certificate-templates/{id}/preview", a.thumbnail, token.TemplateList, token.TemplateIssue)
	route("POST /business/certificate-templates/{id}/preview", a.previewTemplate, token.TemplateList, token.TemplateIssue)
	route("POST /business/certificate-templates/{id}/issue", a.issue, token.TemplateIssue)
	route("GET /business/certificate-offers", a.offers, token.OfferList)
	route("GET /business/certificate-offers/{id}", a.offer, token.OfferView)
	route("GET /business/certificate-applications", a.applications, token.ApplicationList)
	route("POST /business/certificate-applications", a.createApplication, token.ApplicationCreate)
	route("GET /business/certificate-applications/{uuid}", a.application, token.ApplicationView)
	route("GET /business/certificate-applications/{uuid}/files/{id}", a.applicationFile, token.ApplicationView)
	review := func(name, text string, read stepReader) {
		route("POST /business/certificate-applications/{uuid}/"+name, a.applicationStep(text, read), token.ApplicationReview)
	}
	review("claim", "Application claimed.", bare(a.Applications.Claim))
	review("approve", "Application approved.", a.readApproval)
	review("reject", "Application rejected.", a.readRejection)
	review("hold", "Application put on hold.", a.readHold)
	review("release", "Application released.", bare(a.Applications.Release))
	review("withdraw", "Application withdrawn.", bare(a.Applications.Withdraw))
	return a.authenticate(onlyPost(web.Routes(mux, web.WriteJSONError)))
}

// onlyPost refuses methods other than POST on two paths whose last part the mux would otherwise
// match as the UUID of a certificate.
func onlyPost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/business/certificate-vault/upload-file", "/business/certificate-vault/bulk":
			if r.Method != http.MethodPost {
				web.SetRoute(r, "(unknown)")
				web.WriteJSONError(w, r, web.NotAllowed(w, r, http.MethodPost))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Patterns returns the patterns of the routes. Call Handler first.
func (a *API) Patterns() []string { return a.patterns }

type contextKey struct{}

func callOf(r *http.Request) *call {
	c, ok := r.Context().Value(contextKey{}).(*call)
	if !ok {
		// A request that did not pass authenticate has no permission.
		return &call{Request: r, token: &token.Token{}}
	}
	return c
}

func (a *API) authenticate(next http.Handler) http.Handler {
	return web.Handler(web.WriteJSONError, func(w http.ResponseWriter, r *http.Request) error {
		body.Watch(w, r)
		defer body.Drain(r)
		ctx := r.Context()
		web.SetRoute(r, "/business/ (no token)")
		t, inst, err := a.Tokens.Authenticate(ctx, bearer(r))
		if t == nil {
			return err
		}
		web.SetRoute(r, "/business/ (throttled)")
		if err := web.Throttle(w, a.Limit, strconv.FormatInt(t.ID, 10)); err != nil {
			return err
		}
		if err != nil {
			return err // the institution is disabled
		}
		if err := web.ThrottleInstitution(w, a.InstitutionLimit, inst.UUID, inst.Limits.Requests); err != nil {
			return err
		}
		web.SetRoute(r, "")
		if err := a.Tokens.Touch(ctx, t); err != nil {
			// The request succeeds even if the last use is not recorded.
			a.Log.WarnContext(ctx, "recording the last use of a token failed", slog.Any("error", err))
		}
		c := &call{Request: r, token: t, institution: inst}
		ctx = audit.WithActor(ctx, audit.Actor{
			Type: audit.Token, ID: strconv.FormatInt(t.ID, 10), Name: t.Name, Address: web.Client(r), RequestID: web.RequestID(r),
		})
		ctx, end, err := a.Replica.Begin(ctx, r.Method, "token:"+strconv.FormatInt(t.ID, 10))
		if err != nil {
			return err
		}
		defer end()
		inner := r.WithContext(context.WithValue(ctx, contextKey{}, c))
		next.ServeHTTP(w, inner)
		if inner.Pattern != "" {
			web.SetRoute(r, inner.Pattern)
		}
		return nil
	})
}

// bearer returns the credential of a request (RFC 6750, 2.1), or "". The case of the scheme does
// not matter (RFC 9110, 11.1).
func bearer(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "" // no header, or several, which are ambiguous
	}
	scheme, credential, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(credential)
}

// pathUUID returns the certificate's id in the path. The error is fault.NotFound if the id is invalid.
func (c *call) pathUUID() (string, error) {
	id, ok := parseUUID(c.PathValue("uuid"))
	if !ok {
		return "", fault.New(fault.NotFound, "No such certificate.")
	}
	return id, nil
}

// mediaType returns the media type of the body of a request, or "" if the header Content-Type is absent or
// malformed.
func mediaType(r *http.Request) string {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return mediaType
}

// parseUUID parses an id, and returns it in lower case. It accepts only the spelling that responses use,
// but in lower or upper case.
func parseUUID(raw string) (id string, ok bool) {
	u, err := uuid.Parse(raw)
	id = u.String()
	return id, err == nil && len(raw) == len(id)
}
