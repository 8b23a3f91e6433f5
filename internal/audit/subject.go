package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// maxOfSubject is the maximum number of entries that are read about one subject.
const maxOfSubject = 200

// OfSubject returns the entries about one subject of an institution, oldest first, at most
// maxOfSubject entries.
func (l *Log) OfSubject(ctx context.Context, institutionID int64, subjectID string) ([]Entry, error) {
	return l.entries(ctx, `subject_id = $1 AND institution_id = $2 ORDER BY id LIMIT $3`, subjectID, institutionID, maxOfSubject)
}

// LastTimes maps the ids of the subjects of one action in an institution to the times of their last
// entries.
func (l *Log) LastTimes(ctx context.Context, institutionID int64, action Action) (times map[string]time.Time, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT subject_id, max(at) FROM audit_entries WHERE institution_id = $1 AND action = $2 GROUP BY subject_id`,
		institutionID, string(action))
	if err != nil {
		return nil, fmt.Errorf("reading the last entries of an action: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	times = map[string]time.Time{}
	for rows.Next() {
		var id string
		var at int64
		if err := rows.Scan(&id, &at); err != nil {
			return nil, fmt.Errorf("reading the last entries of an action: %w", err)
		}
		times[id] = db.Time(at)
	}
	return times, rows.Err()
}
