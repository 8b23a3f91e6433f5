package config

import (
	"errors"
	"time"
)

// Backups contains the settings of the backups that the server makes.
type Backups struct {
	Backup      string        `help:"Existing folder in which the server makes backups, one folder for each." name:"backup" placeholder:"DIR" type:"path"`
	BackupEvery time.Duration `default:"24h" help:"Interval of the backups in --backup." name:"backup-every" placeholder:"DURATION"`
	BackupKeep  int           `default:"14" help:"Number of backups to keep in --backup." name:"backup-keep" placeholder:"N"`
}

// checkBackups checks the settings if --backup is set. The server checks the folder when it starts.
func (b *Backups) checkBackups() error {
	if b.Backup == "" {
		return nil
	}
	if b.BackupEvery < time.Second || b.BackupEvery%time.Second != 0 {
		return errors.New("--backup-every must be 1 s or more, in whole seconds")
	}
	if b.BackupKeep < 1 {
		return errors.New("--backup-keep must be 1 or more")
	}
	return nil
}
