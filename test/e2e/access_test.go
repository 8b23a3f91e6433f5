//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

const (
	unauthorized = "Unauthorized - Invalid API token"
	forbidden    = "Forbidden - Insufficient permissions"
)

// permissions are the permissions that TestPermissions tests.
var permissions = append(slices.Clone(vault.Permissions),
	"certificate-template:list", "batch:list", "batch:view", "certificate:list", "certificate:view", "certificate:download")

// routes returns routes of the API, each with the permissions of which a token needs one. uuid is
// the UUID of the certificate in the paths.
func routes(uuid string) []struct {
	method, path string
	allowed      []string
} {
	const base = vault.CertificatesPath
	return []struct {
		method, path string
		allowed      []string
	}{
		{"POST", base, []string{"certificate-vault:create"}},
		{"GET", base, []string{"certificate-vault:list"}},
		{"GET", base + "/" + uuid, []string{"certificate-vault:view"}},
		{"GET", base + "/" + uuid + "/download", []string{"certificate-vault:download"}},
		{"POST", base + "/" + uuid + "/retry", []string{"certificate-vault:update"}},
		{"POST", base + "/" + uuid + "/revoke", []string{"certificate-vault:revoke"}},
		{"GET", "/business/certificate-templates", []string{"certificate-template:list", "certificate-template:issue", "certificate-vault:list"}},
	}
}

const unknownUUID = "0198c0de-0000-7000-8000-000000000000"

// send sends a request. A POST request has a body without a content type.
func send(t *testing.T, c *vault.Client, method, path string) *vault.Response {
	t.Helper()
	var req *http.Request
	var err error
	if method == http.MethodPost {
		req, err = c.Request(t.Context(), method, path, strings.NewReader("nonsense"))
	} else {
		req, err = c.Request(t.Context(), method, path, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Send(req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPermissions sends requests to each route with each permission. If the permission does not
// allow the request, the status is 403, even if the certificate does not exist. Otherwise the status
// is the result of outcome.
func TestPermissions(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	mine := f.upload(t, form("Owner"))
	f.await(t, mine.UUID, "approved")
	for _, permission := range permissions {
		c := f.as(t, f.token(t, "", permission))
		for _, uuid := range []string{mine.UUID, unknownUUID, "not-a-uuid"} {
			for _, r := range routes(uuid) {
				a := send(t, c, r.method, r.path)
				if !slices.Contains(r.allowed, permission) {
					wantProblem(t, a, 403, forbidden)
					continue
				}
				if want := outcome(r.method, r.path, uuid == mine.UUID); a.Status != want {
					t.Errorf("%s %s with %s: status = %d, want %d: %s", r.method, r.path, permission, a.Status, want, a.Body)
				}
			}
		}
	}
	a := get(t, f.as(t, f.token(t, "", "certificate-vault:list")), "/business/certificate-templates", 200)
	if strings.TrimSpace(string(a.Body)) != "[]" {
		t.Errorf("templates = %s, want an empty array", a.Body)
	}
}

// outcome returns the expected status of a permitted request of send. exists means that the
// certificate in the path exists.
func outcome(method, path string, exists bool) int {
	switch {
	case path == vault.CertificatesPath && method == http.MethodPost:
		return 415
	case path == vault.CertificatesPath || path == "/business/certificate-templates":
		return 200
	case !exists:
		return 404
	case strings.HasSuffix(path, "/retry"):
		return 400 // the certificate is approved
	case strings.HasSuffix(path, "/revoke"):
		return 415
	default:
		return 200
	}
}

// TestTokens sends requests to each route without a token, and with invalid, expired and revoked
// tokens.
func TestTokens(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		good := f.client.Token
		expiring := f.token(t, "1s", vault.Permissions...)
		revoked := f.revokedToken(t)
		eventually(t, 10*time.Second, "the token has expired", func() bool {
			return send(t, f.as(t, expiring), "GET", vault.CertificatesPath).Status == 401
		})
		for _, header := range []string{
			"", "Bearer", "Bearer ", "Bearer garbage", "Bearer " + good[:len(good)-1], "Bearer " + good + "0", "Bearer " + withOtherCharacter(good), "Basic " + good, good,
			"Bearer cvt_" + strings.Repeat("0", 36), "Bearer " + expiring, "Bearer " + revoked, "Bearer " + strings.ToUpper(good),
		} {
			for _, r := range routes(unknownUUID) {
				req, err := f.client.Request(t.Context(), r.method, r.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Del("Authorization")
				if header != "" {
					req.Header.Set("Authorization", header)
				}
				a, err := f.client.Send(req)
				if err != nil {
					t.Fatal(err)
				}
				wantProblem(t, a, 401, unauthorized)
			}
		}
		req, err := f.client.Request(t.Context(), "GET", vault.CertificatesPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "bearer "+good) // RFC 9110, 11.1: the scheme is case-insensitive
		a, err := f.client.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, a, 200)
	})
}

func withOtherCharacter(token string) string {
	at := len(token) / 2
	if token[at] == 'x' {
		return token[:at] + "y" + token[at+1:]
	}
	return token[:at] + "x" + token[at+1:]
}

// revokedToken creates a token, uses the token for a request, and revokes the token. It returns the
// revoked token.
func (f *fixture) revokedToken(t *testing.T) string {
	t.Helper()
	token := f.token(t, "", vault.Permissions...)
	get(t, f.as(t, token), vault.CertificatesPath, 200)
	res, err := vault.Run(t.Context(), f.Options, "", "token", "list", "--institution", f.institution.Slug, "--json")
	if err != nil || res.Code != 0 {
		t.Fatalf("token list: %+v, %v", res, err)
	}
	if strings.Contains(res.Stdout, token) {
		t.Error("token list shows the secret of a token")
	}
	var list []struct {
		ID json.Number `json:"id"`
	}
	if err := json.Unmarshal([]byte(res.Stdout), &list); err != nil || len(list) == 0 {
		t.Fatalf("token list printed no JSON list of tokens: %v: %s", err, res.Stdout)
	}
	res, err = vault.Run(t.Context(), f.Options, "", "token", "revoke", "--institution", f.institution.Slug, list[0].ID.String())
	if err != nil || res.Code != 0 {
		t.Fatalf("token revoke: %+v, %v", res, err)
	}
	return token
}

// TestOtherInstitution checks that an institution cannot find the records of another institution,
// and can upload the same certificate.
func TestOtherInstitution(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		mine := f.upload(t, form("Mine"))
		f.await(t, mine.UUID, "approved")
		other, err := f.CreateInstitution(t.Context(), "Southwind College", "SWC")
		if err != nil {
			t.Fatal(err)
		}
		token, err := f.CreateToken(t.Context(), other.Slug, "", vault.Permissions...)
		if err != nil {
			t.Fatal(err)
		}
		c := f.as(t, token)
		path := vault.CertificatesPath + "/" + mine.UUID
		unknown := get(t, c, vault.CertificatesPath+"/"+unknownUUID, 404)
		if a := get(t, c, path, 404); !bytes.Equal(a.Body, unknown.Body) {
			t.Errorf("response for a record of another institution = %s, want %s, as for an unknown record", a.Body, unknown.Body)
		}
		wantProblem(t, get(t, c, path+"/download", 404), 404, "")
		wantProblem(t, post(t, c, path+"/retry", "", 404), 404, "")
		wantProblem(t, post(t, c, path+"/revoke", `{"reason":"Not authorized"}`, 404), 404, "")
		if list := get(t, c, vault.CertificatesPath, 200); strings.Contains(string(list.Body), mine.UUID) {
			t.Error("the list shows a record of another institution")
		}
		// The same certificate in another institution is not a duplicate.
		a, err := c.Upload(t.Context(), form("Mine"))
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, a, 201)
		f.await(t, mine.UUID, "approved")
	})
}

