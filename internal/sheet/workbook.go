package sheet

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"
)

const (
	// maxParts is the maximum number of files in a workbook.
	maxParts = 2000
	// maxUnpacked is the maximum size of all unpacked parts in bytes. maxShared limits the shared strings,
	// and maxStyles limits the styles and the list of sheets. These parts need many times their size in
	// memory.
	maxUnpacked = 64 << 20
	maxShared   = 24 << 20
	maxStyles   = 4 << 20
	// maxRatio is the maximum compression ratio of parts larger than smallPart. Real lists do not reach
	// this ratio.
	maxRatio  = 250
	smallPart = 4 << 20
	// rowsPerCheck is the number of rows between two checks of the context.
	rowsPerCheck = 500
)

var errBomb = refusal("The unpacked workbook is too large for a list of 10,000 rows. Copy the rows to a new workbook, or save the list as CSV.")

// readWorkbook reads the first sheet of an Excel workbook that is visible and not empty. It adds
// notices about other sheets and hidden rows.
func (t *Table) readWorkbook(ctx context.Context, raw []byte) (err error) {
	if err := checkParts(raw); err != nil {
		return err
	}
	// The library may panic on malicious files.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	f, err := excelize.OpenReader(bytes.NewReader(raw), excelize.Options{
		UnzipSizeLimit: maxUnpacked, UnzipXMLSizeLimit: maxUnpacked, ShortDatePattern: "yyyy-mm-dd",
	})
	switch {
	case errors.Is(err, excelize.ErrWorkbookPassword), errors.Is(err, excelize.ErrWorkbookFileFormat):
		return refusal("The workbook cannot be opened. Save it as .xlsx without a password and choose it again.")
	case err != nil:
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	props, err := f.GetWorkbookProps()
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	names := f.GetSheetList()
	for _, name := range names {
		if visible, err := f.GetSheetVisible(name); err != nil || !visible {
			continue
		}
		s := &sheetReader{table: t, file: f, name: name, from1904: props.Date1904 != nil && *props.Date1904}
		if err := s.read(ctx); err != nil {
			return err
		}
		if t.Header == nil {
			continue
		}
		if len(names) > 1 {
			t.note(fmt.Sprintf("The workbook has %d sheets; the list was read from the sheet “%s”.", len(names), name))
		}
		if s.hidden > 0 {
			format := "%d rows that are hidden in the workbook were read too."
			if s.hidden == 1 {
				format = "%d row that is hidden in the workbook was read too."
			}
			t.note(fmt.Sprintf(format, s.hidden))
		}
		return nil
	}
	return nil
}

var errDamaged = refusal("The workbook is damaged and cannot be read. Save it again, or save the list as CSV.")

// checkParts checks the sizes of a workbook's parts that the archive declares, before any part is unpacked.
// Unpacking stops at the declared size.
func checkParts(raw []byte) error {
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(archive.File) > maxParts {
		return errBomb
	}
	var total uint64
	for _, part := range archive.File {
		size := part.UncompressedSize64
		limit := uint64(maxUnpacked)
		switch strings.ToLower(path.Base(part.Name)) {
		case "sharedstrings.xml":
			limit = maxShared
		case "styles.xml", "workbook.xml":
			limit = maxStyles
		}
		if size > limit || size > smallPart && size/maxRatio > part.CompressedSize64 {
			return errBomb
		}
		if total += size; total > maxUnpacked {
			return errBomb
		}
	}
	return nil
}

// sheetReader reads the displayed and the stored values of one sheet in parallel. A comparison of
// the two shows which cells are dates.
type sheetReader struct {
	table    *Table
	file     *excelize.File
	name     string
	from1904 bool
	hidden   int
}

func (s *sheetReader) read(ctx context.Context) (err error) {
	shown, err := s.file.Rows(s.name)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	defer func() { err = errors.Join(err, shown.Close()) }()
	stored, err := s.file.Rows(s.name)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	defer func() { err = errors.Join(err, stored.Close()) }()
	for number := 1; shown.Next() && stored.Next(); number++ {
		if number%rowsPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		cells, err := shown.Columns()
		if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		values, err := stored.Columns(excelize.Options{RawCellValue: true})
		if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		for i := range min(len(cells), len(values)) {
			if date := s.date(cells[i], values[i]); date != "" {
				cells[i] = date
			}
		}
		before := len(s.table.Rows)
		if err := s.table.add(number, cells); err != nil {
			return err
		}
		if len(s.table.Rows) > before && shown.GetRowOpts().Hidden {
			s.hidden++
		}
	}
	if err := errors.Join(shown.Error(), stored.Error()); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// date returns the date of a cell, or "" if the cell does not display a date. The stored value must
// be the serial number of a date, and the displayed text must contain the day, month and year of
// the same date.
func (s *sheetReader) date(shown, stored string) string {
	if shown == stored {
		return ""
	}
	serial, err := strconv.ParseFloat(stored, 64)
	if err != nil || serial < 1 || serial > maxSerial {
		return ""
	}
	at, err := excelize.ExcelDateToTime(math.Floor(serial), s.from1904)
	if err != nil {
		return ""
	}
	var day, month, year, letters bool
	for _, part := range strings.FieldsFunc(shown, func(r rune) bool { return !isDigit(r) }) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return ""
		}
		// If the day and the month are equal, the first number is the day and the second is the month.
		switch {
		case n == at.Year(), len(part) == 2 && !year && n == at.Year()%100 && day:
			year = true
		case n == at.Day() && !day:
			day = true
		case n == int(at.Month()):
			month = true
		case len(part) == 2 && n == at.Year()%100:
			year = true
		}
	}
	letters = strings.Contains(strings.ToLower(shown), strings.ToLower(at.Month().String()[:3]))
	if !day || !year || !month && !letters {
		return ""
	}
	return at.Format(time.DateOnly)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }
