package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run prints the version, which Go stamps from the repository at the build.
func (versionCommand) Run(c *console) error {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return c.answer(struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{v, runtime.Version()}, func(w io.Writer) { _, _ = fmt.Fprintf(w, "certvault %s, %s\n", v, runtime.Version()) })
}
