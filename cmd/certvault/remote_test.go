package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
)

// remoteVault is a fake vault whose responses the test defines. remote contains the flags with which a
// command connects to the vault, and dir is the folder for the files of the test.
type remoteVault struct {
	*testing.T

	dir    string
	remote []string
}

func newRemoteVault(t *testing.T, respond http.HandlerFunc) *remoteVault {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer cvt_secret" {
			t.Errorf("Authorization = %q, want Bearer cvt_secret", r.Header.Get("Authorization"))
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		respond(w, r)
	}))
	t.Cleanup(server.Close)
	s := &remoteVault{T: t, dir: t.TempDir()}
	s.remote = []string{
		"--url", server.URL, "--token-file", s.file("token", "cvt_secret\n"),
		"--ca", s.file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))),
	}
	return s
}

func (s *remoteVault) file(name, content string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *remoteVault) run(args ...string) (code int, stdout, stderr string) {
	s.Helper()
	return certvault(s.T, "", append(args, s.remote...)...)
}

func TestUpload(t *testing.T) {
	t.Parallel()
	status := "processing"
	s := newRemoteVault(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		} else {
			status = "approved"
		}
		_, _ = io.WriteString(w, `{"data": {"uuid": "u", "reference_id": "NWU-1", "verification_url": "https://vault.example.org/verify/NWU-1", "status": {"value": "`+status+`"}}}`)
	})
	args := []string{"upload", s.file("diploma.pdf", "%PDF"), "--title", "BSc", "--name", "Ada", "--email", "ada@example.org"}
	code, out, errs := s.run(args...)
	if code != exitDone || out != "NWU-1 processing\nhttps://vault.example.org/verify/NWU-1\n" || errs != "" {
		t.Errorf("exit code = %d, stdout = %q, stderr = %q, want the status processing and the address of the certificate", code, out, errs)
	}
	code, out, _ = s.run(append(args, "--wait", "--json")...)
	var created struct {
		Status struct{ Value string }
	}
	if err := json.Unmarshal([]byte(out), &created); code != exitDone || err != nil || created.Status.Value != "approved" {
		t.Errorf("exit code = %d, stdout = %s, %v, want JSON with the status approved", code, out, err)
	}
}

func TestFailedUpload(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status         int
		response, want string
	}{
		"invalid":   {422, `{"message": "First. (and 1 more error)", "errors": {"full_name": ["Too long."], "applicant_email": ["Not an address."]}}`, "--name: Too long.\n--email: Not an address."},
		"required":  {422, `{"message": "x", "errors": {"full_name": ["The full name field is required."], "certificate_file": ["The file is empty."]}}`, "FILE: The file is empty.\n--name is required."},
		"other":     {422, `{"message": "x", "errors": {"other": ["No."]}}`, "other: No."},
		"duplicate": {422, `{"message": "The certificate already exists", "errors": {"applicant_email": ["The certificate already exists"], "existing_uuid": ["u"]}}`, "The certificate already exists: u"},
		"forbidden": {403, `{"message": "Forbidden - Insufficient permissions"}`, "Forbidden - Insufficient permissions"},
		"failed":    {201, `{"data": {"uuid": "u", "status": {"value": "failed"}, "failure": {"code": "x", "message": "The PDF is damaged."}}}`, "The PDF is damaged."},
	} {
		s := newRemoteVault(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.response)
		})
		code, _, errs := s.run("upload", s.file("diploma.pdf", "%PDF"), "--title", "BSc", "--name", "Ada", "--email", "ada@example.org", "--wait")
		if code != exitRefused || errs != "certvault: "+tc.want+"\n" {
			t.Errorf("%s: exit code = %d, stderr = %q, want %q", name, code, errs, tc.want)
		}
	}
}

// TestUploadWarnsAboutTheName checks that the command warns if the file does not contain the
// recipient's name. The command must succeed if it cannot read the notices.
func TestUploadWarnsAboutTheName(t *testing.T) {
	t.Parallel()
	const warning = "warning: Grace Hopper does not appear in this file\n"
	notice := `[{"code": "form", "message": "x"}, {"code": "name_not_in_file", "message": "x"}]`
	for name, tc := range map[string]struct {
		view    int
		notices string
		args    []string
		want    string
	}{
		"waiting":          {200, notice, []string{"--wait"}, warning},
		"not waiting":      {200, notice, nil, warning},
		"JSON":             {200, notice, []string{"--json"}, warning},
		"name in the file": {200, `[{"code": "form", "message": "x"}]`, []string{"--wait"}, ""},
		"may not view":     {403, notice, nil, ""},
		"vault restarts":   {503, notice, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRemoteVault(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusCreated)
					_, _ = io.WriteString(w, `{"data": {"uuid": "u", "notices": [], "status": {"value": "processing"}}}`)
					return
				}
				w.WriteHeader(tc.view)
				_, _ = io.WriteString(w, `{"data": {"uuid": "u", "status": {"value": "approved"}, "notices": `+tc.notices+`}}`)
			})
			code, _, errs := s.run(append([]string{"upload", s.file("a.pdf", "%PDF"), "--title", "BSc", "--name", "Grace Hopper", "--email", "g@example.org"}, tc.args...)...)
			if code != exitDone || errs != tc.want {
				t.Errorf("exit code = %d, stderr = %q, want %q", code, errs, tc.want)
			}
		})
	}
}

