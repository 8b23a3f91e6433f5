package account_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
)

// TestRolesAreDocumented compares the tables of permissions and roles in docs/access.md with the code.
func TestRolesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| |")
	for _, s := range account.Roles {
		fmt.Fprintf(&b, " %s |", s.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(account.Roles)) + "\n")
	for _, p := range account.Permissions {
		fmt.Fprintf(&b, "| %s |", p.Description)
		for _, s := range account.Roles {
			fmt.Fprintf(&b, " %s |", map[bool]string{true: "yes"}[s.Role.Can(p.Permission)])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| Role | Purpose |\n|---|---|\n")
	for _, s := range account.Roles {
		fmt.Fprintf(&b, "| %s (`%s`) | %s |\n", s.Name, s.Role, s.Description)
	}
	if !strings.Contains(string(text), b.String()) {
		t.Errorf("docs/access.md does not contain:\n%s", b.String())
	}
}
