package design

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// parts has given names and family names in twelve scripts.
var parts = map[string][2][]string{
	"Latin": {
		{"José", "Zoë", "Łukasz", "Øyvind", "Štěpánka", "Đorđe", "Ngọc Ánh", "İsmail", "Sofia", "Jean-François", "Åsa", "Þórdís", "Ţuţu", "Anne Office"},
		{"García Márquez", "Müller-Lüdenscheidt", "O’Connor", "Nguyễn Thị Minh", "Çelik", "Ørsted", "Fjällräven", "van ’t Hoff", "Kříž", "Yılmaz"},
	},
	"Cyrillic":   {{"Анастасія", "Ђорђе", "Юлія", "Йордан", "Ерлан", "Мөнхцэцэг"}, {"Шевчук", "Жижељ", "Ковалёв", "Пшеничный", "Цветкова"}},
	"Greek":      {{"Ἀλέξανδρος", "Ελένη", "Γιώργος", "Ὀδυσσεύς", "Ϊωάννης"}, {"Παπαδόπουλος", "Χατζηδάκης", "Ψαρράς", "Μητσοτάκης"}},
	"Arabic":     {{"محمد", "عبد الله", "علي", "لؤي", "شيماء", "پرویز"}, {"الحسيني", "بن عبد العزيز", "الأغا", "رضایی", "أبو بكر"}},
	"Hebrew":     {{"שרה", "יוסף", "מרים", "נועם"}, {"כהן", "לוי", "שפירא", "רוזנברג"}},
	"Devanagari": {{"क्षितिज", "श्रीमती", "ऋषि", "कृष्ण", "ज्ञानेश्वर", "दुर्गा"}, {"शर्मा", "त्रिपाठी", "द्विवेदी", "चट्टोपाध्याय", "मिश्र"}},
	"Bengali":    {{"কৃষ্ণা", "সৌমিত্র", "ঋতুপর্ণা", "জ্যোতি"}, {"বন্দ্যোপাধ্যায়", "মুখোপাধ্যায়", "সেনগুপ্ত", "চৌধুরী"}},
	"Tamil":      {{"கிருஷ்ணன்", "ஸ்ரீதேவி", "லக்ஷ்மி", "மௌனிகா"}, {"சுப்பிரமணியம்", "ஐயர்", "பெருமாள்"}},
	"Thai":       {{"น้ำทิพย์", "สมชาย", "เพ็ญศรี", "ปิ่นเกล้า", "ฐิติพร"}, {"ศรีสุวรรณ", "ทองคำ", "จันทร์โอชา", "อยู่เย็น"}},
	"Georgian":   {{"გიორგი", "ნინო", "თამარ", "ჟუჟუნა"}, {"ქართველიშვილი", "ჭავჭავაძე", "წერეთელი"}},
	"Armenian":   {{"Արամ", "Հասմիկ", "Եւգենի", "Օֆելյա"}, {"Խաչատրյան", "Մինասյան", "Թևոսյան"}},
	"Ethiopic":   {{"አበበ", "ፍቅርተ", "ጌታቸው", "ብርሃኑ"}, {"ኃይለማርያም", "ገብረመድኅን", "ተስፋዬ"}},
}

// scripts are the names of the scripts in a fixed order.
var scripts = slices.Sorted(maps.Keys(parts))

// name returns a name in a script: one or two given names and one or two family names.
func name(random *rand.Rand, script string) string {
	p := parts[script]
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	out := pick(p[0])
	if random.IntN(3) == 0 {
		out += " " + pick(p[0])
	}
	out += " " + pick(p[1])
	if random.IntN(4) == 0 {
		out += " " + pick(p[1])
	}
	return out
}

// row returns random values of a certificate. n selects the script of the name.
func row(random *rand.Rand, n int) *Values {
	script := scripts[n%len(scripts)]
	v := &Values{
		Name: name(random, script), Title: "Applied Statistics " + fmt.Sprint(random.IntN(100)), Reference: fmt.Sprintf("NWU-%016X", random.Uint64()),
		IssueDate: fmt.Sprintf("20%02d-%02d-%02d", random.IntN(40)+10, random.IntN(12)+1, random.IntN(28)+1),
		Columns:   map[string]string{"Grade": []string{"A+", "First class · 94 %", "½ – good", "Sehr gut (1,3)"}[random.IntN(4)]},
	}
	if random.IntN(2) == 0 {
		v.ExpiresOn = "2031-07-01"
	}
	if random.IntN(3) == 0 {
		v.Title = name(random, script)
	}
	return v
}

// letters returns the visible characters of a text, sorted.
func letters(s string) string {
	s = norm.NFC.String(s)
	out := []rune(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s))
	slices.Sort(out)
	return string(out)
}

// shownTexts returns the texts that a certificate must show, in the order of the fields.
func shownTexts(l *Layout, v *Values) (out []string) {
	for i := range l.Fields {
		if f := &l.Fields[i]; f.isText() {
			text, _ := fill(f, parse(f.Text), l, v)
			out = append(out, text.plain)
		}
	}
	return out
}

// In certificates with names in twelve scripts, pdftotext finds exactly the letters of the fields. It also
// finds each word of the texts that have several words.
func TestTextEqualsRow(t *testing.T) {
	base, template := publish(t, blank(), certificate(), noPictures)
	n := 120
	if testing.Short() {
		n = 24
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		v := row(random, i)
		file := draw(t, base, template, v)
		if !bytes.HasPrefix(file, base.PDF) {
			t.Fatal("the original does not begin with the base")
		}
		got := norm.NFC.String(text(t, file))
		want := shownTexts(template.layout, v)
		if letters(got) != letters(strings.Join(want, "")) {
			t.Errorf("%s: pdftotext finds the letters\n%q, want\n%q", v.Name, letters(got), letters(strings.Join(want, "")))
		}
		for _, s := range want {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), norm.NFC.String(s)) && letters(s) != "" {
				if len(strings.Fields(s)) > 1 && !contains(got, strings.Fields(norm.NFC.String(s))) {
					t.Errorf("pdftotext does not find %q in\n%s", s, got)
				}
			}
		}
	}
}

// contains reports whether a text contains all words, even if they are in several lines.
func contains(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// The same values yield the same bytes, even if several goroutines draw at the same time, and also with a
// second publication of the template.
func TestDeterministic(t *testing.T) {
	base, template := publish(t, blank(), certificate(), noPictures)
	other, again := publish(t, blank(), certificate(), noPictures)
	if !bytes.Equal(base.PDF, other.PDF) || !bytes.Equal(base.Plan, other.Plan) {
		t.Error("two publications of the same layout differ")
	}
	const n = 48
	want := make([][]byte, n)
	rows := make([]*Values, n)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range rows {
		rows[i] = row(random, i)
		tail, err := template.Draw(rows[i])
		if err != nil {
			t.Fatal(rows[i], err)
		}
		want[i] = tail
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			from := []*Template{template, again}[worker%2]
			for i := range n {
				k := (i*7 + worker*11) % n
				if problems := from.Check(rows[k]); len(problems) > 0 {
					t.Error(problems)
				}
				got, err := from.Draw(rows[k])
				if err != nil || !bytes.Equal(got, want[k]) {
					t.Errorf("row %d: the bytes differ from those of the first drawing, error = %v", k, err)
				}
			}
		})
	}
	group.Wait()
}
