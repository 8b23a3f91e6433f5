//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

const maxBody = 24 << 20

// bodyOf returns a form with an invalid file, encoded in exactly size bytes.
func bodyOf(t *testing.T, size int) (contentType string, body *vault.Body) {
	t.Helper()
	upload := form("Jane Doe")
	_, empty, err := upload.WithFile("heavy.pdf", nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := make([]byte, size-int(empty.Size))
	copy(file, "%PDF-1.7\n")
	contentType, body, err = upload.WithFile("heavy.pdf", file).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if body.Size != int64(size) {
		t.Fatalf("the body has %d bytes, want %d", body.Size, size)
	}
	return contentType, body
}

// TestLargeBody sends a body of the maximum size and larger bodies, over HTTP/1.1 and HTTP/2, with and
// without Content-Length. The client must receive the response.
func TestLargeBody(t *testing.T) { //nolint:tparallel // the code after the subtests waits for them
	t.Parallel()
	f := start(t, "")
	http2, err := f.HTTP2Client(f.client.Token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http2.HTTP.CloseIdleConnections)
	for proto, c := range map[string]*vault.Client{"HTTP/1.1": f.client, "HTTP/2.0": http2} {
		for _, known := range []bool{true, false} {
			for size, status := range map[int]int{maxBody: 422, maxBody + 1: 413, maxBody + 6<<20: 413} {
				t.Run(fmt.Sprintf("%s known=%v %d", proto, known, size), func(t *testing.T) {
					contentType, body := bodyOf(t, size)
					req, err := c.Request(t.Context(), "POST", vault.CertificatesPath, body)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", contentType)
					if known {
						req.ContentLength = body.Size
					}
					a, err := c.Send(req)
					if err != nil {
						t.Fatal(err)
					}
					if a.Proto != proto {
						t.Errorf("protocol = %s, want %s", a.Proto, proto)
					}
					p := wantProblem(t, a, status, "")
					if status == 422 && len(p.Errors["certificate_file"]) == 0 {
						t.Errorf("the response has no error for certificate_file: %s", a.Body)
					}
				})
			}
		}
	}
	nothingStored(t, f)
}

// TestBodyBeforeResponse uses a client that writes the whole body before it reads the response. The
// client must receive the response even if the server then closes the connection.
func TestBodyBeforeResponse(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	throttled := start(t, "", "--rate-limit", "1")
	viewer := f.token(t, "", "certificate-vault:view")
	for _, c := range []struct {
		what        string
		vault       *fixture
		token, path string
		contentType string
		size        int
		status      int
	}{
		{"over the limit", f, f.client.Token, vault.CertificatesPath, "", 50 << 20, 413},
		{"file over the limit", f, f.client.Token, vault.CertificatesPath, "", 22 << 20, 422},
		{"wrong type", f, f.client.Token, vault.CertificatesPath, "application/json", 20 << 20, 415},
		{"no token", f, "", vault.CertificatesPath, "", 20 << 20, 401},
		{"no permission", f, viewer, vault.CertificatesPath, "", 20 << 20, 403},
		{"unknown route", f, f.client.Token, "/business/nothing", "", 20 << 20, 404},
		{"unsupported method", f, f.client.Token, "/business/certificate-templates", "", 20 << 20, 405},
		{"unknown record", f, f.client.Token, vault.CertificatesPath + "/" + unknownUUID + "/revoke", "", 20 << 20, 404},
		{"too many requests", throttled, throttled.client.Token, vault.CertificatesPath, "", 20 << 20, 429},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if c.vault == throttled {
				get(t, throttled.client, vault.CertificatesPath, 200) // the only allowed request of this minute
			}
			contentType, body := bodyOf(t, c.size)
			if c.contentType != "" {
				contentType = c.contentType
			}
			conn := dial(t, c.vault)
			_, err := io.Copy(conn, io.MultiReader(strings.NewReader(head(c.vault, c.path, c.token, contentType, c.size)), body))
			if err != nil {
				t.Fatalf("writing the body: %v", err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("reading the response: %v", err)
			}
			defer res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("status = %d, want %d", res.StatusCode, c.status)
			}
		})
	}
}

// head returns the request line and the headers of a POST request over HTTP/1.1.
func head(f *fixture, path, token, contentType string, size int) string {
	return "POST " + path + " HTTP/1.1\r\nHost: " + f.Address + "\r\nAuthorization: Bearer " + token + "\r\nAccept: application/json\r\nContent-Type: " +
		contentType + "\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
}

// dial opens a TLS connection to the vault.
func dial(t *testing.T, f *fixture) *tls.Conn {
	t.Helper()
	transport, err := f.Transport()
	if err != nil {
		t.Fatal(err)
	}
	d := tls.Dialer{Config: transport.TLSClientConfig}
	conn, err := d.DialContext(t.Context(), "tcp", f.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed the connection
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn.(*tls.Conn)
}

// TestBrokenForms sends bodies that are not forms, and forms that are truncated or otherwise invalid.
func TestBrokenForms(t *testing.T) { //nolint:tparallel // the code after the subtests waits for them
	t.Parallel()
	f := start(t, "")
	contentType, whole, err := form("Jane Doe").Encode()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	crowd, crowdType := manyParts(t, 101)
	for _, c := range []struct {
		what, contentType string
		body              []byte
		status            int
	}{
		{"no content type", "", body, 415},
		{"JSON", "application/json", []byte(`{}`), 415},
		{"URL encoded", "application/x-www-form-urlencoded", []byte("certificate_title=x"), 415},
		{"other multipart", strings.Replace(contentType, "form-data", "mixed", 1), body, 415},
		{"no boundary", "multipart/form-data", body, 415},
		{"invalid type", "multipart/form-data; boundary=\"", body, 415},
		{"another boundary", "multipart/form-data; boundary=other", body, 422},
		{"no body", contentType, nil, 422},
		{"cut off in the file", contentType, body[:len(body)-100], 422},
		{"cut off in a field", contentType, body[:150], 422},
		{"more than 100 parts", crowdType, crowd, 422},
		{"repeated field", contentType, bytes.Replace(body, []byte(`name="full_name"`), []byte(`name="certificate_title"`), 1), 422},
		{"two files", contentType, twoFiles(body, contentType), 422},
		{"header of a part above the limit", contentType, bytes.Replace(body, []byte(`name="full_name"`), []byte(`name="`+strings.Repeat("n", 1<<20)+`"`), 1), 422},
	} {
		t.Run(c.what, func(t *testing.T) {
			req, err := f.client.Request(t.Context(), "POST", vault.CertificatesPath, bytes.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			a, err := f.client.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			if p := wantProblem(t, a, c.status, ""); p.Message == "" {
				t.Error("the error has no message")
			}
		})
	}
	nothingStored(t, f)
	f.upload(t, form("Jane Doe"))
}

func manyParts(t *testing.T, n int) (body []byte, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := range n {
		if err := w.WriteField(fmt.Sprintf("field_%d", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), w.FormDataContentType()
}

// twoFiles adds the file of a form a second time.
func twoFiles(body []byte, contentType string) []byte {
	_, boundary, _ := strings.Cut(contentType, "boundary=")
	parts := bytes.Split(body, []byte("--"+boundary))
	file := parts[len(parts)-2]
	parts = append(parts[:len(parts)-1:len(parts)-1], file, parts[len(parts)-1])
	return bytes.Join(parts, []byte("--"+boundary))
}
