package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/fault"
)

type memberCommand struct {
	List   memberList   `cmd:"" help:"List an institution's members."`
	Add    memberAdd    `cmd:"" help:"Add a member. An account is created if needed; the person then signs in with a sign-in link."`
	Remove memberRemove `cmd:"" help:"Remove a member from an institution."`
	Role   memberRole   `cmd:"" help:"Change a member's role."`
}

type memberRow struct {
	UUID           string       `json:"uuid"`
	Name           string       `json:"name"`
	Email          string       `json:"email"`
	Role           account.Role `json:"role"`
	ManageWebhooks bool         `json:"manage_webhooks"`
	CreatedAt      time.Time    `json:"created_at"`
}

func newMemberRow(m *account.Member) memberRow {
	return memberRow{m.UUID, m.Name, m.Email, m.Role, m.ManageWebhooks, m.CreatedAt}
}

type memberList struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// Run lists the members of the institution in the order in which they joined.
func (m *memberList) Run(c *console) error {
	return c.institution(m.Storage, m.Institution, func(base *app.Base, inst *account.Institution) error {
		list, err := base.Accounts.Members(c.ctx, inst.ID)
		if err != nil {
			return err
		}
		rows := make([]memberRow, len(list))
		for i := range list {
			rows[i] = newMemberRow(&list[i])
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "NAME", "EMAIL", "ROLE", "MANAGE WEBHOOKS", "SINCE")
			for _, r := range rows {
				webhooks := "-"
				if r.ManageWebhooks || r.Role.Can(account.MayManageWebhooks) {
					webhooks = "yes"
				}
				table.row(r.Name, r.Email, r.Role, webhooks, r.CreatedAt.Format(time.DateOnly))
			}
			table.flush()
		})
	})
}

type memberAdd struct {
	config.Storage

	Institution    string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Email          string `help:"The person's e-mail address." placeholder:"ADDRESS" required:""`
	Name           string `help:"The person's name. The name of an existing account does not change." placeholder:"NAME" required:""`
	Role           string `help:"Role: owner, admin, issuer, reviewer, signatory, auditor or developer." placeholder:"ROLE" required:""`
	ManageWebhooks bool   `help:"Grant the permission to manage webhooks, in addition to the role."`
}

// Run adds the member.
func (m *memberAdd) Run(c *console) error {
	if err := checkRole(m.Role); err != nil {
		return err
	}
	return c.institution(m.Storage, m.Institution, func(base *app.Base, inst *account.Institution) error {
		created, err := base.Accounts.AddMember(c.ctx, inst.ID, account.NewMember{
			Email: m.Email, Name: m.Name, Role: account.Role(m.Role), ManageWebhooks: m.ManageWebhooks,
		})
		if err != nil {
			return err
		}
		return c.print(newMemberRow(created), func(w io.Writer) {
			printf(w, "%s is now %s of %s.\n", created.Email, created.Role, inst.Name)
		})
	})
}

// checkRole returns an error that lists the roles if there is no role with the name.
func checkRole(name string) error {
	if account.Role(name).Valid() {
		return nil
	}
	names := make([]string, len(account.Roles))
	for i, r := range account.Roles {
		names[i] = string(r.Role)
	}
	return fault.OfField("role", fmt.Sprintf("There is no role %q. The roles are: %s.", name, strings.Join(names, ", ")))
}

type memberRemove struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Email       string `arg:"" help:"The member's e-mail address."`
}

// Run removes the member.
func (m *memberRemove) Run(c *console) error {
	return c.institution(m.Storage, m.Institution, func(base *app.Base, inst *account.Institution) error {
		member, err := base.Accounts.MemberByEmail(c.ctx, inst.ID, m.Email)
		if err != nil {
			return err
		}
		if err := base.Accounts.RemoveMember(c.ctx, account.Installation, inst.ID, member.UUID); err != nil {
			return err
		}
		return c.print(struct {
			UUID    string `json:"uuid"`
			Removed bool   `json:"removed"`
		}{member.UUID, true}, func(w io.Writer) { printf(w, "%s is no longer a member of %s.\n", member.Email, inst.Name) })
	})
}

type memberRole struct {
	config.Storage

	Institution    string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Email          string `arg:"" help:"The member's e-mail address."`
	Role           string `arg:"" help:"Role: owner, admin, issuer, reviewer, signatory, auditor or developer."`
	ManageWebhooks bool   `help:"Grant the permission to manage webhooks, in addition to the role. Without this flag, the permission is revoked."`
}

// Run changes the role, and grants or revokes Manage webhooks.
func (m *memberRole) Run(c *console) error {
	if err := checkRole(m.Role); err != nil {
		return err
	}
	return c.institution(m.Storage, m.Institution, func(base *app.Base, inst *account.Institution) error {
		member, err := base.Accounts.MemberByEmail(c.ctx, inst.ID, m.Email)
		if err != nil {
			return err
		}
		if err := base.Accounts.SetMember(c.ctx, account.Installation, inst.ID, member.UUID, account.Role(m.Role), m.ManageWebhooks); err != nil {
			return err
		}
		if member, err = base.Accounts.MemberByEmail(c.ctx, inst.ID, m.Email); err != nil {
			return err
		}
		return c.print(newMemberRow(member), func(w io.Writer) {
			printf(w, "%s is now %s of %s.\n", member.Email, member.Role, inst.Name)
		})
	})
}
