package main

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
)

type userCommand struct {
	ResetPassword  userResetPassword  `cmd:"" help:"Set the password of a person who cannot receive mail, and end all sessions of the person."`
	RevokeSessions userRevokeSessions `cmd:"" help:"End all sessions of a person."`
	RemoveAddress  userRemoveAddress  `cmd:"" help:"Remove a further address from the account that has it, for example because the mailbox has another owner."`
	AcceptAddress  userAcceptAddress  `cmd:"" help:"Confirm the rights of an account that doctor reports. Only needed after an upgrade from a version before 0.2."`
}

// personFlags identifies a person by e-mail address.
type personFlags struct {
	config.Storage

	Email string `help:"E-mail address of the person." placeholder:"ADDRESS" required:""`
}

// person opens the storage, finds the person and calls f.
func (s *personFlags) person(c *console, f func(base *app.Base, p identity.Person) error) error {
	email, err := account.ParseEmail(s.Email)
	if err != nil {
		return fault.OfField("email", err.Error())
	}
	return c.existing(s.Storage, func(base *app.Base) error {
		p, err := base.People.ByEmail(c.ctx, base.DB, email.Folded)
		if errors.Is(err, identity.ErrNoPerson) {
			return fault.OfField("email", "There is no account with this main address.")
		}
		if err != nil {
			return err
		}
		return f(base, p)
	})
}

type userRow struct {
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

func (c *console) printPerson(p identity.Person, message string) error {
	return c.print(userRow{p.UUID, p.Name, p.Email}, func(w io.Writer) { printf(w, "%s\n", message) })
}

type userResetPassword struct {
	personFlags

	PasswordStdin bool `help:"Read the new password from standard input." required:""`
	DropPasskeys  bool `help:"Also remove all passkeys of the person, for example after another person had access to the account."`
	DropCodes     bool `help:"Also turn off two-step sign-in, for a person who lost the authenticator app and the recovery codes."`
}

// Run sets the password.
func (u *userResetPassword) Run(c *console) error {
	password, err := readLine(c.stdin)
	if err != nil {
		return err
	}
	return u.person(c, func(base *app.Base, p identity.Person) error {
		if err := base.People.SetPassword(c.ctx, p.ID, password, identity.Removal{Codes: u.DropCodes, Passkeys: u.DropPasskeys}); err != nil {
			return err
		}
		passkeys, err := base.People.Passkeys(c.ctx, p.ID)
		if err != nil {
			return err
		}
		row := passwordRow{userRow{p.UUID, p.Name, p.Email}, []passkeyRow{}}
		for _, k := range passkeys {
			row.Passkeys = append(row.Passkeys, passkeyRow{k.Name, k.CreatedAt, k.UsedAt})
		}
		return c.print(row, func(w io.Writer) { row.write(w) })
	})
}

// passwordRow is the output of reset-password. Passkeys are the passkeys that the account still has.
type passwordRow struct {
	userRow

	Passkeys []passkeyRow `json:"passkeys"`
}

type passkeyRow struct {
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"created_at"`
	UsedAt    *time.Time `json:"used_at"`
}

func (r *passwordRow) write(w io.Writer) {
	printf(w, "The password of %s was set, and all sessions have ended.\n", r.Email)
	if len(r.Passkeys) == 0 {
		return
	}
	printf(w, "These passkeys continue to sign in; --drop-passkeys removes them:\n")
	for _, k := range r.Passkeys {
		used := "never used"
		if k.UsedAt != nil {
			used = "last used " + k.UsedAt.UTC().Format(time.DateOnly)
		}
		printf(w, "  “%s”, added %s, %s\n", cmp.Or(k.Name, "passkey"), k.CreatedAt.UTC().Format(time.DateOnly), used)
	}
}

type userRevokeSessions struct{ personFlags }

// Run ends the sessions.
func (u *userRevokeSessions) Run(c *console) error {
	return u.person(c, func(base *app.Base, p identity.Person) error {
		if err := base.People.EndOthers(c.ctx, p.ID, 0); err != nil {
			return err
		}
		return c.printPerson(p, "All sessions of "+p.Email+" have ended.")
	})
}

type userAcceptAddress struct{ personFlags }

// Run records that the operator accepts the account.
func (u *userAcceptAddress) Run(c *console) error {
	return u.person(c, func(base *app.Base, p identity.Person) error {
		if err := base.Accounts.AcceptAddress(c.ctx, u.Email); err != nil {
			return err
		}
		return c.printPerson(p, "The account of "+p.Email+" was accepted.")
	})
}

type userRemoveAddress struct {
	config.Storage

	Email string `help:"The further address." placeholder:"ADDRESS" required:""`
}

// Run removes the address.
func (u *userRemoveAddress) Run(c *console) error {
	return c.existing(u.Storage, func(base *app.Base) error {
		p, err := base.People.TakeAddress(c.ctx, u.Email)
		if fault.Is(err, fault.NotFound) {
			return fault.OfField("email", "No account has this further address.")
		}
		if err != nil {
			return err
		}
		return c.printPerson(p, u.Email+" was removed from the account of "+p.Email+".")
	})
}
