package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// Depth is the number of jobs of a queue by state.
type Depth struct {
	Queue string
	// Waiting jobs have not started and can start now or later, Running jobs have started, Retrying
	// jobs failed and wait for their next attempt, and Discarded jobs failed in their last attempt.
	Waiting, Running, Retrying, Discarded int
}

// Depths returns the depth of each queue that has jobs, sorted by name.
func Depths(ctx context.Context, q db.Queryer) (list []Depth, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT queue, count(*) FILTER (WHERE state IN ('available', 'pending', 'scheduled')), count(*) FILTER (WHERE state = 'running'),
			count(*) FILTER (WHERE state = 'retryable'), count(*) FILTER (WHERE state = 'discarded')
		FROM river_job WHERE state <> 'completed' AND state <> 'cancelled' GROUP BY queue ORDER BY queue`)
	if err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d Depth
		if err := rows.Scan(&d.Queue, &d.Waiting, &d.Running, &d.Retrying, &d.Discarded); err != nil {
			return nil, fmt.Errorf("counting jobs: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}
