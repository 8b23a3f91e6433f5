package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
)

// published publishes the template Diploma with the column Grade, and returns the path of its record.
func (v *vault) published() (path string) {
	v.tb.Helper()
	t := v.Template(v.inst, "Diploma", "meridian")
	l := t.Published.Layout
	l.Fields = append(slices.Clone(l.Fields), design.Field{
		ID: "grade", Kind: design.Column, Label: "Grade", Page: 1, Box: design.Box{60, 20, 120, 20}, Text: "{column:Grade}", Font: design.Font{Family: "Inter"}, Size: 10, Required: true,
	})
	t, err := v.Templates.Save(v.tb.Context(), v.inst, t.UUID, template.Draft{Revision: t.Published.Revision, Layout: l})
	if err == nil {
		t, err = v.Templates.Publish(v.tb.Context(), v.inst, t.UUID, t.Draft.Revision)
	}
	if err != nil {
		v.tb.Fatal(err)
	}
	return "/business/certificate-templates/" + t.UUID
}

// issued returns the JSON of an entry.
func issued(name, grade string) string {
	return fmt.Sprintf(`{"full_name": %q, "applicant_email": "%x@example.org", "certificate_title": "BSc Physics", "issue_date": "2026-06-30", "values": {"Grade": %q}}`,
		name, name[:min(len(name), 12)], grade)
}

func issuedList(list ...string) string { return `{"entries": [` + strings.Join(list, ", ") + `]}` }

// issueWith posts a JSON body with an idempotency key.
func (v *vault) issueWith(key, path, body string) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return v.do(r)
}

func TestTemplateRecords(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0, vaulttest.DrawTemplates)
	path := v.published()
	if _, err := v.Templates.Create(t.Context(), template.NewTemplate{Institution: v.inst, Name: "A draft", BuiltIn: "guild"}); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(v.get("/business/certificate-templates").Body, &list); err != nil || len(list) != 1 {
		t.Fatalf("templates = %v, error %v, want only the published template", list, err)
	}
	got := list[0]
	if got["name"] != "Diploma" || got["status"] != "published" || got["version"] != 2.0 || got["pages"] != 1.0 || got["preview_path"] != path+"/preview" {
		t.Errorf("template = %v, want the published version 2 of Diploma with 1 page", got)
	}
	if columns := fmt.Sprint(got["columns"]); columns != "[map[name:Grade required:true]]" {
		t.Errorf("columns = %s, want the required column Grade", columns)
	}
	detail := data(t, v.get(path))
	fields := detail["fields"].([]any)
	last := fields[len(fields)-1].(map[string]any)
	if fmt.Sprint(last["box"]) != "[60 20 120 20]" || last["text"] != "{column:Grade}" || last["min_size"] != 10.0 || last["align"] != "left" {
		t.Errorf("field = %v, want the box, the text, the minimum size and the alignment of the column Grade", last)
	}
	if a := v.get(path + "/preview"); a.Status != http.StatusOK || a.Header.Get("Content-Type") != "image/png" {
		t.Errorf("the picture: status = %d, type %s, want 200 with image/png", a.Status, a.Header.Get("Content-Type"))
	}
	if err := v.Templates.Archive(t.Context(), v.inst, strings.TrimPrefix(path, "/business/certificate-templates/")); err != nil {
		t.Fatal(err)
	}
	if a := v.get("/business/certificate-templates"); strings.TrimSpace(string(a.Body)) != "[]" {
		t.Errorf("with an archived template, the list is %s, want []", a.Body)
	}
	if got := data(t, v.get(path)); got["status"] != "archived" {
		t.Errorf("status = %v, want archived", got["status"])
	}
	for _, p := range []string{"/issue", "/preview"} {
		a := v.postJSON(path+p, issuedList(issued("Bo Ek", "A")))
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "template" {
			t.Errorf("%s of an archived template: status = %d, want 422 for the template; body %s", p, a.Status, a.Body)
		}
	}
	v.secret = v.token(v.inst, nil, token.VaultList)
	if a := v.get("/business/certificate-templates"); strings.TrimSpace(string(a.Body)) != "[]" {
		t.Errorf("for a token that may only list vault certificates, the list is %s, want []", a.Body)
	}
}

