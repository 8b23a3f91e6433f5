package job

import (
	"context"
	"slices"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// steadyPostgres is River's PostgreSQL driver for nodes that may be considered dead while they are
// alive. If another transaction changes a job while the statement that ends the job runs, the
// statement returns the old state of the job: running. River treats the states running and pending
// as internal errors and panics. The statement returns the state running if another node rescues or
// ends the job at the same time. The job then belongs to the other node, so the driver omits the
// job from the result, and River ignores the job.
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
