package main

import (
	"encoding/csv"
	"encoding/json"
	"os/user"
	"slices"
	"strings"
	"testing"
)

// TestAccessAdministration checks the commands for members and operators. The audit logs must contain
// each action, with the user who ran the command as the actor.
func TestAccessAdministration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	at := []string{"--data", dir, "--institution", "northwest-university"}
	with := func(args ...string) []string { return append(args, at...) }

	var institutions []institutionRow
	runJSON(t, "", &institutions, "institution", "list", "--data", dir)
	if len(institutions) != 1 || institutions[0].Slug != "northwest-university" || institutions[0].Members != 1 {
		t.Errorf("institutions = %+v, want northwest-university with one member", institutions)
	}
	var member memberRow
	runJSON(t, "", &member, with("member", "add", "--email", "i@example.org", "--name", "=Issuer", "--role", "issuer", "--manage-webhooks")...)
	if member.Role != "issuer" || !member.ManageWebhooks {
		t.Errorf("the added member = %+v, want an issuer with Manage webhooks", member)
	}
	runJSON(t, "", &member, with("member", "role", "I@example.org", "admin")...)
	if member.Role != "admin" || member.ManageWebhooks {
		t.Errorf("the changed member = %+v, want an admin without Manage webhooks", member)
	}
	for name, args := range map[string][]string{
		"the last owner is removed":   with("member", "remove", "o@example.org"),
		"the last owner is demoted":   with("member", "role", "o@example.org", "admin"),
		"an unknown role":             with("member", "role", "i@example.org", "unknown"),
		"an unknown member":           with("member", "remove", "unknown@example.org"),
		"an existing member":          with("member", "add", "--email", "i@example.org", "--name", "X", "--role", "auditor"),
		"an operator without account": {"operator", "add", "unknown@example.org", "--data", dir},
	} {
		if code, _, errs := certvault(t, "", args...); code != exitRefused || errs == "" {
			t.Errorf("%s: exit code = %d, want %d and an error message: %s", name, code, exitRefused, errs)
		}
	}
	var members []memberRow
	runJSON(t, "", &members, with("member", "list")...)
	if len(members) != 2 || members[0].Role != "owner" {
		t.Errorf("members = %+v, want 2, with the owner first", members)
	}
	var removed struct{ Removed bool }
	runJSON(t, "", &removed, with("member", "remove", "i@example.org")...)

	var changed struct{ Operator bool }
	runJSON(t, "", &changed, "operator", "add", "o@example.org", "--data", dir)
	var operators []operatorRow
	if runJSON(t, "", &operators, "operator", "list", "--data", dir); len(operators) != 1 || operators[0].Email != "o@example.org" || !changed.Operator {
		t.Errorf("operators = %+v, want only o@example.org, and operator = true in the output of operator add", operators)
	}
	runJSON(t, "", &changed, "operator", "remove", "o@example.org", "--data", dir)

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
				t.Fatalf("the entry %s is not JSON, or its actor is not the user who ran the command: %v", line, err)
			}
			list = append(list, e.Action)
		}
		slices.Reverse(list)
		return list
	}
	if got, want := log("--institution", "northwest-university"), []string{"member.added", "key.made", "member.added", "member.changed", "member.removed", "audit.exported"}; !slices.Equal(got, want) {
		t.Errorf("actions in the log of the institution = %v, want %v", got, want)
	}
	if got, want := log("--installation"), []string{"institution.created", "operator.added", "operator.removed", "audit.exported"}; !slices.Equal(got, want) {
		t.Errorf("actions in the log of the installation = %v, want %v", got, want)
	}
	code, out, errs := certvault(t, "", with("audit", "export", "--action", "member", "--subject", "=issuer", "--from", "2020-01-01", "--to", "2199-12-31")...)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out, "\ufeff"))).ReadAll()
	if code != exitDone || err != nil || len(rows) != 4 || rows[1][7] != "'=Issuer" {
		t.Errorf("audit export: exit code = %d, rows = %v, %v: %s; want a header and 3 rows, with the name =Issuer escaped", code, rows, err, errs)
	}
	for _, args := range [][]string{{"audit", "export", "--data", dir}, with("audit", "export", "--from", "tomorrow")} {
		if code, _, _ := certvault(t, "", args...); code != exitUsage {
			t.Errorf("%v: exit code = %d, want %d", args, code, exitUsage)
		}
	}
}
