package account

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// While clients of both kinds wait, three of four slots go to known clients.
func TestKnownClientsHaveShareOfSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if err := s.acquire(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order strings.Builder
		wait := func(known bool, name string) {
			go func() {
				if err := s.acquire(t.Context(), known); err != nil {
					t.Error(err)
					return
				}
				order.WriteString(name)
				s.release()
			}()
			synctest.Wait()
		}
		for range waitingPerSlot {
			wait(false, "u")
		}
		if err := s.acquire(t.Context(), false); !errors.Is(err, ErrBusy) || !s.busy() {
			t.Errorf("an unknown client while the queue is full: error = %v, busy = %v, want ErrBusy and true", err, s.busy())
		}
		for range 6 {
			wait(true, "k")
		}
		s.release()
		synctest.Wait()
		if want := "kkkukkkuuuuuuu"; order.String() != want {
			t.Errorf("the slots were given in the order %s, want %s", &order, want)
		}
		if s.free != 1 || s.busy() {
			t.Errorf("at the end, %d slots are free, busy = %v, want 1 and false", s.free, s.busy())
		}
	})
}

// A client whose context ends leaves the queue and takes no slot.
func TestCancelledClientsTakeNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if err := s.acquire(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for _, known := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- s.acquire(ctx, known) }()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("acquire with a cancelled context: error = %v, want context.Canceled", err)
			}
		}
		s.release()
		if s.free != 1 || len(s.known)+len(s.unknown) != 0 {
			t.Errorf("%d slots are free, %d clients wait, want 1 and 0", s.free, len(s.known)+len(s.unknown))
		}
	})
}
