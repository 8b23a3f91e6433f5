package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/config"
)

type restoreCommand struct {
	config.Storage

	Dir     string `arg:"" help:"Backup, or folder of scheduled backups. Without it, the command shows the last restore of the vault." optional:"" type:"path"`
	At      string `help:"Restore the newest scheduled backup not newer than this date, time or age such as 24h; with --prepare, the time of the database." placeholder:"TIME"`
	Drill   bool   `help:"Restore the vault as a trial that sends no mail and no webhooks."`
	Prepare bool   `help:"Prepare a database that was restored by other means, such as point-in-time recovery."`
	Accept  bool   `help:"Accept the restored vault. Until then, it keeps files without records."`
}

// restoreResult is the JSON form of a restore.
type restoreResult struct {
	*backup.Restored

	Unknown *backup.Unknown `json:"unknown"`
}

// restoreState is the JSON form of the last restore of a vault.
type restoreState struct {
	CopiedAt   time.Time       `json:"copied_at"`
	RestoredAt time.Time       `json:"restored_at"`
	AcceptedAt *time.Time      `json:"accepted_at"`
	Drill      bool            `json:"drill"`
	Unknown    *backup.Unknown `json:"unknown,omitempty"`
}

// Run restores a backup, prepares a database that was restored by other means, accepts a restored vault,
// or shows the last restore of a vault.
func (r *restoreCommand) Run(c *console) error {
	switch {
	case r.Prepare:
		return r.prepare(c)
	case r.Dir != "" && r.Accept:
		return &usageError{errors.New("--accept needs no DIR: run it later, on the restored vault")}
	case r.Dir == "" && (r.At != "" || r.Drill):
		return &usageError{errors.New("--at and --drill require DIR")}
	case r.Accept:
		return r.accept(c)
	case r.Dir == "":
		return r.show(c)
	}
	o := app.RestoreOptions{Dir: r.Dir, Drill: r.Drill}
	if r.At != "" {
		var err error
		if o.At, err = r.at(); err != nil {
			return err
		}
	}
	restored, err := app.Restore(c.ctx, r.Storage, o)
	if err != nil {
		return err
	}
	return r.report(c, func(u *backup.Unknown) any { return restoreResult{restored, u} }, func(w io.Writer) { printRestored(w, restored) })
}

// at returns the time of --at.
func (r *restoreCommand) at() (time.Time, error) {
	at, err := parseSince(r.At, time.Now())
	if err != nil {
		return time.Time{}, &usageError{fmt.Errorf("--at: %w", err)}
	}
	return at, nil
}

// report prints the result of a restore, what to check, and what to do next. form returns its JSON form, and
// head prints the first lines.
func (r *restoreCommand) report(c *console, form func(*backup.Unknown) any, head func(w io.Writer)) error {
	return c.existing(r.Storage, func(base *app.Base) error {
		unknown, err := base.Unknown(c.ctx)
		if err != nil {
			return err
		}
		return c.print(form(unknown), func(w io.Writer) {
			head(w)
			printUnknown(w, unknown)
			printNext(w, r.Drill)
		})
	})
}

// prepare prepares a database that was restored by other means to its state of the time --at.
func (r *restoreCommand) prepare(c *console) error {
	switch {
	case r.Dir != "" || r.Drill || r.Accept:
		return &usageError{errors.New("--prepare cannot be used with DIR, --drill or --accept")}
	case r.At == "":
		return &usageError{errors.New("--prepare requires --at TIME, the time of the state of the database; if the time is not known exactly, set an earlier one")}
	}
	copied, err := r.at()
	if err != nil {
		return err
	}
	if err := requireVault(r.Storage); err != nil {
		return err
	}
	restored, err := app.Prepare(c.ctx, r.Storage, copied)
	if err != nil {
		return err
	}
	form := func(u *backup.Unknown) any {
		return restoreState{CopiedAt: restored.CopiedAt, RestoredAt: restored.RestoredAt, Unknown: u}
	}
	return r.report(c, form, func(w io.Writer) {
		printf(w, "The database is prepared. It has the state of %s.\n", restored.CopiedAt.Format(time.RFC3339))
		printEnded(w, "that time")
	})
}

// accept accepts the restored vault.
func (r *restoreCommand) accept(c *console) error {
	return c.existing(r.Storage, func(base *app.Base) error {
		accepted, err := backup.Accept(c.ctx, base.DB, time.Now())
		if err != nil {
			return err
		}
		return c.print(restoreState{CopiedAt: accepted.CopiedAt, RestoredAt: accepted.RestoredAt, AcceptedAt: &accepted.AcceptedAt}, func(w io.Writer) {
			printf(w, "The restore of %s is accepted. The vault deletes files without records again.\n", accepted.RestoredAt.Format(time.RFC3339))
		})
	})
}

