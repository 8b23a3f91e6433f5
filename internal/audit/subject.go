package audit

import (
	"context"
)

// maxOf bounds how much is read about one subject.
const maxOf = 200

// Of gives what was done to one subject of an institution, by its id, oldest
// first; of very much the first 200 deeds.
func (l *Log) Of(ctx context.Context, institutionID int64, subjectID string) ([]Entry, error) {
	return l.entries(ctx, `subject_id = $1 AND institution_id = $2 ORDER BY id LIMIT $3`, subjectID, institutionID, maxOf)
}
