//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	mdtext "github.com/yuin/goldmark/text"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// languages are the languages that a code block may have. Only blocks with the language sh are run. A
// block with the language console or text must match the expression of the language, which shows that the
// block cannot be run.
var languages = map[string]*regexp.Regexp{
	"sh": nil, "csv": nil, "go": nil, "js": nil, "json": nil, "mermaid": nil, "php": nil, "python": nil, "sql": nil, "yaml": nil,
	// Commands that need root, other machines, a checkout, a terminal or a hardware token.
	"console": regexp.MustCompile(`(?m)^(sudo|docker|make|git|tar|rsync|exec pkcs11-tool|certvault serve|CERTVAULT_BENCH_RECORDS=\d+ go)\b|s3://`),
	// The syntax of commands, with words in capitals, and also outputs, diagrams and comments.
	"text": regexp.MustCompile(`\b[A-Z]+\b|─|<!--`),
}

// TestHelpCommands runs the commands of each document, as one script for each document, against one vault.
// docs/help/contributor/documentation.md describes the rules.
func TestHelpCommands(t *testing.T) {
	t.Parallel()
	root, err := vault.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "certvault-data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := vault.Warm(data); err != nil {
		t.Fatal(err)
	}
	dbtest.CopyTemplate(t, data)
	v := serve(t, vault.Options{Data: data, Args: unlimited([]string{"--webhook-allow", "127.0.0.1/32"})})

	binary, err := vault.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "certvault")); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"diploma.pdf": sample("Grace Hopper"), "ada.pdf": sample("Ada Lovelace"),
		// A script ends if curl receives an error status.
		".curlrc": []byte("fail-with-body\nsilent\nshow-error\n"),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment := []string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "LC_ALL=C.UTF-8",
		"CERTVAULT_URL=" + v.URL, // the default is https://localhost:8443
	}
	addresses := strings.NewReplacer("https://localhost:8443", v.URL, "9000", freePort(t), "https://moodle.example.org", fakeMoodle(t))

	found := map[string]bool{}
	for _, d := range documents(t, root) {
		found[d.name] = true
		ran, err := os.Create(filepath.Join(t.TempDir(), "ran"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", addresses.Replace(strings.Join(d.blocks, endOfBlock)+endOfBlock))
		cmd.Dir, cmd.Env, cmd.ExtraFiles = dir, environment, []*os.File{ran}
		// If a script fails, its receiver of webhooks may still run, and keeps the standard error open. So
		// the test kills the process group, and waits only WaitDelay for the end of the output.
		cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, time.Second
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil {
			t.Errorf("the commands of %s: %v; output:\n%s", d.name, err, output.String())
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the error is reported
		}
		t.Logf("%s: %d blocks, %s", d.name, len(d.blocks), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if marks, err := os.ReadFile(ran.Name()); err != nil || len(marks) != len(d.blocks) {
			t.Errorf("%s: %d blocks were completed, error %v; want %d", d.name, len(marks), err, len(d.blocks))
		}
		if err := ran.Close(); err != nil {
			t.Error(err)
		}
		for _, want := range wanted[d.name] {
			if !strings.Contains(output.String(), want) {
				t.Errorf("the output of the commands of %s does not contain %q:\n%s", d.name, want, output.String())
			}
		}
	}
	for name := range wanted {
		if !found[name] {
			t.Errorf("%s has no commands, want some", name)
		}
	}
}

// endOfBlock follows each block of a script. It writes one byte to a file, so that the test can count the
// completed blocks.
const endOfBlock = "\nprintf . >&3\n"

// wanted maps the name of a document to texts that the output of its commands must contain.
var wanted = map[string][]string{
	firstDocument:                            {"is intact", "This vault is a drill."},
	"README.md":                              {" approved", "2 approved of 2 rows"},
	"docs/access.md":                         {"dean@example.org", `"action":"token.created"`},
	"docs/accounts.md":                       {"registrar@example.org"},
	"docs/api.md":                            {"Application released.", "Application approved.", "Application rejected."},
	"docs/credentials.md":                    {"current  2       Ed25519"},
	"docs/operations.md":                     {"deleted: 2. The record remains", "already in the target: 0.", "are as they were stored", "The sheet has no errors."},
	"docs/templates.md":                      {"Rows that can be issued: 2 of 2.", "2 approved of 2 rows", "Template Diploma is archived."},
	"docs/verify.md":                         {"Total document signed", "Certificate is Trusted", "CAdES Verification successful"},
	"docs/help/integrator/first-call.md":     {"VALID", "2 approved of 2 rows"},
	"docs/help/integrator/moodle.md":         {"issued: Ada Lovelace", "has it already: Ada Lovelace"},
	"docs/help/integrator/n8n.md":            {"is being processed", `"total":1`},
	"docs/help/integrator/webhooks-first.md": {"certificate_application.approved EXAMPLE-"},
}

// firstDocument creates the institution of the other documents.
const firstDocument = "docs/help/operator/first-hour.md"

// document is a Markdown file with commands.
type document struct {
	// name is the path of the file in the repository.
	name string
	// blocks are the commands of each block.
	blocks []string
}

// documents returns the documents with commands, beginning with firstDocument. It also checks the languages
// of all code blocks.
func documents(t *testing.T, root string) (list []document) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if e.IsDir() {
			if name != "." && name != "docs" && name != "deploy" && !strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "deploy/") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if blocks := commandBlocks(t, name, text); len(blocks) > 0 {
			list = append(list, document{name, blocks})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(list, func(d document) bool { return d.name == firstDocument })
	if first < 0 {
		t.Fatalf("%s has no commands", firstDocument)
	}
	d := list[first]
	return append([]document{d}, slices.Delete(list, first, first+1)...)
}

// commandBlocks returns the commands of the code blocks with the language sh, and of the comments that
// begin with "<!-- sh". It checks the languages of all code blocks.
func commandBlocks(t *testing.T, name string, text []byte) (blocks []string) {
	t.Helper()
	err := ast.Walk(goldmark.DefaultParser().Parse(mdtext.NewReader(text)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Type() != ast.TypeBlock {
			return ast.WalkContinue, nil
		}
		content := string(n.Lines().Value(text))
		switch n := n.(type) {
		case *ast.CodeBlock:
			t.Errorf("%s: the code block %q is indented, want a fence with a language", name, content)
		case *ast.HTMLBlock:
			if commands, ok := strings.CutPrefix(content, "<!-- sh\n"); ok {
				blocks = append(blocks, strings.TrimSuffix(strings.TrimSpace(commands), "-->"))
			}
		case *ast.FencedCodeBlock:
			language := string(n.Language(text))
			reason, ok := languages[language]
			if !ok {
				t.Errorf("%s: the language of the code block %q is %q, want one of %q", name, content, language, slices.Sorted(maps.Keys(languages)))
			}
			if reason != nil && !reason.MatchString(content) {
				t.Errorf("%s: the language of the code block %q is %s, want sh, because the block can be run", name, content, language)
			}
			if language == "sh" {
				blocks = append(blocks, content)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// freePort returns a free TCP port.
func freePort(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// fakeMoodle starts a server that responds like Moodle, and returns its URL. The course has one person who
// has completed the course, one who has not, and a teacher.
func fakeMoodle(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/webservice/rest/server.php" || r.FormValue("wstoken") == "" || r.FormValue("moodlewsrestformat") != "json" || r.FormValue("courseid") == "" {
			t.Errorf("unexpected request to Moodle: %s %v", r.URL, r.Form)
		}
		answer := `{"exception": "moodle_exception", "errorcode": "usernotenroled", "message": "User not enrolled"}`
		switch r.FormValue("wsfunction") + " " + r.FormValue("userid") {
		case "core_enrol_get_enrolled_users ":
			answer = `[{"id": 7, "fullname": "Ada Lovelace", "email": "ada@example.org"}, {"id": 8, "fullname": "Grace Hopper", "email": "grace@example.org"},
				{"id": 9, "fullname": "Teacher", "email": "teacher@example.org"}]`
		case "core_completion_get_course_completion_status 7", "core_completion_get_course_completion_status 8":
			id, err := strconv.Atoi(r.FormValue("userid"))
			if err != nil {
				t.Error(err)
			}
			answer = fmt.Sprintf(`{"completionstatus": {"completed": %t, "aggregation": 1, "completions": [{"type": 4, "title": "Activity", "complete": true, "timecompleted": 1782820800}]}, "warnings": []}`, id == 7)
		}
		_, _ = w.Write([]byte(answer)) // the client reports an incomplete response
	}))
	t.Cleanup(server.Close)
	return server.URL
}
