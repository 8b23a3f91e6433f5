package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/config"
)

type backupCommand struct {
	Create backupCreateCommand `cmd:"" default:"withargs" help:"Create a backup of a vault. The vault may be running."`
	Verify backupVerifyCommand `cmd:"" help:"Check a backup: signature, digests, missing and additional files, database."`
}

type backupCreateCommand struct {
	config.Storage

	Dir         string `arg:"" help:"New or empty folder for the backup." type:"path"`
	Since       string `help:"An earlier backup, whose files are linked and not copied again." placeholder:"DIR" type:"path"`
	FilesOnly   bool   `help:"Copy all files of the store, but not the database. Another program must back up the database." name:"files-only"`
	WithoutKeys bool   `help:"Copy neither the master key nor the identity that decrypts the signing keys." name:"without-keys"`
}

// Run creates a backup. If the file store lacks files to which the database refers, Run creates the
// backup without these files and returns an error.
func (b *backupCreateCommand) Run(c *console) error {
	if err := requireVault(b.Storage); err != nil {
		return err
	}
	result, err := app.Backup(c.ctx, b.Storage, backup.Options{Dir: b.Dir, Since: b.Since, FilesOnly: b.FilesOnly, WithoutKeys: b.WithoutKeys})
	if err != nil {
		return err
	}
	err = c.print(result, func(w io.Writer) {
		printf(w, "The backup in %s has %s, %s. Copied: %s.\n", result.Dir, plural(result.Files, "file"), byteSize(result.Bytes), byteSize(result.Copied))
		if result.Copied < result.Bytes {
			printf(w, "The other files are hard links.\n")
		}
		if !result.Keys {
			printf(w, "It contains no keys. A restore needs the master key and the identity that decrypts the signing keys: keep copies of both.\n")
		}
		for _, name := range result.MissingFiles {
			printf(w, "MISSING  %s\n", name)
		}
	})
	if err == nil && result.Missing > 0 {
		err = fmt.Errorf("the backup was made, but the file store lacks %s to which the database refers; "+
			"%s names them; restore them from an earlier backup", plural(result.Missing, "file"), filepath.Join(result.Dir, "manifest.jsonl"))
	}
	return err
}

type backupVerifyCommand struct {
	config.Storage

	Dir string `arg:"" help:"Folder of the backup." type:"path"`
}

// verifyResult is the result of backup verify.
type verifyResult struct {
	*backup.Report

	// Intact reports whether there are no problems.
	Intact bool `json:"intact"`
	// OwnKey reports whether the signature was checked with the master key in the backup.
	OwnKey bool `json:"own_key"`
}

// Run checks a backup. It returns an error if the backup has a problem.
func (b *backupVerifyCommand) Run(c *console) error {
	report, ownKey, err := app.VerifyBackup(c.ctx, b.Storage, b.Dir)
	if err != nil {
		return err
	}
	problems := len(report.Problems)
	err = c.print(verifyResult{Report: report, Intact: problems == 0, OwnKey: ownKey}, func(w io.Writer) {
		for _, p := range report.Problems {
			printf(w, "WRONG  %s: %s\n", p.File, p.Detail)
		}
		if problems == 0 {
			printf(w, "The backup in %s of %s is intact: %s, %s.\n",
				report.Dir, report.Header.CreatedAt.Format("2006-01-02 15:04:05 MST"), plural(report.Files, "file"), byteSize(report.Bytes))
		}
		if ownKey {
			printf(w, "The signature was checked with the master key in the backup, which does not show who made the backup; set --data to check it with the key of the vault.\n")
		}
	})
	if err == nil && problems > 0 {
		err = fmt.Errorf("the backup in %s has %s", report.Dir, plural(problems, "problem"))
	}
	return err
}

// plural returns a number with a noun, such as "2 files". It appends s to the noun unless n is 1.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// byteSize returns a number of bytes in GB, MB or kB, the decimal units.
func byteSize(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
}