// TestUploadSaysWhyItWaits checks that the command reports a refused connection at once, with the time
// for which it retries. Later messages are limited to one per retryEvery. The final error must say what to
// check.
func TestUploadSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "https://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s := newRemoteVault(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs firstLine
	errs.written = cancel
	var out bytes.Buffer
	began := time.Now()
	code := run(ctx, []string{"upload", s.file("a.pdf", "%PDF"), "--title", "BSc", "--name", "A", "--email", "a@example.org", "--url", address, "--token-file", s.remote[3]}, nil, &out, &errs)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	if code != exitRefused || !strings.Contains(lines[0], address+" does not respond (dial tcp") || !strings.Contains(lines[0], "connection refused); retrying for up to 16s") {
		t.Errorf("exit code = %d, stderr = %q, want exit code 1, the reason and the time for which the command retries", code, errs.String())
	}
	if took := time.Since(began); took > 5*time.Second || lines[len(lines)-1] != "certvault: interrupted" {
		t.Errorf("the command ended after %v with the line %q, want at most 5 s and the line certvault: interrupted", took, lines[len(lines)-1])
	}

	var later bytes.Buffer
	p := &retryPrinter{w: &later, url: address, last: time.Now().Add(-time.Minute)}
	p.print(client.Retrying{Err: errors.New("x"), Attempt: 3, Attempts: 6, Wait: 1740 * time.Millisecond})
	p.print(client.Retrying{Err: errors.New("x"), Attempt: 4, Attempts: 6, Wait: time.Second})
	if want := "certvault: attempt 3 of 6 failed; next attempt in 1.7s\n"; later.String() != want {
		t.Errorf("later lines = %q, want %q", later.String(), want)
	}

	refused := &url.Error{Op: "Post", URL: address, Err: errors.New("connection refused")}
	r := remote{URL: address}
	if got, want := r.userError(fmt.Errorf("POST /x: %w", refused)).Error(), address+" does not respond (connection refused); check that the vault is running and that --url is its address"; got != want {
		t.Errorf("error = %q, want %q", got, want)
	}
}

// firstLine is a buffer that calls written after each Write.
type firstLine struct {
	bytes.Buffer

	written func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	defer f.written()
	return f.Buffer.Write(p)
}

