//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// exchange sends bytes over a connection of its own and reads one answer, with its
// body.
func exchange(t *testing.T, f *fixture, method, request string) *vault.Answer {
	t.Helper()
	conn := dial(t, f)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("reading the answer to %.100q: %v", request, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &vault.Answer{Status: res.StatusCode, Header: res.Header, Body: body, Proto: res.Proto}
}

// TestEveryAnswerIsIdentified sends what no client would: each answer says by which
// line of the log it can be found, and no line repeats what was asked.
func TestEveryAnswerIsIdentified(t *testing.T) {
	t.Parallel()
	f := start(t, "", "--cors-origin", "https://app.example.org")
	const secret = "hidden0word"
	auth := "Authorization: Bearer " + f.client.Token + "\r\n"
	for _, c := range []struct {
		method, target, head, body string
		status                     int
		allow                      string
	}{
		{"OPTIONS", "*", "", "", 404, ""},
		{"CONNECT", secret + ":443", "", "", 405, "GET, HEAD"},
		{"TRACE", "/verify", "", "", 405, "GET, HEAD"},
		{"BREW" + secret, "/verify", "", "", 405, "GET, HEAD"},
		{"get", "/verify", "", "", 405, "GET, HEAD"},
		{"GET", "/verify/" + secret + "%00", "", "", 404, ""},
		{"GET", "/verify/%ff%fe" + secret, "", "", 404, ""},
		{"GET", "/verify/..%2f" + secret, "", "", 404, ""},
		{"GET", "/verify/%2e%2e/" + secret, "", "", 404, ""},
		{"GET", "//" + secret, "", "", 404, ""},
		{"GET", "/verify?reference_id=" + secret + ";%zz", "", "", 200, ""},
		{"GET", "/files/" + unknownUUID + "/pdf?signature=" + secret, "", "", 404, ""},
		{"GET", "/business/" + secret, "", "", 401, ""},
		{"GET", "/business/" + secret, auth, "", 404, ""},
		{"GET", "/business/certificate-vault", auth + auth, "", 401, ""},
		{"GET", "/business/certificate-vault?search=" + secret + "%zz", auth, "", 422, ""},
		{"GET", "/business/certificate-vault?" + secret + "=1", auth, "", 422, ""},
		{"GET", "/business/certificate-vault/" + secret, auth, "", 404, ""},
		{"PATCH", "/business/certificate-vault", auth, "", 405, "GET, HEAD, POST"},
		{"OPTIONS", "/business/certificate-vault", auth, "", 405, "GET, HEAD, POST"},
		{"OPTIONS", "/business/certificate-vault", "Origin: https://app.example.org\r\nAccess-Control-Request-Method: POST\r\n", "", 204, ""},
		{"OPTIONS", "/business/certificate-vault", "Origin: https://" + secret + ".example\r\nAccess-Control-Request-Method: POST\r\n", "", 401, ""},
		{"POST", "/business/certificate-vault", auth + "Content-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n", "zz" + secret + "\r\n", 422, ""},
		{"POST", "/business/certificate-vault", auth + "Content-Type: " + secret + "\r\nContent-Length: 0\r\n", "", 415, ""},
		{"POST", "/healthz", "", "", 405, "GET, HEAD"},
		{"DELETE", "/readyz", "", "", 405, "GET, HEAD"},
		{"POST", "/", "", "", 405, "GET, HEAD"},
		{"PUT", "/setup", "", "", 405, "GET, HEAD, POST"},
		{"DELETE", "/files/" + unknownUUID + "/pdf", "", "", 405, "GET, HEAD"},
	} {
		a := exchange(t, f, c.method, c.method+" "+c.target+" HTTP/1.1\r\nHost: "+secret+"\r\nConnection: close\r\n"+c.head+"\r\n"+c.body)
		id := a.Header.Get("X-Request-Id")
		if a.Status != c.status || a.Header.Get("Allow") != c.allow || len(id) < 8 {
			t.Errorf("%s %s: %d, Allow %q, id %q: %.200s", c.method, c.target, a.Status, a.Header.Get("Allow"), id, a.Body)
		}
		if !strings.Contains(f.Log(), `"request_id":"`+id+`"`) {
			t.Errorf("%s %s: the log has no line for it", c.method, c.target)
		}
	}
	if log := f.Log(); strings.Contains(log, secret) || strings.Contains(log, `"status":500`) {
		t.Error("the log repeats what was asked, or has a fault")
	}
}

// TestHead asks for the head of everything that can be got.
func TestHead(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	made := f.upload(t, form("Somebody"))
	made = f.await(t, made.UUID, "approved")
	for _, target := range []string{
		vault.CertificatesPath, vault.CertificatesPath + "/" + made.UUID, vault.CertificatesPath + "/" + made.UUID + "/download", "/business/certificate-templates",
		"/verify", made.VerificationURL, made.QRCodePath, made.BarcodePath, *made.PDFPath, *made.ImagePath, "/healthz", "/readyz", "/",
	} {
		heads := make([]*vault.Answer, 0, 2)
		for _, method := range []string{"GET", "HEAD"} {
			req, err := f.client.Request(t.Context(), method, target, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", "identity")
			a, err := f.client.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			heads = append(heads, a)
		}
		whole, head := heads[0], heads[1]
		if head.Status != whole.Status || len(head.Body) != 0 {
			t.Errorf("%s: %d with %d bytes, GET has %d", target, head.Status, len(head.Body), whole.Status)
		}
		for _, name := range []string{"Content-Type", "ETag", "Accept-Ranges", "Cache-Control", "Content-Disposition", "Vary", "Content-Length"} {
			if name == "Content-Length" && whole.Status != 200 {
				continue
			}
			if got, want := strings.Join(head.Header.Values(name), ", "), strings.Join(whole.Header.Values(name), ", "); got != want {
				t.Errorf("%s: %s is %q, GET has %q", target, name, got, want)
			}
		}
	}
}

// TestCompression looks at the bytes on the wire: what is said again and again is
// shorter, a file and a part of it are left as they are.
func TestCompression(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	var made *client.VaultCertificate
	for i := range 12 {
		made = f.upload(t, form(person(i)))
	}
	made = f.await(t, made.UUID, "approved")
	for _, c := range []struct {
		what, target, rangeOf string
		compressed            bool
	}{
		{"a list", vault.CertificatesPath, "", true},
		{"a page", made.VerificationURL, "", true},
		{"a QR code", made.QRCodePath, "", true},
		{"a PDF", *made.PDFPath, "", false},
		{"a picture", *made.ImagePath, "", false},
		{"a part of a PDF", vault.CertificatesPath + "/" + made.UUID + "/download", "bytes=0-1499", false},
		{"a short answer", "/business/certificate-templates", "", false},
	} {
		req, err := f.client.Request(t.Context(), "GET", c.target, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip") // set by hand, it is not undone by the client
		if !strings.HasPrefix(c.target, "/") {
			req.Header.Set("Accept", "text/html")
		}
		if c.rangeOf != "" {
			req.Header.Set("Range", c.rangeOf)
		}
		a, err := f.client.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Header.Get("Content-Encoding") == "gzip"; got != c.compressed || a.Status >= 400 {
			t.Errorf("%s: %d, %v", c.what, a.Status, a.Header)
			continue
		}
		if c.rangeOf != "" && len(a.Body) != 1500 {
			t.Errorf("%s: %d bytes", c.what, len(a.Body))
		}
		if !c.compressed {
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(a.Body))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil || len(plain) < len(a.Body)*3/2 {
			t.Errorf("%s: %d bytes of %d, %v", c.what, len(a.Body), len(plain), err)
		}
		t.Logf("%s: %d bytes of %d", c.what, len(a.Body), len(plain))
	}
}

// TestHTTP2 lets curl speak HTTP/2: a form, a download, a part of it, a condition.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	curl := func(args ...string) (status, version, body string) {
		t.Helper()
		out := keep(t, "out", nil)
		said := run(t, "curl", append([]string{
			"--silent", "--show-error", "--http2", "--cacert", filepath.Join(f.Data, "tls", "cert.pem"), "--header", "Authorization: Bearer " + f.client.Token,
			"--output", out, "--write-out", "%{http_code} %{http_version}",
		}, args...)...)
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		status, version, _ = strings.Cut(said, " ")
		return status, version, string(content)
	}
	pdf := keep(t, "diploma.pdf", sample("Somebody"))
	status, version, body := curl("--form", "certificate_title=Diploma", "--form", "full_name=Somebody", "--form", "applicant_email=somebody@example.org",
		"--form", "certificate_file=@"+pdf, f.URL+vault.CertificatesPath)
	if status != "201" || version != "2" {
		t.Fatalf("%s over HTTP/%s: %s", status, version, body)
	}
	made, err := (&vault.Answer{Body: []byte(body)}).Certificate()
	if err != nil {
		t.Fatal(err)
	}
	f.await(t, made.UUID, "approved")
	download := f.URL + vault.CertificatesPath + "/" + made.UUID + "/download"
	status, version, whole := curl(download)
	if status != "200" || version != "2" || !strings.HasPrefix(whole, "%PDF-") {
		t.Fatalf("%s over HTTP/%s", status, version)
	}
	if status, _, part := curl("--range", "5-99", download); status != "206" || part != whole[5:100] {
		t.Errorf("a part: %s, %d bytes", status, len(part))
	}
	etag := get(t, f.client, vault.CertificatesPath+"/"+made.UUID+"/download", 200).Header.Get("ETag")
	if status, _, body := curl("--header", "If-None-Match: "+etag, download); status != "304" || body != "" {
		t.Errorf("a condition: %s, %d bytes", status, len(body))
	}
	if status, _, _ := curl("--header", "Authorization: Bearer nobody", "--form", "certificate_file=@"+pdf, f.URL+vault.CertificatesPath); status != "401" {
		t.Errorf("another's token: %s", status)
	}
}

// TestExpectContinue lets a client wait before it sends its body: who is refused
// need not send it.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	contentType, encoded, err := form("Somebody").Encode()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(encoded)
	if err != nil {
		t.Fatal(err)
	}
	request := func(token, contentType string, size int) string {
		h := head(f, vault.CertificatesPath, token, contentType, size)
		return strings.TrimSuffix(h, "\r\n") + "Expect: 100-continue\r\n\r\n"
	}
	for what, c := range map[string]struct {
		request string
		status  int
	}{
		"no token":   {request("", contentType, len(body)), 401},
		"no form":    {request(f.client.Token, "application/pdf", len(body)), 415},
		"over 1 GiB": {request(f.client.Token, contentType, 1<<30), 413},
	} {
		if a := exchange(t, f, "POST", c.request); a.Status != c.status {
			t.Errorf("%s: %d, not %d", what, a.Status, c.status)
		}
	}
	conn := dial(t, f)
	if _, err := io.WriteString(conn, request(f.client.Token, contentType, len(body))); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("told %q, %v", line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Errorf("answered %d", res.StatusCode)
	}
}