// TestRoutes requests unknown routes, unknown records and unsupported methods. It also checks that
// responses have a request id.
func TestRoutes(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	c := f.client
	const base = vault.CertificatesPath
	for _, path := range []string{
		"/business", "/business//certificate-vault", "/business/", "/business/nothing", base + "/", base + "/not-a-uuid",
		base + "/" + unknownUUID, base + "/" + unknownUUID + "/nothing",
		base + "/{" + unknownUUID + "}", base + "/" + strings.ReplaceAll(unknownUUID, "-", ""), "/nothing", "/verify/NWU-0000000000000000", "/verify/x/qrcode.svg",
		"/files/" + unknownUUID + "/pdf", "/assets/nothing",
	} {
		t.Run("GET "+path, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, send(t, c, "GET", path), 404, "")
		})
	}
	for _, r := range []struct{ method, path, allow string }{
		{"DELETE", base, "GET, HEAD, POST"},
		{"PUT", base + "/" + unknownUUID, "GET, HEAD"},
		{"POST", base + "/" + unknownUUID, "GET, HEAD"},
		{"POST", base + "/" + unknownUUID + "/download", "GET, HEAD"},
		{"GET", base + "/" + unknownUUID + "/retry", "POST"},
		{"GET", base + "/" + unknownUUID + "/revoke", "POST"},
		{"POST", "/business/certificate-templates", "GET, HEAD"},
		{"PUT", "/verify", "GET, HEAD, POST"},
		{"DELETE", "/verify/NWU-0000000000000000", "GET, HEAD"},
	} {
		a := send(t, c, r.method, r.path)
		wantProblem(t, a, 405, "")
		if got := a.Header.Get("Allow"); got != r.allow {
			t.Errorf("%s %s: Allow = %q, want %q", r.method, r.path, got, r.allow)
		}
	}
	for _, path := range []string{base, base + "/" + unknownUUID, "/verify", "/nothing"} {
		if send(t, c, "GET", path).Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: the response has no request id", path)
		}
	}
}
