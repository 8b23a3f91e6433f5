package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOffersOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return certvault(t, "", append(args, "--data", filepath.Join(dir, "data"))...)
	}
	if code, _, errs := certvault(t, "correct horse battery staple\n", "institution", "create", "--data", filepath.Join(dir, "data"), "--name", "Northern University", "--prefix", "NWU",
		"--owner-email", "o@example.org", "--owner-name", "Owner", "--owner-password-stdin"); code != exitDone {
		t.Fatal(errs)
	}
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fields := file("fields.json", `[{"key": "number", "label": "Student number", "type": "text", "required": true}]`)
	create := func(args ...string) []string {
		return append([]string{"offer", "create", "--institution", "northern-university", "--name", "Transcript"}, args...)
	}
	code, out, errs := run(create("--slug", "transcript", "--fields", fields, "--open", "--json")...)
	var made offerRow
	if err := json.Unmarshal([]byte(out), &made); code != exitDone || err != nil || made.Status != "open" || made.Slug != "transcript" || made.Fields != 1 || made.TemplateID != nil {
		t.Errorf("create: exit code = %d, stdout = %s, stderr = %s, %v, want an open offer with one field", code, out, errs, err)
	}
	if code, out, errs := run(create("--slug", "draft")...); code != exitDone || len(strings.TrimSpace(out)) != len(made.ID) || !strings.Contains(errs, "draft") {
		t.Errorf("create without --open: exit code = %d, stdout = %q, stderr = %q, want the id of a draft", code, out, errs)
	}
	for what, tc := range map[string]struct {
		code int
		want string
		args []string
	}{
		"a slug twice":        {exitRefused, "--slug: Another offer", create("--slug", "transcript")},
		"wrong values":        {exitRefused, "--hold-days: The number must be from 1 to", create("--slug", "Not a slug", "--hold-days", "99999")},
		"an unknown template": {exitRefused, "--template: The institution has no such template", create("--slug", "x", "--template", "x")},
		"wrong fields":        {exitRefused, "fields.0.key: The key must consist of", create("--slug", "x", "--fields", file("wrong.json", `[{"key": "Not a key", "label": "x", "type": "text"}]`))},
		"no array":            {exitUsage, "is not a JSON array of fields", create("--slug", "x", "--fields", file("none.json", `{}`))},
		"no file":             {exitUsage, "no such file", create("--slug", "x", "--fields", "no-such")},
		"no slug":             {exitUsage, "--slug", create()},
		"an unknown offer":    {exitRefused, "no offer with this id or slug", []string{"offer", "open", "no-such", "--institution", "northern-university"}},
	} {
		if code, out, errs := run(tc.args...); code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: exit code = %d, stdout = %q, stderr = %q, want exit code %d and %q", what, code, out, errs, tc.code, tc.want)
		}
	}
	for _, step := range [][]string{{"close", made.ID, "closed"}, {"open", "transcript", "open"}, {"close", "transcript", "closed"}} {
		if code, out, errs := run("offer", step[0], step[1], "--institution", "northern-university"); code != exitDone || out != "Offer Transcript is "+step[2]+".\n" {
			t.Errorf("%v: exit code = %d, stdout = %q, stderr = %q, want %d and the status %s", step, code, out, errs, exitDone, step[2])
		}
	}
	code, out, errs = run("offer", "list", "--institution", "northern-university", "--json")
	var list []offerRow
	if err := json.Unmarshal([]byte(out), &list); code != exitDone || err != nil || len(list) != 2 || list[0].Slug != "draft" || list[1].Status != "closed" {
		t.Errorf("list: exit code = %d, stdout = %s, stderr = %s, %v, want the draft and then the closed offer", code, out, errs, err)
	}
}
