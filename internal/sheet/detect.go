package sheet

import (
	"maps"
	"net/mail"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxExamined is the maximum number of rows that Detect examines.
	maxExamined = 2000
	// mostly is the minimum share, in percent, of the values of a column that must have the same form.
	mostly = 80
	// maxAge is the maximum age, in years, of the newest date in a column of dates of issue. If all dates
	// are older, they may be dates of birth, and the header must mention the issue.
	maxAge = 14
)

// Detect returns the index of the column for each recognized meaning. It uses the headers and the
// values: a column whose header is unknown or misleading is recognized by e-mail addresses, dates, names
// of files and full names. If the values of several columns are equally plausible, Detect returns none of
// these columns. isFile reports whether a text is the name of an uploaded file; it may be nil. taken are
// the columns that the caller uses for something else. Detect recognizes these columns only by their
// headers.
func Detect(header []string, rows []Row, taken []int, isFile func(string) bool, now time.Time) map[Column]int {
	d := newDetector(header, rows, taken, isFile, now)
	d.splitNames()
	d.detectByContent()
	if _, whole := d.places[Name]; whole {
		delete(d.places, GivenName)
		delete(d.places, FamilyName)
	}
	return d.places
}

// DateColumns returns the indexes of the columns that contain dates, except columns whose headers name
// a date of birth, of enrolment, of a beginning or of the end of validity.
func DateColumns(header []string, rows []Row) []int {
	d := newDetector(header, rows, nil, nil, time.Time{})
	var list []int
	for i := range d.columns {
		if d.columns[i].share(d.columns[i].dates) >= mostly && !otherDate(header[i]) {
			list = append(list, i)
		}
	}
	return list
}

// profile counts the values of a column by their form. values is the number of values, and different is
// the number of different values. newest is the newest date.
type profile struct {
	values, different, emails, dates, files, extensions, names int
	newest                                                     string
}

func (p *profile) share(n int) int {
	if p.values == 0 {
		return 0
	}
	return 100 * n / p.values
}

// individual reports whether most values of the column are different, as the names of people are.
func (p *profile) individual() bool { return p.share(p.different) >= mostly }

type detector struct {
	header  []string
	rows    []Row
	columns []profile
	taken   []int
	places  map[Column]int
	now     time.Time
}

func newDetector(header []string, rows []Row, taken []int, isFile func(string) bool, now time.Time) *detector {
	d := &detector{header: header, rows: rows[:min(len(rows), maxExamined)], columns: make([]profile, len(header)), taken: taken, now: now}
	for i := range d.columns {
		d.columns[i] = d.profile(i, isFile)
	}
	d.places = byHeader(header, d.contradicts)
	return d
}

func (d *detector) profile(column int, isFile func(string) bool) (p profile) {
	seen := map[string]bool{}
	for _, row := range d.rows {
		text := row.Cell(column)
		if text == "" {
			continue
		}
		p.values++
		if seen[text] = true; looksLikeEmail(text) {
			p.emails++
		}
		if date := looksLikeDate(text); date != "" {
			p.dates++
			p.newest = max(p.newest, date)
		}
		if isFile != nil && isFile(text) {
			p.files++
		}
		if hasExtension(text) {
			p.extensions++
		}
		if looksLikeName(text) {
			p.names++
		}
	}
	p.different = len(seen)
	return p
}

// contradicts reports whether the values of a column contradict the meaning of its header.
func (d *detector) contradicts(meaning Column, at int) bool {
	p := &d.columns[at]
	if p.values == 0 {
		return false
	}
	switch meaning {
	case Email:
		return p.emails == 0 && slices.ContainsFunc(d.columns, func(p profile) bool { return p.share(p.emails) >= mostly })
	case IssueDate, ExpiresOn:
		return !d.anyDate(at) && slices.ContainsFunc(d.columns, func(p profile) bool { return p.share(p.dates) >= mostly })
	case File:
		return p.share(p.emails) >= mostly || p.share(p.dates) >= mostly
	default:
		return p.share(p.extensions) >= mostly || p.share(p.emails) >= mostly || p.share(p.dates) >= mostly
	}
}

// anyDate reports whether a column has a value that Date recognizes. This includes serial numbers and
// ambiguous dates.
func (d *detector) anyDate(column int) bool {
	return slices.ContainsFunc(d.rows, func(r Row) bool {
		date, ambiguous := Date(r.Cell(column), Unknown)
		return date != "" || ambiguous
	})
}

// splitNames decides by the values whether the column with the meaning Name has whole names, if there is
// also a column with one part of the name. If fewer than half of the names contain this part, the column
// has the missing part. For example, "Name" next to "Vorname" is a family name, and "Nombre" next to
// "Apellidos" is a given name.
func (d *detector) splitNames() {
	whole, ok := d.places[Name]
	if !ok {
		return
	}
	given, hasGiven := d.places[GivenName]
	family, hasFamily := d.places[FamilyName]
	if hasGiven == hasFamily {
		return
	}
	part, other := given, FamilyName
	if hasFamily {
		part, other = family, GivenName
	}
	var compared, contained int
	for _, row := range d.rows {
		name, piece := strings.ToLower(row.Cell(whole)), strings.ToLower(row.Cell(part))
		if name == "" || piece == "" {
			continue
		}
		compared++
		if name != piece && strings.Contains(name, piece) {
			contained++
		}
	}
	if compared > 0 && 2*contained < compared {
		delete(d.places, Name)
		d.places[other] = whole
	}
}

