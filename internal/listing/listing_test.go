package listing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

func TestRangeIsChecked(t *testing.T) {
	t.Parallel()
	start := ""
	for name, tc := range map[string]struct {
		r      Range
		wrong  []string
		offset int
	}{
		"first page":                    {Range{Page: 1, PerPage: 15}, nil, 0},
		"last page":                     {Range{Page: 100, PerPage: 100}, nil, 9900},
		"last page of one record":       {Range{Page: MaxDepth, PerPage: 1}, nil, 9999},
		"first page beyond the limit":   {Range{Page: 101, PerPage: 100}, []string{"page"}, 10_000},
		"first record beyond the limit": {Range{Page: MaxDepth + 1, PerPage: 1}, []string{"page"}, 10_000},
		"largest page number":           {Range{Page: math.MaxInt, PerPage: 100}, []string{"page"}, 0},
		"page 0":                        {Range{PerPage: 15}, []string{"page"}, -15},
		"no records":                    {Range{Page: 1}, []string{"per_page"}, 0},
		"too many records":              {Range{Page: 1, PerPage: 101}, []string{"per_page"}, 0},
		"negative page and size":        {Range{Page: -1, PerPage: -1}, []string{"page", "per_page"}, 2},
		"by cursor":                     {Range{Page: 7000, PerPage: 100, Cursor: &start}, nil, 0},
		"by cursor, too many records":   {Range{PerPage: 101, Cursor: &start}, []string{"per_page"}, 0},
	} {
		var bad fault.Fields
		tc.r.Check(&bad)
		var wrong []string
		if e, ok := errors.AsType[*fault.Error](bad.Err()); ok {
			for _, f := range e.Fields {
				wrong = append(wrong, f.Name)
			}
		}
		slices.Sort(wrong)
		if !slices.Equal(wrong, tc.wrong) {
			t.Errorf("%s: invalid fields = %v, want %v", name, wrong, tc.wrong)
		}
		if got := tc.r.Offset(); tc.r.Page != math.MaxInt && got != tc.offset {
			t.Errorf("%s: offset = %d, want %d", name, got, tc.offset)
		}
	}
}

func TestCursorIsValidForOneList(t *testing.T) {
	t.Parallel()
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	type list struct{ Institution int64 }
	type place struct{ Created, ID int64 }
	people := NewCursors(ring, "people")
	cursor, err := people.Make(list{1}, place{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	var at place
	if err := people.Open(list{1}, cursor, &at); err != nil || at != (place{2, 3}) {
		t.Errorf("position = %+v, err = %v, want {2 3}", at, err)
	}
	other, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"another list":       func() error { return people.Open(list{2}, cursor, &at) },
		"another kind":       func() error { return NewCursors(ring, "batches").Open(list{1}, cursor, &at) },
		"another key":        func() error { return NewCursors(other, "people").Open(list{1}, cursor, &at) },
		"truncated":          func() error { return people.Open(list{1}, cursor[:len(cursor)-1], &at) },
		"empty":              func() error { return people.Open(list{1}, "", &at) },
		"shorter than a MAC": func() error { return people.Open(list{1}, cursor[:20], &at) },
		"too long":           func() error { return people.Open(list{1}, strings.Repeat("A", maxCursor+1), &at) },
	} {
		e, ok := errors.AsType[*fault.Error](open())
		if !ok || e.Kind != fault.Invalid || len(e.Fields) != 1 || e.Fields[0].Name != "cursor" {
			t.Errorf("cursor %q: Open = %v, want an Invalid fault of the field cursor", name, fmt.Sprint(open()))
		}
	}
}