func TestIssue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0, vaulttest.DrawTemplates)
		path := v.published()
		body := `{"name": "Class of 2026", "notify": "now", "entries": [` + issued("Bo Ek", "A") + ", " + issued("محمد العلي", "B+") + `]}`
		first := v.issueWith("k1", path+"/issue", body)
		if first.Status != http.StatusAccepted {
			t.Fatalf("status = %d, want 202; body %s", first.Status, first.Body)
		}
		made := data(t, first)
		again := v.issueWith("k1", path+"/issue", body)
		if !bytes.Equal(again.Body, first.Body) || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("the repeated request: %s, want the first response", again.Body)
		}
		if a := v.issueWith("k1", path+"/issue", issuedList(issued("Somebody Else", "A"))); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("the key with other content: status = %d, want 422", a.Status)
		}
		id := made["batch_id"].(string)
		v.Until("the batch is finished", func() bool {
			got, err := v.Batches.ByUUID(t.Context(), v.inst.ID, id, "")
			return err == nil && got.Processing == 0
		})
		record := data(t, v.get("/business/batches/"+id))
		tmpl := record["template"].(map[string]any)
		if record["approved"] != 2.0 || record["source"] != "template" || record["name"] != "Class of 2026" || tmpl["name"] != "Diploma" || tmpl["version"] != 2.0 {
			t.Errorf("batch = %v, want two approved certificates of the template", record)
		}
		// The certificates of the list already exist.
		a := v.postJSON(path+"/issue", body)
		if got := a.fields(t); a.Status != http.StatusUnprocessableEntity || got != "entries.0.applicant_email entries.1.applicant_email" {
			t.Errorf("the same list again: status = %d, fields %s, want 422 for the address of each entry; body %s", a.Status, got, a.Body)
		}
		if n := v.count(`SELECT count(*) FROM batches`); n != 1 {
			t.Errorf("%d batches are stored, want 1", n)
		}
	})
}

