package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is the payload of a webhook delivery.
type Event struct {
	Event            string    `json:"event"`
	WebhookID        string    `json:"webhook_id"`
	Timestamp        time.Time `json:"timestamp"`
	ApplicationID    int64     `json:"application_id"`
	UUID             string    `json:"uuid"`
	CertificateTitle string    `json:"certificate_title"`
	ApplicantEmail   string    `json:"applicant_email"`
	Source           string    `json:"source"`
	TriggerContext   string    `json:"trigger_context"`
	// EventID is the same for all deliveries of the event.
	EventID          string   `json:"event_id"`
	ReferenceID      string   `json:"reference_id"`
	Status           Status   `json:"status"`
	FullName         string   `json:"full_name"`
	IssueDate        string   `json:"issue_date"`
	Failure          *Failure `json:"failure"`
	RevocationReason string   `json:"revocation_reason"`
	RejectionReason  string   `json:"rejection_reason"`
	// ExpiresOn is the last day of validity, YYYY-MM-DD, or nil.
	ExpiresOn *string `json:"expires_on"`
	// Replaces and ReplacedBy may be nil.
	Replaces   *Replacement `json:"replaces"`
	ReplacedBy *Replacement `json:"replaced_by"`
	// Test reports whether the event is a test, which has no certificate.
	Test bool `json:"test"`
}

// ErrSignature means that a delivery was not signed with a secret of the Verifier, or that its time
// differs from the local time by more than the tolerance. Respond with 401 and do not process the delivery.
var ErrSignature = errors.New("the webhook's signature is not valid")

// DefaultTolerance is the default of Verifier.Tolerance.
const DefaultTolerance = 5 * time.Minute

// Verifier verifies deliveries.
type Verifier struct {
	// Secrets are the endpoint's signing secrets as the vault displayed them: one secret, or two
	// during a rotation.
	Secrets []string
	// Tolerance is the largest accepted difference between the time of a delivery and the local time. If
	// it is 0, DefaultTolerance is used.
	Tolerance time.Duration
	// Now replaces time.Now if it is not nil.
	Now func() time.Time
}

// VerifyWebhook verifies that a delivery was signed with the secret, and returns its event. The
// body must be exactly the received bytes.
//
// VerifyWebhook checks the signature of Standard Webhooks, which also covers the time of the
// delivery. If a delivery has none of the headers of Standard Webhooks, VerifyWebhook checks
// X-Webhook-Signature, which does not cover the time and so does not detect a replayed delivery.
//
// In both cases, the same event may arrive more than once, with the same Event.EventID.
func VerifyWebhook(header http.Header, body []byte, secret string) (*Event, error) {
	return (&Verifier{Secrets: []string{secret}}).Verify(header, body)
}

// Verify verifies a delivery as VerifyWebhook does, and returns its event.
func (v *Verifier) Verify(header http.Header, body []byte) (*Event, error) {
	if err := v.Check(header, body); err != nil {
		return nil, err
	}
	e := &Event{}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("reading the webhook's payload: %w", err)
	}
	return e, nil
}

// Check verifies a delivery as Verify does, but does not decode the payload.
func (v *Verifier) Check(header http.Header, body []byte) error {
	if len(v.Secrets) == 0 {
		return errors.New("no secret is configured to verify the webhook")
	}
	check := v.standard
	if header.Get("Webhook-Id") == "" && header.Get("Webhook-Timestamp") == "" && header.Get("Webhook-Signature") == "" {
		check = v.plain
	}
	good := false
	for _, secret := range v.Secrets {
		ok, err := check(header, body, secret)
		if err != nil {
			return err
		}
		good = good || ok
	}
	if !good {
		return ErrSignature
	}
	return nil
}

// plain checks X-Webhook-Signature, the hexadecimal HMAC-SHA256 of the body. The key is the text of the
// secret.
func (v *Verifier) plain(header http.Header, body []byte, secret string) (bool, error) {
	if secret == "" {
		return false, errors.New("the webhook's secret is empty")
	}
	given, err := hex.DecodeString(header.Get("X-Webhook-Signature"))
	if err != nil {
		return false, nil //nolint:nilerr // an invalid encoding is an invalid signature
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), given), nil
}

// standard checks the header webhook-signature. It is a list of signatures: "v1," and the base64 of the
// HMAC-SHA256 of id, time and body. The key is the decoded secret. One signature must match, and the time
// must be within the tolerance.
func (v *Verifier) standard(header http.Header, body []byte, secret string) (bool, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return false, errors.New("the webhook's secret must be whsec_ and base64")
	}
	id, sent := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || id == "" || !v.recent(time.Unix(seconds, 0)) {
		return false, nil //nolint:nilerr // a missing or invalid header makes the signature invalid
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	good := false
	for signature := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		encoded, isV1 := strings.CutPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(encoded)
		if isV1 && err == nil && hmac.Equal(want, given) {
			good = true
		}
	}
	return good, nil
}

func (v *Verifier) recent(sent time.Time) bool {
	now, tolerance := v.Now, v.Tolerance
	if now == nil {
		now = time.Now
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	return now().Sub(sent).Abs() <= tolerance
}
