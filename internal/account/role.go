package account

import "slices"

// Role is what a member is in an institution; the table of roles says what
// each of them may do.
type Role string

const (
	// Owner may do everything, and an institution always has one.
	Owner Role = "owner"
	// Admin runs the institution's vault, short of what is the owners' alone.
	Admin Role = "admin"
	// Issuer makes certificates.
	Issuer Role = "issuer"
	// Signatory answers for what is issued.
	Signatory Role = "signatory"
	// Auditor sees what is there and what was done, and changes nothing.
	Auditor Role = "auditor"
	// Developer connects other programs to the vault.
	Developer Role = "developer"
)

// Permission is one thing that a member may do. The permissions of an API token
// are another matter: they are the interface's own.
type Permission string

const (
	// MayView sees the dashboard, certificates, batches and their files.
	MayView Permission = "view"
	// MayUpload uploads certificates, one or many.
	MayUpload Permission = "upload"
	// MayRetry has failed certificates processed again, corrects a recipient's
	// address, sends mail again and closes requests for correction.
	MayRetry Permission = "retry"
	// MayRevoke revokes certificates.
	MayRevoke Permission = "revoke"
	// MaySeeMembers sees who belongs to the institution and who is invited.
	MaySeeMembers Permission = "see-members"
	// MayManageMembers invites, changes and removes members who are not owners.
	MayManageMembers Permission = "manage-members"
	// MayManageOwners makes, changes and removes owners.
	MayManageOwners Permission = "manage-owners"
	// MayManageTokens makes and revokes API tokens.
	MayManageTokens Permission = "manage-tokens"
	// MayManageWebhooks works on webhook endpoints. It can be granted to a member
	// beside the role.
	MayManageWebhooks Permission = "manage-webhooks"
	// MayReadAudit reads and exports the audit log.
	MayReadAudit Permission = "read-audit"
	// MayManageSettings changes branding, mail, and what the public sees.
	MayManageSettings Permission = "manage-settings"
	// MayManageKeys works on the keys that the institution signs with.
	MayManageKeys Permission = "manage-keys"
)

// Standing is a row of the table of roles.
type Standing struct {
	Role Role
	// Name is how people read it, and Says what the role is for, in a sentence.
	Name, Says string
	May        []Permission
}

// Permissions is every permission, with what it lets one do.
var Permissions = []struct {
	Permission Permission
	Says       string
}{
	{MayView, "See certificates, batches and their files"},
	{MayUpload, "Upload certificates, one or many"},
	{MayRetry, "Retry failed certificates, correct an address, send mail again, close requests for correction"},
	{MayRevoke, "Revoke certificates"},
	{MaySeeMembers, "See members and invitations"},
	{MayManageMembers, "Invite, change and remove members"},
	{MayManageOwners, "Create, change and remove owners"},
	{MayManageTokens, "Create and revoke API tokens"},
	{MayManageWebhooks, "Manage webhook endpoints"},
	{MayReadAudit, "Read and export the audit log"},
	{MayManageSettings, "Change the institution's settings"},
	{MayManageKeys, "Manage signing keys"},
}

// Roles is who may do what: the one table of it.
var Roles = []Standing{
	{Owner, "Owner", "Does everything. There is always at least one.", []Permission{
		MayView, MayUpload, MayRetry, MayRevoke, MaySeeMembers, MayManageMembers, MayManageOwners,
		MayManageTokens, MayManageWebhooks, MayReadAudit, MayManageSettings, MayManageKeys,
	}},
	{Admin, "Admin", "Runs the vault day by day. Cannot change owners or signing keys.", []Permission{
		MayView, MayUpload, MayRetry, MayRevoke, MaySeeMembers, MayManageMembers,
		MayManageTokens, MayManageWebhooks, MayReadAudit, MayManageSettings,
	}},
	{Issuer, "Issuer", "Uploads certificates, fixes failed ones, and revokes.", []Permission{MayView, MayUpload, MayRetry, MayRevoke}},
	{Signatory, "Signatory", "Answers for what is issued: sees every certificate and may revoke it.", []Permission{MayView, MayRevoke}},
	{Auditor, "Auditor", "Sees certificates, members and the audit log, and changes nothing.", []Permission{MayView, MaySeeMembers, MayReadAudit}},
	{Developer, "Developer", "Connects other programs: API tokens and webhooks. A token can issue, so this is a role of trust.", []Permission{
		MayView, MayManageTokens, MayManageWebhooks,
	}},
}

// standing gives a role's row of the table; a role that is not in it may nothing.
func (r Role) standing() Standing {
	if i := slices.IndexFunc(Roles, func(s Standing) bool { return s.Role == r }); i >= 0 {
		return Roles[i]
	}
	return Standing{Role: r, Name: string(r)}
}

// Valid tells whether there is such a role.
func (r Role) Valid() bool {
	return slices.ContainsFunc(Roles, func(s Standing) bool { return s.Role == r })
}

// Name is how people read the role.
func (r Role) Name() string { return r.standing().Name }

// Says tells what the role is for.
func (r Role) Says() string { return r.standing().Says }

// Can tells whether the role alone lets its member do something.
func (r Role) Can(p Permission) bool { return slices.Contains(r.standing().May, p) }

// Membership is what a person is in one institution.
type Membership struct {
	Institution Institution
	UserID      int64
	Role        Role
	// ManageWebhooks grants MayManageWebhooks beside what the role has.
	ManageWebhooks bool
}

// Can tells whether the member may do something in the institution.
func (m *Membership) Can(p Permission) bool {
	return m.Role.Can(p) || p == MayManageWebhooks && m.ManageWebhooks && m.Role.Valid()
}
