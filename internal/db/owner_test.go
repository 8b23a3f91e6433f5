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

// owners maps each table to the only package under internal/ that writes it. Other packages call
// operations of the owner.
var owners = map[string]string{
	"allowances":                "recipient",
	"application_drafts":        "application",
	"acme_cache":                "acme",
	"application_events":        "application",
	"application_files":         "application",
	"applications":              "application",
	"audit_entries":             "audit",
	"authenticators":            "identity",
	"backups":                   "backup",
	"batch_entries":             "batch",
	"batch_turns":               "batch",
	"batches":                   "batch",
	"blob_deletions":            "deletion",
	"blob_sweeps":               "deletion",
	"certificate_checks":        "cert",
	"certificate_counts":        "search",
	"former_slugs":              "account",
	"institution_usage":         "quota",
	"usage_counting":            "quota",
	"certificate_days":          "search",
	"certificate_expiries":      "cert",
	"certificate_signatures":    "cert",
	"certificate_task_results":  "task",
	"certificate_tasks":         "task",
	"certificate_search":        "search",
	"certificates":              "cert",
	"corrections":               "recipient",
	"customer_numbers":          "recipient",
	"customers":                 "recipient",
	"devices":                   "identity",
	"id_floors":                 "db",
	"idempotency_keys":          "limit",
	"institution_fonts":         "template",
	"institution_logos":         "account",
	"institution_words":         "account",
	"institutions":              "account",
	"bulk_import_archives":      "bulkimport",
	"bulk_import_batches":       "bulkimport",
	"bulk_import_drafts":        "bulkimport",
	"bulk_import_files":         "bulkimport",
	"bulk_import_mappings":      "bulkimport",
	"bulk_import_rows":          "bulkimport",
	"installations":             "db",
	"invitations":               "account",
	"key_checks":                "db",
	"mail_links":                "recipient",
	"mails":                     "mail",
	"members":                   "account",
	"nodes":                     "job",
	"notice_plans":              "recipient",
	"notices":                   "recipient",
	"offer_registers":           "application",
	"offers":                    "application",
	"passkeys":                  "identity",
	"planned_notices":           "recipient",
	"portfolio_addresses":       "recipient",
	"portfolio_entries":         "recipient",
	"portfolios":                "recipient",
	"proofs":                    "identity",
	"rate_counts":               "limit",
	"recent_writes":             "replica",
	"recovery_codes":            "identity",
	"restores":                  "db",
	"river_job":                 "job",
	"river_leader":              "job",
	"schema_floor":              "db",
	"schema_migrations":         "db",
	"saved_views":               "search",
	"sessions":                  "identity",
	"setup_links":               "account",
	"shares":                    "recipient",
	"signature_mails":           "approval",
	"signature_pictures":        "template",
	"signing_identities":        "authority",
	"signing_keys":              "authority",
	"staged_files":              "batch",
	"staged_usage":              "batch",
	"stamp_layouts":             "cert",
	"tasks":                     "job",
	"template_pictures":         "template",
	"template_signatories":      "template",
	"template_versions":         "template",
	"templates":                 "template",
	"throttles":                 "identity",
	"tokens":                    "token",
	"unsubscribes":              "recipient",
	"user_addresses":            "account",
	"users":                     "account",
	"verification_counts":       "verification",
	"webhook_attempts":          "webhook",
	"webhook_deliveries":        "webhook",
	"webhook_endpoints":         "webhook",
	"webhook_events":            "webhook",
	"achievements":              "issuer",
	"credential_keys":           "authority",
	"credential_offers":         "issuer",
	"credential_revocations":    "issuer",
	"credential_status_entries": "issuer",
	"credential_status_lists":   "issuer",
	"credential_versions":       "issuer",
	"credentials":               "issuer",
}

