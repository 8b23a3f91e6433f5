package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

type auditCommand struct {
	Export auditExport `cmd:"" help:"Write the audit log, newest first, to standard output."`
}

type auditExport struct {
	config.Storage

	Institution  string `help:"Slug of the institution." placeholder:"SLUG" xor:"log"`
	Installation bool   `help:"Export the log of the installation instead of that of an institution." xor:"log"`
	Actor        string `help:"Only entries of this actor: a name, an id, or user, token, command or system." placeholder:"ACTOR"`
	Action       string `help:"Only this action, such as token.revoked, or a group of actions, such as token." placeholder:"ACTION"`
	Subject      string `help:"Only entries about this subject: a name or an id." placeholder:"SUBJECT"`
	From         string `help:"Only entries since the start of this day, or since this time." placeholder:"DATE"`
	To           string `help:"Only entries until the end of this day, or before this time." placeholder:"DATE"`
	Format       string `help:"Format: csv or jsonl. --json selects jsonl." default:"csv" enum:"csv,jsonl"`
}

// Run exports the log.
func (a *auditExport) Run(c *console) error {
	if a.Institution == "" && !a.Installation {
		return &usageError{errors.New("specify --institution or --installation")}
	}
	f := audit.Filter{Actor: a.Actor, Action: a.Action, Subject: a.Subject}
	var err error
	if f.From, err = parseMoment("--from", a.From, 0); err != nil {
		return &usageError{err}
	}
	if f.To, err = parseMoment("--to", a.To, 1); err != nil {
		return &usageError{err}
	}
	format := audit.Format(a.Format)
	if c.json {
		format = audit.JSONL
	}
	var out io.Writer = &csvLines{w: c.stdout}
	if format == audit.JSONL {
		out = jsonLines{c.stdout}
	}
	export := func(base *app.Base, institutionID int64) error {
		return audit.New(base.DB).Export(c.ctx, out, institutionID, f, format)
	}
	if a.Installation {
		return c.existing(a.Storage, func(base *app.Base) error { return export(base, 0) })
	}
	return c.institution(a.Storage, a.Institution, func(base *app.Base, inst *account.Institution) error { return export(base, inst.ID) })
}

// parseMoment parses a time, or a day in UTC. For a day, it adds days and returns the start of the
// resulting day. For an empty text, it returns the zero time. flag is the name of the flag, for errors.
func parseMoment(flag, text string, days int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, days), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%s: %q is neither a date such as 2006-01-02 nor a time such as 2006-01-02T15:04:05Z", flag, text)
	}
	return t, nil
}

// asCommand returns a context whose actor is the user who runs the command.
func asCommand(ctx context.Context) context.Context {
	a := audit.Actor{Type: audit.Command, Name: "command line"}
	if u, err := user.Current(); err == nil {
		a.ID, a.Name = u.Username, u.Username
	}
	// sudo sets this variable to the user who called sudo.
	if caller := os.Getenv("SUDO_USER"); caller != "" && caller != a.ID {
		a.Name = caller + " as " + a.Name
	}
	return audit.WithActor(ctx, a)
}

// recordKey returns a function that records an action with keys in the audit log, in the transaction
// of the action. inst is nil for the keys of the installation.
func (c *console) recordKey(inst *account.Institution, action audit.Action) authority.Record {
	e := audit.Entry{Action: action}
	if inst != nil {
		e.InstitutionID, e.Subject = inst.ID, audit.Subject{Type: "institution", ID: inst.UUID, Name: inst.Name}
	}
	return func(tx *db.Tx) error { return audit.RecordTx(c.ctx, tx, e) }
}
