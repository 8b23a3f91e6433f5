package public

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

func checkPage(t *testing.T, name string, w *httptest.ResponseRecorder, status int, want ...string) {
	t.Helper()
	text := textOf(t, w)
	for _, s := range want {
		if !strings.Contains(text, s) {
			t.Errorf("%s: the page does not contain %q: %s", name, s, text)
		}
	}
	h := w.Header()
	if w.Code != status || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Request-Id") == "" {
		t.Errorf("%s: status = %d, header %v, want %d with HTML and the security headers", name, w.Code, h, status)
	}
	policy := h.Get("Content-Security-Policy")
	for _, directive := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'", "script-src 'self'",
		"require-trusted-types-for 'script'", "trusted-types 'none'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("%s: the policy %q does not contain %s", name, policy, directive)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
		t.Errorf("%s: the policy %q allows unsafe code or other origins", name, policy)
	}
}

// TestTemplates checks that all templates of the public pages can be loaded.
func TestTemplates(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	if err := v.pages.Site.Check(); err != nil {
		t.Error(err)
	}
}

func TestVerificationOfEachStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		valid := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		withdrawn := v.upload("MSc Physics", "Ada Obi", "diploma.pdf")
		failed := v.upload("PhD Physics", "Ada Obi", "refuse.pdf")
		v.Work(3)
		v.revoke(withdrawn, "Issued by mistake")
		waiting := v.upload("Waiting", "Ada Obi", "diploma.pdf")
		early := v.upload("Early", "Ada Obi", "diploma.pdf")
		v.revoke(early, "Sent too early")
		sum := sha256.Sum256(append(vaulttest.PDF, tail...))
		original := sha256.Sum256(vaulttest.PDF)

		w := v.get("/verify/" + valid.ReferenceID)
		checkPage(t, "valid", w, http.StatusOK, "This certificate is valid", "Issued by Northern & Western University (NWU) . It has not been revoked.", "Issued by Northern & Western University (NWU)", "BSc Physics", "Ada Obi", "30 June 2026",
			valid.ReferenceID, hex.EncodeToString(sum[:]), hex.EncodeToString(original[:]), "Issuer’s record : valid , checked just now", "Stored file : unchanged , checked just now", "Print")
		v.Exec(`UPDATE certificate_checks SET checked_at = checked_at - 120000000 WHERE name = 'file'`)
		checkPage(t, "a check two minutes ago", v.get("/verify/"+valid.ReferenceID), http.StatusOK, "Stored file : unchanged , checked on", "Digital signature : valid , checked just now")
		v.Exec(`UPDATE certificate_checks SET checked_at = checked_at + 120000000 WHERE name = 'file'`)
		w = v.get("/verify/" + withdrawn.ReferenceID)
		checkPage(t, "revoked", w, http.StatusOK, "Revoked on", "Issued by mistake", "MSc Physics", "It is no longer valid", "not valid", "Signed and published on")
		if strings.Contains(w.Body.String(), "It has not been revoked") {
			t.Error("the page of a revoked certificate contains \"It has not been revoked\"")
		}
		if text := textOf(t, w); strings.Contains(text, "is valid") {
			t.Errorf("the page of a revoked certificate contains \"is valid\": %s", text)
		}
		checkPage(t, "revoked while processing", v.get("/verify/"+early.ReferenceID), http.StatusOK, "Revoked on", "Sent too early", "not checked")
		w = v.get("/verify/" + waiting.ReferenceID)
		checkPage(t, "processing", w, http.StatusOK, "not ready yet", waiting.ReferenceID)
		if text := textOf(t, w); strings.Contains(text, "Ada") || strings.Contains(text, "Waiting") || w.Header().Get("Refresh") == "" {
			t.Errorf("the page of a certificate in processing: text %s, header %v, want Refresh and neither the name nor the title", text, w.Header())
		}
		for _, c := range []*cert.Certificate{valid, withdrawn, early, waiting, failed} {
			for _, w := range []*httptest.ResponseRecorder{v.get("/verify/" + c.ReferenceID), v.getJSON("/verify/" + c.ReferenceID)} {
				if w.Header().Get("Cache-Control") != "no-store" || !slices.Contains(w.Header().Values("Vary"), "Accept") {
					t.Errorf("%s: the header is %v, want no-store and Vary with Accept", c.Title, w.Header())
				}
			}
		}

		stamp := db.Time(db.Micros(v.Now())).Format(time.RFC3339Nano)
		now := v.Now().UTC().Format(time.RFC3339Nano)
		check := func(name, result string, at any) any {
			return map[string]any{"name": name, "result": result, "checked_at": at}
		}
		for c, want := range map[*cert.Certificate]map[string]any{
			valid: {
				"status": "valid", "institution": v.inst.Name, "certificate_title": "BSc Physics", "full_name": "Ada Obi", "issue_date": "2026-06-30",
				"approved_at": stamp, "revoked_at": nil, "reason": nil,
				"checks": []any{check("record", "passed", now), check("file", "passed", stamp), check("signature", "passed", stamp)},
			},
			withdrawn: {
				"status": "revoked", "institution": v.inst.Name, "certificate_title": "MSc Physics", "full_name": "Ada Obi", "issue_date": "2026-06-30",
				"approved_at": stamp, "revoked_at": stamp, "reason": "Issued by mistake",
				"checks": []any{check("record", "failed", now), check("file", "passed", stamp), check("signature", "passed", stamp)},
			},
			waiting: {
				"status": "processing", "institution": nil, "certificate_title": nil, "full_name": nil, "issue_date": nil,
				"approved_at": nil, "revoked_at": nil, "reason": nil, "checks": []any{},
			},
		} {
			want["reference_id"], want["expires_on"] = c.ReferenceID, nil
			w := v.getJSON("/verify/" + c.ReferenceID)
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: status = %d, want 200 as JSON; body %s, error %v", c.Title, w.Code, w.Body, err)
			}
			if !reflect.DeepEqual(got, map[string]any{"data": want}) {
				t.Errorf("%s: the data is %v, want %v", c.Title, got["data"], want)
			}
		}
		v.checkSecrets()
	})
}

