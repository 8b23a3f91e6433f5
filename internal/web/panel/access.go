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
	SignIn      SignInner
	// SetupRemote allows the set-up page to be opened from other machines.
	SetupRemote bool
	// MakeKeys makes the signing keys of institutions that have none.
	MakeKeys func(ctx context.Context) error
	// TryMail sends a message at once. Outbox is the folder that receives mail if no mail server is
	// set, and empty otherwise.
	TryMail func(ctx context.Context, m mail.Message) error
	Outbox  string
	// Status reports the state of the installation.
	Status func(ctx context.Context) (*Status, error)
}

// SignInner signs in a person who followed a link that the panel made.
type SignInner interface {
	Origin(r *http.Request) identity.Origin
	Enter(w http.ResponseWriter, e *identity.Entry)
}

// accessRoutes are the routes for members, invitations, the audit log, the set-up and the
// installation.
func (p *Panel) accessRoutes() []route {
	return []route{
		{pattern: "GET /setup", handler: p.setup, scope: ofAnybody},
		{pattern: "POST /setup", handler: p.setUp, scope: ofAnybody},
		{pattern: "POST /setup/mail", handler: p.trySetupMail, scope: ofAnybody},

		{pattern: "GET /invitation/{secret}", handler: p.invitation, scope: ofAnybody},
		{pattern: "POST /invitation/{secret}", handler: p.acceptInvitation, scope: ofPerson},
		{pattern: "POST /invitation/{secret}/join", handler: p.joinByInvitation, scope: ofAnybody},
		{pattern: "POST /invitation/{secret}/decline", handler: p.declineInvitation, scope: ofAnybody},

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
		{pattern: "POST /panel/{institution}/audit", may: account.MayReadAudit, handler: p.exportAudit},

		{pattern: "GET /operator", handler: p.installation, scope: ofOperator},
		{pattern: "GET /operator/institutions", handler: p.institutions, scope: ofOperator},
		{pattern: "GET /operator/institutions/new", handler: p.institutionForm, scope: ofOperator, recent: true},
		{pattern: "POST /operator/institutions/new", handler: p.makeInstitution, scope: ofOperator, recent: true},
		{pattern: "GET /operator/audit", handler: p.audit, scope: ofOperator},
		{pattern: "POST /operator/audit", handler: p.exportAudit, scope: ofOperator},
	}
}