// detectByContent finds columns by their values for the meanings that no header has.
func (d *detector) detectByContent() {
	d.add(Email, func(_ int, p *profile) bool { return p.share(p.emails) >= mostly })
	d.add(File, func(_ int, p *profile) bool { return p.share(p.files) >= mostly || p.share(p.extensions) >= mostly })
	d.addDate()
	// The header must mention the expiry, because a list may have other dates that are later than the issue.
	d.add(ExpiresOn, func(i int, p *profile) bool {
		return p.share(p.dates) >= mostly && containsAny(headerKey(d.header[i]), expiryWords)
	})
	_, given := d.places[GivenName]
	_, family := d.places[FamilyName]
	if !given || !family {
		d.add(Name, func(_ int, p *profile) bool { return p.individual() && p.share(p.names) >= mostly })
	}
}

// add adds a meaning if exactly one free column fits. If several columns fit, exactly one of them must
// have individual values.
func (d *detector) add(meaning Column, fits func(int, *profile) bool) {
	if _, found := d.places[meaning]; found {
		return
	}
	list := d.free(fits)
	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(i int) bool { return !d.columns[i].individual() })
	}
	if len(list) == 1 {
		d.places[meaning] = list[0]
	}
}

// addDate adds the date of issue. If several columns have dates, or if the dates are older than maxAge,
// the header must mention the issue, the award or the graduation.
func (d *detector) addDate() {
	if _, found := d.places[IssueDate]; found {
		return
	}
	list := d.free(func(i int, p *profile) bool { return p.share(p.dates) >= mostly && !otherDate(d.header[i]) })
	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(i int) bool { return !containsAny(headerKey(d.header[i]), issueWords) })
	}
	if len(list) != 1 {
		return
	}
	at := list[0]
	recent := d.columns[at].newest > d.now.AddDate(-maxAge, 0, 0).Format(time.DateOnly)
	if recent || containsAny(headerKey(d.header[at]), issueWords) {
		d.places[IssueDate] = at
	}
}

// free returns the columns that fit, have values, and are not used for another purpose.
func (d *detector) free(fits func(int, *profile) bool) (list []int) {
	used := map[int]bool{}
	for _, at := range slices.Concat(d.taken, slices.Collect(maps.Values(d.places))) {
		used[at] = true
	}
	for i := range d.columns {
		if !used[i] && d.columns[i].values > 0 && fits(i, &d.columns[i]) {
			list = append(list, i)
		}
	}
	return list
}

// issueWords are parts of headers of dates of issue, and expiryWords are parts of headers of last days of
// validity. otherDates are parts of headers of dates that are not dates of issue: dates of birth, of
// enrolment, of a beginning, and of the end of validity.
var (
	issueWords = headerKeys(
		"issue", "award", "conferr", "graduat", "complet", "certificat", "diplom",
		"ausstell", "ausgestellt", "verleih", "verliehen", "abschluss", "zeugnis", "délivr", "obtent", "émission", "remise",
		"expedici", "emisi", "otorg", "entrega", "emissão", "conclus", "rilascio", "conseguim", "إصدار", "منح", "تخرج", "شهادة", "颁发", "签发", "发证", "जारी",
	)
	expiryWords = headerKeys(
		"expir", "valid until", "valid to", "valid through", "gültig bis", "ablaufdatum", "fin de validité", "jusqu'au", "caduc", "vencim", "hasta", "válido até", "scadenza",
		"انتهاء", "有效期至", "到期", "失效", "समाप्ति",
	)
	otherDates = headerKeys(
		"birth", "born", "dob", "geburt", "geb.", "geboren", "naissance", "né le", "née le", "nacimiento", "nascimento", "nascita", "ميلاد", "出生", "生日", "जन्म",
		"expir", "valid until", "valid to", "gültig", "validité", "caduc", "vencim", "انتهاء", "有效",
		"enrol", "immatrikul", "inscription", "matrícula", "start", "begin", "beginn", "début", "inicio",
	)
)

func headerKeys(words ...string) []string {
	for i, word := range words {
		words[i] = headerKey(word)
	}
	return words
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

func otherDate(header string) bool { return containsAny(headerKey(header), otherDates) }

func looksLikeEmail(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && strings.Contains(a.Address[strings.LastIndex(a.Address, "@")+1:], ".")
}

// looksLikeDate returns the date that a text probably means, or "". It ignores numbers without separators,
// because they may be the numbers of students, for example.
func looksLikeDate(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsDigit(r) }) || utf8.RuneCountInString(text) < len("1/1/26") {
		return ""
	}
	if strings.IndexFunc(text, unicode.IsDigit) < 0 {
		return ""
	}
	date, ambiguous := Date(text, Unknown)
	if ambiguous {
		date, _ = Date(text, DayFirst)
	}
	if date < "1900" || date > "2200" {
		return ""
	}
	return date
}

func hasExtension(text string) bool {
	switch strings.ToLower(path.Ext(text)) {
	case ".pdf", ".jpg", ".jpeg", ".png":
		return true
	}
	return false
}

// maxWords is the maximum number of words of a full name.
const maxWords = 6

// looksLikeName reports whether a text may be a full name: two to maxWords words, or two to four Chinese,
// Japanese or Korean characters.
func looksLikeName(text string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '·' || r == '・' })
	for _, word := range words {
		if strings.ContainsFunc(word, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsMark(r) && !strings.ContainsRune("'’.-‐", r)
		}) {
			return false
		}
	}
	if len(words) == 1 {
		n := utf8.RuneCountInString(text)
		return n >= 2 && n <= 4 && !strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
		})
	}
	if len(words) < 2 || len(words) > maxWords {
		return false
	}
	// In a script with upper and lower case, the first and the last word of a name begin with a capital
	// letter.
	first, _ := utf8.DecodeRuneInString(words[0])
	last, _ := utf8.DecodeRuneInString(words[len(words)-1])
	return !unicode.IsLower(first) && !unicode.IsLower(last)
}
