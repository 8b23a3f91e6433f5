package api

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
)

const unknownID = "00000000-0000-4000-8000-000000000000"

func TestAuthentication(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	foreign := newVault(t, dbtest.SQLite(t), 0).secret
	created, revoked, err := v.api.Tokens.Create(t.Context(), v.inst.ID, "revoked", token.All, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.api.Tokens.Revoke(t.Context(), v.inst.ID, created.ID); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, header string
		valid        bool
	}{
		{"a token", "Bearer " + v.secret, true},
		{"the scheme in lower case", "bearer " + v.secret, true},
		{"more spaces", "Bearer   " + v.secret, true},
		{"no header", "", false},
		{"no scheme", v.secret, false},
		{"another scheme", "Basic " + v.secret, false},
		{"no credential", "Bearer", false},
		{"a truncated token", "Bearer " + v.secret[:len(v.secret)-1], false},
		{"a token of another vault", "Bearer " + foreign, false},
		{"a revoked token", "Bearer " + revoked, false},
		{"an SQL injection", "Bearer ' OR 1=1 --", false},
	} {
		for _, target := range []string{"GET /business/certificate-vault", "GET /business/no-such-thing", "DELETE /business/certificate-vault", "GET /business/certificate-vault/" + unknownID} {
			method, path, _ := strings.Cut(target, " ")
			r := v.request(method, path, http.NoBody)
			r.Header.Set("Authorization", tc.header)
			a := v.do(r)
			if tc.valid {
				if a.Status == http.StatusUnauthorized {
					t.Errorf("%s: status = 401, want any other status", tc.name)
				}
				continue
			}
			if a.Status != http.StatusUnauthorized || a.problem(t).Message != "Unauthorized - Invalid API token" || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s, %s: status = %d, want 401 with the message about an invalid token; body %s; header %v, want a Bearer challenge", tc.name, target, a.Status, a.Body, a.Header)
			}
		}
	}
	if log := v.log.String(); strings.Contains(log, v.secret) || strings.Contains(log, revoked) || strings.Contains(log, "OR 1=1") {
		t.Error("the log contains a credential, want none")
	}
}

func TestExpiredToken(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	at := time.Now()
	v.api.Tokens = token.New(v.DB, func() time.Time { return at })
	expires := at.Add(time.Minute)
	v.secret = v.token(v.inst, &expires, token.VaultList)
	if a := v.get("/business/certificate-vault"); a.Status != http.StatusOK {
		t.Errorf("before the token expires: status = %d, want 200", a.Status)
	}
	at = expires
	if a := v.get("/business/certificate-vault"); a.Status != http.StatusUnauthorized {
		t.Errorf("when the token expires: status = %d, want 401", a.Status)
	}
}

func TestDisabledInstitution(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	if err := v.Accounts.Disable(t.Context(), v.inst.ID, "The contract ended."); err != nil {
		t.Fatal(err)
	}
	a := v.get("/business/certificate-vault")
	want := "The institution “" + v.inst.Name + "” is disabled: The contract ended. Ask the operator of this vault to enable it."
	if a.Status != http.StatusForbidden || a.problem(t).Message != want {
		t.Fatalf("status = %d, message = %q; want 403 and %q", a.Status, a.problem(t).Message, want)
	}
	if err := v.Accounts.Enable(t.Context(), v.inst.ID); err != nil {
		t.Fatal(err)
	}
	if a := v.get("/business/certificate-vault"); a.Status != http.StatusOK {
		t.Fatalf("after enabling: status = %d, want 200", a.Status)
	}
}

