package db_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// owners maps each table to the one package under internal/ that writes it.
// Other packages call operations of the owner.
var owners = map[string]string{
	"allowances":               "recipient",
	"audit_entries":            "audit",
	"authenticators":           "identity",
	"batch_entries":            "batch",
	"batch_turns":              "batch",
	"batches":                  "batch",
	"certificate_checks":       "cert",
	"certificate_counts":       "search",
	"certificate_days":         "search",
	"certificate_task_results": "task",
	"certificate_tasks":        "task",
	"certificate_search":       "search",
	"certificates":             "cert",
	"corrections":              "recipient",
	"customer_numbers":         "recipient",
	"customers":                "recipient",
	"devices":                  "identity",
	"idempotency_keys":         "limit",
	"institution_logos":        "account",
	"institution_words":        "account",
	"institutions":             "account",
	"bulk_import_archives":     "bulkimport",
	"bulk_import_batches":      "bulkimport",
	"bulk_import_drafts":       "bulkimport",
	"bulk_import_files":        "bulkimport",
	"bulk_import_mappings":     "bulkimport",
	"bulk_import_rows":         "bulkimport",
	"invitations":              "account",
	"key_checks":               "db",
	"mail_links":               "recipient",
	"mails":                    "mail",
	"members":                  "account",
	"nodes":                    "job",
	"notices":                  "recipient",
	"passkeys":                 "identity",
	"proofs":                   "identity",
	"recovery_codes":           "identity",
	"river_job":                "job",
	"river_leader":             "job",
	"schema_migrations":        "db",
	"sessions":                 "identity",
	"setup_links":              "account",
	"shares":                   "recipient",
	"staged_files":             "batch",
	"staged_usage":             "batch",
	"stamp_layouts":            "cert",
	"throttles":                "identity",
	"tokens":                   "token",
	"unsubscribes":             "recipient",
	"users":                    "account",
	"webhook_attempts":         "webhook",
	"webhook_deliveries":       "webhook",
	"webhook_endpoints":        "webhook",
	"webhook_events":           "webhook",
}

// joins maps a table to the packages that may read it besides its owner, each
// with the reason. They join it to tables of their own in one statement, where
// an operation of the owner would take a statement for each row.
var joins = map[string]map[string]string{
	"batches": {"recipient": "one statement finds the notices whose batch is complete, of all batches"},
	"certificates": {
		"batch":     "entries are listed and counted with the state of their certificates",
		"recipient": "wallets, links and notices are listed with their certificates",
		"search":    "finding certificates is its work: filters, orders, counts and days run over all of them",
		"task":      "the results of a task are listed with their certificates, and a task begins with those of a search",
	},
	"institutions": {"token": "each API request reads its token and institution with one statement"},
	"members":      {"identity": "each page of a signed-in person reads whether they are a member"},
	"staged_files": {"bulkimport": "a copied list takes over those files that are still stored, with one statement"},
	"users":        {"identity": "each page of a signed-in person reads session and person with one statement"},
}

// access is the use of a table in a statement.
type access struct {
	table string
	write bool
}

var (
	made    = regexp.MustCompile(`(?i)\bCREATE (?:VIRTUAL )?TABLE (\w+)`)
	renamed = regexp.MustCompile(`(?i)\bALTER TABLE (\w+) RENAME TO (\w+)`)
	// statement is what begins a write, up to its table.
	statement = regexp.MustCompile(`(?i)\b(INSERT(?:\s+OR\s+\w+)?\s+INTO|REPLACE\s+INTO|DELETE\s+FROM|TRUNCATE(?:\s+TABLE)?|UPDATE)\s+(?:ONLY\s+)?(\S*)`)
	// source is a list of tables that is read, or the table of a DELETE.
	source = regexp.MustCompile(`(?i)\b(DELETE\s+)?(?:FROM|JOIN)\s+((?:\w+(?:\s+(?:AS\s+)?\w+)?\s*,\s*)*\w+)`)
	word   = regexp.MustCompile(`^\w*`)
)

// gap stands for a part of a text that is no constant of the same expression.
const gap = "\x00"

// accesses returns the uses of tables in a text that may be SQL. A write whose
// table does not stand in the text is in unclear.
func accesses(text string) (list []access, unclear []string) {
	for _, m := range statement.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(word.FindString(m[2]))
		switch _, known := owners[name]; {
		case known:
			list = append(list, access{name, true})
		case name == "" && m[1] == strings.ToUpper(m[1]):
			unclear = append(unclear, m[0])
		default: // prose, or UPDATE in another clause
		}
	}
	for _, m := range source.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			continue
		}
		for part := range strings.SplitSeq(m[2], ",") {
			name := strings.ToLower(word.FindString(strings.TrimSpace(part)))
			if _, known := owners[name]; known {
				list = append(list, access{name, false})
			}
		}
	}
	return list, unclear
}

// constant returns the text of a string literal, or of a sum with one, and the
// parts of the sum that are no literals, for which the text has gaps.
func constant(e ast.Expr) (text string, is bool, others []ast.Expr) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil, nil
	case *ast.BinaryExpr:
		left, isLeft, others := constant(e.X)
		right, isRight, more := constant(e.Y)
		return left + right, e.Op == token.ADD && (isLeft || isRight), append(others, more...)
	default:
		return gap, false, []ast.Expr{e}
	}
}

