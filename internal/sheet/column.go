package sheet

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Column is the meaning of a column.
type Column string

// These are the meanings of columns in a list of certificates.
const (
	Title      Column = "title"
	Name       Column = "full_name"
	GivenName  Column = "given_name"
	FamilyName Column = "family_name"
	Email      Column = "email"
	File       Column = "file"
	IssueDate  Column = "issue_date"
	Details    Column = "details"
	ExpiresOn  Column = "expires_on"
)

// Columns lists all meanings, in the order in which pages show them.
var Columns = []Column{Title, Name, GivenName, FamilyName, Email, File, IssueDate, Details, ExpiresOn}

// meanings maps common names of columns to their meanings.
var meanings = headerNames(map[Column][]string{
	Title: {
		"title", "certificate title", "certificate", "award", "qualification", "degree", "degree title", "programme", "program", "abschluss", "studiengang", "titel", "título",
	},
	Name:      {"full name", "name", "recipient", "recipient name", "student", "student name", "holder"},
	Email:     {"email", "applicant email", "email address", "mail", "recipient email"},
	File:      {"file", "file name", "certificate file", "path", "pdf", "document", "datei", "dateiname"},
	IssueDate: {"issue date", "date", "issued", "issued on", "date of issue", "date of award", "award date", "datum", "ausstellungsdatum"},
	Details:   {"details", "description"},
	ExpiresOn: {"expires on", "expires", "expiry", "expiry date", "expiration date", "valid until", "ablaufdatum", "gültig bis"},
})

// broaderMeanings maps more names of columns, in many languages, to their meanings. Detect and
// DetectColumns use it for a meaning that they do not find with the names in meanings. ColumnOf does not
// use it, because some names are ambiguous, and its caller is a program that cannot ask the user.
var broaderMeanings = headerNames(map[Column][]string{
	Title: {
		"title", "certificate title", "certificate", "award", "award title", "qualification", "degree", "degree title", "programme", "program", "course", "course title",
		"titel", "abschluss", "abschlussbezeichnung", "akademischer grad", "studiengang", "bezeichnung", "zeugnis", "urkunde",
		"titre", "intitulé", "intitulé du diplôme", "diplôme", "formation", "grade",
		"título", "titulación", "título obtenido", "curso", "grado", "carrera", "certificado",
		"título do certificado", "titulação", "titolo", "titolo di studio",
		"عنوان الشهادة", "الشهادة", "اسم الشهادة", "الدرجة العلمية", "المؤهل", "التخصص",
		"证书名称", "证书", "学位", "专业", "प्रमाणपत्र", "शीर्षक",
	},
	Name: {
		"full name", "name", "recipient", "recipient name", "student", "student name", "name of student", "holder", "graduate", "participant", "participant name",
		"vollständiger name", "vor- und nachname", "vorname und nachname", "vorname nachname", "name der studierenden",
		"absolvent", "absolventin", "teilnehmer", "teilnehmerin", "inhaber",
		"nom complet", "nom et prénom", "nom et prénoms", "nom prénom", "prénom et nom", "étudiant", "titulaire", "nom de l'étudiant",
		"nombre completo", "nombre y apellidos", "nombres y apellidos", "apellidos y nombre", "estudiante", "alumno", "titular", "nombre del estudiante",
		"nome completo", "nome e cognome", "aluno", "estudante",
		"الاسم الكامل", "الاسم بالكامل", "الاسم الثلاثي", "الاسم الرباعي", "اسم الطالب", "الطالب", "اسم الخريج",
		"姓名", "学生姓名", "पूरा नाम", "नाम", "छात्र का नाम",
	},
	Email: {
		"email", "applicant email", "email address", "mail", "recipient email", "student email", "mail address",
		"e-mail-adresse", "mailadresse", "emailadresse",
		"courriel", "adresse e-mail", "adresse email", "adresse électronique", "adresse mail", "mél",
		"correo electrónico", "correo", "dirección de correo", "dirección de correo electrónico",
		"endereço de e-mail", "correio eletrônico", "indirizzo e-mail", "posta elettronica",
		"البريد الإلكتروني", "البريد", "الإيميل", "ايميل", "عنوان البريد الإلكتروني",
		"电子邮件", "电子邮箱", "邮箱", "ईमेल", "ई-मेल",
	},
	File: {
		"file", "file name", "certificate file", "path", "pdf", "document", "pdf file", "pdf name", "attachment",
		"datei", "dateiname", "dokument", "pdf-datei",
		"fichier", "nom du fichier", "nom de fichier", "fichier pdf",
		"archivo", "nombre del archivo", "nombre de archivo", "fichero", "nombre del fichero",
		"arquivo", "nome do arquivo", "ficheiro", "nome del file",
		"الملف", "اسم الملف", "ملف", "文件", "文件名", "फ़ाइल", "फ़ाइल का नाम",
	},
	IssueDate: {
		"issue date", "date", "issued", "issued on", "date issued", "date of issue",
		"award date", "date of award", "awarded on", "date awarded", "graduation date", "date of graduation",
		"conferral date", "date of conferral", "completion date", "date of completion",
		"datum", "ausstellungsdatum", "ausgestellt am", "datum der ausstellung", "verleihungsdatum",
		"datum der verleihung", "verliehen am", "abschlussdatum", "datum des abschlusses", "zeugnisdatum",
		"date de délivrance", "délivré le", "date d'obtention", "date d'émission", "date de remise", "date du diplôme",
		"fecha", "fecha de emisión", "fecha de expedición", "fecha de entrega", "fecha de otorgamiento", "fecha de graduación", "fecha del título",
		"data", "data de emissão", "data de conclusão", "data di rilascio", "data di conseguimento",
		"تاريخ الإصدار", "تاريخ المنح", "تاريخ التخرج", "التاريخ", "تاريخ الشهادة", "تاريخ الحصول",
		"颁发日期", "签发日期", "日期", "发证日期", "जारी करने की तिथि", "दिनांक", "तिथि",
	},
	Details: {
		"details", "description", "remarks", "notes", "bemerkung", "bemerkungen", "beschreibung", "anmerkung", "remarque", "remarques", "détails", "mention",
		"detalles", "observaciones", "descripción", "observações", "detalhes", "descrição", "ملاحظات", "التفاصيل", "备注", "विवरण",
	},
	ExpiresOn: {
		"expires on", "expires", "expiry", "expiry date", "date of expiry", "expiration", "expiration date", "valid until", "valid to", "valid through", "end of validity",
		"ablaufdatum", "läuft ab am", "gültig bis", "gültigkeit bis", "gültigkeitsende", "ende der gültigkeit", "verfallsdatum",
		"date d'expiration", "expire le", "expiration le", "valable jusqu'au", "valide jusqu'au", "fin de validité", "date de fin de validité", "date d'échéance",
		"fecha de vencimiento", "vencimiento", "vence el", "válido hasta", "válida hasta", "vigente hasta", "fecha de caducidad", "caducidad", "fecha de expiración",
		"data de validade", //nolint:misspell // Portuguese
		"válido até", "válida até", "data de expiração", "data de vencimento", "expira em", "data di scadenza", "scadenza", "valido fino al",
		"تاريخ الانتهاء", "تاريخ انتهاء الصلاحية", "تاريخ انتهاء الشهادة", "صالح حتى", "صالحة حتى", "ينتهي في", "تنتهي في",
		"有效期至", "有效期限", "到期日", "到期日期", "失效日期", "समाप्ति तिथि", "समाप्ति की तिथि", "वैधता समाप्ति", "तक मान्य", "मान्य अवधि",
	},
})