// A route accepts a token that has any one of the route's permissions. For every other token, the status is
// 403.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	secrets := map[token.Permission]string{}
	for _, p := range token.All {
		secrets[p] = v.token(v.inst, nil, p)
	}
	for target, allowed := range map[string][]token.Permission{
		"POST /business/certificate-vault":                                       {"certificate-vault:create"},
		"GET /business/certificate-vault":                                        {"certificate-vault:list"},
		"GET /business/certificate-vault/" + unknownID:                           {"certificate-vault:view"},
		"GET /business/certificate-vault/not-a-uuid":                             {"certificate-vault:view"},
		"GET /business/certificate-vault/" + unknownID + "/download":             {"certificate-vault:download"},
		"POST /business/certificate-vault/" + unknownID + "/retry":               {"certificate-vault:update"},
		"POST /business/certificate-vault/" + unknownID + "/revoke":              {"certificate-vault:revoke"},
		"POST /business/certificate-vault/upload-file":                           {"certificate-vault:create"},
		"POST /business/certificate-vault/bulk":                                  {"certificate-vault:create"},
		"GET /business/batches":                                                  {"batch:list", "certificate-vault:list"},
		"GET /business/batches/" + unknownID:                                     {"batch:view", "certificate-vault:view"},
		"GET /business/batches/not-a-uuid":                                       {"batch:view", "certificate-vault:view"},
		"GET /business/certificate-templates":                                    {"certificate-template:list", "certificate-template:issue", "certificate-vault:list"},
		"GET /business/certificate-templates/" + unknownID:                       {"certificate-template:list", "certificate-template:issue"},
		"GET /business/certificate-templates/not-a-uuid":                         {"certificate-template:list", "certificate-template:issue"},
		"GET /business/certificate-templates/" + unknownID + "/preview":          {"certificate-template:list", "certificate-template:issue"},
		"POST /business/certificate-templates/" + unknownID + "/preview":         {"certificate-template:list", "certificate-template:issue"},
		"POST /business/certificate-templates/" + unknownID + "/issue":           {"certificate-template:issue"},
		"POST /business/certificate-templates/" + unknownID + "/issue?dry_run=1": {"certificate-template:issue"},
		"GET /business/certificate-vault?page=0&no_such_filter=on":               {"certificate-vault:list"},
		"GET /business/certificates":                                             {"certificate:list", "certificate-vault:list"},
		"GET /business/certificates?no_such_filter=on":                           {"certificate:list", "certificate-vault:list"},
		"GET /business/certificates/" + unknownID:                                {"certificate:view", "certificate-vault:view"},
		"GET /business/certificates/not-a-uuid":                                  {"certificate:view", "certificate-vault:view"},
		"GET /business/certificates/" + unknownID + "/download":                  {"certificate:download", "certificate-vault:download"},
		"GET /business/certificate-offers":                                       {"certificate-offer:list"},
		"GET /business/certificate-offers/" + unknownID:                          {"certificate-offer:view"},
		"GET /business/certificate-applications":                                 {"certificate-application:list"},
		"POST /business/certificate-applications":                                {"certificate-application:create"},
		"GET /business/certificate-applications/" + unknownID:                    {"certificate-application:view"},
		"GET /business/certificate-applications/" + unknownID + "/files/x":       {"certificate-application:view"},
		"POST /business/certificate-applications/" + unknownID + "/claim":        {"certificate-application:review"},
		"POST /business/certificate-applications/" + unknownID + "/approve":      {"certificate-application:review"},
		"POST /business/certificate-applications/" + unknownID + "/reject":       {"certificate-application:review"},
		"POST /business/certificate-applications/" + unknownID + "/hold":         {"certificate-application:review"},
		"POST /business/certificate-applications/" + unknownID + "/release":      {"certificate-application:review"},
		"POST /business/certificate-applications/" + unknownID + "/withdraw":     {"certificate-application:review"},
	} {
		method, path, _ := strings.Cut(target, " ")
		for permission, secret := range secrets {
			r := v.request(method, path, strings.NewReader("no form"))
			r.Header.Set("Authorization", "Bearer "+secret)
			a := v.do(r)
			forbidden := a.Status == http.StatusForbidden
			if forbidden == slices.Contains(allowed, permission) {
				t.Errorf("%s with %s: status = %d, want 403 if and only if the token has none of the permissions of the route", target, permission, a.Status)
			}
			if forbidden && a.problem(t).Message != "Forbidden - Insufficient permissions" {
				t.Errorf("%s with %s: the body is %s, want the message for insufficient permissions", target, permission, a.Body)
			}
		}
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/business/", 404, ""},
		{"GET", "/business/no-such-thing", 404, ""},
		{"GET", "/business/certificate-vault/", 404, ""},
		{"GET", "/business/certificate-vault/" + unknownID + "/no-such-thing", 404, ""},
		{"DELETE", "/business/certificate-vault", 405, "GET, HEAD, POST"},
		{"PUT", "/business/certificate-vault/" + unknownID, 405, "GET, HEAD"},
		{"GET", "/business/certificate-vault/" + unknownID + "/retry", 405, "POST"},
		{"POST", "/business/certificate-templates", 405, "GET, HEAD"},
		{"GET", "/business/certificate-vault/bulk", 405, "POST"},
		{"GET", "/business/certificate-vault/upload-file", 405, "POST"},
		{"PUT", "/business/certificate-vault/bulk", 405, "POST"},
		{"DELETE", "/business/certificate-vault/upload-file", 405, "POST"},
		{"POST", "/business/batches", 405, "GET, HEAD"},
		{"DELETE", "/business/batches/" + unknownID, 405, "GET, HEAD"},
		{"GET", "/business/batches/" + unknownID + "/entries", 404, ""},
	} {
		a := v.do(v.request(tc.method, tc.path, http.NoBody))
		if a.Status != tc.status || a.Header.Get("Allow") != tc.allow || a.problem(t).Message == "" {
			t.Errorf("%s %s: status = %d and Allow = %q, want %d and %q, and a message", tc.method, tc.path, a.Status, a.Header.Get("Allow"), tc.status, tc.allow)
		}
		if a.Header.Get("X-Request-Id") == "" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: the header is %v, want X-Request-Id and Cache-Control: no-store", tc.method, tc.path, a.Header)
		}
	}
}

