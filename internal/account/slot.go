package account

import (
	"context"
	"errors"
	"slices"
	"sync"
)

const (
	// waitingPerSlot is the maximum number of unknown clients that wait, for each slot. A hash takes a
	// few hundred milliseconds, so the last client waits for a few seconds.
	waitingPerSlot = 8
	// While clients of both kinds wait, one of knownShare slots goes to an unknown client, and the others
	// go to known clients.
	knownShare = 4
)

// ErrBusy means that an unknown client was rejected at once, because too many unknown clients wait
// for a password check.
var ErrBusy = errors.New("too many clients wait for a password check")

// Busy reports whether VerifyPassword would return ErrBusy to an unknown client now.
func Busy() bool { return hashing.busy() }

// slots is a semaphore with one queue for known clients and one for unknown clients; see
// VerifyPassword. Many requests of unknown clients do not delay known clients much.
type slots struct {
	maxUnknown int

	mu   sync.Mutex
	free int
	// known and unknown have a channel for each waiting client. The channel is closed when the
	// client gets a slot.
	known, unknown []chan struct{}
	// turns is the number of slots that were given while clients of both kinds waited.
	turns int
}

func newSlots(n int) *slots { return &slots{free: n, maxUnknown: n * waitingPerSlot} }

// acquire waits for a slot. It returns ErrBusy at once if the client is unknown and the queue of
// unknown clients is full. It returns the error of the context if the context ends first.
func (s *slots) acquire(ctx context.Context, known bool) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	queue := &s.known
	if !known {
		if queue = &s.unknown; len(*queue) >= s.maxUnknown {
			s.mu.Unlock()
			return ErrBusy
		}
	}
	given := make(chan struct{})
	*queue = append(*queue, given)
	s.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(*queue, given)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		// release has already passed a slot to this client.
		s.release()
	}
	return ctx.Err()
}

// release passes the slot to the next client, or frees it.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := &s.known
	if len(s.unknown) > 0 {
		if len(s.known) > 0 {
			s.turns++
		}
		if len(s.known) == 0 || s.turns%knownShare == 0 {
			queue = &s.unknown
		}
	}
	if len(*queue) == 0 {
		s.free++
		return
	}
	close((*queue)[0])
	*queue = slices.Delete(*queue, 0, 1)
}

func (s *slots) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free == 0 && len(s.unknown) >= s.maxUnknown
}
