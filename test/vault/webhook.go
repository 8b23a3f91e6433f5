package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Delivered is one attempt at a delivery, as a receiver received it.
type Delivered struct {
	Header http.Header
	Body   []byte
	At     time.Time
}

// Event decodes the payload of the delivery.
func (d *Delivered) Event() (*Event, error) {
	e := &Event{}
	if err := json.Unmarshal(d.Body, e); err != nil {
		return nil, fmt.Errorf("decoding a payload: %w", err)
	}
	return e, nil
}

// Event is the payload of a delivery.
type Event struct {
	Event            string `json:"event"`
	WebhookID        string `json:"webhook_id"`
	Timestamp        string `json:"timestamp"`
	ApplicationID    int64  `json:"application_id"`
	UUID             string `json:"uuid"`
	CertificateTitle string `json:"certificate_title"`
	ApplicantEmail   string `json:"applicant_email"`
	Source           string `json:"source"`
	TriggerContext   string `json:"trigger_context"`
}

// Receiver is a server on the loopback interface that receives deliveries.
type Receiver struct {
	URL string

	server  *http.Server
	mu      sync.Mutex
	got     []*Delivered
	handler func(w http.ResponseWriter, d *Delivered)
}

// Receive starts a receiver. If handler is nil, the receiver responds with 204. The vault must run with
// --webhook-allow 127.0.0.1.
func Receive(ctx context.Context, handler func(w http.ResponseWriter, d *Delivered)) (*Receiver, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a receiver: %w", err)
	}
	r := &Receiver{URL: "http://" + l.Addr().String() + "/hook", handler: handler}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	d := &Delivered{Header: req.Header.Clone(), At: time.Now()}
	var err error
	if d.Body, err = io.ReadAll(req.Body); err != nil {
		return // the vault was killed while it sent the request
	}
	r.mu.Lock()
	r.got = append(r.got, d)
	handler := r.handler
	r.mu.Unlock()
	if handler == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	handler(w, d)
}

// Answer replaces the receiver's handler. If handler is nil, the receiver responds with 204.
func (r *Receiver) Answer(handler func(w http.ResponseWriter, d *Delivered)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = handler
}

// Got returns the deliveries in the order of their arrival.
func (r *Receiver) Got() []*Delivered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Delivered(nil), r.got...)
}

// Close stops the receiver and closes all connections.
func (r *Receiver) Close() error {
	if err := r.server.Close(); err != nil {
		return fmt.Errorf("closing a receiver: %w", err)
	}
	return nil
}

// Signed returns an error if the signature in X-Webhook-Signature does not match a secret, or if
// SignedStandard returns an error.
func (d *Delivered) Signed(secret string) error {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(d.Body)
	if want := hex.EncodeToString(m.Sum(nil)); !hmac.Equal([]byte(want), []byte(d.Header.Get("X-Webhook-Signature"))) {
		return errors.New("X-Webhook-Signature does not match the secret")
	}
	return d.SignedStandard(secret)
}

// SignedStandard returns an error if none of the signatures in webhook-signature, the header of Standard
// Webhooks, matches a secret.
func (d *Delivered) SignedStandard(secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return fmt.Errorf("decoding a secret: %w", err)
	}
	m := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(m, "%s.%s.%s", d.Header.Get("Webhook-Id"), d.Header.Get("Webhook-Timestamp"), d.Body)
	want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	for got := range strings.FieldsSeq(d.Header.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(want), []byte(got)) {
			return nil
		}
	}
	return errors.New("no signature in webhook-signature matches the secret")
}

// Hook runs a webhook command with --json for an institution, and returns the exit code. If into is not
// nil, Hook decodes the command's output into it.
func (v *Vault) Hook(ctx context.Context, slug string, into any, command string, args ...string) (code int, err error) {
	res, err := Run(ctx, v.Options, "", append([]string{"webhook", command, "--institution", slug, "--json"}, args...)...)
	if err != nil {
		return 0, err
	}
	if into != nil {
		if err := json.Unmarshal([]byte(res.Stdout), into); err != nil {
			return res.Code, fmt.Errorf("decoding the output of webhook %s: %w: %s", command, err, res.Stderr)
		}
	}
	return res.Code, nil
}
