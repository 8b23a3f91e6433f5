package main

import (
	"io"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/credential"
)

type credentialCommand struct {
	Revoke credentialRevoke `cmd:"" help:"Revoke a credential by its file, if the vault does not have its certificate because the vault was restored from an older backup."`
}

type credentialRevoke struct {
	config.Storage

	File   string `arg:"" help:"The credential: JSON, JWT, SD-JWT, or a badge (PNG or SVG)."`
	Reason string `help:"Reason for the audit log." placeholder:"TEXT"`
}

// credentialRevocation is the JSON output of the command.
type credentialRevocation struct {
	Institution string    `json:"institution"`
	Certificate string    `json:"certificate"`
	Title       string    `json:"title"`
	List        string    `json:"list"`
	Position    int       `json:"position"`
	Reason      string    `json:"reason"`
	RevokedBy   string    `json:"revoked_by"`
	RevokedAt   time.Time `json:"revoked_at"`
	Again       bool      `json:"again"`
}

// Run revokes the credential. The server may be running.
func (r *credentialRevoke) Run(c *console) error {
	data, err := readLimited(r.File, credential.MaxFile)
	if err != nil {
		return err
	}
	return c.existing(r.Storage, func(base *app.Base) error {
		own, err := base.Issuer(c.ctx)
		if err != nil {
			return err
		}
		v, err := own.RevokeFile(c.ctx, data, r.Reason)
		if err != nil {
			return err
		}
		row := credentialRevocation{v.Institution.Slug, v.Certificate, v.Title, v.List, v.Position, v.Reason, v.By, v.At, v.Again}
		return c.print(row, func(w io.Writer) {
			name := "The credential"
			if v.Title != "" {
				name += " " + strconv.Quote(v.Title)
			}
			if v.Again {
				reason := ""
				if v.Reason != "" {
					reason = ": " + v.Reason
				}
				printf(w, "%s of %s was revoked before, on %s by %s%s.\n", name, v.Institution.Name, formatTime(&v.At), v.By, reason)
				return
			}
			printf(w, "%s of %s is revoked. The status list shows it within a minute. Programs that keep the list see it up to 5 minutes later.\n", name, v.Institution.Name)
			printf(w, "Keep the file: after another restore of an older backup, revoke the credential again.\n")
		})
	})
}
