package main

import (
	"errors"
	"io"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

type doctorCommand struct {
	config.Storage
}

var errUnhealthy = errors.New("the installation has problems; see the findings marked WRONG")

// Run checks the installation, whether the server runs or not.
func (d *doctorCommand) Run(c *console) error {
	findings := app.Examine(c.ctx, d.Storage)
	unhealthy := false
	for _, f := range findings {
		unhealthy = unhealthy || !f.Good
	}
	err := c.print(findings, func(w io.Writer) {
		for _, f := range findings {
			mark := "ok   "
			if !f.Good {
				mark = "WRONG"
			}
			printf(w, "%s  %s: %s\n", mark, f.Name, f.Detail)
		}
	})
	if err == nil && unhealthy {
		err = errUnhealthy
	}
	return err
}
