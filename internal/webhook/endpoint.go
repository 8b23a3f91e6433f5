package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	secretPrefix = "whsec_"
	secretSize   = 32
	maxURL       = 2048
)

// Status is whether an endpoint is served.
type Status string

// Active endpoints get every event they subscribe to.
const Active Status = "active"

// Endpoint is where an institution wants its events.
type Endpoint struct {
	ID            int64
	UUID          string
	InstitutionID int64
	URL           string
	// Events it subscribes to; none means all.
	Events    []Name
	Status    Status
	CreatedAt time.Time
}

// Create makes an endpoint and gives its signing secret: "whsec_" and the
// base64 of 32 random bytes, as Standard Webhooks has it. Only a URL without
// http(s) or host is refused here: whether its address may be dialled is
// judged at each delivery by the node that sends it.
func (s *Service) Create(ctx context.Context, institutionID int64, rawURL string, events []Name) (*Endpoint, string, error) {
	var bad fault.Fields
	rawURL = strings.TrimSpace(rawURL)
	if err := checkURL(rawURL); err != nil {
		bad.Add("url", err.Error())
	}
	for _, e := range events {
		if !slices.Contains(Names, e) {
			bad.Add("events", fmt.Sprintf("There is no event %q; there are: %s.", string(e), joinNames(Names)))
		}
	}
	if err := bad.Err(); err != nil {
		return nil, "", err
	}
	key := make([]byte, secretSize)
	if _, err := rand.Read(key); err != nil {
		return nil, "", fmt.Errorf("making a signing secret: %w", err)
	}
	secret := secretPrefix + base64.StdEncoding.EncodeToString(key)
	e := &Endpoint{
		UUID: uuid.NewString(), InstitutionID: institutionID, URL: rawURL,
		Events: slices.Compact(slices.Sorted(slices.Values(events))), Status: Active, CreatedAt: s.now().UTC(),
	}
	sealed, err := s.ring.Seal(keyring.WebhookSecret, []byte(secret), []byte(e.UUID))
	if err != nil {
		return nil, "", err
	}
	list, err := json.Marshal(append([]Name{}, e.Events...))
	if err != nil {
		return nil, "", fmt.Errorf("writing the events: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		return tx.QueryRowContext(ctx, `
			INSERT INTO webhook_endpoints (uuid, institution_id, url, events, secret, status, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
			e.UUID, institutionID, rawURL, string(list), sealed, string(Active), db.Micros(e.CreatedAt)).Scan(&e.ID)
	})
	if err != nil {
		return nil, "", fmt.Errorf("making the endpoint: %w", err)
	}
	return e, secret, nil
}

func checkURL(raw string) error {
	if len(raw) > maxURL || !utf8.ValidString(raw) {
		return fmt.Errorf("the URL must not have more than %d characters", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("the URL must begin with https:// and name a host")
	}
	if u.User != nil {
		return fmt.Errorf("the URL must not hold a user name or password")
	}
	return nil
}

func joinNames(names []Name) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return strings.Join(list, ", ")
}
