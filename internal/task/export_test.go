package task

import "context"

// RunOnce runs the job of a task once, as the queue does. The task must be one that decides applications.
// RunOnce reports whether the task is finished.
func (s *Service) RunOnce(ctx context.Context, d *Task) (finished bool, err error) {
	now, left, err := s.unfinished(ctx, d.id)
	if err != nil || !left {
		return true, err
	}
	return s.decideAll(ctx, now)
}