// TestUntrustedVault checks that the error about a self-signed TLS certificate names --ca.
func TestUntrustedVault(t *testing.T) {
	t.Parallel()
	s := newRemoteVault(t, func(http.ResponseWriter, *http.Request) { t.Error("the command sent a request, want none") })
	code, _, errs := certvault(t, "", append([]string{"upload", s.file("a.pdf", "%PDF"), "--title", "BSc", "--name", "A", "--email", "a@example.org"}, s.remote[:4]...)...)
	if code != exitRefused || !strings.Contains(errs, "is not trusted (") || !strings.Contains(errs, "--ca") || strings.Contains(errs, "retrying") {
		t.Errorf("exit code = %d, stderr = %q, want exit code 1 and an error that names --ca, without a retry", code, errs)
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	s := newRemoteVault(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "upload-file"):
			_, _ = io.WriteString(w, `{"data": {"file_id": "f", "expires_at": "2030-01-01T00:00:00Z"}}`)
		case strings.HasSuffix(r.URL.Path, "bulk"):
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"data": {"batch_id": "b", "total": 2, "status": "processing"}}`)
		case strings.HasSuffix(r.URL.Path, "certificate-vault"):
			_, _ = io.WriteString(w, `{"data": [{"uuid": "u2", "notices": []}], "links": {"next": null}}`)
		default:
			_, _ = io.WriteString(w, `{"data": {"id": "b", "status": "completed", "total": 2, "entries": [
				{"index": 2, "status": "approved", "uuid": "u2", "reference_id": "NWU-2"}, {"index": 3, "status": "failed", "uuid": "u3", "reference_id": "NWU-3", "error": "Damaged."}
			]}, "links": {"next": null}}`)
		}
	})
	s.file("a.pdf", "%PDF")
	list := s.file("class.csv", "title;name;email;file;id\nBSc;Ada;ada@example.org;a.pdf;1\nBSc;Bob;bob@example.org;a.pdf;2\n;No Title;n@example.org;a.pdf;3\n")
	code, out, errs := s.run("bulk", list)
	results := filepath.Join(s.dir, "class.results.csv")
	if code != exitRefused || out != "1 approved, 1 failed, 1 refused of 3 rows\n"+results+"\n" || !strings.Contains(errs, "not used: id") || strings.Contains(errs, "#") {
		t.Errorf("exit code = %d, stdout = %q, stderr = %q, want 1 approved, 1 failed and 1 refused row, and the unused column", code, out, errs)
	}
	text, err := os.ReadFile(results)
	if want := "row,status,uuid,reference_id,error\n2,approved,u2,NWU-2,\n3,failed,u3,NWU-3,Damaged.\n4,refused,,,The title is missing.\n"; err != nil || string(text) != want {
		t.Errorf("results = %s, %v, want %s", text, err, want)
	}
	s.file("good.csv", "title,name,email,file\nBSc,Ada,ada@example.org,a.pdf\n")
	var result bulkResult
	code, out, errs = s.run("bulk", filepath.Join(s.dir, "good.csv"), "--results", filepath.Join(s.dir, "out.csv"), "--json")
	if err := json.Unmarshal([]byte(out), &result); code != exitDone || err != nil || result.Approved != 1 || result.Rows != 1 || errs != "" {
		t.Errorf("exit code = %d, stdout = %s, stderr = %s, %v, want JSON with 1 approved row", code, out, errs, err)
	}
}

// TestBulkWarnsAboutNames checks that the command warns about each row whose file does not contain the
// recipient's name, and prints the number of these rows. If the token may not list certificates, the
// command must print that the names were not checked.
func TestBulkWarnsAboutNames(t *testing.T) {
	t.Parallel()
	const records = `{"data": [
		{"uuid": "other", "notices": [{"code": "name_not_in_file", "message": "x"}], "created_at": "2026-11-22T10:00:02Z"},
		{"uuid": "u3", "notices": [{"code": "form", "message": "x"}], "created_at": "2026-11-22T10:00:01Z"},
		{"uuid": "u2", "notices": [{"code": "name_not_in_file", "message": "x"}], "created_at": "2026-11-22T10:00:00Z"},
		{"uuid": "old", "notices": [], "created_at": "2026-11-22T09:00:00Z"}
	], "links": {"next": "x"}, "meta": {"next_cursor": "older"}}`
	list := "title,name,email,file\nBSc,Ada \x1b[2J,ada@example.org,a.pdf\nBSc,Bob,bob@example.org,a.pdf\nBSc,Revoked since,r@example.org,a.pdf\n"
	vault := func(status int) *remoteVault {
		s := newRemoteVault(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "upload-file"):
				_, _ = io.WriteString(w, `{"data": {"file_id": "f", "expires_at": "2030-01-01T00:00:00Z"}}`)
			case strings.HasSuffix(r.URL.Path, "bulk"):
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"data": {"batch_id": "b", "total": 2, "status": "processing"}}`)
			case strings.HasSuffix(r.URL.Path, "certificate-vault"):
				if r.URL.Query().Get("status") != "approved" || r.URL.Query().Get("cursor") == "older" {
					t.Errorf("query = %s, want status=approved, and no page that is older than the batch", r.URL.RawQuery)
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, records)
			default:
				_, _ = io.WriteString(w, `{"data": {"id": "b", "status": "completed", "total": 2, "created_at": "2026-11-22T10:00:00.4Z", "entries": [
					{"index": 2, "status": "approved", "uuid": "u2", "reference_id": "NWU-2"}, {"index": 3, "status": "approved", "uuid": "u3", "reference_id": "NWU-3"},
					{"index": 4, "status": "approved", "uuid": "u4", "reference_id": "NWU-4"}
				]}, "links": {"next": null}}`)
			}
		})
		s.file("a.pdf", "%PDF")
		s.file("class.csv", list)
		return s
	}
	s := vault(http.StatusOK)
	const warning = "warning: row 2: Ada \\x1b[2J does not appear in a.pdf\n"
	code, out, errs := s.run("bulk", filepath.Join(s.dir, "class.csv"))
	if code != exitDone || errs != warning || !strings.HasPrefix(out, "3 approved of 3 rows\n1 file does not contain the name of the recipient\n") {
		t.Errorf("exit code = %d, stdout = %q, stderr = %q, want a warning about row 2", code, out, errs)
	}
	var result bulkResult
	code, out, errs = s.run("bulk", filepath.Join(s.dir, "class.csv"), "--json")
	if err := json.Unmarshal([]byte(out), &result); code != exitDone || err != nil || errs != warning || result.NamesNotInFile == nil || *result.NamesNotInFile != 1 ||
		len(result.Warnings) != 1 || result.Warnings[0] != (bulkWarning{Row: 2, UUID: "u2", ReferenceID: "NWU-2", Code: client.NameNotInFile}) {
		t.Errorf("exit code = %d, stdout = %s, stderr = %q, error %v, want JSON with a warning about row 2", code, out, errs, err)
	}
	s = vault(http.StatusForbidden)
	code, out, errs = s.run("bulk", filepath.Join(s.dir, "class.csv"), "--json")
	if code != exitDone || !strings.Contains(out, `"names_not_in_file":null,"warnings":null`) || errs != "certvault: the names in the files were not checked: the token has no permission certificate-vault:list\n" {
		t.Errorf("without the permission: exit code = %d, stdout = %s, stderr = %q, want no warnings and the reason", code, out, errs)
	}
}