// joins maps a table to the packages that may read it in addition to its owner, each with the reason.
// Such a package reads the table in the same statement as its own tables, because an operation of the
// owner would require more statements.
var joins = map[string]map[string]string{
	"batches": {"recipient": "one statement finds the notices of all complete batches"},
	"certificates": {
		"application": "applications are listed, filtered and ordered with the status and the texts of their records",
		"batch":       "entries are listed and counted with the state of their certificates",
		"issuer":      "one statement finds the certificates of a status list that were revoked or corrected, another one whether a certificate exists",
		"quota":       "after an upgrade, a statement adds up the files of some thousand certificates",
		"recipient":   "wallets, links and notices are listed with their certificates",
		"search":      "it finds, filters, orders and counts all certificates",
		"task":        "the results of a task are listed with their certificates, and a task starts with the certificates that a search finds",

		"verification": "a count is stored only for a certificate whose files exist, with one statement",
	},
	"institutions": {
		"cert":  "one statement finds out whether the sweep of expiries has work, which is nearly never the case",
		"token": "each API request reads its token and institution with one statement",
	},
	"members":           {"identity": "each page for a signed-in person checks with one statement whether the person is a member"},
	"staged_files":      {"bulkimport": "a copied list reuses all files that are still stored, with one statement"},
	"templates":         {"issuer": "achievements are listed with the names of their templates"},
	"template_versions": {"issuer": "one statement finds the achievement of a certificate by its title or its template"},
	"users":             {"identity": "each page for a signed-in person reads the session and the person with one statement"},
}

// access is a use of a table in a statement.
type access struct {
	table string
	write bool
}

var (
	created = regexp.MustCompile(`(?i)\bCREATE (?:VIRTUAL )?TABLE (\w+)`)
	renamed = regexp.MustCompile(`(?i)\bALTER TABLE (\w+) RENAME TO (\w+)`)
	// statement matches the beginning of a write, up to the name of its table.
	statement = regexp.MustCompile(`(?i)\b(INSERT(?:\s+OR\s+\w+)?\s+INTO|REPLACE\s+INTO|DELETE\s+FROM|TRUNCATE(?:\s+TABLE)?|UPDATE)\s+(?:ONLY\s+)?(\S*)`)
	// source matches a list of tables that are read, or the table of a DELETE.
	source     = regexp.MustCompile(`(?i)\b(DELETE\s+)?(?:FROM|JOIN)\s+((?:\w+(?:\s+(?:AS\s+)?\w+)?\s*,\s*)*\w+)`)
	identifier = regexp.MustCompile(`^\w*`)
)

// gap replaces the parts of a concatenation that are not string literals.
const gap = "\x00"

// accesses returns the uses of tables in a text that may be SQL. unclear contains the writes whose
// table is not in the text.
func accesses(text string) (list []access, unclear []string) {
	for _, m := range statement.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(identifier.FindString(m[2]))
		switch _, known := owners[name]; {
		case known:
			list = append(list, access{name, true})
		case name == "" && m[1] == strings.ToUpper(m[1]):
			unclear = append(unclear, m[0])
		default: // The text is prose, or UPDATE is part of another clause.
		}
	}
	for _, m := range source.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			continue
		}
		for part := range strings.SplitSeq(m[2], ",") {
			name := strings.ToLower(identifier.FindString(strings.TrimSpace(part)))
			if _, known := owners[name]; known {
				list = append(list, access{name, false})
			}
		}
	}
	return list, unclear
}

// constant returns the text of a string literal, or of a concatenation that contains a string literal.
// The text has a gap for each part that is not a literal, and others contains these parts.
func constant(e ast.Expr) (text string, isText bool, others []ast.Expr) {
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

// violations returns the uses of tables in a part of a Go file that are not allowed in package pkg, and
// the number of allowed uses.
func violations(in ast.Node, pkg string, at func(token.Pos) token.Position) (list []string, allowed int) {
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
			more, n := violations(o, pkg, at)
			list, allowed = append(list, more...), allowed+n
		}
		found, unclear := accesses(text)
		for _, u := range unclear {
			list = append(list, fmt.Sprintf("%s: the table of %q must be in the same string literal", at(e.Pos()), u))
		}
		for _, a := range found {
			switch owner := owners[a.table]; {
			case pkg == owner, !a.write && joins[a.table][pkg] != "":
				allowed++
			case a.write:
				list = append(list, fmt.Sprintf("%s: package %s writes the table %s, which %[4]s owns; call an operation of %[4]s", at(e.Pos()), pkg, a.table, owner))
			default:
				list = append(list, fmt.Sprintf("%s: package %s reads the table %s, which %[4]s owns; call an operation of %[4]s", at(e.Pos()), pkg, a.table, owner))
			}
		}
		return false
	})
	return list, allowed
}

