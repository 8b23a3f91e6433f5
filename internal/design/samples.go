package design

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Sample has values that show how a template looks, for the designer. Name is "typical", "long" or the
// English name of a script or a language in lower case.
type Sample struct {
	Name   string
	Values Values
}

// Samples returns values in several scripts. They have no columns, because those depend on the
// template: see Layout.Fill.
func Samples() []Sample {
	list := []Sample{
		{"typical", Values{Name: "Amelia Hart", Title: "Project Management Essentials", Details: "Awarded with distinction", Language: "en"}},
		{"long", Values{
			Name:    "Dr. Maria-Magdalena Konstantinopoulou de Vasconcelos e Albuquerque",
			Title:   "Advanced Methods of Interdisciplinary Environmental Research and Sustainable Development",
			Details: "For the successful completion of 240 hours of lectures, laboratory work and supervised practice", Language: "en",
		}},
		{"cyrillic", Values{Name: "Анастасія Шевчук", Title: "Основы управления проектами", Details: "С отличием", Language: "ru"}},
		{"greek", Values{Name: "Ελένη Παπαδοπούλου", Title: "Διαχείριση έργων", Details: "Με διάκριση", Language: "el"}},
		{"arabic", Values{Name: "محمد بن عبد العزيز الحسيني", Title: "أساسيات إدارة المشاريع", Details: "بتقدير ممتاز", Language: "ar"}},
		{"hebrew", Values{Name: "נועם רוזנברג", Title: "יסודות ניהול פרויקטים", Details: "בהצטיינות", Language: "he"}},
		{"devanagari", Values{Name: "ज्ञानेश्वर त्रिपाठी", Title: "परियोजना प्रबंधन के मूल तत्व", Details: "विशेष योग्यता सहित", Language: "hi"}},
		{"bengali", Values{Name: "সৌমিত্র বন্দ্যোপাধ্যায়", Title: "প্রকল্প ব্যবস্থাপনা", Details: "বিশেষ সম্মানসহ", Language: "bn"}},
		{"tamil", Values{Name: "கிருஷ்ணன் சுப்பிரமணியம்", Title: "திட்ட மேலாண்மை", Details: "சிறப்புத் தகுதியுடன்", Language: "ta"}},
		{"thai", Values{Name: "น้ำทิพย์ ศรีสุวรรณ", Title: "การบริหารโครงการขั้นพื้นฐาน", Details: "เกียรตินิยม", Language: "th"}},
		{"chinese", Values{Name: "王曉明", Title: "项目管理基础", Details: "成绩优异", Language: "zh"}},
		{"japanese", Values{Name: "佐藤 さくら", Title: "プロジェクト管理の基礎", Details: "優秀な成績", Language: "ja"}},
		{"korean", Values{Name: "김민준", Title: "프로젝트 관리 기초", Details: "우수한 성적", Language: "ko"}},
		{"georgian", Values{Name: "თამარ ჭავჭავაძე", Title: "პროექტების მართვა", Details: "წარჩინებით", Language: "ka"}},
	}
	for i := range list {
		v := &list[i].Values
		v.IssueDate, v.ExpiresOn, v.Reference, v.Institution = "2026-03-12", "2029-03-31", "NWU-7QF2M9KX4TRB81ZD", "Northwind University"
	}
	return list
}

// SampleIn returns the sample in a language, or the typical sample if there is none.
func SampleIn(tag string) Sample {
	list := Samples()
	base, _, _ := strings.Cut(tag, "-")
	if i := slices.IndexFunc(list, func(s Sample) bool { return s.Values.Language == base }); i >= 0 {
		return list[i]
	}
	return list[0]
}

// Fill returns the values with a value for each column of the layout. The value of a column that is not in
// v.Columns is the name of the column.
func (l *Layout) Fill(v Values) *Values {
	v.Columns = maps.Clone(v.Columns)
	for _, c := range l.Columns() {
		if v.Columns == nil {
			v.Columns = map[string]string{}
		}
		if _, ok := v.Columns[c.Name]; !ok {
			v.Columns[c.Name] = c.Name
		}
	}
	return &v
}

// Worst returns values with long texts in Latin letters, and values in Arabic and in Thai letters. They show
// whether the QR code can be read on all certificates. Worst shortens texts that do not fit, and omits values
// that cannot be drawn, for example because no font has their letters.
func (t *Template) Worst() []*Values {
	const long = "Ångström Çağlayan Ğ. Ẩn-Đỗ, Universität für angewandte Wissenschaften und Künste"
	var out []*Values
	for _, s := range Samples() {
		if !slices.Contains([]string{"long", "arabic", "thai"}, s.Name) {
			continue
		}
		v := s.Values
		if s.Name == "long" {
			v.Name, v.Title, v.Details, v.Institution = v.Name+" "+long, v.Title+" "+long, v.Details+" "+long, long
			v.Columns = map[string]string{}
			for _, c := range t.columns {
				v.Columns[c.Name] = long
			}
		}
		if worst := t.longest(t.layout.Fill(v)); worst != nil {
			out = append(out, worst)
		}
	}
	return out
}

// longest shortens the values whose texts do not fit until all texts fit. It returns nil if this is not
// possible.
func (t *Template) longest(v *Values) *Values {
	for range 200 {
		problems := t.Check(v)
		if len(problems) == 0 {
			return v
		}
		shorter := false
		for _, p := range problems {
			if p.Code != CodeNoRoom {
				return nil
			}
			for i := range t.fields {
				if t.fields[i].ID == p.Field {
					shorter = t.fields[i].shorten(v) || shorter
				}
			}
		}
		if !shorter {
			return nil
		}
	}
	return nil
}

// shorten removes the last word from each value of a field, or the last letter if a value has only one word.
// It does not change dates, the reference id and signatories. It reports whether a value became shorter.
func (f *variable) shorten(v *Values) (done bool) {
	for _, p := range f.pieces {
		name := p.placeholder.Column
		switch p.placeholder.Name {
		case "name":
			done = shorten(&v.Name) || done
		case "title":
			done = shorten(&v.Title) || done
		case "details":
			done = shorten(&v.Details) || done
		case "institution":
			done = shorten(&v.Institution) || done
		case "column":
			value := v.Columns[name]
			done = shorten(&value) || done
			v.Columns[name] = value
		}
	}
	return done
}

func shorten(s *string) bool {
	if i := strings.LastIndexByte(*s, ' '); i > 0 {
		*s = strings.TrimSpace((*s)[:i])
		return true
	}
	if utf8.RuneCountInString(*s) < 2 {
		return false
	}
	_, n := utf8.DecodeLastRuneInString(*s)
	*s = (*s)[:len(*s)-n]
	return true
}
