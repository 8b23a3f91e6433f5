package doctext

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// monthNames maps the folded names of the months in several languages to their numbers, from 1.
var monthNames = func() map[string]int {
	m := map[string]int{}
	for _, list := range []string{
		"January February March April May June July August September October November December",
		"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
		"enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
		"janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
		"Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
		"janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
		"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
		"januari februari maart april mei juni juli augustus september oktober november december",
		"يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
		"जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
	} {
		for i, name := range strings.Fields(list) {
			m[fold(name)] = i + 1
		}
	}
	m["sept"] = 9
	return m
}()

// monthOf returns the number of the month with a folded name, or 0.
func monthOf(folded string) int { return monthNames[folded] }

var (
	dateISO    = regexp.MustCompile(`\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b`)
	dateHan    = regexp.MustCompile(`(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日`)
	dateNumber = regexp.MustCompile(`\b(\d{1,2})([-/.])\s?(\d{1,2})[-/.]\s?(\d{4})\b`)
	dateDay    = regexp.MustCompile(`\b(\d{1,2})(?:st|nd|rd|th|er|[.ºª])?\s+(?:day\s+)?(?:of\s+|de\s+)?(\p{L}+)[.,]*\s+(?:of\s+|de\s+|del\s+)?(\d{4})\b`)
	dateMonth  = regexp.MustCompile(`(\p{L}+)[.]?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})\b`)
)

// otherDates are folded phrases before dates that are not the issue date. issueDates are folded words before
// the issue date.
var (
	otherDates = folded("born", "birth", "geboren", "geburtsdatum", "naissance", "nacimiento", "nascimento", "nacido", "nacida", "valid until", "valid till",
		"expires", "expiry", "expiration", "gültig bis", "vence", "caduca", "valable jusqu", "válido até", "ميلاد", "الميلاد", "जन्म")
	issueDates = folded("date", "dated", "issued", "issue", "awarded", "granted", "given", "datum", "ausgestellt", "den", "fecha", "expedido", "expedida", "fait",
		"délivré", "data", "emitido", "em", "تاريخ", "التاريخ", "بتاريخ", "दिनांक")
)

// dates returns the probable issue dates: first the dates after a word such as "issued", then the others, the
// last date of the text first. It ignores dates after a phrase such as "valid until".
func dates(lines []Line) []string {
	var marked, others []string
	for i, l := range lines {
		text := foldDigits(fold(l.Text))
		last := 0 // the end of the previous date in the line
		for _, d := range datesIn(text) {
			before := text[min(last, d.start):d.start]
			if last = d.end; i > 0 && d.start == len(before) && strings.TrimSpace(before) == "" && !strings.ContainsFunc(lines[i-1].Text, unicode.IsDigit) {
				before = fold(lines[i-1].Text)
			}
			switch before := wordsOf(before); {
			case hasAny(before, otherDates):
			case hasAny(before, issueDates):
				marked = append(marked, d.text)
			default:
				others = append([]string{d.text}, others...)
			}
		}
	}
	var list []string
	for _, d := range append(marked, others...) {
		if !slices.Contains(list, d) && len(list) < maxSuggestions {
			list = append(list, d)
		}
	}
	return list
}

// hasAny reports whether a list of words contains one of the phrases.
func hasAny(words []string, phrases [][]string) bool {
	for _, p := range phrases {
		for i := 0; i+len(p) <= len(words); i++ {
			if slices.Equal(words[i:i+len(p)], p) {
				return true
			}
		}
	}
	return false
}

// found is a date in a line, from the byte start to the byte end.
type found struct {
	text       string
	start, end int
}

// datesIn returns the dates in a folded line, in their order.
func datesIn(line string) (list []found) {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	search := func(pattern *regexp.Regexp, date func(m []string) string) {
		for _, at := range pattern.FindAllStringSubmatchIndex(line, -1) {
			m := make([]string, len(at)/2)
			for i := range m {
				m[i] = line[at[2*i]:at[2*i+1]]
			}
			if d := date(m); d != "" {
				list = append(list, found{d, at[0], at[1]})
			}
		}
	}
	ymd := func(m []string) string { return dateOf(number(m[1]), number(m[2]), number(m[3])) }
	search(dateISO, ymd)
	search(dateHan, ymd)
	search(dateNumber, func(m []string) string {
		a, b, year := number(m[1]), number(m[3]), number(m[4])
		byDay, byMonth := dateOf(year, b, a), dateOf(year, a, b)
		switch {
		case m[2] == ".", byMonth == "", byDay == byMonth:
			return byDay
		case byDay == "":
			return byMonth
		}
		return "" // the order of day and month is not known
	})
	search(dateDay, func(m []string) string { return dateOf(number(m[3]), monthOf(m[2]), number(m[1])) })
	search(dateMonth, func(m []string) string { return dateOf(number(m[3]), monthOf(m[1]), number(m[2])) })
	slices.SortStableFunc(list, func(a, b found) int { return a.start - b.start })
	return list
}

// dateOf returns a date as YYYY-MM-DD, or "" if there is no such day or the year is before 1900.
func dateOf(year, month, day int) string {
	t, err := time.Parse(time.DateOnly, fmt.Sprintf("%04d-%02d-%02d", year, month, day))
	if err != nil || year < 1900 {
		return ""
	}
	return t.Format(time.DateOnly)
}

// foldDigits replaces the digits of all scripts with ASCII digits.
func foldDigits(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 || !unicode.IsDigit(c) {
			return c
		}
		zero := c
		for unicode.IsDigit(zero-1) && c-zero < 9 {
			zero--
		}
		return '0' + c - zero
	}, s)
}

var address = regexp.MustCompile(`[\p{L}\d._%+-]+@[\p{L}\d-]+(?:\.[\p{L}\d-]+)*\.\p{L}{2,}`)

// emails returns the addresses in a text whose local part contains a word of one of the names. Other
// addresses usually belong to the institution.
func emails(lines []Line, names []string) (list []string) {
	for _, l := range lines {
		for _, a := range address.FindAllString(l.Text, -1) {
			local, _, _ := strings.Cut(fold(a), "@")
			named := slices.ContainsFunc(names, func(name string) bool {
				return slices.ContainsFunc(tokensOf(name), func(w string) bool { return len(w) > 2 && strings.Contains(local, w) })
			})
			if named && !slices.Contains(list, a) && len(list) < maxSuggestions {
				list = append(list, a)
			}
		}
	}
	return list
}
