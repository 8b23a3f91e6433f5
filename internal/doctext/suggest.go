package doctext

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is a line of the text of a file. Size is its font size, or 0 if it is not known.
type Line struct {
	Text string
	Size float64
}

// Suggestion has the values that a text probably contains, best first.
type Suggestion struct {
	// Names are names of the recipient.
	Names []string
	// Dates are issue dates as YYYY-MM-DD.
	Dates []string
	// Emails are addresses whose local part contains a word of one of the names.
	Emails []string
}

// maxSuggestions is the maximum number of suggestions of each kind.
const maxSuggestions = 5

// Suggest returns the names, issue dates and addresses that a text probably contains. It finds names after
// words such as "awarded to". If there are none, it finds names in the lines with the largest font size.
func Suggest(lines []Line) Suggestion {
	s := Suggestion{Names: names(lines), Dates: dates(lines)}
	s.Emails = emails(lines, s.Names)
	return s
}

// linesAfterPhrase is the number of lines after a phrase that may contain the name.
const linesAfterPhrase = 3

// names returns the names after phrases and labels. If there are none, it returns the lines that look like a
// name, the largest first.
func names(lines []Line) (list []string) {
	add := func(name string) {
		if len(list) < maxSuggestions && !slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(name, other) }) {
			list = append(list, name)
		}
	}
	for i, l := range lines {
		rest, ok := afterPhrase(l.Text)
		if !ok {
			continue
		}
		following := []string{rest}
		if strings.Trim(rest, separators) == "" || isTitle(rest) {
			following = nil
			for _, next := range lines[i+1 : min(len(lines), i+1+linesAfterPhrase)] {
				following = append(following, next.Text)
			}
		}
		for _, text := range following {
			if name, _ := leadingName(text); name != "" {
				add(name)
				break
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	bySize := slices.Clone(lines)
	slices.SortStableFunc(bySize, func(a, b Line) int { return cmp.Compare(b.Size, a.Size) })
	for _, l := range bySize {
		name, whole := leadingName(l.Text)
		if whole && (strings.Contains(name, " ") && strings.ContainsFunc(name, unicode.IsUpper) || strings.ContainsFunc(name, unspaced)) {
			add(name)
		}
	}
	return list
}

// separators are the characters between a phrase and a name.
const separators = " \t:;.,-–—_…：，"

// phrases are folded phrases before a name.
var phrases = folded(
	"certify that", "certifies that", "certified that", "confirm that", "confirms that", "attest that", "attests that", "acknowledge that",
	"acknowledges that", "recognizes that", "recognises that", "awarded to", "presented to", "granted to", "issued to", "given to", "conferred on",
	"conferred upon", "conferred to", "proudly presents", "name of holder", "name of the holder", "name of student", "name of participant",
	"verliehen an", "überreicht an", "ausgestellt für", "bescheinigt dass", "bescheinigen dass", "bescheinigen wir dass", "bestätigt dass",
	"bestätigen dass", "bestätigen wir dass", "wird bescheinigt dass", "décerné à", "décernée à", "attribué à", "délivré à", "délivrée à", "remis à",
	"certifie que", "certifions que", "atteste que", "attestons que", "otorgado a", "otorga a", "otorgan a", "concedido a", "conferido a",
	"entregado a", "certifica que", "certifican que", "certifico que", "certificamos que", "constar que", "a favor de", "outorgado a", "atesta que",
	"declara que", "declaramos que", "certifica che", "attesta che", "conferito a", "rilasciato a", "uitgereikt aan", "verklaart dat", "toegekend aan",
	"zaświadcza się że", "بأن", "نشهد أن", "تشهد أن", "منحت إلى", "تمنح إلى", "يمنح إلى", "منحت هذه الشهادة إلى",
	"تمنح هذه الشهادة إلى", "प्रमाणित किया जाता है कि", "प्रमाणित किया जाता है की",
)

// labels are folded names of form fields. A label is at the start of a line and followed by a colon
// or the end of the line.
var labels = folded(
	"name", "full name", "name of recipient", "recipient", "participant", "student", "student name", "holder", "teilnehmer", "teilnehmerin", "nom",
	"nom et prénom", "nombre", "nombre y apellidos", "nome", "nome completo", "الاسم", "नाम",
)

// unspacedPhrases are phrases before a name in Chinese and Japanese.
var unspacedPhrases = []string{"兹证明", "茲證明", "特此证明", "特此證明", "证明", "證明", "授予", "颁发给", "頒發給", "授與", "姓名", "氏名"}

func folded(list ...string) (out [][]string) {
	for _, s := range list {
		out = append(out, wordsOf(s))
	}
	return out
}

// word is a folded word of a line. end is the index of the byte after the word.
type word struct {
	folded string
	end    int
}

// wordsIn returns the words of a line.
func wordsIn(line string) (list []word) {
	start := -1
	flush := func(end int) {
		if start >= 0 {
			list = append(list, word{fold(line[start:end]), end})
			start = -1
		}
	}
	for i, c := range line {
		switch inWord := unicode.IsLetter(c) || unicode.Is(unicode.M, c); {
		case !inWord:
			flush(i)
		case start < 0:
			start = i
		}
	}
	flush(len(line))
	return list
}

// afterPhrase returns the part of a line after a phrase or a label that precedes a name. ok reports whether the
// line has one.
func afterPhrase(line string) (rest string, ok bool) {
	in := wordsIn(line)
	for i := range in {
		for _, phrase := range phrases {
			if end := i + len(phrase); startsWith(in[i:], phrase) {
				return line[in[end-1].end:], true
			}
		}
	}
	for _, label := range labels {
		if startsWith(in, label) {
			rest := strings.TrimLeft(line[in[len(label)-1].end:], " \t_.")
			if rest == "" || strings.HasPrefix(rest, ":") {
				return rest, true
			}
		}
	}
	for _, phrase := range unspacedPhrases {
		if _, rest, found := strings.Cut(line, phrase); found {
			return rest, true
		}
	}
	return "", false
}

func startsWith(list []word, phrase []string) bool {
	if len(list) < len(phrase) {
		return false
	}
	for i, w := range phrase {
		if list[i].folded != w {
			return false
		}
	}
	return true
}

// particles are words that may begin with a small letter in a name.
var particles = set("de", "da", "do", "dos", "das", "del", "della", "di", "du", "la", "le", "van", "von", "vom", "zu", "zur", "der", "den", "ter", "ten", "af",
	"av", "bin", "ibn", "bint", "ben", "al", "el", "y", "e", "of", "i", "st")

// enders are words after a name in scripts that have no capital letters.
var enders = set("قد", fold("أتم"), fold("أكمل"), "حصل", fold("اجتاز"), "في", fold("ने"), fold("को"))

// stems are the beginnings of words that are in headings and signatures, but not in names.
var stems = []string{
	"certif", "zertif", "diplom", "univers", "hochschul", "urkund", "zeugnis", "attest", "bescheinig", "bestatig", "award", "achiev", "complet", "particip",
	"teilnahm", "colleg", "institut", "academ", "akadem", "school", "schul", "escol", "escuel", "ecole", "cours", "curs", "kurs", "train", "program",
	"degree", "bachelor", "master", "doctor", "scien", "engineer", "director", "direktor", "direct", "presid", "rector", "rektor", "registr", "signat",
	"unterschrift", "depart", "facult", "fakult", "found", "honour", "honor", "excel", "apprec", "merit", "docum", "reference", "verif", "hereby", "this",
	"date", "datum", "fecha", "licen", "thesis", "grade", "company", "corpor", "limited", "gmbh", "organi", "chair", "secretar", "instruct", "teacher", "manager",
	"committee", "council", "board", "societ", "associat", "international", "national", "technolog", "business", "manag", "introduc", "advanc", "the", "with",
	"شهاد", "جامع", "كلي", "معهد", "परमाण", "विशवविद", "परमणपतर", "वशववदयलय",
}

// unspacedStems are Chinese and Japanese words that are in headings and signatures, but not in names.
var unspacedStems = []string{"证书", "證書", "大学", "大學", "学院", "學院", "学校", "證明", "证明", "公司", "课程", "培训", "日期", "校长", "荣誉", "修了証", "卒業"}

func set(list ...string) map[string]bool {
	m := map[string]bool{}
	for _, s := range list {
		m[s] = true
	}
	return m
}

// isTitle reports whether a text has only titles such as "Mr".
func isTitle(text string) bool {
	in := wordsOf(text)
	return len(in) > 0 && !slices.ContainsFunc(in, func(w string) bool { return !titles[w] })
}

const (
	// maxNameWords and maxNameLetters are the limits of a suggested name.
	maxNameWords   = 6
	maxNameLetters = 60
)

// leadingName returns the name at the start of a text, without titles, or "" if there is no name. whole reports
// whether the text ends with the name.
func leadingName(text string) (name string, whole bool) {
	text = strings.Trim(text, separators)
	if first, _ := utf8.DecodeRuneInString(text); unicode.Is(unicode.Han, first) {
		return unspacedName(text)
	}
	var parts []string
	for field := range strings.FieldsSeq(text) {
		part := strings.TrimRight(field, ",;:")
		w := strings.Join(wordsOf(part), "")
		if titles[w] && len(parts) == 0 {
			continue
		}
		if !nameWord(part, w) || enders[w] {
			break
		}
		if isStem(w) {
			return "", false
		}
		if parts = append(parts, part); part != field {
			break // a comma, a semicolon or a colon ends the name
		}
	}
	for len(parts) > 0 && particles[strings.Join(wordsOf(parts[len(parts)-1]), "")] {
		parts = parts[:len(parts)-1]
	}
	name = strings.Join(parts, " ")
	whole = name != "" && strings.HasSuffix(text, name)
	if n := utf8.RuneCountInString(name); n < 2 || n > maxNameLetters || len(parts) > maxNameWords || len(parts) == 1 && !whole {
		return "", false
	}
	return recase(name), whole
}

// nameWord reports whether a word may be a part of a name. A word that begins with a small letter must be a
// particle or have an apostrophe.
func nameWord(part, folded string) bool {
	for _, c := range part {
		if !unicode.IsLetter(c) && !unicode.Is(unicode.M, c) && !unicode.Is(unicode.Cf, c) && !strings.ContainsRune("'’ʼ-‐.", c) {
			return false
		}
	}
	first, _ := utf8.DecodeRuneInString(part)
	return folded != "" && (!unicode.IsLower(first) || particles[folded] || strings.ContainsAny(part, "'’"))
}

func isStem(folded string) bool {
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.HasPrefix(folded, stem) }) || monthOf(folded) > 0 && folded != "mai"
}

