package client_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/certvault/certvault/client"
)

// vault starts a fake vault for the examples. end stops it.
func vault(responses map[string]string) (address string, roots *x509.CertPool, end func()) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		response, ok := responses[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			response = `{"message": "No such certificate."}`
		}
		_, _ = io.WriteString(w, response)
	}))
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, roots, server.Close
}

func Example() {
	url, roots, end := vault(map[string]string{
		"POST /business/certificate-vault":    `{"data": {"uuid": "u-1", "status": {"value": "processing"}}}`,
		"GET /business/certificate-vault/u-1": `{"data": {"uuid": "u-1", "reference_id": "NWU-7Q4M2H9K3XBT05VC", "status": {"value": "approved"}}}`,
	})
	defer end()

	c, err := client.New(client.Config{URL: url, Token: "cvt_...", RootCAs: roots})
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := client.SeekFile("diploma.pdf", strings.NewReader("%PDF-1.7 ...")) // or client.OpenFile
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	created, err := c.Upload(ctx, client.NewCertificate{
		CertificateTitle: "Bachelor of Science", FullName: "Ada Lovelace", ApplicantEmail: "ada@example.org", File: file,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(created.Status.Value)
	if created, err = c.Await(ctx, created.UUID); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(created.Status.Value, created.ReferenceID)
	// Output:
	// processing
	// approved NWU-7Q4M2H9K3XBT05VC
}

func ExampleClient_VaultCertificates() {
	url, roots, end := vault(map[string]string{
		"GET /business/certificate-vault": `{"data": [{"reference_id": "NWU-2"}, {"reference_id": "NWU-1"}], "links": {"next": null}, "meta": {"next_cursor": null}}`,
	})
	defer end()

	c, err := client.New(client.Config{URL: url, Token: "cvt_...", RootCAs: roots})
	if err != nil {
		fmt.Println(err)
		return
	}
	for certificate, err := range c.VaultCertificates(context.Background(), client.VaultFilter{Status: client.Failed}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(certificate.ReferenceID)
	}
	// Output:
	// NWU-2
	// NWU-1
}

func ExampleClient_Download() {
	url, roots, end := vault(map[string]string{"GET /business/certificate-vault/u-1/download": "%PDF-1.7 ..."})
	defer end()

	c, err := client.New(client.Config{URL: url, Token: "cvt_...", RootCAs: roots})
	if err != nil {
		fmt.Println(err)
		return
	}
	var pdf bytes.Buffer // or a file
	if err := c.Download(context.Background(), "u-1", &pdf); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pdf.String())
	err = c.Download(context.Background(), "u-2", io.Discard)
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// %PDF-1.7 ...
	// true
}

func ExampleVerifyWebhook() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	receive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		event, err := client.VerifyWebhook(r.Header, body, secret)
		if err != nil {
			http.Error(w, "not signed", http.StatusUnauthorized)
			return
		}
		fmt.Println(event.Event, event.ReferenceID)
	})

	body := `{"event": "certificate_application.approved", "reference_id": "NWU-7Q4M2H9K3XBT05VC"}`
	deliver := func(signature string) {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hook", strings.NewReader(body))
		r.Header.Set("webhook-id", "0197f2b4-6d91-7d0a-b3aa-2f6a1f0b7c11")
		r.Header.Set("webhook-timestamp", fmt.Sprint(time.Now().Unix()))
		if signature == "" {
			key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
			signature = base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}
		r.Header.Set("webhook-signature", "v1,"+signature)
		w := httptest.NewRecorder()
		receive.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	deliver("")
	deliver(hex.EncodeToString([]byte("forged")))
	// Output:
	// certificate_application.approved NWU-7Q4M2H9K3XBT05VC
	// 200
	// 401
}

func ExampleClient_Approve() {
	url, roots, end := vault(map[string]string{
		"GET /business/certificate-applications/u-1":          `{"data": {"uuid": "u-1", "full_name": "Ada Lovelace", "fields": [{"key": "student_number", "value": "4711"}]}}`,
		"POST /business/certificate-applications/u-1/approve": `{"data": {"uuid": "u-1", "reference_id": "NWU-7Q4M2H9K3XBT05VC", "status": {"value": "processing"}}}`,
		"POST /business/certificate-applications/u-1/reject":  `{"data": {"uuid": "u-1", "status": {"value": "rejected"}}}`,
	})
	defer end()

	c, err := client.New(client.Config{URL: url, Token: "cvt_...", RootCAs: roots})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	event := client.Event{Event: "certificate_application.created", EventID: "e-1", UUID: "u-1", Source: "customer"} // from client.VerifyWebhook
	application, err := c.Application(ctx, event.UUID)
	if err != nil {
		fmt.Println(err)
		return
	}
	if application.Value("student_number") == "4711" && application.FullName == "Ada Lovelace" {
		file, err := client.SeekFile("transcript.pdf", strings.NewReader("%PDF-1.7 ...")) // or client.OpenFile
		if err != nil {
			fmt.Println(err)
			return
		}
		// With this key, a repeated delivery of the event has no further effect.
		application, err = c.Approve(ctx, event.UUID, client.Approval{File: file}, client.IdempotencyKey("approve-"+event.EventID))
		if err != nil {
			fmt.Println(err)
			return
		}
	} else if application, err = c.Reject(ctx, event.UUID, "There is no student with this number.", "", client.IdempotencyKey("reject-"+event.EventID)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(application.Status.Value, application.ReferenceID)
	// Output: processing NWU-7Q4M2H9K3XBT05VC
}
