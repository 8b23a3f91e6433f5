package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	maxURL  = 2048
	maxName = 100
)

// Status is the state of an endpoint.
type Status string

const (
	// Active endpoints receive the events that they subscribe to.
	Active Status = "active"
	// Paused endpoints were stopped by the institution. Deliveries wait until the endpoint is resumed.
	Paused Status = "paused"
	// SwitchedOff endpoints were stopped by the vault. Deliveries wait until the endpoint is resumed.
	SwitchedOff Status = "switched_off"
	// The database also has the status "deleted". Queries ignore deleted endpoints until the sweep
	// removes them.
)

// Endpoint is the URL of an institution's server that receives the institution's events.
type Endpoint struct {
	ID            int64
	UUID          string
	InstitutionID int64
	// Name is the name that members gave the endpoint, or "".
	Name string
	URL  string
	// Events are the subscribed events; an empty list means all.
	Events    []Name
	Status    Status
	CreatedAt time.Time
	// StoppedAt is the time at which the endpoint was paused or switched off. StopReason is the
	// reason why the vault switched it off.
	StoppedAt  *time.Time
	StopReason Reason
	// FailingSince is the start of the current series of failures. FailedAt and DeliveredAt are the
	// times of the last failure and the last success.
	FailingSince, FailedAt, DeliveredAt *time.Time
	// BreakerOpen reports whether the circuit breaker is open: nothing is sent until BackoffUntil,
	// and then a single attempt decides whether the breaker closes. If only BackoffUntil is set,
	// the receiver requested a pause with Retry-After.
	BreakerOpen  bool
	BackoffUntil *time.Time
	// OverlapUntil is the time until which deliveries are also signed with the previous secret. Promoted
	// reports whether the new secret is already the key of X-Webhook-Signature.
	OverlapUntil *time.Time
	Promoted     bool
	// Waiting is the number of pending deliveries, up to 10,000; only List sets it.
	Waiting int
}

// Create creates an endpoint and returns its signing secret: "whsec_" and the base64 of 32 random
// bytes, as Standard Webhooks defines. The headers are added to each delivery. Create refuses
// unknown events, and invalid or reserved headers. The URL must have the scheme http or https, a host,
// no user name, and at most 2,048 bytes. Create does not check whether the address of the host is
// allowed, because the node that sends a delivery checks the address each time.
func (s *Service) Create(ctx context.Context, institutionID int64, rawURL string, events []Name, headers ...Header) (*Endpoint, string, error) {
	return s.CreateNamed(ctx, institutionID, "", rawURL, events, headers...)
}

// CreateNamed is like Create, but the endpoint has a name, which members of the institution see. An
// empty name means no name.
func (s *Service) CreateNamed(ctx context.Context, institutionID int64, name, rawURL string, events []Name, headers ...Header) (*Endpoint, string, error) {
	name, rawURL = strings.TrimSpace(name), strings.TrimSpace(rawURL)
	var bad fault.Fields
	checkName(&bad, name)
	checkURL(&bad, rawURL)
	checkEvents(&bad, events)
	checkHeaders(&bad, headers)
	if err := bad.Err(); err != nil {
		return nil, "", err
	}
	secret, err := newSecret()
	if err != nil {
		return nil, "", err
	}
	e := &Endpoint{
		UUID: uuid.NewString(), InstitutionID: institutionID, Name: name, URL: rawURL,
		Events: sortedNames(events), Status: Active, CreatedAt: s.now().UTC(),
	}
	sealed, err := s.ring.Seal(keyring.WebhookSecret, []byte(secret), []byte(e.UUID))
	if err != nil {
		return nil, "", err
	}
	list, err := storedNames(e.Events)
	if err != nil {
		return nil, "", err
	}
	custom, err := s.sealHeaders(e.UUID, headers)
	if err != nil {
		return nil, "", err
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := tx.QueryRowContext(ctx, `
			INSERT INTO webhook_endpoints (uuid, institution_id, name, url, events, secret, headers, status, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id`,
			e.UUID, institutionID, name, rawURL, list, sealed, custom, string(Active), db.Micros(e.CreatedAt)).Scan(&e.ID); err != nil {
			return err
		}
		return s.recordTx(ctx, tx, audit.WebhookCreated, institutionID, e.UUID, rawURL, created(e))
	})
	if err != nil {
		return nil, "", fmt.Errorf("creating the endpoint: %w", err)
	}
	return e, secret, nil
}

// created returns the detail of the audit entry about a new endpoint.
func created(e *Endpoint) audit.Detail {
	d := audit.Detail{"events": append([]Name{}, e.Events...)}
	if e.Name != "" {
		d["name"] = e.Name
	}
	return d
}

// sealHeaders encrypts the headers that an institution adds, because they may contain a key for the
// institution's gateway. It returns nil if there are no headers.
func (s *Service) sealHeaders(endpoint string, headers []Header) ([]byte, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return nil, fmt.Errorf("writing the headers: %w", err)
	}
	return s.ring.Seal(keyring.WebhookHeaders, text, []byte(endpoint))
}

// storedNames returns the names of events as the database stores them; an empty list means all
// events.
func storedNames(events []Name) (string, error) {
	text, err := json.Marshal(append([]Name{}, events...))
	if err != nil {
		return "", fmt.Errorf("writing the events: %w", err)
	}
	return string(text), nil
}

// sortedNames returns names sorted and without duplicates.
func sortedNames(events []Name) []Name { return slices.Compact(slices.Sorted(slices.Values(events))) }

func checkName(bad *fault.Fields, name string) {
	switch {
	case utf8.RuneCountInString(name) > maxName:
		bad.Add("name", fmt.Sprintf("The name must not have more than %d characters.", maxName))
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		bad.Add("name", "The name must not contain control characters.")
	}
}

func checkURL(bad *fault.Fields, raw string) {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL || !utf8.ValidString(raw):
		bad.Add("url", fmt.Sprintf("The URL must be text in UTF-8 of at most %d bytes.", maxURL))
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		bad.Add("url", "The URL must begin with https:// and name a host. With http:// it can only be an address that the operator allows.")
	case u.User != nil:
		bad.Add("url", "The URL must not contain a user name or password.")
	}
}

func checkEvents(bad *fault.Fields, events []Name) {
	for _, e := range events {
		if !slices.Contains(Names, e) {
			bad.Add("events", fmt.Sprintf("There is no event %q. The events are: %s.", string(e), joinNames(Names)))
		}
	}
}

func joinNames(names []Name) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return strings.Join(list, ", ")
}
