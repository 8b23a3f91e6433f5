package bulkclient

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
)

// fake is a fake of the vault's API for batches. It stores all data in memory.
type fake struct {
	t      *testing.T
	server *httptest.Server

	mu        sync.Mutex
	files     map[string]bool   // by id
	created   map[string]string // uuid by e-mail, title and date
	batches   map[string][]client.BatchEntry
	responses map[string]response // by idempotency key
	// uploads, submissions and entries count executed uploads, executed submissions and accepted
	// entries. A repeated request with the same key is not counted.
	uploads, submissions, entries int
	// before is called before each request is executed. If it returns a status other than 0, the
	// response has this status.
	before func(r *http.Request) int
	// dropResponse reports whether to close the connection instead of sending the response.
	dropResponse func(r *http.Request) bool
}

type response struct {
	status int
	body   []byte
	hash   [32]byte
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, files: map[string]bool{}, created: map[string]string{}, batches: map[string][]client.BatchEntry{}, responses: map[string]response{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /business/certificate-vault/upload-file", f.idempotent(f.uploadFile))
	mux.HandleFunc("POST /business/certificate-vault/bulk", f.idempotent(f.bulk))
	mux.HandleFunc("GET /business/batches/{id}", f.batch)
	f.server = httptest.NewTLSServer(mux)
	t.Cleanup(f.server.Close)
	return f
}

// locked calls do while the fake executes no request, because requests of a canceled run may still be in
// progress.
func (f *fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// done returns the numbers of executed uploads, accepted entries and executed submissions.
func (f *fake) done() (uploads, entries, submissions int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.uploads, f.entries, f.submissions
}

func (f *fake) client() *client.Client {
	f.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(f.server.Certificate())
	c, err := client.New(client.Config{URL: f.server.URL, Token: "cvt_test", RootCAs: roots, Retry: client.Retry{Attempts: 3, Wait: time.Millisecond, MaxWait: time.Second}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.CloseIdleConnections)
	return c
}

// idempotent returns a handler that calls do once for each idempotency key.
func (f *fake) idempotent(do func(form map[string]string, file []byte) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		form, file := f.form(r)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.before != nil {
			if status := f.before(r); status != 0 {
				send(w, status, map[string]string{"message": "The vault is not available."})
				return
			}
		}
		key := r.Header.Get("Idempotency-Key")
		if key == "" || r.Header.Get("Authorization") != "Bearer cvt_test" {
			f.t.Errorf("%s: Idempotency-Key = %q, Authorization = %q, want a key and the token cvt_test", r.URL.Path, key, r.Header.Get("Authorization"))
		}
		content := sha256.Sum256(fmt.Appendf(nil, "%v %x", form, file))
		a, known := f.responses[key]
		if known && a.hash != content {
			send(w, 422, map[string]string{"message": "The key was used with other content."})
			return
		}
		if !known {
			status, body := do(form, file)
			text, err := json.Marshal(body)
			if err != nil {
				f.t.Error(err)
			}
			a = response{status: status, body: text, hash: content}
			f.responses[key] = a
		}
		if f.dropResponse != nil && f.dropResponse(r) {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	}
}

func send(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func (f *fake) form(r *http.Request) (form map[string]string, file []byte) {
	mr, err := r.MultipartReader()
	if err != nil {
		f.t.Error(err)
		return nil, nil
	}
	form = map[string]string{}
	for {
		part, err := mr.NextPart()
		if err != nil {
			return form, file
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return form, file // the client closed the connection
		}
		if part.FileName() != "" {
			file = b
			continue
		}
		if _, duplicate := form[part.FormName()]; duplicate {
			f.t.Errorf("the form has the field %s twice", part.FormName())
		}
		form[part.FormName()] = string(b)
	}
}

func (f *fake) uploadFile(_ map[string]string, file []byte) (int, any) {
	f.uploads++
	if strings.HasPrefix(string(file), "bad") {
		return 422, map[string]any{"message": "The file is not a PDF.", "errors": map[string][]string{"file": {"The file is not a PDF."}}}
	}
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", f.uploads)
	f.files[id] = true
	return 201, map[string]any{"message": "ok", "data": map[string]any{"file_id": id, "file_name": "x", "mime_type": "application/pdf", "size": len(file)}}
}

var entryField = regexp.MustCompile(`^entries\[(\d{1,6})\]\[([a-z_]+)\]$`)

func (f *fake) bulk(form map[string]string, _ []byte) (int, any) {
	f.submissions++
	entries := map[int]map[string]string{}
	for name, value := range form {
		m := entryField.FindStringSubmatch(name)
		if m == nil {
			f.t.Errorf("the field %q does not belong to an entry", name)
			continue
		}
		n, _ := strconv.Atoi(m[1])
		if entries[n] == nil {
			entries[n] = map[string]string{}
		}
		entries[n][m[2]] = value
	}
	if len(entries) == 0 || len(entries) > 5000 {
		f.t.Errorf("the batch has %d entries, want 1 to 5000", len(entries))
	}
	errs := map[string][]string{}
	for n, e := range entries {
		if !f.files[e["file_id"]] {
			errs[fmt.Sprintf("entries.%d.file_id", n)] = []string{"The selected file is unknown."}
		}
		if strings.HasSuffix(e["applicant_email"], "@") {
			errs[fmt.Sprintf("entries.%d.applicant_email", n)] = []string{"The applicant email field must be a valid email address."}
		}
	}
	if len(errs) > 0 {
		return 422, map[string]any{"message": "The batch is invalid.", "errors": errs}
	}
	id := fmt.Sprintf("10000000-0000-4000-8000-%012d", f.submissions)
	f.entries += len(entries)
	for n := range 1_000_000 {
		e, ok := entries[n]
		if !ok {
			continue
		}
		f.batches[id] = append(f.batches[id], f.entry(n, e))
		if delete(entries, n); len(entries) == 0 {
			break
		}
	}
	return 202, map[string]any{"message": "ok", "data": map[string]any{"batch_id": id, "total": len(f.batches[id]), "status": "processing"}}
}

func (f *fake) entry(n int, e map[string]string) client.BatchEntry {
	key := strings.ToLower(e["applicant_email"]) + "|" + e["certificate_title"] + "|" + e["issue_date"]
	uuid, reference, reason := fmt.Sprintf("20000000-0000-4000-8000-%012d", len(f.created)), "NWU-0000000000000000", "The processing failed."
	if _, exists := f.created[key]; exists {
		reason = "The certificate already exists."
		return client.BatchEntry{Index: n, Status: client.EntryRejected, Error: &reason}
	}
	f.created[key] = uuid
	if strings.HasPrefix(e["full_name"], "Fail") {
		return client.BatchEntry{Index: n, Status: client.EntryFailed, UUID: &uuid, ReferenceID: &reference, Error: &reason}
	}
	return client.BatchEntry{Index: n, Status: client.EntryApproved, UUID: &uuid, ReferenceID: &reference}
}

func (f *fake) batch(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before != nil {
		if status := f.before(r); status != 0 {
			send(w, status, map[string]string{"message": "The vault is not available."})
			return
		}
	}
	entries, ok := f.batches[r.PathValue("id")]
	if !ok {
		send(w, 404, map[string]string{"message": "No such batch."})
		return
	}
	// A cursor is the number of entries returned so far.
	from := min(len(entries), atoi(r.URL.Query().Get("cursor")))
	to := min(len(entries), from+atoi(r.URL.Query().Get("per_page")))
	links, meta := map[string]any{"next": nil}, map[string]any{"next_cursor": nil}
	if to < len(entries) {
		links["next"], meta["next_cursor"] = "https://vault.example.org/next", strconv.Itoa(to)
	}
	send(w, 200, map[string]any{
		"data":  map[string]any{"id": r.PathValue("id"), "status": "completed", "total": len(entries), "processing": 0, "entries": entries[from:to], "created_at": time.Now()},
		"links": links, "meta": meta,
	})
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
