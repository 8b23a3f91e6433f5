package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/design"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	at := []string{"--data", data}
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return certvault(t, "", append(args, at...)...)
	}
	if code, _, errs := certvault(t, "correct horse battery staple\n", "institution", "create", "--data", data, "--name", "Northern University", "--prefix", "NWU",
		"--owner-email", "o@example.org", "--owner-name", "Owner", "--owner-password-stdin"); code != exitDone {
		t.Fatal(errs)
	}
	// The first start of the server creates the file store.
	if code, _, errs := run("template", "import", "--built-in", "guild", "--institution", "northern-university"); code != exitRefused || !strings.Contains(errs, "start certvault serve once") {
		t.Errorf("before the first start: exit code = %d, stderr = %q, want the advice to start the server once", code, errs)
	}
	for name, tc := range map[string]struct {
		code int
		want string
		args []string
	}{
		"no source":      {exitUsage, "either a file or --built-in", []string{"template", "import", "--institution", "x"}},
		"two sources":    {exitUsage, "either a file or --built-in", []string{"template", "import", "a.pdf", "--built-in", "guild", "--institution", "x"}},
		"no institution": {exitRefused, "There is no such institution", []string{"template", "import", "--built-in", "guild", "--institution", "x"}},
		"nothing":        {exitUsage, "--institution", []string{"template", "list"}},
	} {
		if code, out, errs := run(tc.args...); code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: exit code = %d, stdout = %q, stderr = %q, want exit code %d and %q", name, code, out, errs, tc.code, tc.want)
		}
	}
	code, out, errs := certvault(t, "", "template", "list", "--built-in", "--json")
	var designs []builtInRow
	if err := json.Unmarshal([]byte(out), &designs); code != exitDone || err != nil || len(designs) != 6 {
		t.Errorf("built-in designs: exit code = %d, %v, stdout = %s, stderr = %s, want 6 designs", code, err, out, errs)
	}
}

// TestTemplateProblems checks that the error contains the same messages as the panel, with the labels of
// the fields.
func TestTemplateProblems(t *testing.T) {
	t.Parallel()
	l := &design.Layout{Fields: []design.Field{{ID: "f1", Kind: design.Text, Label: "Greeting", Text: "{nam}"}, {ID: "f2", Kind: design.Title}}}
	err := templateError(design.Problems{
		{Field: "f1", Code: design.CodePlaceholder, Detail: "{nam}"}, {Field: "f2", Code: design.CodeFieldsOverlap, Detail: "f1"}, {Code: design.CodeQRMissing},
	}, l)
	want := `the template cannot be published; change it in the panel:
  Greeting: There is no placeholder {nam}. Use one of the buttons below the text.
  Certificate title: The field overlaps the field “Greeting”. If long texts can meet there, move one of them.
  The template needs exactly one QR code. Add the field “QR code”, or remove all but one.`
	if err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
}

