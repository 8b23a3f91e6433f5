//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
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
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// commands matches a code block whose commands can run here.
var commands = regexp.MustCompile("(?s)\n```sh\n(.*?\n)```\n")

// TestHelpCommands runs the commands of each page of docs/help, as one script for each page, against one
// vault. docs/help/contributor/documentation.md describes the rules.
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
	for name, person := range map[string]string{"diploma.pdf": "Grace Hopper", "ada.pdf": "Ada Lovelace"} {
		if err := os.WriteFile(filepath.Join(dir, name), sample(person), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "LC_ALL=C.UTF-8"}
	addresses := strings.NewReplacer("https://localhost:8443", v.URL, "9000", freePort(t), "https://moodle.example.org", fakeMoodle(t))

	pages := helpPages(t, filepath.Join(root, "docs", "help"))
	if len(pages) < 4 {
		t.Fatalf("only %d pages have commands: %v", len(pages), pages)
	}
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var script strings.Builder
		for _, block := range commands.FindAllSubmatch(text, -1) {
			script.Write(block[1])
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", addresses.Replace(script.String()))
		cmd.Dir, cmd.Env = dir, environment
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil {
			t.Errorf("the commands of %s: %v; output:\n%s", file, err, output.String())
		}
		for _, want := range wanted[filepath.Base(file)] {
			if !strings.Contains(output.String(), want) {
				t.Errorf("the output of the commands of %s has no %q:\n%s", file, want, output.String())
			}
		}
	}
}

// wanted are texts of the outputs of pages.
var wanted = map[string][]string{
	"first-call.md":     {"VALID", "2 approved of 2 rows"},
	"moodle.md":         {"issued: Ada Lovelace", "has it already: Ada Lovelace"},
	"webhooks-first.md": {"certificate_application.approved EXAMPLE-"},
}

// helpPages returns the pages with commands. The page of the operator is first, because it creates the
// institution.
func helpPages(t *testing.T, root string) (pages []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && commands.Match(text) {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(root, "operator", "first-hour.md")
	i := slices.Index(pages, first)
	if i < 0 {
		t.Fatalf("%s has no commands", first)
	}
	return append([]string{first}, slices.Delete(pages, i, i+1)...)
}

// freePort returns a port of this machine that is free.
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

// fakeMoodle returns the address of a server that answers as Moodle does. The course has a person who
// has completed it, one who has not, and a teacher.
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
		_, _ = w.Write([]byte(answer)) // the client reports an incomplete answer
	}))
	t.Cleanup(server.Close)
	return server.URL
}
