package doctext_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/doctext"
)

func TestLacks(t *testing.T) {
	for _, c := range []struct {
		name, text string
		lacks      bool
	}{
		{"Grace Hopper", "This is to certify that\nGrace Hopper\nhas completed the course", false},
		{"Grace Hopper", "This is to certify that\nAda Lovelace\nhas completed the course", true},
		{"Grace Hopper", "GRACE HOPPER has completed a course", false},
		{"Grace Hopper", "HOPPER, Grace has completed", false},
		{"Grace Hopper", "Grace\nHopper has completed", false},
		{"Grace Hopper", "awarded to " + spaced("GRACE HOPPER") + " on Friday", false},
		{"Grace Hopper", spaced("HOPPER") + "\n" + spaced("GRACE"), false},
		{"Grace Hopper", "awarded to GraceHopper, 2026", false},
		{"Grace Hopper", "awarded to Gra ce Hop-\nper in 2026", false},
		{"Grace Hopper", "awarded to G. Hopper in 2026", false},
		{"Grace Hopper", "awarded to Grace Brewster Hopper", false},
		{"Grace Hopper", "Family name: Hopper\nGiven names: Grace Brewster\nDate of birth: 9 December 1906", false},
		{"Grace Hopper", "awarded to Peter Hopper, a student", true},
		{"Ada Hopper", "awarded to Grace Hopper, who completed a course", true},
		{"Grace Hopper", "Grace Lovelace has completed the course of the Institute of Applied Mathematics and of the Naval Reserve. Dean: Ada Hopper", true},
		{"Grace B. Hopper", "awarded to Grace Hopper", false},
		{"Grace Brewster Hopper", "awarded to Grace Hopper", false},
		{"Grace Brewster Hopper", "awarded to Grace B. Hopper", false},
		{"Maria Clara Souza", "Certificamos que Maria Luiza Souza concluiu", true},
		{"Maria de Souza", "Certificamos que Maria Souza concluiu", false},
		{"Dr. Grace Hopper, PhD", "awarded to Grace Hopper", false},
		{"Grace Hopper", "awarded to Prof. Dr. Grace Hopper", false},
		{"Ann Lee", "awarded to Joann Leeds", true},
		{"Ann Lee", "awarded to Ann\u200bLee", false},
		{"Ann\u200bLee", "awarded to Ann Lee", false},
		{"Anna", "awarded to Johanna Smith", true},
		{"José Núñez", "otorgado a Jose\u0301 Nun\u0303ez", false},
		{"Jose Nunez", "otorgado a JOSÉ NÚÑEZ", false},
		{"Jürgen Müller", "verliehen an JUERGEN MUELLER", false},
		{"Juergen Mueller", "verliehen an Jürgen Müller", false},
		{"João Eduardo", "Certificamos que João Eduardo concluiu", false},
		{"Manuel Goethe", "verliehen an Manuel Göthe", false},
		{"Søren Ærøskøbing", "tildelt Soren Aeroskobing", false},
		{"Łukasz Żółć", "zaświadcza się, że Lukasz Zolc", false},
		{"Große Straße", "GROSSE STRASSE, Berlin", false},
		{"İbrahim Işık", "IBRAHIM ISIK tarafından", false},
		{"Nguyễn Thị Ngọc Ánh", "Nguyen Thi Ngoc Anh", false},
		{"Sofia Griffith", "awarded to So\ufb01a Gri\ufb03th", false},
		{"Sofia Griffith", "awarded to Soa Grith for work", false}, // the font does not map its ligatures to characters
		{"Pat O’Brien-D'Arcy", "awarded to Pat O'Brien D’Arcy", false},
		{"Pat O'Brien", "awarded to PAT OBRIEN", false},
		{"Jean-Paul Martin", "décerné à Jean Paul MARTIN", false},
		{"Jean-Paul Martin", "décerné à J.-P. Martin", false},
		{"أحمد حسن", "تشهد الجامعة بأن أحـمـد حَسَن قد أتم", false},
		{"أحمد حسن", "تشهد الجامعة بأن \ufe83\ufea3\ufee4\ufeaa \ufea3\ufeb4\ufee6 قد أتم", false}, // presentation forms
		{"أحمد حسن", "نسح دمحا مساب ةداهش هذه", false},                                             // with the letters in reverse order
		{"أحمد حسن", "تشهد الجامعة بأن محمد علي قد أتم", true},
		{"علاء رضایی", "شهادة باسم علء رضايي", false}, // the alef of the ligature lam-alef is missing
		{"श्रीकृष्ण द्विवेदी", "प्रमाणित किया जाता है कि श्रीकृष्ण द्विवेदी ने", false},
		{"कविता शर्मा", "प्रमाणित किया जाता है कि कवतिा शमा\u0930\u094d ने", false}, // in the order of the glyphs
		{"कविता शर्मा", "प्रमाणित किया जाता है कि राम वर्मा ने पाठ्यक्रम", true},
		{"王小明", "兹证明王小明同学于2026年完成", false},
		{"王小明", "兹证明 王 小 明 同学", false},
		{"王小明", "兹证明李小红同学于2026年完成", true},
		{"⻘木", "青木さん", true},                // a radical without a decomposition
		{"青木太郎", "修了証 青\u2f4a 太郎 殿", false}, // a radical with a decomposition
		{"山田 タロウ", "修了証 山田 ﾀﾛｳ 殿", false},
		{"ภาณุพงศ์ ศรีสุวรรณ์", "มอบให้ ภาณุพงศ์ศรีสุวรรณ์ เพื่อ", false},
		{"김철수", "수료증 김철수 귀하", false},
		{"Наталья Королёва", "Настоящим удостоверяется, что НАТАЛЬЯ КОРОЛЕВА", false},
		{"Tuba", "awarded to Tuba", false},
		{"Grace Hopper", "Page 1", false}, // a scan
		{"Grace Hopper", "", false},
		{"👍🏽", "awarded to somebody", false},
		{strings.Repeat("A", 256), "awarded to Grace Hopper", false},
		{strings.Repeat("Ab ", 85), strings.Repeat("Cd ", 200), true},
	} {
		if got := doctext.NewText(c.text).Lacks(c.name); got != c.lacks {
			t.Errorf("Lacks(%q) in %q = %v, want %v", c.name, c.text, got, c.lacks)
		}
	}
}

