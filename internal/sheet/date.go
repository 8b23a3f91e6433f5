package sheet

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	// minSerial and maxSerial limit the serial numbers that Date accepts: from 1927 to the last day that
	// Excel supports.
	minSerial = 10_000
	maxSerial = 2_958_465
	// Two-digit years up to pivot mean 2000 to 2049, and greater ones mean 1950 to 1999.
	pivot = 49
)

// Date parses a date in common notations and returns the date as YYYY-MM-DD. A time of day is
// ignored. date is "" if the text is not a date, or if it is ambiguous. A text is ambiguous if
// order is Unknown, the text is a valid date in both orders, and the two dates differ. Dates such as
// 03.06.2026 are never ambiguous: with full stops, the day is before the month for any order.
func Date(text string, order Order) (date string, ambiguous bool) {
	text = cjkSeparators.Replace(asciiDigits(strings.TrimSpace(text)))
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
		// Dates with full stops begin with the day, unless they begin with the year.
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

// months maps the names of the months in other languages to the English names. Its keys are in the form
// that headerKey returns.
var months = monthNames(
	"januar jänner jan janvier janv enero janeiro gennaio يناير كانون_الثاني जनवरी",
	"februar feber feb février févr febrero fevereiro febbraio فبراير شباط फरवरी फ़रवरी",
	"märz mrz mars marzo março مارس آذار मार्च",
	"april apr avril avr abril aprile أبريل نيسان अप्रैल",
	"mai mayo maio maggio مايو أيار मई",
	"juni jun juin junio junho giugno يونيو حزيران जून",
	"juli jul juillet juil julio julho luglio يوليو تموز जुलाई",
	"august aug août agosto ago أغسطس آب अगस्त",
	"september sept septembre septiembre setembro settembre سبتمبر أيلول सितंबर सितम्बर",
	"oktober okt octobre octubre outubro ottobre أكتوبر تشرين_الأول अक्टूबर अक्तूबर",
	"november nov novembre noviembre novembro نوفمبر تشرين_الثاني नवंबर नवम्बर",
	"dezember dez décembre déc diciembre dezembro dicembre dic ديسمبر كانون_الأول दिसंबर दिसम्बर",
)

func monthNames(names ...string) map[string]string {
	byName := map[string]string{}
	for i, list := range names {
		for name := range strings.FieldsSeq(list) {
			byName[headerKey(name)] = time.Month(i + 1).String()
		}
	}
	return byName
}

// englishWords returns the words of a date with the English name of the month. It removes words such as
// “de” and “of”, and endings of numbers such as the “er” of “1er”.
func englishWords(words []string) (list []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		key := headerKey(word)
		if i+1 < len(words) {
			// Four months have Arabic names of two words.
			if month, ok := months[key+headerKey(words[i+1])]; ok {
				list = append(list, month)
				i++
				continue
			}
		}
		switch month, ok := months[key]; {
		case ok:
			word = month
		case key == "de" || key == "del" || key == "of" || key == "the" || key == "le" || key == "den":
			continue
		case word != "" && word[0] >= '0' && word[0] <= '9':
			for _, ending := range []string{"er", "st", "nd", "rd", "th", "º", "°"} {
				word = strings.TrimSuffix(word, ending)
			}
		}
		list = append(list, word)
	}
	return list
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

// cjkSeparators replaces the separators of Chinese and Japanese dates.
var cjkSeparators = strings.NewReplacer("年", "-", "月", "-", "日", "")

// asciiDigits replaces the decimal digits of other scripts with ASCII digits, and removes direction marks.
func asciiDigits(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case r == '\u200e', r == '\u200f', r == '\u061c':
			return -1
		case !unicode.IsDigit(r):
			return r
		}
		// The ten digits of a script are consecutive.
		digit := rune('0')
		for unicode.IsDigit(r-(digit-'0')-1) && digit < '9' {
			digit++
		}
		return digit
	}, text)
}

// namedLayouts are the layouts of dates for parseNamed.
var namedLayouts = []string{
	"2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006", "2 January 06", "2 Jan 06", "January 2 06", "Jan 2 06",
	"2006 January 2", "2006 Jan 2", "20060102",
}

// parseNamed parses a date with the name of the month, or a date in the form YYYYMMDD.
func parseNamed(text string) (date string, ok bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\u00a0' || r == '-' || r == '.' || r == ',' || r == '/' })
	text = strings.Join(englishWords(words), " ")
	for _, layout := range namedLayouts {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if strings.HasSuffix(layout, " 06") {
			at = at.AddDate(fullYear(at.Year()%100, 2)-at.Year(), 0, 0)
		}
		return at.Format(time.DateOnly), true
	}
	return "", false
}
