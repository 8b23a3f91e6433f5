package main

import (
	"strings"
	"testing"
)

const list = `
# A comment.
top:     web/page app
middle:  web
bottom:  pdf pdfium db # both
tests:   db/dbtest
pure:    pdf
outside: client ->
outside: app -> db
`

// TestRules checks the rules for packages of layers, for pure packages and for packages in the lines outside.
// The rule for a package of a layer denies its import to the other packages of the layer and to lower layers.
// The rule for pdf does not match pdfium.
func TestRules(t *testing.T) {
	parsed, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	got := parsed.rules()
	for _, want := range []string{
		"import-web-page:\n          files: [\"**/internal/**\", \"!**/internal/web/page/**\", \"!**/internal/db/dbtest/**\"]\n          deny:\n            - {pkg: " + internal + "web/page, ",
		"import-web:\n          files: [\"**/internal/**\", \"!**/internal/{web/page,app,web}/**\", \"!**/internal/db/dbtest/**\"]\n          deny:\n            - {pkg: " + internal + "web$, ",
		"import-pdf:\n          files: [\"**/internal/**\", \"!**/internal/{web/page,app,web,pdf}/**\", \"!**/internal/db/dbtest/**\"]\n          deny:\n            - {pkg: " + internal + "pdf$, ",
		"    - {pkg: " + internal + "pdf/, ",
		"import-db:\n          files: [\"**/internal/**\", \"!**/internal/{web/page,app,web,db}/**\", \"!**/internal/db/dbtest/**\"]\n          deny:\n            - {pkg: " + internal + "db, ",
		"pure:\n          files: [\"**/internal/pdf/**\"]\n          list-mode: lax\n          allow: [\"" + internal + "pdf\"]\n          deny:\n            - {pkg: " + internal + ", ",
		"outside-client:\n          files: [\"**/client/*.go\"]\n          deny:\n            - {pkg: " + internal + ", ",
		"outside-app:\n          files: [\"**/internal/app/**\"]\n          list-mode: lax\n          allow: [\"" + internal + "db\"]",
		"\"!**/internal/db/dbtest/**\"]",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the rules do not contain\n%s\n\ngot\n%s", want, got)
		}
	}
}

func TestCheck(t *testing.T) {
	folders := []string{"app", "db", "db/dbtest", "pdf", "pdf/internal", "pdfium", "web", "web/page"}
	for _, c := range []struct {
		name, list string
		folders    []string
		want       string
	}{
		{"complete", list, folders, ""},
		{"new package", list, append(folders, "task"), "internal/task is not listed"},
		{"new package in a folder with listed packages", list, append(folders, "web/body"), "internal/web/body is not listed"},
		{"removed package", list + "extra: removed\n", folders, "there is no package internal/removed"},
		{"package listed twice", list + "extra: db\n", folders, "db is listed twice"},
		{"pure without a layer", list + "pure: seal\n", folders, "seal is in no layer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := parse(c.list)
			if err != nil {
				t.Fatal(err)
			}
			err = parsed.check(c.folders)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("check = %v, want the error %q, where an empty text means no error", err, c.want)
			}
		})
	}
}

func TestParseInvalid(t *testing.T) {
	for _, text := range []string{"layer", "layer:", ": db", "outside: client", "outside: client db"} {
		if parsed, err := parse(text); err == nil {
			t.Errorf("parse(%q) = %+v, want an error", text, parsed)
		}
	}
}