// TestLengthsThatLie sends bodies that are longer or shorter than announced, and
// ones in chunks.
func TestLengthsThatLie(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	contentType, encoded, err := form("Somebody").Encode()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(encoded)
	if err != nil {
		t.Fatal(err)
	}
	body := string(content)
	// Half of it is no form; what follows is not taken for another request of the
	// token's.
	if a := exchange(t, f, "POST", head(f, vault.CertificatesPath, f.client.Token, contentType, len(body)/2)+body); a.Status != 422 {
		t.Errorf("a body that is longer: %d", a.Status)
	}
	conn := dial(t, f)
	if _, err := io.WriteString(conn, head(f, vault.CertificatesPath, f.client.Token, contentType, len(body)*2)+body); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil { // there may be nobody left to answer
		if res.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("a body that is shorter: %d", res.StatusCode)
		}
		_ = res.Body.Close()
	}
	nothingKept(t, f)
	chunks := strings.Replace(head(f, vault.CertificatesPath, f.client.Token, contentType, 0), "Content-Length: 0", "Transfer-Encoding: chunked", 1)
	var b strings.Builder
	for rest := body; rest != ""; {
		n := min(len(rest), 777)
		fmt.Fprintf(&b, "%x;a-parameter=\"x\"\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	if a := exchange(t, f, "POST", chunks+b.String()+"0\r\nX-Trailer: x\r\n\r\n"); a.Status != 201 {
		t.Errorf("a body in chunks: %d %s", a.Status, a.Body)
	}
	if a := exchange(t, f, "POST", chunks+"fffffffffffffffff\r\nx"); a.Status != 422 {
		t.Errorf("a chunk of no size: %d", a.Status)
	}
}