// The responses for a failed and for an unknown certificate are the same, except for the entered
// reference id and the id of the request.
func TestFailedIsUnknown(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	failed := v.upload("BSc Physics", "Ada Obi", "refuse.pdf")
	v.Work(1)
	for _, suffix := range []string{"", "/qrcode.svg", "/barcode.svg"} {
		for name, get := range map[string]func(string) *httptest.ResponseRecorder{"page": v.get, "JSON": v.getJSON} {
			failedResponse, unknownResponse := get("/verify/"+failed.ReferenceID+suffix), get("/verify/"+unknownID+suffix)
			if failedResponse.Code != http.StatusNotFound || unknownResponse.Code != http.StatusNotFound {
				t.Errorf("%s%s: the statuses are %d and %d, want 404 for both", name, suffix, failedResponse.Code, unknownResponse.Code)
			}
			plain := func(w *httptest.ResponseRecorder) (http.Header, string) {
				h := w.Header().Clone()
				body := strings.NewReplacer(failed.ReferenceID, "ID", unknownID, "ID", h.Get("X-Request-Id"), "REQUEST").Replace(w.Body.String())
				h.Del("X-Request-Id")
				return h, body
			}
			h1, b1 := plain(failedResponse)
			h2, b2 := plain(unknownResponse)
			if b1 != b2 || !reflect.DeepEqual(h1, h2) {
				t.Errorf("%s%s: the response for a failed certificate is\n%v %s\nand for an unknown certificate\n%v %s\nwant equal responses", name, suffix, h1, b1, h2, b2)
			}
		}
	}
	checkPage(t, "unknown", v.get("/verify/"+unknownID), http.StatusNotFound, "Certificate not found")
	v.checkSecrets()
}

func TestTypedReferenceIDsAreFolded(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Work(1)
	lower := strings.ToLower(strings.NewReplacer("-", " ", "0", "O", "1", "l").Replace(c.ReferenceID))
	for _, typed := range []string{lower, strings.ReplaceAll(c.ReferenceID, "-", ""), " " + c.ReferenceID + " "} {
		w := v.getJSON("/verify/" + url.PathEscape(typed))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.ReferenceID) {
			t.Errorf("the reference id %q: status = %d, want 200 and the certificate; body %s", typed, w.Code, w.Body)
		}
	}
}

