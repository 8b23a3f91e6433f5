package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/token"
	wiring "github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

const (
	base = vaulttest.BaseURL
	tail = certtest.Tail
)

// vault is a vault of a test, with a server for the API.
type vault struct {
	*vaulttest.Vault

	tb     testing.TB
	api    *API
	server *httptest.Server
	log    *lockedBuffer
	inst   *account.Institution
	// secret is the token of requests. At first, it is a token with every permission.
	secret string
	titles int
}

// lockedBuffer is a buffer for the log lines of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newVault(tb testing.TB, d *db.DB, rate int, changes ...func(*wiring.Deps)) *vault {
	tb.Helper()
	v := &vault{tb: tb, log: &lockedBuffer{}}
	log := slog.New(slog.NewJSONHandler(v.log, nil))
	v.Vault = vaulttest.New(tb, d, append(changes, func(d *wiring.Deps) { d.Log, d.StagedQuota, d.BulkWorkers = log, batch.StagedQuota, 1 })...)
	v.Sealer.Notices = []seal.Notice{{Code: "form", Message: "The PDF has form fields."}}
	v.api = &API{
		Tokens: v.Tokens, Links: v.Links, Limit: limit.NewCounter(rate, v.Now), InstitutionLimit: limit.NewCounter(0, v.Now), Keys: v.IdempotencyKeys, Log: log, Certs: v.Certs, Search: v.Search, Batches: v.Batches,
		Templates: v.Templates, Applications: v.Applications, OfferCursors: listing.NewCursors(v.Keyring, "offers"),
		Verifications: v.Verifications,
	}
	mux := http.NewServeMux()
	mux.Handle("/business/", v.api.Handler())
	v.server = httptest.NewTLSServer(web.Wrap(web.Options{Log: log, Now: time.Now}, mux))
	tb.Cleanup(v.server.Close)
	v.inst = v.institution("NWU")
	v.secret = v.token(v.inst, nil, token.All...)
	return v
}

func (v *vault) institution(prefix string) *account.Institution {
	v.tb.Helper()
	return v.Institution(prefix, "Université & "+prefix)
}

func (v *vault) token(inst *account.Institution, expires *time.Time, permissions ...token.Permission) string {
	v.tb.Helper()
	_, secret, err := v.api.Tokens.Create(v.tb.Context(), inst.ID, "Registry", permissions, expires)
	if err != nil {
		v.tb.Fatal(err)
	}
	return secret
}

// response is a received response with its complete body.
type response struct {
	Status int
	Header http.Header
	Body   []byte
}

func (a *response) json(tb testing.TB) map[string]any {
	tb.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.Body, &m); err != nil || a.Header.Get("Content-Type") != "application/json" {
		tb.Fatalf("the response is not JSON: status = %d, type %s, body %s, error %v", a.Status, a.Header.Get("Content-Type"), a.Body, err)
	}
	return m
}

// problem is the body of an error response.
type problem struct {
	Message string              `json:"message"`
	Errors  map[string][]string `json:"errors"`
}

func (a *response) problem(tb testing.TB) problem {
	tb.Helper()
	var r problem
	if err := json.Unmarshal(a.Body, &r); err != nil || a.Header.Get("Content-Type") != "application/json" || r.Message == "" {
		tb.Fatalf("the response is not an error in JSON: status = %d, type %s, body %s, error %v", a.Status, a.Header.Get("Content-Type"), a.Body, err)
	}
	return r
}

func (a *response) fields(tb testing.TB) string {
	tb.Helper()
	return strings.Join(slices.Sorted(maps.Keys(a.problem(tb).Errors)), " ")
}

func (v *vault) request(method, path string, body io.Reader) *http.Request {
	v.tb.Helper()
	r, err := http.NewRequestWithContext(v.tb.Context(), method, v.server.URL+path, body)
	if err != nil {
		v.tb.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+v.secret)
	r.Header.Set("Accept", "application/json")
	return r
}

func (v *vault) do(r *http.Request) *response {
	v.tb.Helper()
	res, err := v.server.Client().Do(r)
	if err != nil {
		v.tb.Fatalf("sending %s %s: %v", r.Method, r.URL.Path, err)
	}
	body, err := io.ReadAll(res.Body)
	if e := res.Body.Close(); err != nil || e != nil {
		v.tb.Fatalf("%s %s: reading the body: %v; closing it: %v", r.Method, r.URL.Path, err, e)
	}
	return &response{Status: res.StatusCode, Header: res.Header, Body: body}
}

func (v *vault) get(path string) *response {
	v.tb.Helper()
	return v.do(v.request(http.MethodGet, path, http.NoBody))
}

func (v *vault) postJSON(path, body string) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return v.do(r)
}

// part is one part of a form.
type part struct {
	name, file string
	content    []byte
}

func text(name, value string) part { return part{name: name, content: []byte(value)} }

func pdfFile(content []byte) part {
	return part{name: "certificate_file", file: "diploma.pdf", content: content}
}

const boundary = "a-boundary-of-our-own"

// form returns a multipart form with the parts in the given order.
func form(tb testing.TB, parts ...part) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		tb.Fatal(err)
	}
	for _, p := range parts {
		disposition := fmt.Sprintf(`form-data; name=%q`, p.name)
		if p.file != "" {
			disposition += fmt.Sprintf(`; filename=%q`, p.file)
		}
		out, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}})
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := out.Write(p.content); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func (v *vault) post(body []byte) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, "/business/certificate-vault", bytes.NewReader(body))
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	return v.do(r)
}

// validFields returns the text fields of a valid upload. Each call uses a new title.
func (v *vault) validFields() []part {
	v.titles++
	return []part{
		text("certificate_title", fmt.Sprintf("BSc Physics %d", v.titles)), text("full_name", "Ada Obi"), text("applicant_email", "ada@example.org"),
	}
}

// upload creates a certificate and returns its record.
func (v *vault) upload(file string) map[string]any {
	v.tb.Helper()
	a := v.post(form(v.tb, append(v.validFields(), part{name: "certificate_file", file: file, content: samplePDF(0)})...))
	if a.Status != http.StatusCreated {
		v.tb.Fatalf("uploading a certificate: status = %d, want 201; body %s", a.Status, a.Body)
	}
	return data(v.tb, a)
}

func data(tb testing.TB, a *response) map[string]any {
	tb.Helper()
	m, ok := a.json(tb)["data"].(map[string]any)
	if !ok {
		tb.Fatalf("the response has no data: %s", a.Body)
	}
	return m
}

// stored returns the numbers of certificates and stored files.
func (v *vault) stored() (rows, files int) {
	v.tb.Helper()
	if err := v.DB.QueryRowContext(v.tb.Context(), `SELECT count(*) FROM certificates`).Scan(&rows); err != nil {
		v.tb.Fatal(err)
	}
	if err := v.Blobs.Walk(v.tb.Context(), "", func(blob.Info) error { files++; return nil }); err != nil {
		v.tb.Fatal(err)
	}
	return rows, files
}

// samplePDF returns a PDF of one page. If size is not 0, the PDF is padded to this size in bytes.
func samplePDF(size int) []byte { return pdftest.Sized("a diploma", size) }

// count returns the result of a query that counts rows.
func (v *vault) count(query string) (n int) {
	v.tb.Helper()
	if err := v.DB.QueryRowContext(v.tb.Context(), query).Scan(&n); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

// await waits until a condition is true, and fails the test after a minute.
func await(tb testing.TB, condition func() bool) {
	tb.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatal("the condition was still false after a minute")
		}
	}
}
