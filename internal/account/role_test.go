package account_test

import (
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/account"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, p := range account.Permissions {
		if !account.Owner.Can(p.Permission) {
			t.Errorf("an owner does not have the permission %s", p.Permission)
		}
	}
	for _, s := range account.Roles {
		if s.Name == "" || s.Description == "" {
			t.Errorf("the role %s has no name or no description", s.Role)
		}
		for _, p := range s.May {
			if !slices.ContainsFunc(account.Permissions, func(known struct {
				Permission  account.Permission
				Description string
			}) bool {
				return known.Permission == p
			}) {
				t.Errorf("%s has the unknown permission %s", s.Role, p)
			}
		}
		if s.Role != account.Owner && (s.Role.Can(account.MayManageOwners) || s.Role.Can(account.MayManageKeys)) {
			t.Errorf("%s has a permission that only owners may have", s.Role)
		}
	}
	for _, p := range []account.Permission{account.MayUpload, account.MayRetry, account.MayRevoke, account.MayManageMembers,
		account.MayManageTokens, account.MayManageWebhooks, account.MayManageSettings} {
		if account.Auditor.Can(p) {
			t.Errorf("an auditor has the permission %s", p)
		}
	}
	if account.Issuer.Can(account.MayManageMembers) || account.Developer.Can(account.MayUpload) || account.Signatory.Can(account.MayUpload) {
		t.Error("an issuer may manage members, or a developer or a signatory may upload; want none of these")
	}
}

func TestManageWebhooksIsAddedToTheRole(t *testing.T) {
	t.Parallel()
	for _, s := range account.Roles {
		m := account.Membership{Role: s.Role, ManageWebhooks: true}
		for _, p := range account.Permissions {
			if got, want := m.Can(p.Permission), s.Role.Can(p.Permission) || p.Permission == account.MayManageWebhooks; got != want {
				t.Errorf("%s with ManageWebhooks: Can(%s) = %v, want %v", s.Role, p.Permission, got, want)
			}
		}
	}
	for _, r := range []account.Role{"", "OWNER", "operator"} {
		m := account.Membership{Role: r, ManageWebhooks: true}
		for _, p := range account.Permissions {
			if m.Can(p.Permission) || r.Valid() {
				t.Errorf("the unknown role %q is valid, or has the permission %s", r, p.Permission)
			}
		}
	}
}
