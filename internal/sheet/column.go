package sheet

import "strings"

// Column is what a column means.
type Column string

// What the columns of a list of certificates mean.
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

// Columns are all of them, in the order in which people are asked for them.
var Columns = []Column{Title, Name, GivenName, FamilyName, Email, File, IssueDate, Details}

// meanings are the names under which people keep what a row needs, folded.
var meanings = map[string]Column{
	"title": Title, "certificatetitle": Title, "certificate": Title, "award": Title, "qualification": Title,
	"degree": Title, "degreetitle": Title, "programme": Title, "program": Title, "abschluss": Title, "studiengang": Title, "titel": Title, "título": Title, "titulo": Title,
	"fullname": Name, "name": Name, "recipient": Name, "recipientname": Name, "student": Name, "studentname": Name, "holder": Name,
	"email": Email, "applicantemail": Email, "emailaddress": Email, "mail": Email, "recipientemail": Email,
	"file": File, "filename": File, "certificatefile": File, "path": File, "pdf": File, "document": File, "datei": File, "dateiname": File,
	"issuedate": IssueDate, "date": IssueDate, "issued": IssueDate, "issuedon": IssueDate, "dateofissue": IssueDate, "datum": IssueDate, "ausstellungsdatum": IssueDate,
	"details": Details, "description": Details,
}

// parts are the names of parts of a person's name.
var parts = map[string]Column{
	"firstname": GivenName, "givenname": GivenName, "givennames": GivenName, "forename": GivenName, "forenames": GivenName,
	"lastname": FamilyName, "familyname": FamilyName, "surname": FamilyName,
	"vorname": GivenName, "vornamen": GivenName, "nachname": FamilyName, "familienname": FamilyName,
}

// Meaning gives what a column means by its name in the header, "" where that does
// not tell. That a name is in two parts is not known by it.
func Meaning(header string) Column { return meanings[Fold(header)] }

// Guess gives the place of each column of which the header tells what it means.
// Of two that mean the same the first is taken. The parts of a name are taken
// where the whole is missing.
func Guess(header []string) map[Column]int {
	places := map[Column]int{}
	for i, name := range header {
		meaning := Meaning(name)
		if meaning == "" {
			meaning = parts[Fold(name)]
		}
		if _, taken := places[meaning]; meaning != "" && !taken {
			places[meaning] = i
		}
	}
	if _, whole := places[Name]; whole {
		delete(places, GivenName)
		delete(places, FamilyName)
	}
	return places
}

// Fold takes out of a column's name what people write differently.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' || r == '.' || r == '\u00a0' || r == '*' || r == ':' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
