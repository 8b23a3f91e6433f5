//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// exchange sends bytes over a new connection and reads one response with its body.
func exchange(t *testing.T, f *fixture, method, request string) *vault.Response {
	t.Helper()
	conn := dial(t, f)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("reading the response to %.100q: %v", request, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &vault.Response{Status: res.StatusCode, Header: res.Header, Body: body, Proto: res.Proto}
}

// TestRequestIDs sends unusual and invalid HTTP requests. Each response must have a request id that is
// in the log, and the log must not contain secret.
func TestRequestIDs(t *testing.T) {
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
		{"TRACE", "/verify", "", "", 405, "GET, HEAD, POST"},
		{"BREW" + secret, "/verify", "", "", 405, "GET, HEAD, POST"},
		{"get", "/verify", "", "", 405, "GET, HEAD, POST"},
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
			t.Errorf("%s %s: status %d, Allow %q, request id %q; want status %d, Allow %q and an id: %.200s", c.method, c.target, a.Status, a.Header.Get("Allow"), id, c.status, c.allow, a.Body)
		}
		eventually(t, 10*time.Second, "the log has a line with the request id of "+c.method+" "+c.target, func() bool {
			return strings.Contains(f.Log(), `"request_id":"`+id+`"`)
		})
	}
	if log := f.Log(); strings.Contains(log, secret) || strings.Contains(log, `"status":500`) {
		t.Errorf("the log contains %q or a status 500, want neither", secret)
	}
}

// TestWrongContentLength sends bodies that are longer or shorter than Content-Length, and valid and
// invalid chunked bodies.
func TestWrongContentLength(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	contentType, encoded, err := form("Jane Doe").Encode()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(encoded)
	if err != nil {
		t.Fatal(err)
	}
	body := string(content)
	// The vault reads only half of the form, which is then invalid.
	if a := exchange(t, f, "POST", head(f, vault.CertificatesPath, f.client.Token, contentType, len(body)/2)+body); a.Status != 422 {
		t.Errorf("body longer than Content-Length: status = %d, want 422", a.Status)
	}
	conn := dial(t, f)
	if _, err := io.WriteString(conn, head(f, vault.CertificatesPath, f.client.Token, contentType, len(body)*2)+body); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil { // the server may have closed the connection
		if res.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("body shorter than Content-Length: status = %d, want 422", res.StatusCode)
		}
		_ = res.Body.Close()
	}
	nothingStored(t, f)
	chunks := strings.Replace(head(f, vault.CertificatesPath, f.client.Token, contentType, 0), "Content-Length: 0", "Transfer-Encoding: chunked", 1)
	var b strings.Builder
	for rest := body; rest != ""; {
		n := min(len(rest), 777)
		fmt.Fprintf(&b, "%x;a-parameter=\"x\"\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	if a := exchange(t, f, "POST", chunks+b.String()+"0\r\nX-Trailer: x\r\n\r\n"); a.Status != 201 {
		t.Errorf("chunked body: status = %d, want 201: %s", a.Status, a.Body)
	}
	if a := exchange(t, f, "POST", chunks+"fffffffffffffffff\r\nx"); a.Status != 422 {
		t.Errorf("chunk with an invalid size: status = %d, want 422", a.Status)
	}
}

// TestSlowBody begins uploads and then sends no more data. The vault ends these uploads and deletes
// their files. In the meantime it processes other requests.
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
				t.Errorf("reading the response: %v", err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusRequestTimeout && res.StatusCode != http.StatusConflict { // 409 while another request has the key
				t.Errorf("status = %d, want 408 or 409", res.StatusCode)
			}
		})
	}
	f.await(t, f.upload(t, form("Ada Obi")).UUID, "approved")
	wg.Wait()
	eventually(t, approvalTime, "the resources of the slow requests are freed", func() bool { return len(f.files(t, "incoming")) == 0 })
	wantStatus(t, mustUploadKeyed(t, f.client, "slow", form("Jane Doe")), 201)
}

// TestMemoryExhaustion sends forms that could exhaust the memory of the vault, for example with long
// headers, long values or many parts. The vault rejects each form with the status 422, and its peak
// resident memory is at most maxResident.
func TestMemoryExhaustion(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	const (
		size   = 20 << 20
		copies = 20
	)
	line := strings.Repeat("x", 1000)
	bodies := map[string]string{
		"long header of a part":       "--x\r\nX: " + strings.Repeat("y", size),
		"many headers of a part":      "--x\r\n" + strings.Repeat("X: "+line+"\r\n", size/1000),
		"long preamble":               strings.Repeat(line+"\r\n", size/1000),
		"long first line":             strings.Repeat("x", size),
		"many parts":                  strings.Repeat("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n", size/60),
		"long values":                 strings.Repeat("--x\r\nContent-Disposition: form-data; name=\"details\"\r\n\r\n"+strings.Repeat("v", size/100)+"\r\n", 99) + "--x--\r\n",
		"many parameters of a header": "--x\r\nContent-Disposition: form-data" + strings.Repeat("; a*0*=x", 6000) + "\r\n\r\n\r\n--x--\r\n",
	}
	var wg sync.WaitGroup
	for name, body := range bodies {
		for range copies {
			wg.Go(func() {
				req, err := f.client.Request(t.Context(), "POST", vault.CertificatesPath, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
				a, err := f.client.Send(req)
				if err != nil || a.Status != 422 {
					t.Errorf("%s: got %+v, %v; want status 422", name, a, err)
				}
			})
		}
	}
	wg.Wait()
	if used := peak(t, f.PID()); used > maxResident {
		t.Errorf("peak resident memory = %d MB, want at most %d MB", used>>10, maxResident>>10)
	} else {
		t.Logf("peak resident memory: %d MB", used>>10)
	}
	nothingStored(t, f)
}
