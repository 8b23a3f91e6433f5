package task

import "context"

// RunOnce runs the job of a task that decides applications once, as the queue does. It reports whether the
// task is finished.
func (s *Service) RunOnce(ctx context.Context, d *Task) (finished bool, err error) {
	now, left, err := s.unfinished(ctx, d.id)
	if err != nil || !left {
		return true, err
	}
	return s.decideAll(ctx, now)
}
