package panel

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/template"
)

var errNoMember = fault.New(fault.NotFound, "This institution has no such member.")

// memberRow is a member on a page.
type memberRow struct {
	account.Member

	// Self reports whether the member is the visitor. MayChange reports whether the visitor may
	// change the member.
	Self, MayChange bool
	// Signing has the numbers of the templates that name the member as a signatory, and of the
	// certificates that wait for the approval of the member.
	Signing template.Signing
}

// Signs reports whether the member is named as a signatory.
func (m memberRow) Signs() bool { return m.Signing != template.Signing{} }

// MaySign reports whether the role of the member includes the permission to sign.
func (m memberRow) MaySign() bool { return m.Role.Can(account.MaySign) }

type memberList struct {
	Visit       *Visit
	Members     []memberRow
	Invitations []invitationRow
	// Manage reports whether the visitor may invite people.
	Manage bool
	Table  roleTable
	// Missing are the signatories who may no longer approve.
	Missing []template.Missing
}

// roleTable is the table of roles on the page of the members.
type roleTable struct {
	Roles []account.RoleInfo
	Rows  []roleRow
}

type roleRow struct {
	// Key is the key of the permission's description.
	Key string
	// May has one value per role, in the order of the roles.
	May []bool
}

func newRoleTable() roleTable {
	t := roleTable{Roles: account.Roles}
	for _, p := range account.Permissions {
		row := roleRow{Key: "permissions." + keyName(p.Permission)}
		for _, s := range account.Roles {
			row.May = append(row.May, s.Role.Can(p.Permission))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// mayManage reports whether the visitor may change or invite members with a role.
func (v *Visit) mayManage(r account.Role) bool {
	return v.Can(account.MayManageMembers) && (r != account.Owner || v.Can(account.MayManageOwners))
}

func (v *Visit) memberRow(m account.Member) memberRow {
	return memberRow{Member: m, Self: m.UserID == v.Person.ID, MayChange: v.mayManage(m.Role)}
}

// members lists the members, and the invitations that are open or have expired. It also explains
// the roles.
func (p *Panel) members(w http.ResponseWriter, r *http.Request, v *Visit) error {
	id := v.Institution().ID
	members, err := p.Accounts.Members(r.Context(), id)
	if err != nil {
		return err
	}
	invitations, err := p.Invitations.List(r.Context(), id)
	if err != nil {
		return err
	}
	list := memberList{Visit: v, Manage: v.Can(account.MayManageMembers), Table: newRoleTable()}
	signing, err := p.Templates.Signatories(r.Context(), id)
	if err != nil {
		return err
	}
	for _, m := range members {
		row := v.memberRow(m)
		row.Signing = signing[m.UserID]
		list.Members = append(list.Members, row)
	}
	if list.Missing, err = p.Templates.MissingSignatories(r.Context(), id); err != nil {
		return err
	}
	for _, i := range invitations {
		list.Invitations = append(list.Invitations, v.invitationRow(i, p.Now()))
	}
	return p.draw(w, r, "members.html", list)
}

// roleForm is the part of a form in which a role is chosen.
type roleForm struct {
	Visit          *Visit
	Roles          []account.RoleInfo
	Role           account.Role
	ManageWebhooks bool
}

// roleForm returns the form with the roles that the visitor may assign.
func (v *Visit) roleForm(role account.Role, manageWebhooks bool) roleForm {
	f := roleForm{Visit: v, Role: role, ManageWebhooks: manageWebhooks}
	for _, s := range account.Roles {
		if v.mayManage(s.Role) {
			f.Roles = append(f.Roles, s)
		}
	}
	return f
}

func (v *Visit) submittedRole(r *http.Request) roleForm {
	return v.roleForm(account.Role(r.PostFormValue("role")), r.PostFormValue("manage_webhooks") != "")
}

// memberOf returns the member in the path, or errNoMember.
func (p *Panel) memberOf(r *http.Request, v *Visit) (memberRow, error) {
	list, err := p.Accounts.Members(r.Context(), v.Institution().ID)
	if err != nil {
		return memberRow{}, err
	}
	i := slices.IndexFunc(list, func(m account.Member) bool { return m.UUID == r.PathValue("member") })
	if i < 0 {
		return memberRow{}, errNoMember
	}
	row := v.memberRow(list[i])
	signing, err := p.Templates.Signatories(r.Context(), v.Institution().ID)
	row.Signing = signing[row.UserID]
	return row, err
}

type memberForm struct {
	roleForm

	Member memberRow
}

func (p *Panel) memberForm(w http.ResponseWriter, r *http.Request, v *Visit) error {
	m, err := p.memberOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "member.html", memberForm{v.roleForm(m.Role, m.ManageWebhooks), m})
}

func (p *Panel) changeMember(w http.ResponseWriter, r *http.Request, v *Visit) error {
	m, err := p.memberOf(r, v)
	if err != nil {
		return err
	}
	f := memberForm{v.submittedRole(r), m}
	if err := p.Accounts.SetMember(r.Context(), v.Person.ID, v.Institution().ID, m.UUID, f.Role, f.ManageWebhooks); err != nil {
		return p.showAgain(w, r, "member.html", f, err)
	}
	if m.Self {
		// The visitor may have lost access to the list.
		return p.redirect(w, r, v, "", "member_changed")
	}
	return p.redirect(w, r, v, "members", "member_changed")
}

func (p *Panel) askRemoveMember(w http.ResponseWriter, r *http.Request, v *Visit) error {
	m, err := p.memberOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "member_remove.html", memberForm{Member: m, roleForm: roleForm{Visit: v}})
}

func (p *Panel) removeMember(w http.ResponseWriter, r *http.Request, v *Visit) error {
	m, err := p.memberOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Accounts.RemoveMember(r.Context(), v.Person.ID, v.Institution().ID, m.UUID); err != nil {
		return p.showAgain(w, r, "member_remove.html", memberForm{Member: m, roleForm: roleForm{Visit: v}}, err)
	}
	if m.Self {
		return p.view.Redirect(w, r, "/panel", "member_left")
	}
	return p.redirect(w, r, v, "members", "member_removed")
}

// leavePage is the data of the page that asks whether the visitor wants to leave the institution.
type leavePage struct {
	*Visit

	Signing template.Signing
}

// Signs reports whether the visitor is named as a signatory.
func (d *leavePage) Signs() bool { return d.Signing != template.Signing{} }

func (p *Panel) leavePage(r *http.Request, v *Visit) (*leavePage, error) {
	signing, err := p.Templates.Signatories(r.Context(), v.Institution().ID)
	return &leavePage{v, signing[v.Person.ID]}, err
}

func (p *Panel) askLeave(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.leavePage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "leave.html", d)
}

