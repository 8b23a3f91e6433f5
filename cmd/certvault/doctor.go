package main

import (
	"errors"
	"io"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

type doctorCommand struct {
	config.Storage
	config.Mail
	config.TLS

	Files bool   `help:"Read all stored files, check their digests and signatures, and store the results."`
	To    string `help:"Send a test mail to this address, with the mail settings of the server." name:"mail" placeholder:"ADDRESS"`
	Deep  bool   `help:"Compare the names of all stored files with the records of the database."`
}

var errUnhealthy = errors.New("the installation has problems; see the findings marked WRONG")

// Run checks the installation and prints the findings. The server may be running. Run returns an
// error if there is a problem that is not only a warning.
func (d *doctorCommand) Run(c *console) error {
	findings := append(app.Examine(c.ctx, d.Storage), app.ExamineTLS(c.ctx, d.Storage, d.TLS, time.Now())...)
	if d.To != "" {
		findings = append(findings, app.ExamineMail(c.ctx, d.Storage, d.Mail, d.To)...)
	}
	if d.Deep {
		findings = append(findings, app.ExamineFileNames(c.ctx, d.Storage)...)
	}
	if d.Files {
		findings = append(findings, app.ExamineFiles(c.ctx, d.Storage)...)
	}
	unhealthy := false
	for _, f := range findings {
		unhealthy = unhealthy || !f.Good && !f.Warning
	}
	err := c.print(findings, func(w io.Writer) {
		for _, f := range findings {
			mark := "ok   "
			switch {
			case f.Warning:
				mark = "note "
			case !f.Good:
				mark = "WRONG"
			}
			printf(w, "%s  %s: %s\n", mark, f.Name, f.Detail)
			if f.Remedy != "" {
				printf(w, "       %s\n", f.Remedy)
			}
		}
	})
	if err == nil && unhealthy {
		err = errUnhealthy
	}
	return err
}