// The texts of an institution are escaped.
func TestHostileTextIsEscaped(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	hostile := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `{{.ReferenceID}}`, `</title></head><body onload=alert(1)>`, `&lt;b&gt; &amp; <!--`,
		"\u202etxet desrever\u202c", "👩🏽‍🎓🇨🇭 Ⅻ", "شهادة تقدير", strings.Repeat("名", 255), strings.Repeat("<", 255),
	}
	made := make([]*cert.Certificate, len(hostile))
	for i, text := range hostile {
		v.inst = v.Institution("P"+strconv.Itoa(i), text)
		made[i] = v.upload(text, text, "diploma.pdf")
	}
	v.Work(len(made))
	for i, text := range hostile {
		check := func(name string) {
			w := v.get("/verify/" + made[i].ReferenceID)
			checkMarkup(t, w)
			checkPage(t, name, w, http.StatusOK, strings.Join(strings.Fields(text), " "))
			var got struct{ Data verification }
			if err := json.Unmarshal(v.getJSON("/verify/"+made[i].ReferenceID).Body.Bytes(), &got); err != nil || *got.Data.FullName != text {
				t.Errorf("%s: the data is %+v, error %v, want the name as it was uploaded", name, got, err)
			}
		}
		check("valid")
		v.inst = &account.Institution{ID: made[i].InstitutionID}
		v.revoke(made[i], text)
		check("revoked")
	}
}

// checkMarkup checks that a page has no comments, inline scripts, event handlers or external links, and
// none of the elements b, iframe, object and style, which the templates do not use.
func checkMarkup(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.CommentNode || n.Type == html.ElementNode && slices.Contains([]string{"b", "iframe", "object", "style"}, n.Data) {
			t.Errorf("the page has a comment or the element <%s>, which no template has", n.Data)
		}
		if n.Type == html.ElementNode && n.Data == "script" && n.FirstChild != nil {
			t.Errorf("the page has the inline script %s", n.FirstChild.Data)
		}
		for _, a := range n.Attr {
			local := strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "#")
			if strings.HasPrefix(a.Key, "on") || (a.Key == "src" || a.Key == "href" || a.Key == "action") && !local {
				t.Errorf("<%s> has the attribute %s=%q, which is an event handler or not a local link", n.Data, a.Key, a.Val)
			}
		}
	}
}

func TestHostileReferenceIDs(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	for _, typed := range []string{
		`<script>alert(1)</script>`, `" onfocus="alert(1)`, "\x00", "\xff\xfe", "%", "' OR 1=1 --", strings.Repeat("A", 5000), "{{.}}", "javascript:alert(1)",
	} {
		for _, target := range []string{"/verify/" + url.PathEscape(typed), "/verify?reference_id=" + url.QueryEscape(typed)} {
			w := v.get(target)
			checkPage(t, target, w, http.StatusNotFound, "Certificate not found")
			checkMarkup(t, w)
		}
		if w := v.getJSON("/verify/" + url.PathEscape(typed)); w.Code != http.StatusNotFound || !json.Valid(w.Body.Bytes()) {
			t.Errorf("the reference id %q as JSON: status = %d, want 404; body %s", typed, w.Code, w.Body)
		}
	}
}

func TestLookUp(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	checkPage(t, "lookup", v.get("/verify"), http.StatusOK, "Verify a certificate", "Reference id")
	if links := attributes(t, v.get("/verify"), "a", "href"); !slices.Contains(links, "/sign-in") {
		t.Errorf("there is no link to /sign-in: %q", links)
	}
	checkPage(t, "lookup of white space", v.get("/verify?reference_id=+"), http.StatusOK, "Verify a certificate")
	const id = "NWU-7K3M9QX2P4RTVW01"
	for typed, want := range map[string]string{
		id:                           "/verify/" + id,
		"  " + id + "\n":             "/verify/" + id,
		"nwu 7k3m 9qx2 p4rt vw01":    "/verify/nwu%207k3m%209qx2%20p4rt%20vw01",
		base + "/verify/" + id:       "/verify/" + id,
		base + "/verify/" + id + "/": "/verify/" + id,
		"https://other.example:8443/verify/" + id + "?utm_source=x#top": "/verify/" + id,
		"//evil.example/" + id: "/verify/" + id,
	} {
		w := v.get("/verify?reference_id=" + url.QueryEscape(typed))
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
			t.Errorf("the lookup of %q: status = %d, Location = %q, want 303 and %q", typed, w.Code, w.Header().Get("Location"), want)
		}
	}
	w := v.get("/")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/verify" {
		t.Errorf("/: status = %d, want 303 to /verify; header %v", w.Code, w.Header())
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	v.pages.Limit = limit.NewCounter(2, v.Now)
	v.newHandler()
	from := func(address string, get func(*http.Request)) *httptest.ResponseRecorder {
		r := request(http.MethodGet, "/verify")
		r.RemoteAddr = address
		get(r)
		return v.do(r)
	}
	asPage, asJSON := func(*http.Request) {}, func(r *http.Request) { r.Header.Set("Accept", "application/json") }
	for i, address := range []string{"[2001:db8:1:2::1]:1000", "[2001:db8:1:2:ffff::9]:2000"} {
		if w := from(address, asPage); w.Code != http.StatusOK || w.Header().Get("X-RateLimit-Limit") != "2" || w.Header().Get("X-RateLimit-Remaining") != strconv.Itoa(1-i) {
			t.Errorf("the first requests, from %s: status = %d, want 200 and the limit 2 with the remaining requests; header %v", address, w.Code, w.Header())
		}
	}
	w := from("[2001:db8:1:2::3]:1000", asPage)
	checkPage(t, "over the limit", w, http.StatusTooManyRequests, "Too many requests")
	if w.Header().Get("Retry-After") != "60" || w.Header().Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("over the limit: the header is %v, want Retry-After: 60 and no remaining requests", w.Header())
	}
	var body struct{ Message string }
	if w := from("[2001:db8:1:2::3]:1000", asJSON); w.Code != http.StatusTooManyRequests || json.Unmarshal(w.Body.Bytes(), &body) != nil || body.Message == "" {
		t.Errorf("over the limit, as JSON: status = %d, want 429; body %s", w.Code, w.Body)
	}
	for _, other := range []string{"[2001:db8:1:3::1]:1000", "198.51.100.7:1000"} {
		if w := from(other, asPage); w.Code != http.StatusOK {
			t.Errorf("a request from the other network %s: status = %d, want 200", other, w.Code)
		}
	}
	v.Advance(time.Minute)
	if w := from("[2001:db8:1:2::3]:1000", asPage); w.Code != http.StatusOK {
		t.Errorf("a minute later: status = %d, want 200", w.Code)
	}
}

