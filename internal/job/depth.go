package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Depth is the number of jobs of a queue by state.
type Depth struct {
	Queue string
	// Waiting jobs can start now or are scheduled for later. Running jobs have started. Retrying jobs
	// have failed and wait for their next attempt. Discarded jobs failed in their last attempt.
	Waiting, Running, Retrying, Discarded int
	// Oldest is the longest time that a job that can start now has waited, or 0 if there is none.
	Oldest time.Duration
}

// Depths returns the depth of each queue that has unfinished or discarded jobs, sorted by name. It does
// not count completed jobs, because there may be very many.
func Depths(ctx context.Context, d *db.DB) (list []Depth, err error) {
	due := `min(scheduled_at) FILTER (WHERE state = 'available')`
	age := `extract(epoch FROM now() - ` + due + `)::float8`
	if d.Dialect == db.SQLite {
		// River stores times as text on SQLite.
		age = `(julianday('now') - julianday(` + due + `)) * 86400.0`
	}
	rows, err := d.QueryContext(ctx, `
		SELECT queue, count(*) FILTER (WHERE state IN ('available', 'pending', 'scheduled')), count(*) FILTER (WHERE state = 'running'),
			count(*) FILTER (WHERE state = 'retryable'), count(*) FILTER (WHERE state = 'discarded'), coalesce(`+age+`, 0)
		FROM river_job WHERE state IN ('available', 'pending', 'scheduled', 'running', 'retryable', 'discarded') GROUP BY queue ORDER BY queue`)
	if err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d Depth
		var oldest float64
		if err := rows.Scan(&d.Queue, &d.Waiting, &d.Running, &d.Retrying, &d.Discarded, &oldest); err != nil {
			return nil, fmt.Errorf("counting jobs: %w", err)
		}
		d.Oldest = max(0, time.Duration(oldest*float64(time.Second)))
		list = append(list, d)
	}
	return list, rows.Err()
}