// unspacedName returns the name in Han characters at the start of a text, as leadingName does.
func unspacedName(text string) (name string, whole bool) {
	text = strings.ReplaceAll(text, " ", "")
	end := strings.IndexFunc(text, func(c rune) bool { return !unicode.Is(unicode.Han, c) && c != '·' })
	if end < 0 {
		end = len(text)
	}
	name = text[:end]
	for _, suffix := range []string{"同学", "同學", "先生", "女士", "小姐", "于", "於", "在", "自", "已", "因", "为", "為", "，"} {
		if before, _, found := strings.Cut(name, suffix); found && utf8.RuneCountInString(before) > 1 {
			name = before
		}
	}
	if n := utf8.RuneCountInString(name); n < 2 || n > 4 && !strings.Contains(name, "·") ||
		slices.ContainsFunc(unspacedStems, func(s string) bool { return strings.Contains(name, s) }) {
		return "", false
	}
	return name, name == text
}

// recase returns a name in capital letters with small letters after the first letter of each word,
// and any other name unchanged.
func recase(name string) string {
	if name != strings.ToUpper(name) || name == strings.ToLower(name) {
		return name
	}
	inWord := false
	return strings.Map(func(c rune) rune {
		start := !inWord
		inWord = unicode.IsLetter(c) || unicode.Is(unicode.M, c)
		if start {
			return c
		}
		return unicode.ToLower(c)
	}, name)
}