// spaced returns a text with spaces between its letters.
func spaced(s string) string { return strings.Join(strings.Split(s, ""), " ") }

func TestSuggest(t *testing.T) {
	for _, c := range []struct {
		lines, name, date, email string
	}{
		{"Certificate of Completion|This is to certify that|Grace Hopper|has completed the course|November 21, 2026", "Grace Hopper", "2026-11-21", ""},
		{"This is to certify that Ada Lovelace has completed|Issued on 3rd of July 2026|Born 10 December 1915", "Ada Lovelace", "2026-07-03", ""},
		{"Diploma|awarded to|Mr|GRACE O'HARA|Date: 21.11.2026", "Grace O'Hara", "2026-11-21", ""},
		{"Name: Grace Hopper|E-mail: grace.hopper@example.org|info@example.org", "Grace Hopper", "", "grace.hopper@example.org"},
		{"Urkunde|Hiermit wird bescheinigt, dass|Frau Jürgen-Anna von der Müller|Berlin, den 1. März 2026", "Jürgen-Anna von der Müller", "2026-03-01", ""},
		{"Diplôme|décerné à|Élodie Lefèvre|Fait à Paris, le 1er août 2026", "Élodie Lefèvre", "2026-08-01", ""},
		{"La Universidad certifica que|María García López, con documento 1,|21 de noviembre de 2026", "María García López", "2026-11-21", ""},
		{"Certificamos que João da Silva concluiu o curso em 2 de março de 2026", "João da Silva", "2026-03-02", ""},
		{"شهادة|تشهد الجامعة بأن|أحمد حسن|التاريخ ٢١ نوفمبر ٢٠٢٦", "أحمد حسن", "2026-11-21", ""},
		{"شهادة|تشهد الجامعة بأن|أحمد حسن|تاريخ الميلاد ١ يناير ٢٠٠٠|التاريخ ٢١ نوفمبر ٢٠٢٦", "أحمد حسن", "2026-11-21", ""},
		{"تشهد الجامعة بأن محمد علي قد أتم البرنامج", "محمد علي", "", ""},
		{"شهادة|نشهد بأن|أحمد حسن|قد أتم البرنامج", "أحمد حسن", "", ""},
		{"प्रमाणपत्र|प्रमाणित किया जाता है कि|कविता शर्मा|२१ नवंबर २०२६", "कविता शर्मा", "2026-11-21", ""},
		{"结业证书|兹证明王小明同学于2026年11月21日完成", "王小明", "2026-11-21", ""},
		{"荣誉证书|授予|李小红", "李小红", "", ""},
		{"Certificate|05/06/2026", "", "", ""}, // the order of day and month is not known
		{"Certificate|25/06/2026", "", "2026-06-25", ""},
		{"Certificate|Valid until 21 November 2028|21 November 2026", "", "2026-11-21", ""},
		{"Certificate|Valid until 1 May 2028, issued 1 May 2026", "", "2026-05-01", ""},
		{"invoice no 12|the quick brown fox", "", "", ""},
	} {
		var lines []doctext.Line
		for l := range strings.SplitSeq(c.lines, "|") {
			lines = append(lines, doctext.Line{Text: l})
		}
		s := doctext.Suggest(lines)
		first := func(list []string) string { return append(slices.Clone(list), "")[0] }
		if first(s.Names) != c.name || first(s.Dates) != c.date || first(s.Emails) != c.email {
			t.Errorf("Suggest(%q) = %+v, want the first values %q, %q, %q", c.lines, s, c.name, c.date, c.email)
		}
	}
}

