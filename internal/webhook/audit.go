package webhook

import (
	"context"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordTx writes an action on an endpoint to its institution's audit log. The entry contains only
// the scheme and host of the URL, because the path and the query may contain a key.
func (s *Service) recordTx(ctx context.Context, tx *db.Tx, action audit.Action, institutionID int64, uuid, rawURL string, detail audit.Detail) error {
	return recordTx(ctx, tx, s.now(), action, institutionID, uuid, rawURL, detail)
}

func recordTx(ctx context.Context, tx *db.Tx, at time.Time, action audit.Action, institutionID int64, uuid, rawURL string, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: institutionID, At: at, Action: action, Detail: detail, Subject: audit.Subject{Type: "webhook", ID: uuid, Name: origin(rawURL)},
	})
}

// Origin returns the scheme and host of the endpoint's URL. The path and the query may contain a key.
func (e *Endpoint) Origin() string { return origin(e.URL) }

// origin returns the scheme and host of a URL.
func origin(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
