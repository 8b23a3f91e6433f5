package account_test

import (
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/account"
)

// The test pins the permissions that must not change by accident.
func TestRoles(t *testing.T) {
	t.Parallel()
	for _, p := range account.Permissions {
		if !account.Owner.Can(p.Permission) {
			t.Errorf("an owner may not %s", p.Permission)
		}
	}
	for _, s := range account.Roles {
		if s.Name == "" || s.Description == "" {
			t.Errorf("%s is not explained", s.Role)
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
			t.Errorf("%s may do what is the owners' alone", s.Role)
		}
	}
	for _, p := range []account.Permission{account.MayUpload, account.MayRetry, account.MayRevoke, account.MayManageMembers,
		account.MayManageTokens, account.MayManageWebhooks, account.MayManageSettings} {
		if account.Auditor.Can(p) {
			t.Errorf("an auditor may %s", p)
		}
	}
	if account.Issuer.Can(account.MayManageMembers) || account.Developer.Can(account.MayUpload) || account.Signatory.Can(account.MayUpload) {
		t.Error("a role may more than it is for")
	}
}

func TestManageWebhooksBesideTheRole(t *testing.T) {
	t.Parallel()
	for _, s := range account.Roles {
		m := account.Membership{Role: s.Role, ManageWebhooks: true}
		for _, p := range account.Permissions {
			if got, want := m.Can(p.Permission), s.Role.Can(p.Permission) || p.Permission == account.MayManageWebhooks; got != want {
				t.Errorf("%s with webhooks: %s is %v", s.Role, p.Permission, got)
			}
		}
	}
	for _, r := range []account.Role{"", "OWNER", "operator"} {
		m := account.Membership{Role: r, ManageWebhooks: true}
		for _, p := range account.Permissions {
			if m.Can(p.Permission) || r.Valid() {
				t.Errorf("the role %q may %s", r, p.Permission)
			}
		}
	}
}