// TestSuggestBySize checks that the first name is the largest line that looks like a name, if no phrase
// precedes a name.
func TestSuggestBySize(t *testing.T) {
	s := doctext.Suggest([]doctext.Line{
		{"Northwest University", 40}, {"Certificate of Completion", 36}, {"Quantum Physics II", 12}, {"Grace Hopper", 30}, {"Peter Miller", 10}, {"Dean of Studies", 8},
	})
	if !slices.Equal(s.Names[:2], []string{"Grace Hopper", "Quantum Physics II"}) && !slices.Equal(s.Names[:2], []string{"Grace Hopper", "Peter Miller"}) {
		t.Errorf("names = %q, want Grace Hopper before the smaller lines", s.Names)
	}
}

func BenchmarkLacks(b *testing.B) {
	text := "Certificate of Completion\n" + strings.Repeat("This is to certify that the person named below has completed the course.\n", 6) + "Grace Höpper"
	for b.Loop() {
		if doctext.NewText(text).Lacks("Grace Hopper") {
			b.Fatal("Lacks(Grace Hopper) = true, want false")
		}
	}
}

func FuzzDoctext(f *testing.F) {
	f.Add("Grace Hopper", "This is to certify that Grace Hopper\n21 November 2026 a@b.cd")
	f.Fuzz(func(t *testing.T, name, text string) {
		if doctext.NewText(name+" "+text).Lacks(name) && len(strings.Fields(name)) == 1 && !strings.ContainsFunc(name, func(c rune) bool { return c > 0x7f }) {
			t.Errorf("Lacks(%q) = true in a text that contains the name, want false", name)
		}
		doctext.Suggest([]doctext.Line{{Text: name}, {Text: text}})
	})
}

// corpusNames returns the names of a list outside the repository. If the list is missing, it skips the test,
// or fails it in CI.
func corpusNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../../shared/corpus/recipients/names-faker-locales.tsv")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, "\t"); len(fields) > 1 && fields[0] != "locale" {
			names = append(names, fields[1])
		}
	}
	return names
}

// TestNamesOfManyLanguages checks that names of many languages are found in the forms that certificates use. It
// also checks that the name of another person is not found.
func TestNamesOfManyLanguages(t *testing.T) {
	forms := map[string]func(name string) string{
		"as is":      func(name string) string { return name },
		"capitals":   strings.ToUpper,
		"decomposed": norm.NFD.String,
		"family first": func(name string) string {
			w := strings.Fields(name)
			return strings.Join(append(w[len(w)-1:], w[:len(w)-1]...), " ")
		},
		"on several lines": func(name string) string { return strings.Join(strings.Fields(name), "\n") },
		"spaced letters":   spaced,
	}
	names := corpusNames(t)
	for i, name := range names {
		for form, change := range forms {
			text := doctext.NewText("Certificate of Completion\nThis is to certify that\n" + change(name) + "\nhas completed the course " + strings.Repeat("of the university ", 20))
			if text.Lacks(name) {
				t.Errorf("%s: %q is missing in %q", form, name, change(name))
			}
			other := names[(i+len(names)/2)%len(names)]
			if !shareWord(name, other) && !text.Lacks(other) {
				t.Errorf("%s: %q is found in the certificate of %q", form, other, name)
			}
		}
	}
}

// shareWord reports whether two names share a word.
func shareWord(a, b string) bool {
	words := strings.Fields(strings.ToLower(b))
	return slices.ContainsFunc(strings.Fields(strings.ToLower(a)), func(w string) bool { return slices.Contains(words, w) })
}