func TestTemplateIssue(t *testing.T) {
	t.Parallel()
	var issued []string
	s := newRemoteVault(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch {
		case r.URL.Query().Get("dry_run") == "1" && strings.Contains(string(body), "Unlisted"):
			_, _ = io.WriteString(w, `{"message": "x", "data": {"total": 3, "valid": 0, "problems": [
				{"index": 0, "field": "full_name", "code": "no_room", "message": "It does not fit."}
			]}}`)
		case r.URL.Query().Get("dry_run") == "1" && strings.Contains(string(body), "Damaged"):
			_, _ = io.WriteString(w, `{"message": "x", "data": {"total": 2, "valid": 1, "problems": [{"index": 1, "field": "full_name", "code": "no_room", "message": "It does not fit."}]}}`)
		case r.URL.Query().Get("dry_run") == "1":
			_, _ = io.WriteString(w, `{"message": "x", "data": {"total": 2, "valid": 1, "problems": [{"index": 0, "field": "applicant_email", "code": "duplicate", "message": "It exists."}]}}`)
		case strings.HasSuffix(r.URL.Path, "/issue"):
			issued = append(issued, r.Header.Get("Idempotency-Key")+string(body))
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"data": {"batch_id": "b", "total": 2, "status": "processing"}}`)
		case strings.Contains(r.URL.Path, "certificate-templates"):
			_, _ = io.WriteString(w, `{"data": {"id": "t", "name": "Diploma", "columns": [{"name": "Grade", "required": true}]}}`)
		default:
			_, _ = io.WriteString(w, `{"data": {"id": "b", "status": "completed", "total": 2, "entries": [
				{"index": 0, "status": "approved", "uuid": "u2", "reference_id": "NWU-2"}, {"index": 1, "status": "approved", "uuid": "u3", "reference_id": "NWU-3"}
			]}, "links": {"next": null}}`)
		}
	})
	list := s.file("class.csv", "Full name;E-mail;grade;Room\nAda Obi;ada@example.org;A;1\nBo Ek;bo@example.org;B;2\n")
	for range 2 {
		code, out, errs := s.run("template", "issue", "t", list, "--name", "Class")
		if code != exitDone || !strings.HasPrefix(out, "2 approved of 2 rows\n") || !strings.Contains(errs, "not used: Room") {
			t.Errorf("exit code = %d, stdout = %q, stderr = %q, want 2 approved rows and the unused column", code, out, errs)
		}
	}
	want := `{"name":"Class","entries":[{"full_name":"Ada Obi","applicant_email":"ada@example.org","values":{"Grade":"A"}},{"full_name":"Bo Ek","applicant_email":"bo@example.org","values":{"Grade":"B"}}]}`
	if len(issued) != 2 || issued[0] != issued[1] || !strings.HasSuffix(issued[0], want) {
		t.Errorf("requests = %q, want two equal requests, with the same idempotency key and the body %s", issued, want)
	}
	results, err := os.ReadFile(filepath.Join(s.dir, "class.results.csv"))
	if want := "row,status,uuid,reference_id,error\n2,approved,u2,NWU-2,\n3,approved,u3,NWU-3,\n"; err != nil || string(results) != want {
		t.Errorf("results = %s, %v, want %s", results, err, want)
	}
	issued = nil
	code, out, errs := s.run("template", "issue", "t", s.file("bad.csv", "full_name,email\nAda,ada@example.org\nDamaged,bo@example.org\n"), "--json")
	var result issueResult
	if err := json.Unmarshal([]byte(out), &result); code != exitRefused || err != nil || result.Refused != 1 || result.Rows != 2 || len(issued) != 0 || !strings.Contains(errs, "nothing was issued") {
		t.Errorf("exit code = %d, stdout = %s, stderr = %s, %v, want one refused row, and no certificates issued", code, out, errs, err)
	}
	if code, out, _ := s.run("template", "issue", "t", list, "--check"); code != exitRefused || !strings.Contains(out, "Rows that can be issued: 1 of 2.") || len(issued) != 0 {
		t.Errorf("checking an issued list: exit code = %d, stdout = %q, want %d and one of 2 rows that can be issued", code, out, exitRefused)
	}
	many := s.file("many.csv", "full_name,email\nUnlisted,a@example.org\nUnlisted,b@example.org\nUnlisted,c@example.org\n")
	if code, out, errs := s.run("template", "issue", "t", many, "--check"); code != exitRefused || !strings.Contains(out, "Rows that can be issued: 0 of 3.") ||
		!strings.Contains(errs, "up to 2 more rows have problems") {
		t.Errorf("problems that are not listed: exit code = %d, stdout = %q, stderr = %q, want 2 more rows", code, out, errs)
	}
	for text, want := range map[string]string{"a,b\n1,2\n": "no column full_name", "full_name\nAda\n": "no column email", "": "empty"} {
		if code, _, errs := s.run("template", "issue", "t", s.file("x.csv", text)); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code = %d, stderr = %q, want %q", text, code, errs, want)
		}
	}
}
