package api

import (
	"bytes"
	"maps"
	"net/http"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/token"
)

// replace sends a replacement of a certificate with an idempotency key, which may be "".
func (v *vault) replace(uuid any, key string, parts ...part) *response {
	v.tb.Helper()
	id, ok := uuid.(string)
	if !ok {
		v.tb.Fatalf("the id is %v, want a string", uuid)
	}
	r := v.request(http.MethodPost, "/business/certificate-vault/"+id+"/replace", bytes.NewReader(form(v.tb, parts...)))
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return v.do(r)
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		old := data(t, v.post(form(t, append(v.validFields(), text("issue_date", "2026-06-30"), text("details", "Grade 1.0"), pdfFile(samplePDF(0)))...)))
		v.Work(1)
		better := pdfFile(pdftest.Sized("a better diploma", 0))
		a := v.replace(old["uuid"], "key", text("full_name", "Ada Lovelace"), better)
		if a.Status != http.StatusCreated {
			t.Fatalf("replacing a certificate: status = %d, want 201; body %s", a.Status, a.Body)
		}
		got := data(t, a)
		for field, want := range map[string]any{
			"full_name": "Ada Lovelace", "certificate_title": old["certificate_title"], "applicant_email": old["applicant_email"],
			"issue_date": "2026-06-30", "details": "Grade 1.0", "replaced_by": nil,
		} {
			if got[field] != want {
				t.Errorf("%s = %v, want %v", field, got[field], want)
			}
		}
		link := map[string]any{"uuid": old["uuid"], "reference_id": old["reference_id"]}
		if replaces, ok := got["replaces"].(map[string]any); !ok || !maps.Equal(replaces, link) {
			t.Errorf("replaces = %v, want %v", got["replaces"], link)
		}
		if again := v.replace(old["uuid"], "key", text("full_name", "Ada Lovelace"), better); again.Status != http.StatusCreated || !bytes.Equal(again.Body, a.Body) {
			t.Errorf("the same request again: status = %d, body %s; want the first response", again.Status, again.Body)
		}
		if second := v.replace(old["uuid"], "", pdfFile(pdftest.Sized("a third diploma", 0))); second.Status != http.StatusBadRequest || second.problem(t).Message != "Invalid operation" {
			t.Errorf("a second replacement: status = %d, body %s; want 400", second.Status, second.Body)
		}
		v.Work(1)
		after := data(t, v.get("/business/certificate-vault/"+old["uuid"].(string))) //nolint:forcetypeassert // it is checked above
		by, _ := after["replaced_by"].(map[string]any)
		state, _ := after["status"].(map[string]any)
		if state["value"] != "revoked" || by["uuid"] != got["uuid"] || by["reference_id"] != got["reference_id"] || after["revocation_reason"] != nil {
			t.Errorf("the replaced certificate is %v, want a revoked certificate without a reason, replaced by %v", after, got["uuid"])
		}
		v.upload("another.pdf")
		for _, list := range []string{"/business/certificate-vault", "/business/certificates"} {
			for query, want := range map[string]int{"replaced=true": 1, "replaced=false": 2, "replaced=": 3, "replaced=true&search=lovelace": 0} {
				if found := v.get(list + "?" + query).json(t)["data"].([]any); len(found) != want { //nolint:forcetypeassert // a panic fails the test too
					t.Errorf("%s?%s: %d certificates, want %d", list, query, len(found), want)
				}
			}
			if a := v.get(list + "?replaced=yes"); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "replaced" {
				t.Errorf("%s?replaced=yes: status = %d, body %s, want 422", list, a.Status, a.Body)
			}
		}
		if again := v.replace(old["uuid"], "key", text("full_name", "Ada Lovelace"), better); again.Status != http.StatusCreated || !bytes.Equal(again.Body, a.Body) {
			t.Errorf("the same request after the approval: status = %d, body %s; want the first response", again.Status, again.Body)
		}
		if late := v.replace(old["uuid"], "", pdfFile(pdftest.Sized("a third diploma", 0))); late.Status != http.StatusBadRequest {
			t.Errorf("replacing a replaced certificate: status = %d, want 400", late.Status)
		}
	})
}

func TestReplaceIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		old := v.upload("diploma.pdf")
		v.Work(1)
		rows, files := v.stored()
		other := pdfFile(pdftest.Sized("another diploma", 0))
		for name, tc := range map[string]struct {
			parts  []part
			status int
			fields string
		}{
			"the same file":    {[]part{pdfFile(samplePDF(0))}, http.StatusUnprocessableEntity, "certificate_file"},
			"no file":          {[]part{text("full_name", "Ada")}, http.StatusUnprocessableEntity, "certificate_file"},
			"an empty title":   {[]part{text("certificate_title", " "), other}, http.StatusUnprocessableEntity, "certificate_title"},
			"no such date":     {[]part{text("issue_date", "2026-02-30"), other}, http.StatusUnprocessableEntity, "issue_date"},
			"a refused file":   {[]part{pdfFile([]byte("%PDF-1.7"))}, http.StatusUnprocessableEntity, "certificate_file"},
			"only text fields": {append(v.validFields(), text("details", "x")), http.StatusUnprocessableEntity, "certificate_file"},
		} {
			if a := v.replace(old["uuid"], "", tc.parts...); a.Status != tc.status || a.fields(t) != tc.fields {
				t.Errorf("%s: status = %d, body %s; want %d with %s", name, a.Status, a.Body, tc.status, tc.fields)
			}
		}
		all := v.secret
		v.secret = v.token(v.institution("OTH"), nil, "certificate-vault:create", "certificate-vault:revoke", "certificate:view")
		if a := v.replace(old["uuid"], "", other); a.Status != http.StatusNotFound {
			t.Errorf("a token of another institution: status = %d, want 404", a.Status)
		}
		for _, only := range []string{"certificate-vault:create", "certificate-vault:revoke"} {
			v.secret = v.token(v.inst, nil, token.Permission(only))
			if a := v.replace(old["uuid"], "", other); a.Status != http.StatusForbidden {
				t.Errorf("a token with only %s: status = %d, want 403", only, a.Status)
			}
		}
		v.secret = all
		if r, f := v.stored(); r != rows || f != files {
			t.Errorf("%d certificates and %d files are stored, want %d and %d", r, f, rows, files)
		}
		if a := v.postJSON("/business/certificate-vault/"+old["uuid"].(string)+"/revoke", `{"reason":"Issued in error."}`); a.Status != http.StatusOK { //nolint:forcetypeassert // it is a text
			t.Fatalf("revoking: status = %d, want 200; body %s", a.Status, a.Body)
		}
		if a := v.replace(old["uuid"], "", other); a.Status != http.StatusBadRequest || a.problem(t).Message != "Invalid operation" {
			t.Errorf("replacing a revoked certificate: status = %d, body %s; want 400", a.Status, a.Body)
		}
	})
}