func TestUnknownPagesAndMethods(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	checkPage(t, "unknown", v.get("/no-such-page"), http.StatusNotFound, "Page not found")
	r := request(http.MethodPost, "/verify/"+unknownID)
	r.Header.Set("Accept", "application/json")
	if w := v.do(r); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("POST: status = %d, want 405 with Allow: GET, HEAD, as JSON; header %v, body %s", w.Code, w.Header(), w.Body)
	}
	for accept, asJSON := range map[string]bool{
		"": false, "*/*": false, "application/json": true, "application/json, */*;q=0.1": true, "text/html,application/xhtml+xml": false,
		"text/html, application/json;q=0.5": false,
	} {
		r := request(http.MethodGet, "/verify/"+unknownID)
		r.Header.Set("Accept", accept)
		if w := v.do(r); (w.Header().Get("Content-Type") == "application/json") != asJSON {
			t.Errorf("Accept %q: Content-Type = %s, want application/json: %v", accept, w.Header().Get("Content-Type"), asJSON)
		}
	}
}

func TestAssetsOfPage(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	doc, err := html.Parse(v.get("/verify").Body)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if (a.Key == "href" || a.Key == "src") && strings.HasPrefix(a.Val, "/assets/") {
				found[a.Val] = true
			}
		}
	}
	if len(found) < 2 {
		t.Errorf("the page has the assets %v, want at least 2", found)
	}
	for asset := range found {
		w := v.get(asset)
		if w.Code != http.StatusOK || w.Body.Len() == 0 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status = %d, want 200 with a body and an immutable cache; header %v", asset, w.Code, w.Header())
		}
	}
	if w := v.get("/assets/style.css"); w.Code != http.StatusNotFound {
		t.Errorf("an asset without its digest: status = %d, want 404", w.Code)
	}
}

// If the database fails, the status is 503 and not 404. The page does not contain the cause, which is only
// in the log.
func TestInternalErrorIsNotUnknown(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(errors.Join(err, d.Close()))
	}
	v := newVault(t, d)
	link, err := v.pages.Links.File("00000000-0000-4000-8000-000000000000", web.PDFFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/verify/" + unknownID, "/verify/" + unknownID + "/qrcode.svg", local(t, link)} {
		v.log.Reset()
		w := v.get(target)
		checkPage(t, target, w, http.StatusServiceUnavailable, "The service is not available", w.Header().Get("X-Request-Id"))
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: the response has no Retry-After", target)
		}
		if strings.Contains(w.Body.String(), "database is closed") || !strings.Contains(v.log.String(), "database is closed") {
			t.Errorf("%s: the page is %s, and the log is %s, want the cause only in the log", target, w.Body, v.log)
		}
		if w := v.getJSON(target); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"The vault cannot answer now. `) {
			t.Errorf("%s as JSON: status = %d, want 503; body %s", target, w.Code, w.Body)
		}
	}
}