// misuses returns the uses of tables in a part of a Go file that its package has no right
// to, and how many it has a right to.
func misuses(in ast.Node, pkg string, at func(token.Pos) token.Position) (list []string, rightful int) {
	ast.Inspect(in, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, ok, others := constant(e)
		if !ok {
			return true
		}
		for _, o := range others {
			more, n := misuses(o, pkg, at)
			list, rightful = append(list, more...), rightful+n
		}
		found, unclear := accesses(text)
		for _, u := range unclear {
			list = append(list, fmt.Sprintf("%s: the table of %q must stand in the text", at(e.Pos()), u))
		}
		for _, a := range found {
			switch owner := owners[a.table]; {
			case pkg == owner, !a.write && joins[a.table][pkg] != "":
				rightful++
			case a.write:
				list = append(list, fmt.Sprintf("%s: %s writes %s, which is %s's: call an operation of %s", at(e.Pos()), pkg, a.table, owner, owner))
			default:
				list = append(list, fmt.Sprintf("%s: %s reads %s, which is %s's: call an operation of %s", at(e.Pos()), pkg, a.table, owner, owner))
			}
		}
		return false
	})
	return list, rightful
}

// Exactly one package writes a table, and the others call its operations.
func TestTablesHaveOneOwner(t *testing.T) {
	t.Parallel()
	rightful := 0
	for _, root := range []string{"../../internal", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && strings.HasSuffix(d.Name(), "test"):
				return fs.SkipDir // packages for tests may write any table
			case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../internal/")
			list, n := misuses(file, pkg, set.Position)
			rightful += n
			for _, m := range list {
				t.Error(m)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if rightful < 300 {
		t.Errorf("only %d uses of tables were found", rightful)
	}
}

// Every table that there is has an owner.
func TestEveryTableHasAnOwner(t *testing.T) {
	t.Parallel()
	tables := map[string]bool{"river_job": true, "river_leader": true, "schema_migrations": true}
	for _, dialect := range []string{"sqlite", "postgres"} {
		files, err := filepath.Glob("migrations/" + dialect + "/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("%d migrations, %v", len(files), err)
		}
		temporary := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range renamed.FindAllStringSubmatch(string(text), -1) {
				temporary[m[1]] = true
				if tables[m[1]] {
					// An earlier migration made it under its old name.
					delete(tables, m[1])
					tables[m[2]] = true
				}
			}
			for _, m := range made.FindAllStringSubmatch(string(text), -1) {
				if !temporary[m[1]] {
					tables[m[1]] = true
				}
			}
		}
	}
	for name := range tables {
		if owners[name] == "" {
			t.Errorf("the table %s has no owner", name)
		}
	}
	for name, owner := range owners {
		if !tables[name] {
			t.Errorf("%s owns the table %s, which does not exist", owner, name)
		}
	}
	for name, packages := range joins {
		if _, known := owners[name]; !known {
			t.Errorf("%s is joined and does not exist", name)
		}
		for pkg, reason := range packages {
			if pkg == owners[name] || reason == "" {
				t.Errorf("that %s joins %s has no reason", pkg, name)
			}
		}
	}
}

func TestMisuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"`UPDATE certificates SET x = 1`":                                           "writes certificates",
		"`update certificates set x = 1`":                                           "writes certificates",
		"`INSERT INTO institutions (id) VALUES ($1)`":                               "writes institutions",
		"`INSERT OR REPLACE INTO tokens (id) VALUES (1)`":                           "writes tokens",
		"\"DELETE \" + \"FROM users \" + where":                                     "writes users",
		"fmt.Sprintf(`DELETE FROM users WHERE id = %d`, 1)":                         "writes users",
		"fmt.Sprintf(`DELETE FROM %s`, where)":                                      "must stand in the text",
		"`UPDATE ` + where + ` SET x = 1`":                                          "must stand in the text",
		"b.WriteString(`INSERT INTO `)":                                             "must stand in the text",
		"`SELECT 1 FROM users`":                                                     "reads users",
		"`SELECT 1 FROM mails m LEFT JOIN river_job j ON true`":                     "reads river_job",
		"`SELECT 1 FROM mails AS m, users u`":                                       "reads users",
		"`UPDATE mails SET x = (SELECT 1 FROM nodes)`":                              "reads nodes",
		"`DELETE FROM mails WHERE EXISTS (SELECT 1 FROM users)`":                    "reads users",
		"`SELECT 1 FROM mails` + join(`JOIN users u ON true`)":                      "reads users",
		"`SELECT 1 FROM mails`":                                                     "",
		"`INSERT INTO mails (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 2`": "",
		"`SELECT 1 FROM mails FOR UPDATE SKIP LOCKED`":                              "",
		"\"an update was made; mail comes from everywhere\"":                        "",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "mail.go", "package mail\nvar x = f("+body+")", 0)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		list, _ := misuses(file, "mail", set.Position)
		if (want == "") != (len(list) == 0) || want != "" && (len(list) != 1 || !strings.Contains(list[0], want)) {
			t.Errorf("%s: %q, want %q", body, list, want)
		}
	}
}
