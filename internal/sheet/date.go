package sheet

import (
	"strconv"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"
)

// Order is the order of day and month in an ambiguous date.
type Order string

const (
	// Unknown means that the order is not known.
	Unknown Order = ""
	// DayFirst is the order of 30/06/2026.
	DayFirst Order = "day"
	// MonthFirst is the order of 06/30/2026.
	MonthFirst Order = "month"
)

// Orders lists the orders that a user can choose.
var Orders = []Order{DayFirst, MonthFirst}

const (
	// minSerial and maxSerial limit the numbers that are read as dates in a column of dates: from
	// 1927 to the last day that Excel supports.
	minSerial = 10_000
	maxSerial = 2_958_465
	// pivot is the last two-digit year that belongs to this century.
	pivot = 49
)

// Date parses a date in common notations and returns the date as YYYY-MM-DD. A time of day is
// ignored. date is "" if the text is not a date, or if it is ambiguous. A text is ambiguous if
// order is Unknown, the text is a valid date in both orders, and the two dates differ.
func Date(text string, order Order) (date string, ambiguous bool) {
	text = strings.TrimSpace(text)
	// Ignore the time of day.
	if i := strings.IndexAny(text, " T"); i >= 8 && strings.Count(text, ":") >= 1 {
		text = text[:i]
	}
	if at, ok := parseSerial(text); ok {
		return at, false
	}
	if at, ok := parseNamed(text); ok {
		return at, false
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '-' || r == '/' || r == '.' || r == ' ' })
	if len(parts) != 3 {
		return "", false
	}
	var n [3]int
	for i, part := range parts {
		var err error
		if n[i], err = strconv.Atoi(part); err != nil || len(part) > 4 {
			return "", false
		}
	}
	if len(parts[0]) == 4 {
		return formatDate(n[0], n[1], n[2]), false
	}
	year := fullYear(n[2], len(parts[2]))
	byDay, byMonth := formatDate(year, n[1], n[0]), formatDate(year, n[0], n[1])
	switch {
	case order == DayFirst, strings.Contains(text, "."):
		// All languages that separate the parts by full stops put the day first.
		return byDay, false
	case order == MonthFirst:
		return byMonth, false
	case byDay == "" || byDay == byMonth:
		return byMonth, false
	case byMonth == "":
		return byDay, false
	default:
		return "", true
	}
}

// DetectOrder derives the order from dates that are valid in only one order because the day is
// above 12. It returns Unknown if there is no such date or if such dates contradict each other.
func DetectOrder(dates func(yield func(string) bool)) Order {
	var seen [2]bool
	for text := range dates {
		for i, order := range Orders {
			date, _ := Date(text, order)
			other, _ := Date(text, Orders[1-i])
			if date != "" && other == "" {
				seen[i] = true
			}
		}
	}
	switch {
	case seen[0] && !seen[1]:
		return DayFirst
	case seen[1] && !seen[0]:
		return MonthFirst
	default:
		return Unknown
	}
}

func formatDate(year, month, day int) string {
	at := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if year < 1000 || at.Year() != year || int(at.Month()) != month || at.Day() != day {
		return ""
	}
	return at.Format(time.DateOnly)
}

func fullYear(year, digits int) int {
	switch {
	case digits > 2:
		return year
	case year <= pivot:
		return 2000 + year
	default:
		return 1900 + year
	}
}

// parseSerial parses a date that a spreadsheet stored as a serial number.
func parseSerial(text string) (date string, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < minSerial || n > maxSerial || strings.ContainsAny(text, "eExXpP_+-") {
		return "", false
	}
	at, err := excelize.ExcelDateToTime(float64(int(n)), false)
	if err != nil {
		return "", false
	}
	return at.Format(time.DateOnly), true
}

// parseNamed parses a date with the English name of the month, or a date in the form YYYYMMDD.
func parseNamed(text string) (date string, ok bool) {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '-' || r == '.' || r == ',' || r == '/' }), " ")
	for _, layout := range []string{"2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006", "2 Jan 06", "Jan 2 06", "2006 January 2", "2006 Jan 2", "20060102"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(time.DateOnly), true
		}
	}
	return "", false
}
