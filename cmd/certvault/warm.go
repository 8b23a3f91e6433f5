package main

import (
	"io"
	"time"

	"github.com/certvault/certvault/internal/pdfium"
)

type warmCommand struct {
	Dir string `arg:"" help:"Folder, which is created if it is missing." type:"path"`
}

// Run compiles the PDF renderer into a folder, for serve --cache.
func (w *warmCommand) Run(c *console) error {
	began := time.Now()
	if err := pdfium.Warm(c.ctx, w.Dir); err != nil {
		return err
	}
	took := time.Since(began)
	return c.print(struct {
		Dir     string  `json:"dir"`
		Seconds float64 `json:"seconds"`
	}{w.Dir, took.Seconds()}, func(out io.Writer) {
		printf(out, "The PDF renderer is compiled in %s (%s).\n", w.Dir, took.Round(time.Millisecond))
	})
}
