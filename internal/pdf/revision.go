package pdf

import (
	"cmp"
	"fmt"
	"slices"
)

// maxCompared is the maximum number of objects that Moved compares.
const maxCompared = 1 << 20

// Moved returns the numbers of objects whose position in d differs from that in
// before, an earlier revision of the same file, or which only one of the two
// has. It compares the cross-references, not the bytes: a revision can reveal
// an object that an earlier one hid without writing any object. The error is
// ErrLimit if there are too many objects.
func (d *Document) Moved(before *Document) ([]int, error) {
	numbers, err := numbersOf(d, before)
	if err != nil {
		return nil, err
	}
	moved := map[int]bool{}
	inStreams := map[int]int{} // objects at the same index of the same object stream
	for _, number := range numbers {
		was, err := before.lookup(number)
		if err != nil {
			return nil, err
		}
		is, err := d.lookup(number)
		if err != nil {
			return nil, err
		}
		switch {
		case is.kind == entryFree && was.kind == entryFree:
		case is.kind == entryInFile && was.kind == entryInFile && is.offset+d.base == was.offset+before.base:
		case is.kind == entryInStream && is == was:
			inStreams[number] = is.stream
		default:
			moved[number] = true
		}
	}
	for number, stream := range inStreams {
		if moved[stream] {
			moved[number] = true
		}
	}
	list := make([]int, 0, len(moved))
	for number := range moved {
		list = append(list, number)
	}
	slices.Sort(list)
	return list, nil
}

// numbersOf returns the object numbers for which the documents have entries,
// without duplicates.
func numbersOf(documents ...*Document) ([]int, error) {
	var runs []subsection
	for _, d := range documents {
		for i := range d.xref.sections {
			runs = append(runs, d.xref.sections[i].subsections...)
		}
	}
	slices.SortFunc(runs, func(a, b subsection) int { return cmp.Compare(a.first, b.first) })
	var numbers []int
	next := 0
	for _, run := range runs {
		end := run.first + run.count
		next = max(next, run.first)
		if len(numbers)+end-next > maxCompared {
			return nil, fmt.Errorf("%w: too many objects to compare", ErrLimit)
		}
		for ; next < end; next++ {
			numbers = append(numbers, next)
		}
	}
	return numbers, nil
}
