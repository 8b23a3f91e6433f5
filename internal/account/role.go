package account

import "slices"

// Role is the role of a member in an institution. The table Roles has the permissions of each role.
type Role string

const (
	// Owner members have all permissions. An institution always has an owner.
	Owner Role = "owner"
	// Admin members have all permissions except those to manage owners and signing keys.
	Admin Role = "admin"
	// Issuer members upload, retry and revoke certificates, may be signatories, and review applications.
	Issuer Role = "issuer"
	// Reviewer members review applications for certificates.
	Reviewer Role = "reviewer"
	// Signatory members approve or decline certificates as signatories, and may revoke any certificate.
	Signatory Role = "signatory"
	// Auditor members read records and the audit log, and change nothing.
	Auditor Role = "auditor"
	// Developer members manage API tokens and webhooks.
	Developer Role = "developer"
)

// Permission is one action, or group of actions, that a member may perform. API tokens have
// separate permissions.
type Permission string

const (
	// MayView permits viewing the dashboard, certificates, batches and their files.
	MayView Permission = "view"
	// MayUpload permits uploading certificates, singly and in bulk.
	MayUpload Permission = "upload"
	// MayRetry permits retrying failed certificates, correcting a recipient's address, sending mail
	// again and closing requests for correction.
	MayRetry Permission = "retry"
	// MayRevoke permits revoking certificates.
	MayRevoke Permission = "revoke"
	// MaySign permits being a signatory of templates: approving and declining certificates that wait for
	// the member's own approval.
	MaySign Permission = "sign"
	// MayManageTemplates permits creating, changing, publishing and archiving templates, and
	// managing fonts.
	MayManageTemplates Permission = "manage-templates"
	// MayReview permits reviewing applications: reading them and their attachments, and deciding them.
	MayReview Permission = "review"
	// MayManageOffers permits creating and changing offers and their registers.
	MayManageOffers Permission = "manage-offers"
	// MaySeeMembers permits viewing the members and the invitations.
	MaySeeMembers Permission = "see-members"
	// MayManageMembers permits inviting, changing and removing members who are not owners.
	MayManageMembers Permission = "manage-members"
	// MayManageOwners permits adding, changing and removing owners.
	MayManageOwners Permission = "manage-owners"
	// MayManageTokens permits creating and revoking API tokens.
	MayManageTokens Permission = "manage-tokens"
	// MayManageWebhooks permits managing webhook endpoints. It can be granted to a member in
	// addition to the role.
	MayManageWebhooks Permission = "manage-webhooks"
	// MayReadAudit permits reading and exporting the audit log.
	MayReadAudit Permission = "read-audit"
	// MayManageSettings permits changing the institution's settings.
	MayManageSettings Permission = "manage-settings"
	// MayManageKeys permits managing the institution's signing keys.
	MayManageKeys Permission = "manage-keys"
)

// RoleInfo is a row of the table Roles.
type RoleInfo struct {
	Role Role
	// Name is the displayed name of the role, and Description describes its purpose.
	Name, Description string
	May               []Permission
}

// Permissions has all permissions, with their descriptions.
var Permissions = []struct {
	Permission  Permission
	Description string
}{
	{MayView, "See certificates, batches and their files"},
	{MayUpload, "Upload certificates, one or many"},
	{MayRetry, "Retry failed certificates, correct an address, send mail again, close correction requests"},
	{MayRevoke, "Revoke certificates"},
	{MaySign, "Be a signatory: approve or decline certificates, and add a picture of your signature"},
	{MayManageTemplates, "Create, change, publish and archive templates"},
	{MayReview, "Review applications: claim, approve, put on hold and reject them"},
	{MayManageOffers, "Create and change offers that people can apply for"},
	{MaySeeMembers, "See members and invitations"},
	{MayManageMembers, "Invite, change and remove members"},
	{MayManageOwners, "Create, change and remove owners"},
	{MayManageTokens, "Create and revoke API tokens"},
	{MayManageWebhooks, "Manage webhooks"},
	{MayReadAudit, "Read and export the audit log"},
	{MayManageSettings, "Change the institution's settings"},
	{MayManageKeys, "Manage signing keys"},
}

// Roles has all roles with their permissions.
var Roles = []RoleInfo{
	{Owner, "Owner", "Has all permissions. An institution always has at least one owner.", []Permission{
		MayView, MayUpload, MayRetry, MayRevoke, MaySign, MayManageTemplates, MayReview, MayManageOffers, MaySeeMembers, MayManageMembers,
		MayManageOwners, MayManageTokens, MayManageWebhooks, MayReadAudit, MayManageSettings, MayManageKeys,
	}},
	{Admin, "Admin", "Manages the institution from day to day. Cannot change owners or signing keys.", []Permission{
		MayView, MayUpload, MayRetry, MayRevoke, MaySign, MayManageTemplates, MayReview, MayManageOffers, MaySeeMembers, MayManageMembers,
		MayManageTokens, MayManageWebhooks, MayReadAudit, MayManageSettings,
	}},
	{Issuer, "Issuer", "Uploads certificates, fixes failed ones, revokes certificates, and reviews applications.", []Permission{
		MayView, MayUpload, MayRetry, MayRevoke, MaySign, MayReview,
	}},
	{Reviewer, "Reviewer", "Reviews applications: claims and approves them, puts them on hold or rejects them.", []Permission{MayView, MayReview}},
	{Signatory, "Signatory", "Is responsible for what is issued. Sees, approves and can revoke certificates.", []Permission{
		MayView, MayRevoke, MaySign,
	}},
	{Auditor, "Auditor", "Sees certificates, members and the audit log. Cannot change anything.", []Permission{MayView, MaySeeMembers, MayReadAudit}},
	{Developer, "Developer", "Connects other programs: API tokens and webhooks. A token can issue certificates, so give this role only to people you trust.", []Permission{
		MayView, MayManageTokens, MayManageWebhooks,
	}},
}

// standing returns the row of a role in Roles. For an unknown role, it returns a row without permissions.
func (r Role) standing() RoleInfo {
	if i := slices.IndexFunc(Roles, func(s RoleInfo) bool { return s.Role == r }); i >= 0 {
		return Roles[i]
	}
	return RoleInfo{Role: r, Name: string(r)}
}

// Valid reports whether the role exists.
func (r Role) Valid() bool {
	return slices.ContainsFunc(Roles, func(s RoleInfo) bool { return s.Role == r })
}

// Name returns the displayed name of the role.
func (r Role) Name() string { return r.standing().Name }

// Description returns the purpose of the role.
func (r Role) Description() string { return r.standing().Description }

// Can reports whether the role alone has a permission.
func (r Role) Can(p Permission) bool { return slices.Contains(r.standing().May, p) }

// Membership is a person's membership in one institution.
type Membership struct {
	Institution Institution
	UserID      int64
	Role        Role
	// ManageWebhooks grants MayManageWebhooks in addition to the permissions of the role.
	ManageWebhooks bool
}

// Can reports whether the member has a permission in the institution.
func (m *Membership) Can(p Permission) bool {
	return m.Role.Can(p) || p == MayManageWebhooks && m.ManageWebhooks && m.Role.Valid()
}
