package bulkimport

import (
	"context"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/template"
)

// MaxExamples is the maximum number of rows that Examples returns, besides the row with the longest
// name.
const MaxExamples = 100

// Examples returns the first rows of a list as entries for a layout, and the index of the entry with the
// longest name of the whole list. If this entry is not one of the first MaxExamples rows, Examples adds
// it at the end. The columns are recognized as those of a bulk upload, and nothing is stored. The error
// is fault.Invalid if the list cannot be read.
func (s *Service) Examples(ctx context.Context, l *design.Layout, r io.Reader) (list []template.Entry, longest int, err error) {
	free, err := acquire(ctx, s.lists)
	if err != nil {
		return nil, 0, err
	}
	defer free()
	table, err := readList(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	d := &Draft{Header: table.Header, Template: &Template{Title: strings.TrimSpace(l.Title), Columns: l.Columns()}}
	d.Mapping.Columns = detectColumns(d, table.Header, table.Rows, nil, s.now())
	v := &Review{Draft: d}
	for _, row := range table.Rows {
		v.Rows = append(v.Rows, &Row{Number: row.Number, Cells: row.Cells})
	}
	order := sheet.DetectOrder(v.dates)
	length, at := 0, 0
	for i, row := range v.Rows {
		row.read(d, order)
		if n := utf8.RuneCountInString(row.Text.FullName); n > length {
			length, at = n, i
		}
	}
	shown := v.Rows[:min(len(v.Rows), MaxExamples)]
	if at >= len(shown) {
		shown, at = append(slices.Clone(shown), v.Rows[at]), len(shown)
	}
	for _, row := range shown {
		list = append(list, row.entry())
	}
	return list, at, nil
}