func TestIssueRefusesRows(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0, vaulttest.DrawTemplates)
	path := v.published()
	bad := `{"entries": [` + strings.Join([]string{
		issued("Bo Ek", "A"),
		issued("Ada \U00013000 Obi", "A"),
		issued(strings.Repeat("W", 250), "A"),
		issued("No Grade", ""),
		`{"full_name": "Un Known", "applicant_email": "u@example.org", "certificate_title": "x", "values": {"Grade": "A", "Rank": "1"}}`,
		issued("Bo Ek", "B"),
		`{"full_name": 7, "applicant_email": "no address", "values": {"Grade": ["A"]}}`,
		`"text"`,
		`{"full_name": "Half", "applicant_email": "h@example.org", "values": {"Grade": "\ud800"}}`,
	}, ", ") + `]}`
	want := map[string]string{
		"entries.1.full_name":       "No font of this template has the characters \U00013000 (U+13000). Upload a font that has them, or ask the operator to install the package fonts-noto-core on the server",
		"entries.2.full_name":       "The full name field does not fit the template at its smallest size",
		"entries.3.values.Grade":    "The template requires the Grade field.",
		"entries.4.values.Rank":     "The template has no value named Rank.",
		"entries.5.applicant_email": "The entry would become the same certificate as entry 0",
		"entries.6.full_name":       "The full name field must be text.",
		"entries.6.applicant_email": "The applicant email field must be a valid email address.",
		"entries.6.values.Grade":    "The Grade field must be text.",
		"entries.7":                 "The entry must be an object with its fields.",
		"entries.8.values.Grade":    "The Grade field must be text in UTF-8 without NUL characters.",
	}
	a := v.postJSON(path+"/issue", bad)
	problems := a.problem(t).Errors
	for field, text := range want {
		if len(problems[field]) != 1 || !strings.HasPrefix(problems[field][0], text) {
			t.Errorf("the messages of %s are %q, want one that begins with %q", field, problems[field], text)
		}
	}
	if a.Status != http.StatusUnprocessableEntity || len(problems) != len(want) {
		t.Errorf("status = %d with %d fields, want 422 with %d; body %s", a.Status, len(problems), len(want), a.Body)
	}
	dry := v.postJSON(path+"/issue?dry_run=1", bad)
	result := data(t, dry)
	if dry.Status != http.StatusOK || result["total"] != 9.0 || result["valid"] != 1.0 || len(result["problems"].([]any)) != len(want) {
		t.Errorf("the dry run: status = %d, want 200 with 9 entries, 1 of them valid, and %d problems; body %s", dry.Status, len(want), dry.Body)
	}
	for body, status := range map[string]int{
		`{"entries": []}`:                http.StatusUnprocessableEntity,
		`{}`:                             http.StatusUnprocessableEntity,
		`{"entries": {}}`:                http.StatusUnprocessableEntity,
		`[]`:                             http.StatusUnprocessableEntity,
		`{"entries": [`:                  http.StatusUnprocessableEntity,
		`{"entries": [], "entries": []}`: http.StatusUnprocessableEntity,
		`{"name": "` + strings.Repeat("n", 256) + `", "entries": [` + issued("Bo Ek", "A") + `]}`: http.StatusUnprocessableEntity,
		`{"name": "a", "name": "b", "entries": [` + issued("Bo Ek", "A") + `]}`:                   http.StatusUnprocessableEntity,
		`{"notify": "2020-01-01T09:00:00Z", "entries": [` + issued("Bo Ek", "A") + `]}`:           http.StatusUnprocessableEntity,
		`{"entries": [` + strings.Repeat(`{},`, 5000) + `{}]}`:                                    http.StatusUnprocessableEntity,
	} {
		for _, query := range []string{"", "?dry_run=1"} {
			if a := v.postJSON(path+"/issue"+query, body); a.Status != status || a.problem(t).Message == "" {
				t.Errorf("%.40s%s: status = %d, want %d; body %.200s", body, query, a.Status, status, a.Body)
			}
		}
	}
	if a := v.postJSON(path+"/issue", `{"entries": [`+strings.Repeat(`{},`, 5000)+`{}]}`); !strings.Contains(string(a.Body), "5000 entries") {
		t.Errorf("5,001 entries: the body is %.300s, want a message with the limit of 5000 entries", a.Body)
	}
	for values, want := range map[string]string{
		`"values": [1]`: "The values field must be an object",
		`"values": {"Grade": "A"}, "values": {"Grade": "B"}`: "The values field is given more than once.",
	} {
		a := v.postJSON(path+"/issue", `{"entries": [{"full_name": "Bo Ek", "applicant_email": "b@example.org", `+values+`}]}`)
		if got := a.problem(t).Errors["entries.0.values"]; len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: the messages are %q, want one that begins with %q", values, got, want)
		}
	}
	if n := v.count(`SELECT (SELECT count(*) FROM batches) + (SELECT count(*) FROM certificates)`); n != 0 {
		t.Errorf("%d batches and certificates are stored, want none", n)
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0, vaulttest.DrawTemplates)
	path := v.published()
	a := v.postJSON(path+"/preview", `{"full_name": "Bo Ek", "certificate_title": "BSc Physics", "values": {"Grade": "A"}}`)
	if a.Status != http.StatusOK || a.Header.Get("Content-Type") != "application/pdf" || !bytes.HasPrefix(a.Body, []byte("%PDF-")) {
		t.Errorf("status = %d, type %s, body %.200s, want 200 with a PDF", a.Status, a.Header.Get("Content-Type"), a.Body)
	}
	a = v.postJSON(path+"/preview", ` {"full_name": "", "values": {"Grade": 7}}`)
	if got := a.fields(t); a.Status != http.StatusUnprocessableEntity || got != "values.Grade" && got != "full_name values.Grade" {
		t.Errorf("a value that is not text: status = %d, fields %s, want 422 for values.Grade, with or without full_name", a.Status, got)
	}
	if a := v.postJSON(path+"/preview", `[1]`); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("an array: status = %d, want 422", a.Status)
	}
	a = v.postJSON(path+"/preview", `{"full_name": "`+strings.Repeat("x", maxEntry)+`"}`)
	if a.Status != http.StatusRequestEntityTooLarge || string(a.Body) != `{"message":"The request body is larger than 256 KiB."}`+"\n" {
		t.Errorf("a body over the limit: status = %d, body %q, want 413 with the limit", a.Status, a.Body)
	}
	if a := v.postJSON(path+"/preview", ``); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("no body: status = %d, want 422", a.Status)
	}
}

// The responses for a template of another institution and for an unknown template are the same.
func TestTemplatesOfOtherInstitutions(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0, vaulttest.DrawTemplates)
	path := v.published()
	v.secret = v.token(v.institution("OTH"), nil, token.All...)
	unknown := "/business/certificate-templates/" + unknownID
	for _, op := range []string{"GET ", "GET /preview", "POST /preview", "POST /issue", "POST /issue?dry_run=1"} {
		method, suffix, _ := strings.Cut(op, " ")
		var bodies []string
		for _, p := range []string{path, unknown, "/business/certificate-templates/1"} {
			r := v.request(method, p+suffix, io.Reader(strings.NewReader(issuedList(issued("Bo Ek", "A")))))
			r.Header.Set("Content-Type", "application/json")
			a := v.do(r)
			if a.Status != http.StatusNotFound {
				t.Errorf("%s of %s: status = %d, want 404", op, p, a.Status)
			}
			bodies = append(bodies, string(a.Body))
		}
		if bodies[0] != bodies[1] || bodies[1] != bodies[2] {
			t.Errorf("%s: the responses are %s, want equal responses", op, bodies)
		}
	}
	if a := v.get("/business/certificate-templates"); strings.TrimSpace(string(a.Body)) != "[]" {
		t.Errorf("the list of the other institution is %s, want []", a.Body)
	}
}