// show prints the last restore. Before the restore is accepted, show also prints what a person must check.
func (r *restoreCommand) show(c *console) error {
	return c.existing(r.Storage, func(base *app.Base) error {
		last, err := base.DB.LastRestore(c.ctx)
		if err != nil {
			return err
		}
		if last == nil {
			return backup.ErrNotRestored
		}
		state := restoreState{CopiedAt: last.CopiedAt, RestoredAt: last.RestoredAt, Drill: last.Drill}
		if last.Pending() {
			if state.Unknown, err = base.Unknown(c.ctx); err != nil {
				return err
			}
		} else {
			state.AcceptedAt = &last.AcceptedAt
		}
		return c.print(state, func(w io.Writer) {
			printf(w, "The vault was restored on %s from a copy of %s.\n", last.RestoredAt.Format(time.RFC3339), last.CopiedAt.Format(time.RFC3339))
			if state.AcceptedAt != nil {
				printf(w, "The restore was accepted on %s.\n", last.AcceptedAt.Format(time.RFC3339))
				return
			}
			printUnknown(w, state.Unknown)
			printNext(w, last.Drill)
		})
	})
}

func printRestored(w io.Writer, r *backup.Restored) {
	printf(w, "The vault is restored from %s, a copy made at %s: %s, %d bytes.\n", r.Backup, r.CopiedAt.Format(time.RFC3339), plural(r.Files, "file"), r.Bytes)
	printEnded(w, "the copy")
	if r.Future() {
		printf(w, "\nWarning: the date of this backup is in the future. The clock of this machine or of the vault was wrong, so another backup may be newer.\n")
	}
	if len(r.Ignored) > 0 {
		printf(w, "\nWarning: backups that were ignored because their date is in the future (%d). To restore one of them, name its folder instead; "+
			"--at TIME selects among the others.\n", len(r.Ignored))
		for _, dir := range r.Ignored {
			printf(w, "  %s\n", dir)
		}
	}
	if len(r.Missing) > 0 {
		printf(w, "\nFiles that were missing when the backup was made, and are missing now (%d)\n", len(r.Missing))
		for _, name := range r.Missing {
			printf(w, "  %s\n", name)
		}
	}
}

// printEnded prints what the restore has ended. copied describes the time of the copy.
func printEnded(w io.Writer, copied string) {
	printf(w, "Changes after %s are lost. Sessions, set-up links, open invitations, and mailed links to sign up, to sign in, "+
		"to reset a password and to change or add an address have ended. Recipients' links to their certificates still work.\n", copied)
}

// printUnknown prints the tokens, members, operators, signing keys and webhook endpoints that a person must
// check.
func printUnknown(w io.Writer, u *backup.Unknown) {
	printf(w, "\nThe vault does not know which of the following were revoked, removed, changed or replaced after the copy. Check each of them.\n")
	printf(w, "Passwords and passkeys that were reset or removed after the copy are valid again.\n")
	printf(w, "\nTokens (%d)\n", len(u.Tokens))
	for _, t := range u.Tokens {
		printf(w, "  %s  %d  %s  %s  created %s\n", t.Institution, t.ID, t.Hint, t.Name, t.CreatedAt.Format(time.DateOnly))
	}
	printf(w, "\nMembers (%d)\n", len(u.Members))
	for _, m := range u.Members {
		printf(w, "  %s  %s  %s  %s\n", m.Institution, m.Role, m.Email, m.Name)
	}
	printf(w, "\nOperators (%d)\n", len(u.Operators))
	for _, p := range u.Operators {
		printf(w, "  %s  %s\n", p.Email, p.Name)
	}
	printf(w, "\nSigning keys (%d)\n", len(u.Keys))
	for _, k := range u.Keys {
		printf(w, "  %s  %s  serial %s  created %s\n", k.Institution, k.Kind, k.Serial, k.CreatedAt.Format(time.DateOnly))
	}
	printf(w, "\nWebhook endpoints (%d)\n", len(u.Endpoints))
	for _, e := range u.Endpoints {
		printf(w, "  %s  %s  %s  created %s  secret of %s\n", e.Institution, e.ID, e.Origin, e.CreatedAt.Format(time.DateOnly), e.SecretAt.Format(time.DateOnly))
	}
}

func printNext(w io.Writer, drill bool) {
	if drill {
		printf(w, "\nThis vault is a drill. It sends no mail and no webhooks, and it is never accepted.\n")
		return
	}
	printf(w, "\nTo revoke the credential of a certificate that was lost, run certvault credential revoke FILE.\n")
	printf(w, "\nThe vault keeps files without records until you have checked the list and run certvault restore --accept.\n")
}
