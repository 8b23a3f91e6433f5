package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/certvault/certvault/internal/fault"
)

func TestKindOfWrappedError(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("upload: %w", fault.Wrap(fault.TooLarge, "too large", io.ErrUnexpectedEOF))
	if !fault.Is(err, fault.TooLarge) {
		t.Fatalf("kind = %v, want TooLarge", fault.KindOf(err))
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal("errors.Is(err, io.ErrUnexpectedEOF) = false, want true")
	}
	if fault.Is(nil, fault.Internal) {
		t.Fatal("Is(nil, Internal) = true, want false")
	}
	if !fault.Is(io.EOF, fault.Internal) {
		t.Fatal("Is(io.EOF, Internal) = false, want true")
	}
}

func TestFieldsKeepOrderAndMergeMessages(t *testing.T) {
	t.Parallel()
	var f fault.Fields
	if f.Err() != nil {
		t.Fatalf("Err of empty Fields = %v, want nil", f.Err())
	}
	f.Add("b", "one.")
	f.Add("a", "two.")
	f.Add("b", "three.")
	e, ok := errors.AsType[*fault.Error](f.Err())
	if !ok || e.Kind != fault.Invalid {
		t.Fatalf("err = %v, want Invalid", f.Err())
	}
	if len(e.Fields) != 2 || e.Fields[0].Name != "b" || len(e.Fields[0].Messages) != 2 || e.Fields[1].Name != "a" {
		t.Fatalf("fields = %+v, want b with 2 messages, then a", e.Fields)
	}
}
