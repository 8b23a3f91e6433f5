package sheet

import (
	"slices"
	"strings"
	"time"
)

// Form is the common form of the values of a column, such as dates.
type Form string

// These are the forms that Forms and FormOfName recognize.
const (
	Emails Form = "emails"
	Dates  Form = "dates"
	People Form = "people"
)

// Forms returns the form of the values of each column, or "". Unlike DateColumns, it does not exclude dates
// of birth and similar dates.
func Forms(header []string, rows []Row) []Form {
	d := newDetector(header, rows, nil, nil, time.Time{})
	list := make([]Form, len(header))
	for i := range d.columns {
		switch p := &d.columns[i]; {
		case p.values == 0:
		case p.share(p.emails) >= mostly:
			list[i] = Emails
		case p.share(p.dates) >= mostly:
			list[i] = Dates
		case p.share(p.names) >= mostly:
			list[i] = People
		}
	}
	return list
}

// formWords has parts of the names of columns, by the form that the values probably have.
var formWords = []struct {
	form  Form
	words []string
}{
	{Emails, headerKeys("mail", "courriel", "correo", "بريد", "邮", "ईमेल")},
	{Dates, slices.Concat(headerKeys("date", "datum", "fecha", "data de", "data do", "data da", "تاريخ", "日期", "तिथि", "दिनांक", "day of", "tag der", "tag des"), otherDates)},
	{People, headerKeys(
		"supervisor", "tutor", "teacher", "trainer", "instructor", "examiner", "director", "dean", "lecturer", "professor", "advisor", "mentor", "speaker",
		"betreuer", "lehrer", "leiter", "leitung", "prüfer", "dozent", "enseignant", "formateur", "formatrice", "directeur", "directrice", "encadrant", "examinateur",
		"profesor", //nolint:misspell // Spanish
		"docente", "decano", "orientador", "instrutor", "diretor", "مشرف", "مدرب", "معلم", "أستاذ", "مدير",
		"导师", "教师", "讲师", "主任", "पर्यवेक्षक", "शिक्षक", "प्रशिक्षक", "निदेशक",
	)},
}

// FormOfName returns the form that the name of a column suggests for its values, or "".
func FormOfName(name string) Form {
	key := strings.ReplaceAll(headerKey(name), "candidate", "")
	for _, f := range formWords {
		if containsAny(key, f.words) {
			return f.form
		}
	}
	return ""
}
