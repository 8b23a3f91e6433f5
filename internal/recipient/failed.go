package recipient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Undelivered is a mail that failed, and its certificate.
type Undelivered struct {
	Notice

	// Certificate is the UUID of the certificate, and FullName the name of its recipient.
	Certificate, FullName string
}

// maxUndelivered is the number up to which failed mails are counted.
const maxUndelivered = 1000

// Undelivered returns at most limit mails of an institution that failed at or after a time, the latest first. n
// is the number of all mails that failed since then, counted up to maxUndelivered.
func (s *Service) Undelivered(ctx context.Context, institutionID int64, since time.Time, limit int) (list []Undelivered, n int, err error) {
	if err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM (SELECT 1 FROM notices WHERE institution_id = $1 AND status = 'failed' AND updated_at >= $2 LIMIT $3) AS counted`,
		institutionID, db.Micros(since), maxUndelivered).Scan(&n); err != nil {
		return nil, 0, fmt.Errorf("counting failed mail: %w", err)
	}
	if n == 0 {
		return nil, 0, nil
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT c.uuid, c.full_name, n.occasion, n.reason, n.email, n.status, coalesce(n.error, ''), n.created_at, n.updated_at, NULL
		FROM (SELECT certificate_id, occasion, reason, email, status, error, created_at, updated_at FROM notices
			WHERE institution_id = $1 AND status = 'failed' AND updated_at >= $2 ORDER BY updated_at DESC LIMIT $3) AS n
		CROSS JOIN certificates c WHERE c.id = n.certificate_id ORDER BY n.updated_at DESC`, institutionID, db.Micros(since), limit)
	if err != nil {
		return nil, 0, fmt.Errorf("reading failed mail: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var u Undelivered
		notice, err := scanNotice(rows, &u.Certificate, &u.FullName)
		if err != nil {
			return nil, 0, fmt.Errorf("reading failed mail: %w", err)
		}
		u.Notice = *notice
		list = append(list, u)
	}
	return list, n, rows.Err()
}
