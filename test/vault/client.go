package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// CertificatesPath is the path for uploading and listing certificates.
const CertificatesPath = "/business/certificate-vault"

// requestTime is the time limit of a request.
const requestTime = 2 * time.Minute

// Certificate is a certificate in a response.
type Certificate struct {
	ID               int64     `json:"id"`
	UUID             string    `json:"uuid"`
	ReferenceID      string    `json:"reference_id"`
	CertificateTitle string    `json:"certificate_title"`
	FullName         string    `json:"full_name"`
	ApplicantEmail   string    `json:"applicant_email"`
	Source           Label     `json:"source"`
	Status           Label     `json:"status"`
	IssueDate        string    `json:"issue_date"`
	Details          *string   `json:"details"`
	TriggerContext   string    `json:"trigger_context"`
	Failure          *Failure  `json:"failure"`
	File             File      `json:"file"`
	VerifiedSHA256   *string   `json:"verified_sha256"`
	Placement        *string   `json:"placement"`
	PlacementPage    *int      `json:"placement_page"`
	PlacementBox     []float64 `json:"placement_box"`
	VerificationURL  string    `json:"verification_url"`
	PDFPath          *string   `json:"pdf_path"`
	ImagePath        *string   `json:"image_path"`
	QRCodePath       string    `json:"qrcode_path"`
	BarcodePath      string    `json:"barcode_path"`
	CreatedAt        string    `json:"created_at"`
	UpdatedAt        string    `json:"updated_at"`
	ApprovedAt       *string   `json:"approved_at"`
	RevokedAt        *string   `json:"revoked_at"`
	RevocationReason *string   `json:"revocation_reason"`
}

// Label is a value with texts for people.
type Label struct {
	Value       string `json:"value"`
	Label       string `json:"label"`
	Description string `json:"description"`
}

// Failure is the reason why processing failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// File is the uploaded file.
type File struct {
	Name     string `json:"name"`
	MIMEType string `json:"mime_type"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
}

// Problem is the body of an error response.
type Problem struct {
	Message string              `json:"message"`
	Errors  map[string][]string `json:"errors"`
}

// Response is an HTTP response with its whole body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Proto is the protocol, such as HTTP/2.0.
	Proto string
}

// Certificate decodes the certificate in the response.
func (a *Response) Certificate() (*Certificate, error) {
	var body struct {
		Data *Certificate `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil {
		return nil, fmt.Errorf("decoding a certificate: status %d: %q: %w", a.Status, a.Body, err)
	}
	if body.Data == nil {
		return nil, fmt.Errorf("the response has no certificate: status %d: %q", a.Status, a.Body)
	}
	return body.Data, nil
}

// Problem decodes the error in the response.
func (a *Response) Problem() (*Problem, error) {
	p := &Problem{}
	if err := json.Unmarshal(a.Body, p); err != nil {
		return nil, fmt.Errorf("decoding an error: status %d: %q: %w", a.Status, a.Body, err)
	}
	return p, nil
}

// Client sends requests to a vault with a token or a session, and reuses connections.
type Client struct {
	URL   string
	Token string
	// Session is the value of the session cookie, for pages.
	Session string
	HTTP    *http.Client
}

// Client returns a client of the vault for HTTP/1.1. The client does not follow redirects.
func (v *Vault) Client(token string) (*Client, error) {
	transport, err := v.Transport()
	if err != nil {
		return nil, err
	}
	return newClient(v.URL, token, transport), nil
}

// HTTP2Client returns a client of the vault that uses only HTTP/2 and does not follow redirects.
func (v *Vault) HTTP2Client(token string) (*Client, error) {
	transport, err := v.Transport()
	if err != nil {
		return nil, err
	}
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP2(true)
	return newClient(v.URL, token, transport), nil
}

