package pdf

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func TestMovedObjects(t *testing.T) {
	t.Parallel()
	plain := onePageFile()
	for name, file := range map[string][]byte{"table": plain, "streams": compressed(t), "hybrid": hybrid(t)} {
		before := open(t, file)
		if moved, err := open(t, file).MovedObjects(before); err != nil || len(moved) > 0 {
			t.Errorf("%s: MovedObjects for the same file = %v (error %v), want no objects", name, moved, err)
		}
		u := before.Update()
		added := u.Add(NewDict())
		page := firstPage(t, before)
		u.SetPage(page, page.Dict)
		tail, err := u.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		moved, err := open(t, append(slices.Clone(file), tail...)).MovedObjects(open(t, file))
		if err != nil || !slices.Contains(moved, added.Number) || !slices.Contains(moved, page.Ref.Number) || slices.Contains(moved, page.Ref.Number-1) {
			t.Errorf("%s: MovedObjects = %v (error %v), want %d and %d, but not the object before the page", name, moved, err, page.Ref.Number, added.Number)
		}
	}

	// The revision writes no object, but its cross-reference moves one object and
	// removes another object.
	file := pdftest.File("", append(onePage("a"), "<</In/Use>>")...)
	const hidden = 1 // any offset other than that of object 4
	more := fmt.Sprintf("xref\n4 2\n%010d 00000 n \n0000000000 00001 f \ntrailer\n<</Size 6/Root 1 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n",
		hidden, open(t, file).xref.start, len(file))
	moved, err := open(t, append(slices.Clone(file), more...)).MovedObjects(open(t, file))
	if err != nil || !slices.Equal(moved, []int{4, 5}) {
		t.Errorf("MovedObjects for a new cross-reference = %v (error %v), want [4 5]", moved, err)
	}
}

// The objects of an object stream count as moved if the stream is written again,
// even if their indices in the stream are the same.
func TestMovedObjectStream(t *testing.T) {
	t.Parallel()
	file := compressed(t)
	before := open(t, file)
	stream, ok := before.Object(Ref{Number: 5}).(*Stream)
	if !ok {
		t.Fatal("object 5 is not a stream")
	}
	u := before.Update()
	u.Set(Ref{Number: 5}, stream)
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	moved, err := open(t, append(slices.Clone(file), tail...)).MovedObjects(open(t, file))
	for _, number := range []int{1, 2, 3, 5} {
		if err != nil || !slices.Contains(moved, number) {
			t.Errorf("MovedObjects = %v (error %v), want a list with %d", moved, err, number)
		}
	}
}

func TestMovedObjectsIsLimited(t *testing.T) {
	t.Parallel()
	a, b := open(t, onePageFile()), open(t, onePageFile())
	a.xref.sections = append(a.xref.sections, section{subsections: []subsection{{first: 10, count: maxCompared}}})
	if moved, err := a.MovedObjects(b); !errors.Is(err, ErrLimit) {
		t.Errorf("MovedObjects = %d objects (error %v), want ErrLimit", len(moved), err)
	}
}
