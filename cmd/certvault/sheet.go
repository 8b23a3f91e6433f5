package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/config"
)

type keySheet struct {
	config.Storage

	BaseURL string `help:"Address of the vault, to be printed on the sheet." name:"base-url" placeholder:"URL"`
	Out     string `help:"Write the sheet to this new file, which only its owner can read. Default: standard output." placeholder:"FILE" type:"path"`
}

// Run records in the audit log that the recovery sheet is printed, and then prints or writes the sheet.
func (k *keySheet) Run(c *console) error {
	return c.existing(k.Storage, func(base *app.Base) error {
		text, err := base.Sheet(c.ctx, k.BaseURL)
		if err != nil {
			return err
		}
		record := func() error {
			if err := base.DB.Tx(c.ctx, c.recordKey(nil, audit.KeySheet)); err != nil {
				return fmt.Errorf("recording in the audit log that the sheet is printed: %w", err)
			}
			return nil
		}
		if k.Out == "" {
			if err := record(); err != nil {
				return err
			}
			return c.print(struct {
				Sheet string `json:"sheet"`
			}{text}, func(w io.Writer) { _, _ = io.WriteString(w, text) })
		}
		if err := createPrivate(k.Out, text, record); err != nil {
			return err
		}
		return c.print(struct {
			File string `json:"file"`
		}{k.Out}, func(w io.Writer) {
			printf(w, "The recovery sheet is in %s. Print it, then delete the file.\n", k.Out)
		})
	})
}

// createPrivate writes a new file that only its owner can read. It calls record before it writes the
// text.
func createPrivate(name, text string, record func() error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--out: %q exists; name a new file", name)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err = record(); err == nil {
		_, err = f.WriteString(text)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing the sheet: %w", errors.Join(err, os.Remove(name)))
	}
	return nil
}

type keyRecover struct {
	config.Storage

	Sheet string `help:"Text file with the lines of the recovery sheet." placeholder:"FILE" required:"" type:"path"`
}

// Run creates the files of the master key and of the identity from the lines of a recovery sheet.
func (k *keyRecover) Run(c *console) error {
	text, err := readKeyFile(k.Sheet)
	if err != nil {
		return fmt.Errorf("--sheet: %w", err)
	}
	files, err := app.Recover(c.ctx, k.Storage, string(text))
	if err != nil {
		return err
	}
	return c.print(struct {
		Files []string `json:"files"`
	}{files}, func(w io.Writer) {
		printf(w, "The sheet has no errors. The secrets are in:\n")
		for _, file := range files {
			printf(w, "  %s\n", file)
		}
		printf(w, "Delete the typed file, and run certvault doctor.\n")
	})
}
