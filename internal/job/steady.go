package job

import (
	"context"
	"slices"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// steadyPostgres is River's PostgreSQL driver for nodes that may be taken for
// dead while they live. The statement that ends a job answers with the job as it
// was when the statement began, where another transaction changed it meanwhile:
// still running. River takes that for a fault of its own and panics. It happens
// when a job is rescued, or ended by the node that was given it, at the very
// moment at which the first one ends it. Such a job is not ours any more: it is
// answered as one that is gone, of which River makes nothing.
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
