package main

import (
	"encoding/csv"
	"encoding/json"
	"os/user"
	"slices"
	"strings"
	"testing"
)

// An operator manages the installation with commands only, and the log has all of it under the name
// of the user who ran them.
func TestAccessAdministration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	institution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}
	with := func(args ...string) []string { return append(args, at...) }

	var institutions []institutionRow
	answer(t, "", &institutions, "institution", "list", "--data", dir)
	if len(institutions) != 1 || institutions[0].Slug != "northwest-university" || institutions[0].Members != 1 {
		t.Errorf("%+v", institutions)
	}
	var member memberRow
	answer(t, "", &member, with("member", "add", "--email", "i@example.org", "--name", "=Issuer", "--role", "issuer", "--manage-webhooks")...)
	if member.Role != "issuer" || !member.ManageWebhooks {
		t.Errorf("%+v", member)
	}
	answer(t, "", &member, with("member", "role", "I@example.org", "admin")...)
	if member.Role != "admin" || member.ManageWebhooks {
		t.Errorf("%+v", member)
	}
	for name, args := range map[string][]string{
		"the last owner goes":         with("member", "remove", "o@example.org"),
		"the last owner is demoted":   with("member", "role", "o@example.org", "admin"),
		"a role that is none":         with("member", "role", "i@example.org", "king"),
		"nobody":                      with("member", "remove", "nobody@example.org"),
		"twice":                       with("member", "add", "--email", "i@example.org", "--name", "X", "--role", "auditor"),
		"an operator without account": {"operator", "add", "nobody@example.org", "--data", dir},
	} {
		if code, _, errs := certvault(t, "", args...); code != exitRefused || errs == "" {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
	var members []memberRow
	answer(t, "", &members, with("member", "list")...)
	if len(members) != 2 || members[0].Role != "owner" {
		t.Errorf("%+v", members)
	}
	var removed struct{ Removed bool }
	answer(t, "", &removed, with("member", "remove", "i@example.org")...)

	var done struct{ Operator bool }
	answer(t, "", &done, "operator", "add", "o@example.org", "--data", dir)
	var operators []operatorRow
	if answer(t, "", &operators, "operator", "list", "--data", dir); len(operators) != 1 || operators[0].Email != "o@example.org" || !done.Operator {
		t.Errorf("%+v", operators)
	}
	answer(t, "", &done, "operator", "remove", "o@example.org", "--data", dir)

	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	log := func(args ...string) (list []string) {
		t.Helper()
		code, out, errs := certvault(t, "", append(append([]string{"audit", "export", "--json", "--data", dir}, args...), "--actor", "command")...)
		if code != exitDone {
			t.Fatal(errs)
		}
		for line := range strings.Lines(out) {
			var e struct {
				Action string
				Actor  struct{ Type, ID string }
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Actor.ID != me.Username || e.Actor.Type != "command" {
				t.Fatalf("%s: %v", line, err)
			}
			list = append(list, e.Action)
		}
		slices.Reverse(list)
		return list
	}
	if got, want := log("--institution", "northwest-university"), []string{"member.added", "key.made", "member.added", "member.changed", "member.removed", "audit.exported"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got, want := log("--installation"), []string{"institution.created", "operator.added", "operator.removed", "audit.exported"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	code, out, errs := certvault(t, "", with("audit", "export", "--action", "member", "--subject", "=issuer", "--from", "2020-01-01", "--to", "2199-12-31")...)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out, "\ufeff"))).ReadAll()
	if code != exitDone || err != nil || len(rows) != 4 || rows[1][7] != "'=Issuer" {
		t.Errorf("exit %d: %v, %v, %s", code, rows, err, errs)
	}
	for _, args := range [][]string{{"audit", "export", "--data", dir}, with("audit", "export", "--from", "tomorrow")} {
		if code, _, _ := certvault(t, "", args...); code != exitUsage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}
