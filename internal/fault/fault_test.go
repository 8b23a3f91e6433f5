package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/certvault/certvault/internal/fault"
)

func TestKindSurvivesWrapping(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("upload: %w", fault.Wrap(fault.TooLarge, "too large", io.ErrUnexpectedEOF))
	if !fault.Is(err, fault.TooLarge) {
		t.Fatalf("kind = %v, want TooLarge", fault.KindOf(err))
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal("the cause is lost")
	}
	if fault.Is(nil, fault.Internal) {
		t.Fatal("no error has no kind")
	}
	if !fault.Is(io.EOF, fault.Internal) {
		t.Fatal("an error of another package must count as ours to answer for")
	}
}

func TestFieldsKeepOrderAndMergeMessages(t *testing.T) {
	t.Parallel()
	var f fault.Fields
	if f.Err() != nil {
		t.Fatal("no field is no error")
	}
	f.Add("b", "one.")
	f.Add("a", "two.")
	f.Add("b", "three.")
	e, ok := errors.AsType[*fault.Error](f.Err())
	if !ok || e.Kind != fault.Invalid {
		t.Fatalf("err = %v", f.Err())
	}
	if len(e.Fields) != 2 || e.Fields[0].Name != "b" || len(e.Fields[0].Messages) != 2 || e.Fields[1].Name != "a" {
		t.Fatalf("fields = %+v", e.Fields)
	}
}
