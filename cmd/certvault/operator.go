package main

import (
	"io"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

type operatorCommand struct {
	List   operatorList   `cmd:"" help:"List the operators."`
	Add    operatorAdd    `cmd:"" help:"Add an operator. Operators manage institutions and their limits, and see the queue and the health of the installation but no certificates."`
	Remove operatorRemove `cmd:"" help:"Remove an operator."`
}

type operatorList struct {
	config.Storage
}

type operatorRow struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Run lists operators.
func (o *operatorList) Run(c *console) error {
	return c.existing(o.Storage, func(base *app.Base) error {
		list, err := base.Accounts.Operators(c.ctx)
		if err != nil {
			return err
		}
		rows := make([]operatorRow, len(list))
		for i, p := range list {
			rows[i] = operatorRow{Name: p.Name, Email: p.Email}
		}
		return c.print(rows, func(w io.Writer) {
			for _, r := range rows {
				printf(w, "%s <%s>\n", r.Name, r.Email)
			}
		})
	})
}

type operatorAdd struct {
	config.Storage

	Email string `arg:"" help:"E-mail address of an existing account."`
}

// Run adds the person as an operator.
func (o *operatorAdd) Run(c *console) error { return setOperator(c, o.Storage, o.Email, true) }

type operatorRemove struct {
	config.Storage

	Email string `arg:"" help:"The operator's e-mail address."`
}

// Run removes the operator.
func (o *operatorRemove) Run(c *console) error { return setOperator(c, o.Storage, o.Email, false) }

func setOperator(c *console, s config.Storage, email string, operator bool) error {
	return c.existing(s, func(base *app.Base) error {
		if err := base.Accounts.SetOperator(c.ctx, email, operator); err != nil {
			return err
		}
		return c.print(struct {
			Email    string `json:"email"`
			Operator bool   `json:"operator"`
		}{email, operator}, func(w io.Writer) {
			printf(w, "%s %s an operator.\n", email, map[bool]string{true: "is now", false: "is no longer"}[operator])
		})
	})
}
