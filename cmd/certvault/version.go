package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/certvault/certvault/internal/app"
)

type versionCommand struct{}

// Run prints the version, which the Go toolchain reads from the repository when it builds the
// binary.
func (versionCommand) Run(c *console) error {
	v := app.Version()
	return c.print(struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{v, runtime.Version()}, func(w io.Writer) { _, _ = fmt.Fprintf(w, "certvault %s, %s\n", v, runtime.Version()) })
}
