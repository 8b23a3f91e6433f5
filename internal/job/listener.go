package job

import (
	"context"
	"fmt"
	"sync"

	"github.com/riverqueue/river/riverdriver"
)

// insertTopic is the topic of River's notifications about new jobs.
const insertTopic = "river_insert"

// notice returns the payload of a notification about new jobs of a queue.
func notice(queue string) string { return fmt.Sprintf(`{"queue":%q}`, queue) }

// listener passes notifications about new jobs within this process, as PostgreSQL does between
// processes. On SQLite one process runs all jobs, so no other notifications are necessary.
type listener struct {
	mu sync.Mutex
	// waiting has the queues with new jobs about which River was not notified yet.
	waiting map[string]bool
	// added is signalled when a queue is added to waiting.
	added chan struct{}
}

var _ riverdriver.Listener = (*listener)(nil)

func newListener() *listener {
	return &listener{waiting: map[string]bool{}, added: make(chan struct{}, 1)}
}

// notify reports that a queue has a new job. It is called after the commit.
func (l *listener) notify(queue string) {
	l.mu.Lock()
	l.waiting[queue] = true
	l.mu.Unlock()
	select {
	case l.added <- struct{}{}:
	default: // added already has a signal
	}
}

// take returns a queue with new jobs, or "".
func (l *listener) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for queue := range l.waiting {
		delete(l.waiting, queue)
		return queue
	}
	return ""
}

// WaitForNotification implements [riverdriver.Listener].
func (l *listener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	for {
		if queue := l.take(); queue != "" {
			return &riverdriver.Notification{Topic: insertTopic, Payload: notice(queue)}, nil
		}
		select {
		case <-l.added:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Connect implements [riverdriver.Listener].
func (*listener) Connect(context.Context) error { return nil }

// Close implements [riverdriver.Listener].
func (*listener) Close(context.Context) error { return nil }

// Listen implements [riverdriver.Listener].
func (*listener) Listen(context.Context, string) error { return nil }

// Unlisten implements [riverdriver.Listener].
func (*listener) Unlisten(context.Context, string) error { return nil }

// Ping implements [riverdriver.Listener].
func (*listener) Ping(context.Context) error { return nil }

// Schema implements [riverdriver.Listener].
func (*listener) Schema() string { return "" }

// SetAfterConnectExec implements [riverdriver.Listener].
func (*listener) SetAfterConnectExec(string) {}