// The responses for another institution's record, an unknown record and an invalid id are the same.
func TestRecordsOfOtherInstitutions(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	id := v.upload("diploma.pdf")["uuid"].(string)
	if a := v.get("/business/certificate-vault/" + id); a.Status != http.StatusOK {
		t.Fatalf("the institution's certificate: status = %d, want 200; body %s", a.Status, a.Body)
	}
	if a := v.get("/business/certificate-vault/" + strings.ToUpper(id)); a.Status != http.StatusOK {
		t.Errorf("the certificate's id in upper case: status = %d, want 200; body %s", a.Status, a.Body)
	}
	// uuid.Parse accepts these spellings of the id, but the API does not.
	for _, spelling := range []string{"%7B" + id + "%7D", strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id} {
		if a := v.get("/business/certificate-vault/" + spelling); a.Status != http.StatusNotFound {
			t.Errorf("the id as %s: status = %d, want 404", spelling, a.Status)
		}
	}
	v.secret = v.token(v.institution("OTH"), nil, token.All...)
	for _, op := range []string{"GET ", "GET /download", "POST /retry", "POST /revoke"} {
		method, suffix, _ := strings.Cut(op, " ")
		var bodies [][]byte
		for _, wrong := range []string{id, unknownID, "1", "not-a-uuid", "%7B" + id + "%7D", strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id, id + "%00"} {
			r := v.request(method, "/business/certificate-vault/"+wrong+suffix, strings.NewReader(`{"reason": "x"}`))
			r.Header.Set("Content-Type", "application/json")
			a := v.do(r)
			if a.Status != http.StatusNotFound {
				t.Errorf("%s with %q: status = %d, want 404; body %s", op, wrong, a.Status, a.Body)
			}
			bodies = append(bodies, a.Body)
		}
		if len(slices.CompactFunc(bodies, bytes.Equal)) != 1 {
			t.Errorf("%s: the responses differ: %s", op, bodies)
		}
	}
	if a := v.get("/business/certificate-vault"); len(a.json(t)["data"].([]any)) != 0 {
		t.Errorf("the list of the other institution is not empty: %s", a.Body)
	}
}

func TestRateLimitPerToken(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 3)
	for i := range 3 {
		a := v.get("/business/certificate-templates")
		if a.Status != http.StatusOK || a.Header.Get("X-RateLimit-Limit") != "3" || a.Header.Get("X-RateLimit-Remaining") != strconv.Itoa(2-i) {
			t.Errorf("request %d: status = %d, want 200; header %v", i, a.Status, a.Header)
		}
	}
	a := v.get("/business/certificate-templates")
	wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.Status != http.StatusTooManyRequests || a.Header.Get("X-RateLimit-Remaining") != "0" || err != nil || wait < 1 || wait > 60 || a.problem(t).Message == "" {
		t.Errorf("over the limit: status = %d, want 429 with Retry-After from 1 to 60; header %v, body %s", a.Status, a.Header, a.Body)
	}
	v.secret = v.token(v.inst, nil, token.VaultList)
	if a := v.get("/business/certificate-templates"); a.Status != http.StatusOK {
		t.Errorf("another token of the institution: status = %d, want 200", a.Status)
	}
}

func TestRateLimitPerInstitution(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 100)
	if err := v.Accounts.SetLimits(t.Context(), v.inst.ID, account.Limits{Requests: 2}); err != nil {
		t.Fatal(err)
	}
	v.get("/business/certificate-templates")
	v.secret = v.token(v.inst, nil, token.All...) // all tokens of an institution share its limit
	if a := v.get("/business/certificate-templates"); a.Status != http.StatusOK || a.Header.Get("X-RateLimit-Limit") != "2" || a.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("status = %d, want 200; header %v", a.Status, a.Header)
	}
	a := v.get("/business/certificate-templates")
	if a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || !strings.Contains(a.problem(t).Message, "is 2 a minute") {
		t.Errorf("status = %d, want 429; header %v; body %s", a.Status, a.Header, a.Body)
	}
	v.secret = v.token(v.institution("OTH"), nil, token.All...)
	if a := v.get("/business/certificate-templates"); a.Status != http.StatusOK || a.Header.Get("X-RateLimit-Limit") != "100" {
		t.Errorf("another institution: status = %d, want 200; header %v", a.Status, a.Header)
	}
}

func TestTemplatesResponse(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	a := v.get("/business/certificate-templates")
	if a.Status != http.StatusOK || strings.TrimSpace(string(a.Body)) != "[]" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the list of templates: status = %d, want 200 with an empty JSON array; body %s", a.Status, a.Body)
	}
}