func (p *Panel) leave(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Accounts.Leave(r.Context(), v.Institution().ID, v.Person.ID); err != nil {
		d, pageErr := p.leavePage(r, v)
		if pageErr != nil {
			return errors.Join(err, pageErr)
		}
		return p.showAgain(w, r, "leave.html", d, err)
	}
	return p.view.Redirect(w, r, "/panel", "member_left")
}

// invitationRow is an invitation on a page.
type invitationRow struct {
	account.Invitation

	// Ended reports whether the invitation has expired. MayChange reports whether the visitor may
	// change the invitation.
	Ended, MayChange bool
}

func (v *Visit) invitationRow(i account.Invitation, now time.Time) invitationRow {
	return invitationRow{Invitation: i, Ended: i.Expired(now), MayChange: v.mayManage(i.Role)}
}

type inviteForm struct {
	roleForm

	Email, Language string
	Languages       []*locale.Language
}

func (p *Panel) inviteForm(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.draw(w, r, "invite.html", inviteForm{roleForm: v.roleForm(account.Issuer, false), Language: "en", Languages: p.Site.Languages()})
}

func (p *Panel) invite(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := inviteForm{roleForm: v.submittedRole(r), Email: r.PostFormValue("email"), Language: r.PostFormValue("language"), Languages: p.Site.Languages()}
	if _, err := p.Invitations.Invite(r.Context(), v.Person.ID, v.Institution().ID, account.NewInvitation{
		Email: f.Email, Role: f.Role, ManageWebhooks: f.ManageWebhooks, Language: f.Language,
	}); err != nil {
		return p.showAgain(w, r, "invite.html", f, err)
	}
	return p.redirect(w, r, v, "members", "invited")
}

type invitationConfirmation struct {
	Visit      *Visit
	Invitation invitationRow
}

// invitationOf returns the open or expired invitation in the path.
func (p *Panel) invitationOf(r *http.Request, v *Visit) (invitationConfirmation, error) {
	list, err := p.Invitations.List(r.Context(), v.Institution().ID)
	if err != nil {
		return invitationConfirmation{}, err
	}
	i := slices.IndexFunc(list, func(i account.Invitation) bool { return i.UUID == r.PathValue("invitation") })
	if i < 0 {
		return invitationConfirmation{}, fault.New(fault.NotFound, "This institution has no such open invitation.")
	}
	return invitationConfirmation{v, v.invitationRow(list[i], p.Now())}, nil
}

func (p *Panel) resendInvitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.invitationOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Invitations.Resend(r.Context(), v.Person.ID, v.Institution().ID, c.Invitation.UUID); err != nil {
		if fault.Is(err, fault.TooMany) {
			return p.redirect(w, r, v, "members", "invitation_waits")
		}
		return err
	}
	return p.redirect(w, r, v, "members", "invitation_resent")
}

func (p *Panel) askRevokeInvitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.invitationOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "invitation_revoke.html", c)
}

func (p *Panel) revokeInvitation(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.invitationOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Invitations.Revoke(r.Context(), v.Person.ID, v.Institution().ID, c.Invitation.UUID); err != nil {
		return p.showAgain(w, r, "invitation_revoke.html", c, err)
	}
	return p.redirect(w, r, v, "members", "invitation_revoked")
}