// TestTablesHaveOneOwner checks that only the owner of a table writes it, and that only the owner and
// the packages in joins read it.
func TestTablesHaveOneOwner(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	allowed := 0
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
			list, n := violations(file, pkg, set.Position)
			allowed += n
			for _, m := range list {
				t.Error(m)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if allowed < 300 {
		t.Errorf("found %d allowed uses of tables, want at least 300", allowed)
	}
}

// TestEveryTableHasAnOwner checks that each table of the schema has an owner, that each table in
// owners and joins exists, and that each entry of joins has a reason.
func TestEveryTableHasAnOwner(t *testing.T) {
	t.Parallel()
	tables := map[string]bool{"river_job": true, "river_leader": true, "schema_migrations": true}
	for _, dialect := range []string{"sqlite", "postgres"} {
		files, err := filepath.Glob("migrations/" + dialect + "/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("found %d migrations, %v, want at least 1", len(files), err)
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
					// An earlier migration created the table with its old name.
					delete(tables, m[1])
					tables[m[2]] = true
				}
			}
			for _, m := range created.FindAllStringSubmatch(string(text), -1) {
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
			t.Errorf("the table %s, owned by %s, does not exist", name, owner)
		}
	}
	for name, packages := range joins {
		if _, known := owners[name]; !known {
			t.Errorf("joins has the unknown table %s", name)
		}
		for pkg, reason := range packages {
			if pkg == owners[name] || reason == "" {
				t.Errorf("joins has no reason why %s reads %s, or %s is its owner", pkg, name, pkg)
			}
		}
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"`UPDATE certificates SET x = 1`":                                           "writes the table certificates",
		"`update certificates set x = 1`":                                           "writes the table certificates",
		"`INSERT INTO institutions (id) VALUES ($1)`":                               "writes the table institutions",
		"`INSERT OR REPLACE INTO tokens (id) VALUES (1)`":                           "writes the table tokens",
		"\"DELETE \" + \"FROM users \" + where":                                     "writes the table users",
		"fmt.Sprintf(`DELETE FROM users WHERE id = %d`, 1)":                         "writes the table users",
		"fmt.Sprintf(`DELETE FROM %s`, where)":                                      "must be in the same string literal",
		"`UPDATE ` + where + ` SET x = 1`":                                          "must be in the same string literal",
		"b.WriteString(`INSERT INTO `)":                                             "must be in the same string literal",
		"`SELECT 1 FROM users`":                                                     "reads the table users",
		"`SELECT 1 FROM mails m LEFT JOIN river_job j ON true`":                     "reads the table river_job",
		"`SELECT 1 FROM mails AS m, users u`":                                       "reads the table users",
		"`UPDATE mails SET x = (SELECT 1 FROM nodes)`":                              "reads the table nodes",
		"`DELETE FROM mails WHERE EXISTS (SELECT 1 FROM users)`":                    "reads the table users",
		"`SELECT 1 FROM mails` + join(`JOIN users u ON true`)":                      "reads the table users",
		"`SELECT 1 FROM mails`":                                                     "",
		"`INSERT INTO mails (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 2`": "",
		"`SELECT 1 FROM mails FOR UPDATE SKIP LOCKED`":                              "",
		"\"an update was made; mail comes from everywhere\"":                        "",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "mail.go", "package mail\nvar x = f("+body+")", 0)
		if err != nil {
			t.Fatalf("parsing %s failed: %v", body, err)
		}
		list, _ := violations(file, "mail", set.Position)
		if (want == "") != (len(list) == 0) || want != "" && (len(list) != 1 || !strings.Contains(list[0], want)) {
			t.Errorf("%s: violations = %q, want %q", body, list, want)
		}
	}
}
