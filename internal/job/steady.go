package job

import (
	"context"
	"slices"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// steadyPostgres is River's PostgreSQL driver for nodes that may be considered dead while they are
// alive. If another node rescues or ends a job while this node ends it, River's statement returns
// the job with the old state, running. River 0.47 panics if the state is running or pending. The driver
// omits these jobs from the result, so that River ignores them.
type steadyPostgres struct{ *riverpgxv5.Driver }

// GetExecutor implements [riverdriver.Driver].
func (d steadyPostgres) GetExecutor() riverdriver.Executor {
	return steadyExecutor{d.Driver.GetExecutor()}
}

type steadyExecutor struct{ riverdriver.Executor }

// JobSetStateIfRunningMany implements [riverdriver.Executor].
func (e steadyExecutor) JobSetStateIfRunningMany(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	rows, err := e.Executor.JobSetStateIfRunningMany(ctx, params)
	return slices.DeleteFunc(rows, func(row *rivertype.JobRow) bool {
		return row.State == rivertype.JobStateRunning || row.State == rivertype.JobStatePending
	}), err
}
