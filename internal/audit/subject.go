package audit

import (
	"context"
)

// maxOfSubject is the maximum number of entries that are read about one subject.
const maxOfSubject = 200

// OfSubject returns the entries about one subject of an institution, oldest first, at most
// maxOfSubject entries.
func (l *Log) OfSubject(ctx context.Context, institutionID int64, subjectID string) ([]Entry, error) {
	return l.entries(ctx, `subject_id = $1 AND institution_id = $2 ORDER BY id LIMIT $3`, subjectID, institutionID, maxOfSubject)
}