// TestSlowBody begins uploads and sends no more: they are given up, and with them
// what they hold, while others are served.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	contentType, body := bodyOf(t, 1<<20)
	part := make([]byte, 300_000)
	if _, err := io.ReadFull(body, part); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		conn := dial(t, f)
		if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		keyed := strings.TrimSuffix(head(f, vault.CertificatesPath, f.client.Token, contentType, 1<<20), "\r\n") + "Idempotency-Key: slow\r\n\r\n"
		if _, err := io.WriteString(conn, keyed+string(part)); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("no answer: %v", err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusRequestTimeout && res.StatusCode != http.StatusConflict { // one of them has the key
				t.Errorf("answered %d", res.StatusCode)
			}
		})
	}
	f.await(t, f.upload(t, form("Meanwhile")).UUID, "approved")
	wg.Wait()
	eventually(t, approvalTime, "what the slow ones held is gone", func() bool { return len(f.files(t, "incoming")) == 0 })
	want(t, mustKeyed(t, f.client, "slow", form("Somebody")), 201)
}

// TestBombs sends forms that are made to take memory: heads of parts, preambles,
// parts without number, names and values. All are refused, and the process stays
// small.
func TestBombs(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	const (
		size   = 20 << 20
		copies = 20
	)
	line := strings.Repeat("x", 1000)
	bombs := map[string]string{
		"one line of a head":   "--x\r\nX: " + strings.Repeat("y", size),
		"lines of a head":      "--x\r\n" + strings.Repeat("X: "+line+"\r\n", size/1000),
		"a preamble":           strings.Repeat(line+"\r\n", size/1000),
		"a line of no end":     strings.Repeat("x", size),
		"parts":                strings.Repeat("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n", size/60),
		"values":               strings.Repeat("--x\r\nContent-Disposition: form-data; name=\"details\"\r\n\r\n"+strings.Repeat("v", size/100)+"\r\n", 99) + "--x--\r\n",
		"parameters of a name": "--x\r\nContent-Disposition: form-data" + strings.Repeat("; a*0*=x", 6000) + "\r\n\r\n\r\n--x--\r\n",
	}
	var wg sync.WaitGroup
	for what, bomb := range bombs {
		for range copies {
			wg.Go(func() {
				req, err := f.client.Request(t.Context(), "POST", vault.CertificatesPath, strings.NewReader(bomb))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
				a, err := f.client.Send(req)
				if err != nil || a.Status != 422 {
					t.Errorf("%s: %+v, %v", what, a, err)
				}
			})
		}
	}
	wg.Wait()
	if held := peak(t, f.PID()); held > maxResident {
		t.Errorf("the process held %d MB", held>>10)
	} else {
		t.Logf("peak resident memory: %d MB", held>>10)
	}
	nothingKept(t, f)
}

