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

// Delivered is one request that a receiver got.
type Delivered struct {
	Header http.Header
	Body   []byte
	At     time.Time
}

// Event decodes the payload.
func (d *Delivered) Event() (*Event, error) {
	e := &Event{}
	if err := json.Unmarshal(d.Body, e); err != nil {
		return nil, fmt.Errorf("reading a payload: %w", err)
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

// Receiver is an institution's server on loopback.
type Receiver struct {
	URL string

	server *http.Server
	mu     sync.Mutex
	got    []*Delivered
	answer func(w http.ResponseWriter, d *Delivered)
}

// Receive starts a receiver with a handler; nil answers 204. A vault reaches it with
// --webhook-allow 127.0.0.1.
func Receive(ctx context.Context, answer func(w http.ResponseWriter, d *Delivered)) (*Receiver, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a receiver: %w", err)
	}
	r := &Receiver{URL: "http://" + l.Addr().String() + "/hook", answer: answer}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	d := &Delivered{Header: req.Header.Clone(), At: time.Now()}
	var err error
	if d.Body, err = io.ReadAll(req.Body); err != nil {
		return // the vault was killed
	}
	r.mu.Lock()
	r.got = append(r.got, d)
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, d)
}

// Answer replaces the receiver's handler.
func (r *Receiver) Answer(answer func(w http.ResponseWriter, d *Delivered)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// Got returns the deliveries in the order of their arrival.
func (r *Receiver) Got() []*Delivered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Delivered(nil), r.got...)
}

// Close closes the receiver.
func (r *Receiver) Close() error {
	if err := r.server.Close(); err != nil {
		return fmt.Errorf("ending a receiver: %w", err)
	}
	return nil
}

// Signed checks a delivery's signatures against a secret: the one of the interface, and one of the
// Standard Webhooks signatures.
func (d *Delivered) Signed(secret string) error {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(d.Body)
	if want := hex.EncodeToString(m.Sum(nil)); !hmac.Equal([]byte(want), []byte(d.Header.Get("X-Webhook-Signature"))) {
		return errors.New("the X-Webhook-Signature is another")
	}
	return d.SignedStandard(secret)
}

// SignedStandard checks only webhook-signature.
func (d *Delivered) SignedStandard(secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return fmt.Errorf("reading a secret: %w", err)
	}
	m := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(m, "%s.%s.%s", d.Header.Get("Webhook-Id"), d.Header.Get("Webhook-Timestamp"), d.Body)
	want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	for got := range strings.FieldsSeq(d.Header.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(want), []byte(got)) {
			return nil
		}
	}
	return errors.New("no webhook-signature is of the secret")
}

// Hook runs a webhook command for an institution with --json, decodes its output if into is not
// nil, and returns the exit code.
func (v *Vault) Hook(ctx context.Context, slug string, into any, command string, args ...string) (code int, err error) {
	res, err := Run(ctx, v.Options, "", append([]string{"webhook", command, "--institution", slug, "--json"}, args...)...)
	if err != nil {
		return 0, err
	}
	if into != nil {
		if err := json.Unmarshal([]byte(res.Stdout), into); err != nil {
			return res.Code, fmt.Errorf("reading the answer of webhook %s: %w: %s", command, err, res.Stderr)
		}
	}
	return res.Code, nil
}
