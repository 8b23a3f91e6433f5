package audit

import (
	"context"
	"errors"
	"fmt"
)

// maxOf bounds how much is read about one subject.
const maxOf = 200

// Of gives what was done to one subject of an institution, by its id, oldest
// first; of very much the first 200 deeds.
func (l *Log) Of(ctx context.Context, institutionID int64, subjectID string) (list []Entry, err error) {
	rows, err := l.db.QueryContext(ctx, `
		SELECT id, institution_id, at, actor_type, actor_id, actor_name, action, subject_type, subject_id, subject_name, detail, address, request_id
		FROM audit_entries WHERE subject_id = $1 AND institution_id = $2 ORDER BY id LIMIT $3`, subjectID, institutionID, maxOf)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		list = append(list, *e)
	}
	return list, rows.Err()
}