func TestInterruptedBulk(t *testing.T) {
	t.Parallel()
	s := newRemoteVault(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"message": "Unauthorized - Invalid API token"}`)
	})
	s.file("a.pdf", "%PDF")
	code, out, errs := s.run("bulk", s.file("class.csv", "title,name,email,file\nBSc,Ada,ada@example.org,a.pdf\n"))
	if code != exitRefused || !strings.Contains(out, "1 unfinished of 1 row\n") || !strings.Contains(errs, "Invalid API token; check the token in CERTVAULT_TOKEN or --token-file; run the same command again") {
		t.Errorf("exit code = %d, stdout = %q, stderr = %q, want 1 unfinished row and the advice to run the command again", code, out, errs)
	}
	s = newRemoteVault(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message": "No such batch."}`)
	})
	list := s.file("class.csv", "title,name,email,file\nBSc,Ada,,a.pdf\n") // an invalid row is not uploaded
	journal := s.file("class.csv.journal", `{"batch":{"key":"k","rows":[]}}
{"accepted":{"key":"k","id":"10000000-0000-4000-8000-000000000001"}}
`)
	if _, _, errs = s.run("bulk", list); !strings.Contains(errs, "does not have a batch that the journal "+journal+" names; use a token") || strings.Contains(errs, "again to continue") {
		t.Errorf("stderr = %q, want the advice to use another token", errs)
	}
}

func TestRemoteUsage(t *testing.T) {
	t.Parallel()
	s := newRemoteVault(t, func(http.ResponseWriter, *http.Request) { t.Error("the command sent a request, want none") })
	good := s.file("a.pdf", "%PDF")
	list := s.file("class.csv", "title,name,email,file\nBSc,Ada,ada@example.org,a.pdf\n")
	upload := []string{"upload", good, "--title", "BSc", "--name", "Ada", "--email", "ada@example.org"}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"plain HTTP":         {append(upload, "--url", "http://localhost", "--token-file", s.remote[3]), "https"},
		"no token":           {append(upload, "--url", "https://localhost", "--token-file", s.file("empty", "\n")), "CERTVAULT_TOKEN"},
		"no token file":      {append(upload, "--token-file", filepath.Join(s.dir, "none")), "--token-file"},
		"no CA":              {append(upload, "--token-file", s.remote[3], "--ca", good), "no certificate"},
		"no file":            {append([]string{"upload", filepath.Join(s.dir, "none.pdf")}, append(upload[2:], s.remote...)...), "none.pdf"},
		"no title":           {append([]string{"upload", good}, s.remote...), "--title"},
		"a token as a flag":  {append(upload, "--token", "cvt_secret"), "unknown flag --token"},
		"no list":            {append([]string{"bulk", filepath.Join(s.dir, "none.csv")}, s.remote...), "none.csv"},
		"an invalid list":    {append([]string{"bulk", s.file("bad.csv", "a,b\n1,2\n")}, s.remote...), "no column title"},
		"no folder of files": {append([]string{"bulk", list, "--files", filepath.Join(s.dir, "none")}, s.remote...), "--files"},
	} {
		code, out, errs := certvault(t, "", tc.args...)
		if code != exitUsage || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: exit code = %d, stdout = %q, stderr = %q, want exit code 2 and %q", name, code, out, errs, tc.want)
		}
	}
}

func TestBarIsOnlyOnTerminals(t *testing.T) {
	t.Parallel()
	if newBar(&bytes.Buffer{}) != nil {
		t.Error("newBar of a buffer returned a bar, want nil")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if newBar(file) != nil {
		t.Error("newBar of a file returned a bar, want nil")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var none *bar
	none.set(1, 2, "x")
	none.end()
	var out bytes.Buffer
	b := &bar{w: &out, width: 10}
	b.set(1, 2, "half")
	b.last = time.Time{}
	b.set(2, 2, "all")
	b.end()
	if want := "\r[#####.....]  50 %  half\r[##########] 100 %  all \r" + strings.Repeat(" ", len("[##########] 100 %  all")) + "\r"; out.String() != want {
		t.Errorf("output = %q, want %q", out.String(), want)
	}
}
