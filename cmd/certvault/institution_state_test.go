package main

import "testing"

// TestOperatorCommands checks the commands with which an operator changes an institution.
func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/vault"
	createInstitution(t, dir)
	var list []institutionRow
	runJSON(t, "", &list, "institution", "list", "--data", dir, "--search", "NWU")
	if len(list) != 1 || list[0].DisabledAt != nil || list[0].Used.Certificates != 0 {
		t.Fatalf("institution list = %+v, want one enabled institution without certificates", list)
	}
	slug := list[0].Slug
	of := func(command string, args ...string) []string {
		return append([]string{"institution", command, "--data", dir, "--institution", slug}, args...)
	}
	succeed(t, "has been disabled since", of("disable", "--reason", "The contract ended.")...)
	runJSON(t, "", &list, "institution", "list", "--data", dir)
	if list[0].DisabledAt == nil || list[0].DisabledReason != "The contract ended." {
		t.Errorf("institution list = %+v, want a disabled institution with the reason", list)
	}
	succeed(t, "is enabled", of("enable")...)
	succeed(t, "2 GB", of("limit", "--storage", "2GB", "--certificates", "500")...)
	succeed(t, "500", of("limit")...) // without flags, nothing changes
	if code, _, errs := certvault(t, "", of("limit", "--storage", "much")...); code != exitUsage {
		t.Errorf("a wrong size: exit code = %d: %s, want %d", code, errs, exitUsage)
	}
	change(t, dir, `INSERT INTO usage_counting (id, counted_id, last_id) VALUES (1, 0, 5)`)
	succeed(t, "still counts certificates", of("limit")...)
	succeed(t, "still counts certificates", "institution", "list", "--data", dir)
	succeed(t, "(north)", of("slug", "north")...)
	succeed(t, "is enabled", of("enable")...) // commands accept the former slug
	refuse(t, "single hyphens", of("slug", "North West")...)
	runJSON(t, "", &list, "institution", "list", "--data", dir, "--search", "nobody")
	if len(list) != 0 {
		t.Errorf("institution list = %+v, want none", list)
	}
	succeed(t, "Waiting: 0.", "mail", "status", "--data", dir)
}