func newClient(url, token string, transport http.RoundTripper) *Client {
	return &Client{URL: url, Token: token, HTTP: &http.Client{
		Transport: transport, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Request returns a request with the client's token and session, if they are set. target is a path
// or a URL.
func (c *Client) Request(ctx context.Context, method, target string, body io.Reader) (*http.Request, error) {
	if strings.HasPrefix(target, "/") {
		target = c.URL + target
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("creating a request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Session != "" {
		req.Header.Set("Cookie", SessionCookie+"="+c.Session)
	}
	return req, nil
}

// Send sends a request and reads the whole response.
func (c *Client) Send(req *http.Request) (_ *Response, err error) {
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sending a request to the vault: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the vault's response: %w", err)
	}
	return &Response{Status: res.StatusCode, Header: res.Header, Body: body, Proto: res.Proto}, nil
}

// Get requests a path or a URL.
func (c *Client) Get(ctx context.Context, target string) (*Response, error) {
	return c.do(ctx, http.MethodGet, target, "", nil)
}

// PostJSON sends a JSON body by POST. If body is "", the request has no body.
func (c *Client) PostJSON(ctx context.Context, target, body string) (*Response, error) {
	contentType := ""
	if body != "" {
		contentType = "application/json"
	}
	return c.do(ctx, http.MethodPost, target, contentType, strings.NewReader(body))
}

// Upload uploads a certificate. A response with an error status is not an error.
func (c *Client) Upload(ctx context.Context, f *Form) (*Response, error) {
	contentType, body, err := f.Encode()
	if err != nil {
		return nil, err
	}
	return c.do(ctx, http.MethodPost, CertificatesPath, contentType, body)
}

// Replace uploads a certificate that replaces the certificate with a UUID. A response with an error status
// is not an error.
func (c *Client) Replace(ctx context.Context, uuid string, f *Form) (*Response, error) {
	contentType, body, err := f.Encode()
	if err != nil {
		return nil, err
	}
	return c.do(ctx, http.MethodPost, CertificatesPath+"/"+uuid+"/replace", contentType, body)
}

func (c *Client) do(ctx context.Context, method, target, contentType string, body io.Reader) (*Response, error) {
	req, err := c.Request(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return c.Send(req)
}

// View returns the certificate with a UUID.
func (c *Client) View(ctx context.Context, uuid string) (*Certificate, error) {
	a, err := c.Get(ctx, CertificatesPath+"/"+uuid)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("reading a certificate: status %d: %s", a.Status, a.Body)
	}
	return a.Certificate()
}

// Await waits until a certificate is no longer in processing, a request fails, or ctx is done. It
// returns the certificate.
func (c *Client) Await(ctx context.Context, uuid string) (*Certificate, error) {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		found, err := c.View(ctx, uuid)
		if err != nil || found.Status.Value != "processing" {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for certificate %s: %w", uuid, ctx.Err())
		case <-tick.C:
		}
	}
}

// Verification is the public record of a certificate in a response.
type Verification struct {
	ReferenceID      string  `json:"reference_id"`
	Status           string  `json:"status"`
	Institution      string  `json:"institution"`
	CertificateTitle string  `json:"certificate_title"`
	FullName         string  `json:"full_name"`
	IssueDate        string  `json:"issue_date"`
	ApprovedAt       *string `json:"approved_at"`
	RevokedAt        *string `json:"revoked_at"`
	Reason           *string `json:"reason"`
	Checks           []Check `json:"checks"`
}

// Check is one check in the public record of a certificate.
type Check struct {
	Name      string  `json:"name"`
	Result    string  `json:"result"`
	CheckedAt *string `json:"checked_at"`
}

// Verify requests the JSON of a verification URL.
func (c *Client) Verify(ctx context.Context, url string) (*Verification, error) {
	a, err := c.Get(ctx, url)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("verifying a certificate: status %d: %s", a.Status, a.Body)
	}
	var body struct {
		Data *Verification `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || body.Data == nil {
		return nil, fmt.Errorf("decoding a verification: %q: %w", a.Body, err)
	}
	return body.Data, nil
}