// nameParts maps the names of columns that contain a part of a person's name. A column with the meaning
// Name here, such as “Nom”, contains the whole name or a part. If the list also has a column with one
// part, Detect decides by the values.
var nameParts = headerNames(map[Column][]string{
	GivenName: {
		"first name", "given name", "given names", "forename", "forenames", "first names",
		"vorname", "vornamen", "prénom", "prénoms", "nombres", "nombre de pila", "primeiro nome",
		"الاسم الأول", "名", "名字", "पहला नाम",
	},
	FamilyName: {
		"last name", "family name", "surname", "last names", "nachname", "familienname", "zuname", "nom de famille", "apellido", "apellidos", "sobrenome", "apelido", "cognome",
		"اسم العائلة", "اللقب", "الكنية", "姓", "姓氏", "उपनाम", "कुलनाम",
	},
	Name: {"nom", "nombre", "nome", "naam", "الاسم"},
})

func headerNames(names map[Column][]string) map[string]Column {
	byName := map[string]Column{}
	for column, list := range names {
		for _, name := range list {
			byName[headerKey(name)] = column
		}
	}
	return byName
}

// headerKey implements Key.
func headerKey(header string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, norm.NFKD.String(header))
}

// Key returns the letters and digits of the name of a column in lower case and without accents, so
// that common spellings of a name become equal.
func Key(name string) string { return headerKey(name) }

// ColumnOf returns the meaning of a column by its header, or "" if the header is unknown. ColumnOf
// does not recognize the parts of a name.
func ColumnOf(header string) Column { return meanings[headerKey(header)] }

// DetectColumns returns the index of one column for each meaning that a header has. If several columns have
// the same meaning, DetectColumns prefers a header in meanings, and then the first column. It returns the
// parts of a name only if there is no column with the whole name.
func DetectColumns(header []string) map[Column]int {
	places := byHeader(header, nil)
	if _, whole := places[Name]; whole {
		delete(places, GivenName)
		delete(places, FamilyName)
	}
	return places
}

// byHeader returns one column for each meaning that a header has. It ignores columns for which contradicts
// returns true. contradicts may be nil.
func byHeader(header []string, contradicts func(Column, int) bool) map[Column]int {
	places := map[Column]int{}
	for _, known := range []map[string]Column{meanings, broaderMeanings, nameParts} {
		for i, name := range header {
			meaning := known[headerKey(name)]
			if _, found := places[meaning]; meaning != "" && !found && (contradicts == nil || !contradicts(meaning, i)) {
				places[meaning] = i
			}
		}
	}
	return places
}

// Fold returns the name of a column in lower case and without spaces and the characters '_', '-',
// '.', '*' and ':', so that common spellings of a name become equal.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' || r == '.' || r == '\u00a0' || r == '*' || r == ':' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