// TestNaughtyNames makes certificates for people with names of every kind, through
// all that is made of a name: record, search, stamp, page.
func TestNaughtyNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		public := f.as(t, "")
		var made []*client.VaultCertificate
		for i, name := range names(t) {
			upload := form("Somebody").With("certificate_title", name).With("full_name", name).With("details", name).
				With("applicant_email", fmt.Sprintf("n%d@example.org", i)).WithFile(fileNameOf(name), sample("Somebody"))
			clean := utf8.ValidString(name) && !strings.ContainsRune(name, 0)
			kept := strings.TrimSpace(name)
			if !clean || kept == "" || utf8.RuneCountInString(kept) > 255 {
				refuse(t, f, upload, "full_name")
				continue
			}
			c := f.upload(t, upload)
			if c.FullName != kept || c.CertificateTitle != kept {
				t.Errorf("%q became %q and %q", kept, c.FullName, c.CertificateTitle)
			}
			made = append(made, c)
		}
		for _, c := range made {
			f.await(t, c.UUID, "approved")
			v, err := public.Verify(t.Context(), c.VerificationURL)
			if err != nil || v.Status != "valid" || v.FullName != c.FullName {
				t.Errorf("%q is verified as %+v, %v", c.FullName, v, err)
			}
			req, err := public.Request(t.Context(), "GET", c.VerificationURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "text/html")
			page, err := public.Send(req)
			if err != nil || page.Status != 200 || bytes.Contains(page.Body, []byte("<img src=x")) || bytes.Contains(page.Body, []byte("<script>alert")) {
				t.Errorf("the page of %q: %v", c.FullName, err)
			}
		}
		t.Logf("%d names", len(made))
	})
}

// fileNameOf makes a file's name of a person's.
func fileNameOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
			return -1
		}
		return r
	}, name) + ".pdf"
}

// names are those of the shared corpus, which lies beside the repository, and some
// of our own.
func names(t *testing.T) []string {
	t.Helper()
	list := []string{
		"O", "محمد Smith עלי", "John\u202eeoD\u202c", "👩‍👩‍👧‍👦 Family", "𠮷野家 太郎", "Z" + strings.Repeat("\u0335\u0351", 100), "<img src=x onerror=alert(1)>",
		"<script>alert(1)</script>", "(unbalanced \\) ) (", "a\r\nb\tc", "a\x01b", "\ufffe", "a\x00b", "\xed\xa0\x80", "\xff", "   ", strings.Repeat("𝕎", 255), strings.Repeat("𝕎", 256),
	}
	root, err := vault.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "..", "shared", "corpus", "recipients", "names-tricky.json"))
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Log("no shared corpus beside the repository: its names are left out")
		return list
	}
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct{ Name string }
	if err := json.Unmarshal(content, &corpus); err != nil {
		t.Fatal(err)
	}
	for _, c := range corpus {
		list = append(list, c.Name)
	}
	return list
}
