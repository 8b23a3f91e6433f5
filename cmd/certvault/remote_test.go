package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// station is a folder with the settings to reach a vault whose answers the test decides.
type station struct {
	*testing.T

	dir    string
	remote []string
}

func newStation(t *testing.T, answer http.HandlerFunc) *station {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer cvt_secret" {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	s := &station{T: t, dir: t.TempDir()}
	s.remote = []string{
		"--url", server.URL, "--token-file", s.file("token", "cvt_secret\n"),
		"--ca", s.file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))),
	}
	return s
}

func (s *station) file(name, content string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *station) run(args ...string) (code int, stdout, stderr string) {
	s.Helper()
	return certvault(s.T, "", append(args, s.remote...)...)
}

func TestUpload(t *testing.T) {
	t.Parallel()
	status := "processing"
	s := newStation(t, func(w http.ResponseWriter, r *http.Request) {
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
		t.Errorf("exit %d: %q, %q", code, out, errs)
	}
	code, out, _ = s.run(append(args, "--wait", "--json")...)
	var made struct {
		Status struct{ Value string }
	}
	if err := json.Unmarshal([]byte(out), &made); code != exitDone || err != nil || made.Status.Value != "approved" {
		t.Errorf("exit %d: %s, %v", code, out, err)
	}
}

func TestUploadThatFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status       int
		answer, says string
	}{
		"refused":   {422, `{"message": "First. (and 1 more error)", "errors": {"full_name": ["Too long."], "applicant_email": ["No address."]}}`, "applicant_email: No address.; full_name: Too long."},
		"forbidden": {403, `{"message": "Forbidden - Insufficient permissions"}`, "Forbidden - Insufficient permissions"},
		"failed":    {201, `{"data": {"uuid": "u", "status": {"value": "failed"}, "failure": {"code": "x", "message": "The PDF is damaged."}}}`, "The PDF is damaged."},
	} {
		s := newStation(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.answer)
		})
		code, _, errs := s.run("upload", s.file("diploma.pdf", "%PDF"), "--title", "BSc", "--name", "Ada", "--email", "ada@example.org", "--wait")
		if code != exitRefused || errs != "certvault: "+tc.says+"\n" {
			t.Errorf("%s: exit %d, %q", name, code, errs)
		}
	}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	s := newStation(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "upload-file"):
			_, _ = io.WriteString(w, `{"data": {"file_id": "f", "expires_at": "2030-01-01T00:00:00Z"}}`)
		case strings.HasSuffix(r.URL.Path, "bulk"):
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"data": {"batch_id": "b", "total": 2, "status": "processing"}}`)
		default:
			_, _ = io.WriteString(w, `{"data": {"id": "b", "status": "completed", "total": 2, "entries": [
				{"index": 2, "status": "approved", "uuid": "u2", "reference_id": "NWU-2"}, {"index": 3, "status": "failed", "uuid": "u3", "reference_id": "NWU-3", "error": "Damaged."}
			]}, "links": {"next": null}}`)
		}
	})
	s.file("a.pdf", "%PDF")
	list := s.file("class.csv", "title;name;email;file;id\nBSc;Ada;ada@example.org;a.pdf;1\nBSc;Bob;bob@example.org;a.pdf;2\n;Nobody;n@example.org;a.pdf;3\n")
	code, out, errs := s.run("bulk", list)
	results := filepath.Join(s.dir, "class.results.csv")
	if code != exitRefused || out != "1 approved, 1 failed, 1 refused of 3 rows\n"+results+"\n" || !strings.Contains(errs, "not used: id") || strings.Contains(errs, "#") {
		t.Errorf("exit %d: %q, %q", code, out, errs)
	}
	text, err := os.ReadFile(results)
	if want := "row,status,uuid,reference_id,error\n2,approved,u2,NWU-2,\n3,failed,u3,NWU-3,Damaged.\n4,refused,,,The title is missing.\n"; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	s.file("good.csv", "title,name,email,file\nBSc,Ada,ada@example.org,a.pdf\n")
	var answer bulkAnswer
	code, out, errs = s.run("bulk", filepath.Join(s.dir, "good.csv"), "--results", filepath.Join(s.dir, "out.csv"), "--json")
	if err := json.Unmarshal([]byte(out), &answer); code != exitDone || err != nil || answer.Approved != 1 || answer.Rows != 1 || errs != "" {
		t.Errorf("exit %d: %s, %s, %v", code, out, errs, err)
	}
}

func TestInterruptedBulk(t *testing.T) {
	t.Parallel()
	s := newStation(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"message": "Unauthorized - Invalid API token"}`)
	})
	s.file("a.pdf", "%PDF")
	code, out, errs := s.run("bulk", s.file("class.csv", "title,name,email,file\nBSc,Ada,ada@example.org,a.pdf\n"))
	if code != exitRefused || !strings.Contains(out, "1 unfinished of 1 rows") || !strings.Contains(errs, "Invalid API token; run the same command again") {
		t.Errorf("exit %d: %q, %q", code, out, errs)
	}
}

func TestRemoteUsage(t *testing.T) {
	t.Parallel()
	s := newStation(t, func(http.ResponseWriter, *http.Request) { t.Error("the vault was asked") })
	good := s.file("a.pdf", "%PDF")
	list := s.file("class.csv", "title,name,email,file\nBSc,Ada,ada@example.org,a.pdf\n")
	upload := []string{"upload", good, "--title", "BSc", "--name", "Ada", "--email", "ada@example.org"}
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"plain HTTP":         {append(upload, "--url", "http://localhost", "--token-file", s.remote[3]), "https"},
		"no token":           {append(upload, "--url", "https://localhost", "--token-file", s.file("empty", "\n")), "CERTVAULT_TOKEN"},
		"no token file":      {append(upload, "--token-file", filepath.Join(s.dir, "none")), "--token-file"},
		"no CA":              {append(upload, "--token-file", s.remote[3], "--ca", good), "no certificate"},
		"no file":            {append([]string{"upload", filepath.Join(s.dir, "none.pdf")}, append(upload[2:], s.remote...)...), "none.pdf"},
		"no title":           {append([]string{"upload", good}, s.remote...), "--title"},
		"a token as a flag":  {append(upload, "--token", "cvt_secret"), "unknown flag --token"},
		"no list":            {append([]string{"bulk", filepath.Join(s.dir, "none.csv")}, s.remote...), "none.csv"},
		"a list of no use":   {append([]string{"bulk", s.file("bad.csv", "a,b\n1,2\n")}, s.remote...), "no column title"},
		"no folder of files": {append([]string{"bulk", list, "--files", filepath.Join(s.dir, "none")}, s.remote...), "--files"},
	} {
		code, out, errs := certvault(t, "", tc.args...)
		if code != exitUsage || !strings.Contains(errs, tc.says) || out != "" {
			t.Errorf("%s: exit %d, %q, %q; want %q", name, code, out, errs, tc.says)
		}
	}
}

func TestBarIsForTerminals(t *testing.T) {
	t.Parallel()
	if newBar(&bytes.Buffer{}) != nil {
		t.Error("a bar in a buffer")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if newBar(file) != nil {
		t.Error("a bar in a file")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var none *bar
	none.set(1, 2, "x")
	none.end()
	var out bytes.Buffer
	b := &bar{w: &out, width: 10}
	b.set(1, 2, "half of it")
	b.last = time.Time{}
	b.set(2, 2, "all")
	b.end()
	if want := "\r[#####.....]  50 %  half of it\r[##########] 100 %  all       \r" + strings.Repeat(" ", len("[##########] 100 %  all")) + "\r"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
