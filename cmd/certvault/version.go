package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the build; a build without it tells the module's.
var version = ""

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(c *console) error {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	return c.answer(struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{v, runtime.Version()}, func(w io.Writer) { _, _ = fmt.Fprintf(w, "certvault %s, %s\n", v, runtime.Version()) })
}
