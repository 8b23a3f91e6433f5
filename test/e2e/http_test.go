//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// TestHead sends GET and HEAD requests for several resources. Both responses must have the same status
// and the same headers about the content.
func TestHead(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	made := f.upload(t, form("Jane Doe"))
	made = f.await(t, made.UUID, "approved")
	for _, target := range []string{
		vault.CertificatesPath, vault.CertificatesPath + "/" + made.UUID, vault.CertificatesPath + "/" + made.UUID + "/download", "/business/certificate-templates",
		"/verify", made.VerificationURL, made.QRCodePath, made.BarcodePath, *made.PDFPath, *made.ImagePath, "/healthz", "/readyz", "/",
	} {
		whole, head := f.getAndHead(t, target)
		// Some responses contain the current time, whose length differs if the fraction of the
		// second ends with zeros.
		for range 5 {
			if head.Header.Get("Content-Length") == whole.Header.Get("Content-Length") {
				break
			}
			whole, head = f.getAndHead(t, target)
		}
		if head.Status != whole.Status || len(head.Body) != 0 {
			t.Errorf("HEAD %s: status = %d with %d bytes, want %d with 0 bytes", target, head.Status, len(head.Body), whole.Status)
		}
		for _, name := range []string{"Content-Type", "ETag", "Accept-Ranges", "Cache-Control", "Content-Disposition", "Vary", "Content-Length"} {
			if name == "Content-Length" && whole.Status != 200 {
				continue
			}
			if got, want := strings.Join(head.Header.Values(name), ", "), strings.Join(whole.Header.Values(name), ", "); got != want {
				t.Errorf("HEAD %s: %s = %q, want %q as for GET", target, name, got, want)
			}
		}
	}
}

// getAndHead returns the responses to a GET and a HEAD request.
func (f *fixture) getAndHead(t *testing.T, target string) (whole, head *vault.Response) {
	t.Helper()
	responses := make([]*vault.Response, 0, 2)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		req, err := f.client.Request(t.Context(), method, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "identity")
		a, err := f.client.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		responses = append(responses, a)
	}
	return responses[0], responses[1]
}

// TestCompression checks that lists, pages and QR codes are compressed. PDFs, PNG pictures, parts of files
// and short responses must not be compressed.
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
		{"a short response", "/business/certificate-templates", "", false},
	} {
		req, err := f.client.Request(t.Context(), "GET", c.target, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip") // the HTTP client does not decompress if this header is set explicitly
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
			t.Errorf("%s: status %d, headers %v; want compressed = %v", c.what, a.Status, a.Header, c.compressed)
			continue
		}
		if c.rangeOf != "" && len(a.Body) != 1500 {
			t.Errorf("%s: got %d bytes, want 1500", c.what, len(a.Body))
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
			t.Errorf("%s: %d bytes are compressed to %d, %v; want at most two thirds", c.what, len(plain), len(a.Body), err)
		}
		t.Logf("%s: %d bytes are compressed to %d", c.what, len(plain), len(a.Body))
	}
}

// TestHTTP2 uploads a form and downloads the verified PDF with curl over HTTP/2. It also sends a range
// request, a conditional request, and an upload with an invalid token.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	curl := func(args ...string) (status, version, body string) {
		t.Helper()
		out := writeTemp(t, "out", nil)
		printed := run(t, "curl", append([]string{
			"--silent", "--show-error", "--http2", "--cacert", filepath.Join(f.Data, "tls", "cert.pem"), "--header", "Authorization: Bearer " + f.client.Token,
			"--output", out, "--write-out", "%{http_code} %{http_version}",
		}, args...)...)
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		status, version, _ = strings.Cut(printed, " ")
		return status, version, string(content)
	}
	pdf := writeTemp(t, "diploma.pdf", sample("Jane Doe"))
	status, version, body := curl("--form", "certificate_title=Diploma", "--form", "full_name=Jane Doe", "--form", "applicant_email=jane.doe@example.org",
		"--form", "certificate_file=@"+pdf, f.URL+vault.CertificatesPath)
	if status != "201" || version != "2" {
		t.Fatalf("upload: status %s over HTTP/%s, want 201 over HTTP/2: %s", status, version, body)
	}
	made, err := (&vault.Response{Body: []byte(body)}).Certificate()
	if err != nil {
		t.Fatal(err)
	}
	f.await(t, made.UUID, "approved")
	download := f.URL + vault.CertificatesPath + "/" + made.UUID + "/download"
	status, version, whole := curl(download)
	if status != "200" || version != "2" || !strings.HasPrefix(whole, "%PDF-") {
		t.Fatalf("download: status %s over HTTP/%s, want 200 over HTTP/2 and a PDF", status, version)
	}
	if status, _, part := curl("--range", "5-99", download); status != "206" || part != whole[5:100] {
		t.Errorf("range request: status %s, %d bytes; want 206 and the bytes 5 to 99", status, len(part))
	}
	etag := get(t, f.client, vault.CertificatesPath+"/"+made.UUID+"/download", 200).Header.Get("ETag")
	if status, _, body := curl("--header", "If-None-Match: "+etag, download); status != "304" || body != "" {
		t.Errorf("conditional request: status %s, %d bytes; want 304 and 0 bytes", status, len(body))
	}
	if status, _, _ := curl("--header", "Authorization: Bearer unknown", "--form", "certificate_file=@"+pdf, f.URL+vault.CertificatesPath); status != "401" {
		t.Errorf("upload with an invalid token: status = %s, want 401", status)
	}
}

// TestExpectContinue uses a client that waits for 100 Continue before it sends the body. The vault
// rejects invalid requests without reading a body.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	contentType, encoded, err := form("Jane Doe").Encode()
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
		"no token": {request("", contentType, len(body)), 401},
		"no form":  {request(f.client.Token, "application/pdf", len(body)), 415},
		"1 GiB":    {request(f.client.Token, contentType, 1<<30), 413},
	} {
		if a := exchange(t, f, "POST", c.request); a.Status != c.status {
			t.Errorf("%s: status = %d, want %d", what, a.Status, c.status)
		}
	}
	conn := dial(t, f)
	if _, err := io.WriteString(conn, request(f.client.Token, contentType, len(body))); err != nil {
		t.Fatal(err)
	}
	responses := bufio.NewReader(conn)
	if line, err := responses.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("got %q, %v; want 100 Continue", line, err)
	}
	if _, err := responses.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(responses, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Errorf("status = %d, want 201", res.StatusCode)
	}
}
