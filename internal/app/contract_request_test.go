package app

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/test/contract"
)

// driveErrors sends requests that the operations must reject, and checks the status of each response. It
// also calls drivePermissions for each of these operations.
func (d *driver) driveErrors() {
	d.Helper()
	all := d.token(token.All...)
	fill := func(path string) string {
		return strings.NewReplacer("{uuid}", uuid.NewString(), "{batch_id}", uuid.NewString(), "{id}", uuid.NewString()).Replace(path)
	}
	want := func(request string, o contract.Operation, got, want int) {
		d.Helper()
		if got != want {
			d.Errorf("%s %s: status = %d, want %d", o.ID, request, got, want)
		}
	}
	for _, o := range d.checker.Operations() {
		if o.Webhook || !served(o.ID) || !strings.HasPrefix(o.Path, "/business/") {
			continue
		}
		path := fill(o.Path)
		want("without a token", o, d.send(o.Method, path, "", nil, ""), http.StatusUnauthorized)
		permissions := permissionsOf(o)
		others := slices.DeleteFunc(slices.Clone(token.All), func(p token.Permission) bool { return slices.Contains(permissions, p) })
		want("without the permission", o, d.send(o.Method, path, d.token(others...), nil, ""), http.StatusForbidden)
		d.drivePermissions(o, path)
		if path != o.Path {
			want("with an unknown record", o, d.send(o.Method, path, all, nil, ""), http.StatusNotFound)
			malformed := strings.NewReplacer("{uuid}", "1", "{batch_id}", "1", "{id}", "1").Replace(o.Path)
			want("with a malformed id", o, d.send(o.Method, malformed, all, nil, ""), http.StatusNotFound)
		}
		if o.Parameters.GetByInAndName(openapi3.ParameterInQuery, "page") != nil && path == o.Path {
			want("with an unknown parameter", o, d.send(o.Method, path+"?no_such=1", all, nil, ""), http.StatusUnprocessableEntity)
			want("with page 0", o, d.send(o.Method, path+"?page=0", all, nil, ""), http.StatusUnprocessableEntity)
		}
		if o.RequestBody != nil && path == o.Path {
			want("with a body of another type", o, d.send(o.Method, path, all, http.Header{"Content-Type": {"text/csv"}}, "a,b"), http.StatusUnsupportedMediaType)
		}
		want("with the method PUT", o, d.send(http.MethodPut, path, all, nil, ""), http.StatusMethodNotAllowed)
	}
	want("", contract.Operation{ID: "an unknown route"}, d.send(http.MethodGet, "/business/no-such-thing", all, nil, ""), http.StatusNotFound)
}

// drivePermissions checks that a token with all permissions of an alternative (see alternativesOf) may call
// the operation. If an alternative has several permissions, a token with only one of them may not.
func (d *driver) drivePermissions(o contract.Operation, path string) {
	d.Helper()
	for _, alternative := range alternativesOf(o) {
		if status := d.send(o.Method, path, d.token(alternative...), nil, ""); status == http.StatusForbidden || status == http.StatusUnauthorized {
			d.Errorf("%s with the permissions %v: status = %d, want neither 401 nor 403", o.ID, alternative, status)
		}
		if len(alternative) == 1 {
			continue
		}
		for _, p := range alternative {
			if status := d.send(o.Method, path, d.token(p), nil, ""); status != http.StatusForbidden {
				d.Errorf("%s with only the permission %s: status = %d, want 403", o.ID, p, status)
			}
		}
	}
}

// permissionsOf returns the permissions of all alternatives of an operation.
func permissionsOf(o contract.Operation) []token.Permission {
	return slices.Concat(alternativesOf(o)...)
}

// alternativesOf returns the alternatives of an operation. A token with all permissions of one alternative
// may call the operation.
func alternativesOf(o contract.Operation) (list [][]token.Permission) {
	for _, requirement := range *o.Security {
		var all []token.Permission
		for _, p := range requirement["token"] {
			all = append(all, token.Permission(p))
		}
		list = append(list, all)
	}
	return list
}

// driveRanges requests the verified PDF with the headers Range, If-None-Match and If-Match.
func (d *driver) driveRanges() {
	d.Helper()
	created := d.approved()
	secret := d.token(token.All...)
	tag := `"` + *created.VerifiedSHA256 + `"`
	targets := []string{"/business/certificate-vault/" + created.UUID + "/download", *created.PDFPath}
	if served("downloadCertificate") {
		targets = append(targets, "/business/certificates/"+created.UUID+"/download")
	}
	for _, target := range targets {
		ranges := map[string]int{"": 200, "bytes=0-99": 206, "bytes=0-9,20-29": 206}
		if served("error of a range") {
			ranges["bytes=999999999-"] = http.StatusRequestedRangeNotSatisfiable
		}
		for name, want := range ranges {
			header := http.Header{}
			if name != "" {
				header.Set("Range", name)
			}
			if got := d.send(http.MethodGet, target, secret, header, ""); got != want {
				d.Errorf("%s with the range %q: status = %d, want %d", target, name, got, want)
			}
		}
		if got := d.send(http.MethodGet, target, secret, http.Header{"If-None-Match": {tag}}, ""); got != http.StatusNotModified {
			d.Errorf("%s with its ETag in If-None-Match: status = %d, want 304", target, got)
		}
		if got := d.send(http.MethodGet, target, secret, http.Header{"If-Match": {`"another"`}}, ""); got != http.StatusPreconditionFailed {
			d.Errorf("%s with another ETag in If-Match: status = %d, want 412", target, got)
		}
	}
	if !served("error of a range") {
		res := d.unchecked(http.MethodGet, targets[0], secret, http.Header{"Range": {"bytes=999999999-"}}, "")
		if res.header.Get("Content-Type") == "application/json" {
			d.Error("a range outside of the file got a JSON response, but unserved contains \"error of a range\"")
		}
	}
}

// driveRepetitions sends the same request several times with one idempotency key, and then a different
// request with the same key.
func (d *driver) driveRepetitions() {
	d.Helper()
	created := d.approved()
	secret := d.token(token.All...)
	path := "/business/certificate-vault/" + created.UUID + "/revoke"
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"5f0c1c5e-4d0e-4d0b-9c39-0a6f1f4e7c1b"}}
	const body = `{"reason": "Issued in error."}`
	first := d.unchecked(http.MethodPost, path, secret, header, body)
	again := d.unchecked(http.MethodPost, path, secret, header, body)
	replayed := again.header.Get("Idempotency-Replayed") == "true"
	if first.status != http.StatusOK || again.status != http.StatusOK || replayed != served("idempotency") {
		d.Errorf("statuses = %d and %d, second response replayed = %v; want 200, 200 and %v", first.status, again.status, replayed, served("idempotency"))
	}
	if !served("idempotency") {
		return
	}
	if got := d.send(http.MethodPost, path, secret, header, body); got != http.StatusOK {
		d.Errorf("a repeated request: status = %d, want 200", got)
	}
	if got := d.send(http.MethodPost, path, secret, header, `{"reason": "Another."}`); got != http.StatusUnprocessableEntity {
		d.Errorf("the same key with another body: status = %d, want 422", got)
	}
}
