// Package prose checks the language of comments. Comments must not use retired words, or begin a
// sentence with a relative clause. docs/glossary.md defines one standard term for each thing. The package
// also checks that the texts of HTML templates come from the catalog.
package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired are patterns of words and phrases that comments must not use, each with the words to use
// instead.
var retired = []struct{ pattern, instead string }{
	{`deeds?`, "action, operation or task"},
	{`gives`, "returns"},
	{`tells?|told|telling`, "returns, reports or says"},
	{`who(m|so?m?)?ever|somebody|nobody`, "a person, the caller, no one, or the passive voice"},
	{`mend(s|ed|ing)?`, "fix or correct"},
	{`(holds?|held|holding) (\w+ ){0,3}against`, "compare with or check against"},
	{`pass(es|ed)? over`, "skip or ignore"},
	{`tidings|servants?|suspects?|hastens?|letterhead|twins?|owed`, "the name of the identifier, such as generation, worker, unhealthy or duplicate"},
	{`beside each other`, "concurrently"},
	{`for want of`, "without or because there is no"},
	{`hence|lest|upon|amid|whereas|whereby|wherein|thereof|therein|forthwith`, "a common word, such as so, on, while or immediately"},
	{`heed(s|ed)?|deem(s|ed)?|mere(ly)?|save for|likewise`, "a common word, such as follow, consider, only, except or also"},
	{`believe[sd]?`, "accepts or assumes"},
	{`strangers?`, "another institution, or a user without access"},
	{`made-up`, "unknown"},
}

// inverted matches sentences that begin with a relative clause, such as "What is kept is kept for good".
var inverted = regexp.MustCompile(`(?:^|[.:;] )(?:What|Who|Whose|Whatever)\s[^.?]*(?:\.|$)`)

// problem returns what is wrong with the text of a comment, or "" if nothing is wrong.
func problem(text string) string {
	for _, r := range retired {
		if found := regexp.MustCompile(`(?i)\b(` + r.pattern + `)\b`).FindString(text); found != "" {
			return fmt.Sprintf("%q is retired; use %s", found, r.instead)
		}
	}
	if found := inverted.FindString(text); found != "" {
		return fmt.Sprintf("%q begins with a relative clause; begin with the subject", found)
	}
	return ""
}

// text returns a comment group as one line, without directives.
func text(group *ast.CommentGroup) string {
	return strings.Join(strings.Fields(group.Text()), " ")
}

func TestComments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips the parsing of all files")
	}
	for _, root := range []string{"client", "cmd", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case slices.Contains([]string{"node_modules", "prose"}, entry.Name()):
				return fs.SkipDir
			case !strings.HasSuffix(name, ".go"):
				return nil
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, group := range f.Comments {
				if wrong := problem(text(group)); wrong != "" {
					t.Errorf("%s: %s", files.Position(group.Pos()), wrong)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"Name gives the name.", "What is kept is kept for good.", "Next leads on. Who asks is left alone.", "It was held against the list.",
		"It waits lest it fail.", "A stranger reads it.", "It is a mere copy.",
	} {
		if problem(bad) == "" {
			t.Errorf("problem(%q) is empty, want a problem", bad)
		}
	}
	for _, good := range []string{"Name returns the given name.", "limit is what the contract allows. Is it large?", "What does it cost?", "There are three lanes."} {
		if wrong := problem(good); wrong != "" {
			t.Errorf("problem(%q) = %q, want none", good, wrong)
		}
	}
}
