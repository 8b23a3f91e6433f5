package pdf

import (
	"cmp"
	"fmt"
	"slices"
)

// maxCompared is the maximum number of objects that MovedObjects compares.
const maxCompared = 1 << 20

// MovedObjects compares d with before, an earlier revision of the same file. It
// returns the numbers of the objects whose positions in the revisions differ, and
// of the objects that only one revision has. The objects in an object stream move
// with the stream. MovedObjects compares the cross-references and not the bytes,
// because a revision can make a hidden object visible without writing any object.
// The error wraps ErrLimit if there are too many objects, ErrDamaged if an entry of a
// cross-reference is invalid, or an error of a reader.
func (d *Document) MovedObjects(before *Document) ([]int, error) {
	numbers, err := numbersOf(d, before)
	if err != nil {
		return nil, err
	}
	moved := map[int]bool{}
	inStreams := map[int]int{} // by object number: the object stream, if stream and index are unchanged
	for _, number := range numbers {
		earlier, err := before.lookup(number)
		if err != nil {
			return nil, err
		}
		later, err := d.lookup(number)
		if err != nil {
			return nil, err
		}
		switch {
		case later.kind == entryFree && earlier.kind == entryFree:
		case later.kind == entryInFile && earlier.kind == entryInFile && later.offset+d.base == earlier.offset+before.base:
		case later.kind == entryInStream && later == earlier:
			inStreams[number] = later.stream
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
			return nil, fmt.Errorf("%w: too many objects", ErrLimit)
		}
		for ; next < end; next++ {
			numbers = append(numbers, next)
		}
	}
	return numbers, nil
}
