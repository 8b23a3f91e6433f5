package main

import (
	"io"
	"runtime"

	"github.com/certvault/certvault/internal/app"
)

type versionCommand struct{}

// Run prints the version of the vault and of Go.
func (versionCommand) Run(c *console) error {
	v := app.Version()
	return c.print(struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{v, runtime.Version()}, func(w io.Writer) { printf(w, "certvault %s, %s\n", v, runtime.Version()) })
}
