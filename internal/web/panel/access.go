package panel

import (
	"context"
	"net/http"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/mail"
)

// Access contains the dependencies of the pages for members, invitations, the audit log, the set-up
// and the installation.
type Access struct {
	Accounts    *account.Service
	Invitations *account.Invitations
	Audit       *audit.Log
	People      *identity.Service
	SignIn      SessionStarter
	// SetupRemote reports whether other machines may open the set-up page.
	SetupRemote bool
	// CreateKeys creates the signing keys of institutions that have no key.
	CreateKeys func(ctx context.Context) error
	// SendTestMail sends a message at once. Outbox is the folder for mail if no mail server is
	// configured, and empty otherwise.
	SendTestMail func(ctx context.Context, m mail.Message) error
	Outbox       string
	// OwnCertificate is the path of the file with the TLS certificate that the vault has created for
	// itself, or "" if the vault uses another certificate. A client needs this file to trust the vault.
	OwnCertificate string
	// Status returns the state of the installation.
	Status func(ctx context.Context) (*Status, error)
	// Numbers maps the ids of institutions to their usage and their numbers of certificates.
	Numbers func(ctx context.Context, ids []int64) (map[int64]Numbers, error)
	// Servers returns the servers and the periodic tasks.
	Servers func(ctx context.Context) (*Servers, error)
}

// SessionStarter signs in a person who followed a link of the panel: the link of an invitation or
// of the set-up.
type SessionStarter interface {
	Origin(r *http.Request) identity.Origin
	SetSession(w http.ResponseWriter, e *identity.Entry)
}

// accessRoutes are the routes for members, invitations, the audit log, the set-up and the
// installation.
func (p *Panel) accessRoutes() []route {
	return []route{
		{pattern: "GET /setup", handler: p.setup, scope: ofEveryone},
		{pattern: "POST /setup", handler: p.setUp, scope: ofEveryone},
		{pattern: "POST /setup/mail", handler: p.trySetupMail, scope: ofEveryone},

		{pattern: "GET /invitation/{secret}", handler: p.invitation, scope: ofEveryone},
		{pattern: "POST /invitation/{secret}", handler: p.acceptInvitation, scope: ofPerson},
		{pattern: "POST /invitation/{secret}/join", handler: p.joinByInvitation, scope: ofEveryone},
		{pattern: "POST /invitation/{secret}/decline", handler: p.declineInvitation, scope: ofEveryone},

		{pattern: "GET /panel/{institution}/members", may: account.MaySeeMembers, handler: p.members},
		{pattern: "GET /panel/{institution}/members/invite", may: account.MayManageMembers, handler: p.inviteForm, recent: true},
		{pattern: "POST /panel/{institution}/members/invite", may: account.MayManageMembers, handler: p.invite, recent: true},
		{pattern: "GET /panel/{institution}/members/{member}", may: account.MayManageMembers, handler: p.memberForm, recent: true},
		{pattern: "POST /panel/{institution}/members/{member}", may: account.MayManageMembers, handler: p.changeMember, recent: true},
		{pattern: "GET /panel/{institution}/members/{member}/remove", may: account.MayManageMembers, handler: p.askRemoveMember, recent: true},
		{pattern: "POST /panel/{institution}/members/{member}/remove", may: account.MayManageMembers, handler: p.removeMember, recent: true},
		{pattern: "POST /panel/{institution}/invitations/{invitation}/resend", may: account.MayManageMembers, handler: p.resendInvitation},
		{pattern: "GET /panel/{institution}/invitations/{invitation}/revoke", may: account.MayManageMembers, handler: p.askRevokeInvitation},
		{pattern: "POST /panel/{institution}/invitations/{invitation}/revoke", may: account.MayManageMembers, handler: p.revokeInvitation},
		{pattern: "GET /panel/{institution}/leave", handler: p.askLeave},
		{pattern: "POST /panel/{institution}/leave", handler: p.leave},

		{pattern: "GET /panel/{institution}/audit", may: account.MayReadAudit, handler: p.audit},
		{pattern: "POST /panel/{institution}/audit", may: account.MayReadAudit, handler: p.confirmExportAudit},

		{pattern: "GET /operator", handler: p.installation, scope: ofOperator},
		{pattern: "GET /operator/institutions", handler: p.institutions, scope: ofOperator},
		{pattern: "GET /operator/institutions/new", handler: p.institutionForm, scope: ofOperator, recent: true},
		{pattern: "POST /operator/institutions/new", handler: p.makeInstitution, scope: ofOperator, recent: true},
		{pattern: "GET /operator/institutions/{slug}", handler: p.ofInstitution("operator_institution.html"), scope: ofOperator},
		{pattern: "GET /operator/institutions/{slug}/state", handler: p.ofInstitution("operator_state.html"), scope: ofOperator, recent: true},
		{pattern: "POST /operator/institutions/{slug}/state", handler: p.setState, scope: ofOperator, recent: true},
		{pattern: "GET /operator/institutions/{slug}/limits", handler: p.ofInstitution("operator_limits.html"), scope: ofOperator, recent: true},
		{pattern: "POST /operator/institutions/{slug}/limits", handler: p.setLimits, scope: ofOperator, recent: true},
		{pattern: "GET /operator/institutions/{slug}/address", handler: p.ofInstitution("operator_address.html"), scope: ofOperator, recent: true},
		{pattern: "POST /operator/institutions/{slug}/address", handler: p.setAddress, scope: ofOperator, recent: true},
		{pattern: "GET /operator/servers", handler: p.servers, scope: ofOperator},
		{pattern: "GET /operator/institutions/{slug}/name", handler: p.ofInstitution("operator_name.html"), scope: ofOperator, recent: true},
		{pattern: "POST /operator/institutions/{slug}/name", handler: p.rename, scope: ofOperator, recent: true},
		{pattern: "GET /operator/audit", handler: p.audit, scope: ofOperator},
		{pattern: "POST /operator/audit", handler: p.confirmExportAudit, scope: ofOperator},
	}
}
