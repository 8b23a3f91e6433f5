package sheet

import "strings"

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
)

// Columns lists all meanings in the order of the form.
var Columns = []Column{Title, Name, GivenName, FamilyName, Email, File, IssueDate, Details}

// meanings maps common names of columns to their meanings. The names are folded.
var meanings = map[string]Column{
	"title": Title, "certificatetitle": Title, "certificate": Title, "award": Title, "qualification": Title,
	"degree": Title, "degreetitle": Title, "programme": Title, "program": Title, "abschluss": Title, "studiengang": Title, "titel": Title, "título": Title, "titulo": Title,
	"fullname": Name, "name": Name, "recipient": Name, "recipientname": Name, "student": Name, "studentname": Name, "holder": Name,
	"email": Email, "applicantemail": Email, "emailaddress": Email, "mail": Email, "recipientemail": Email,
	"file": File, "filename": File, "certificatefile": File, "path": File, "pdf": File, "document": File, "datei": File, "dateiname": File,
	"issuedate": IssueDate, "date": IssueDate, "issued": IssueDate, "issuedon": IssueDate, "dateofissue": IssueDate, "datum": IssueDate, "ausstellungsdatum": IssueDate,
	"details": Details, "description": Details,
}

// nameParts maps common names of columns that contain one part of a person's name. The names are
// folded.
var nameParts = map[string]Column{
	"firstname": GivenName, "givenname": GivenName, "givennames": GivenName, "forename": GivenName, "forenames": GivenName,
	"lastname": FamilyName, "familyname": FamilyName, "surname": FamilyName,
	"vorname": GivenName, "vornamen": GivenName, "nachname": FamilyName, "familienname": FamilyName,
}

// ColumnOf returns the meaning of a column by its header, or "" if the header is unknown. ColumnOf
// does not recognise the parts of a name.
func ColumnOf(header string) Column { return meanings[Fold(header)] }

// DetectColumns returns the index of each column whose header has a known meaning. If two columns
// have the same meaning, DetectColumns returns the first column. The parts of a name are returned
// only if there is no column with the whole name.
func DetectColumns(header []string) map[Column]int {
	places := map[Column]int{}
	for i, name := range header {
		meaning := ColumnOf(name)
		if meaning == "" {
			meaning = nameParts[Fold(name)]
		}
		if _, found := places[meaning]; meaning != "" && !found {
			places[meaning] = i
		}
	}
	if _, whole := places[Name]; whole {
		delete(places, GivenName)
		delete(places, FamilyName)
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
