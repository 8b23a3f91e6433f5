package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/template"
)

// backupConfig returns the configuration of a backup of the storage.
func (s *Storage) backupConfig(data string, files blob.Store) backup.Config {
	return backup.Config{
		DB: s.DB, Keyring: s.Keyring, Data: data, Files: files, Version: Version(),
		Keys: blobKeys,
	}
}

// blobKeys has one function for each package whose rows refer to blobs.
var blobKeys = []backup.Keys{cert.BlobKeys, batch.BlobKeys, template.BlobKeys, bulkimport.BlobKeys, application.BlobKeys}

// Backup makes a backup of an existing vault and records it. The server may be running.
func Backup(ctx context.Context, c config.Storage, o backup.Options) (_ *backup.Result, err error) {
	s, err := openStorage(ctx, c, "", checkSchema)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.DB.Close()) }()
	store, err := existingFiles(c)
	if err != nil {
		return nil, err
	}
	result, err := backup.Create(ctx, s.backupConfig(c.Data, store), o)
	if err != nil {
		return nil, err
	}
	return result, backup.RecordResult(ctx, s.DB, result)
}

// VerifyBackup checks a backup. It uses the master key of the vault, or the master key in the backup if
// the vault has none. ownKey reports whether it used the key in the backup. In this case, the signature
// does not prove which vault made the backup.
func VerifyBackup(ctx context.Context, c config.Storage, dir string) (report *backup.Report, ownKey bool, err error) {
	if _, err := backup.ReadHeader(dir); err != nil {
		return nil, false, err
	}
	ring, err := masterKey(c, false)
	if errors.Is(err, keyring.ErrMissing) {
		ring, err = keyring.OpenExisting(filepath.Join(dir, "keys", "master.key"))
		ownKey = true
	}
	if errors.Is(err, keyring.ErrMissing) {
		return nil, false, fmt.Errorf("the backup %s contains no master key, which is needed to check its signature; "+
			"set --data to a data folder with the master key of its vault, or set --master-key-file", dir)
	}
	if err != nil {
		return nil, false, err
	}
	report, err = backup.Verify(ctx, dir, ring)
	if errors.Is(err, backup.ErrWrongKey) && !ownKey {
		err = fmt.Errorf("%w; the key %s does not match; set --data to the data folder of the vault that made the backup, or set --master-key-file",
			err, cmp.Or(c.MasterKeyPath(), "in "+config.MasterKeyVariable))
	}
	return report, ownKey, err
}

// checkBackups checks the folder of scheduled backups, if --backup is set.
func (a *App) checkBackups() error {
	if a.cfg.Backup == "" {
		return nil
	}
	if err := backup.CheckFolder(a.cfg.Data, a.cfg.Backup); err != nil {
		return fmt.Errorf("--backup: %w", err)
	}
	return nil
}

// prepareBackups creates the schedule of backups, if --backup is set.
func (a *App) prepareBackups() {
	if a.cfg.Backup == "" {
		return
	}
	a.backups = &backup.Schedule{
		Config: a.backupConfig(a.cfg.Data, a.blobs), Dir: a.cfg.Backup, Every: a.cfg.BackupEvery, Keep: a.cfg.BackupKeep,
		Node: a.store.node, Log: a.log,
	}
}

// startBackups starts the schedule of backups. If --backup is not set and no other node is running, it
// records that there is no schedule.
func (a *App) startBackups(ctx context.Context) {
	if a.backups != nil {
		a.every(ctx, "backup", a.backups.Poll(), a.backups.Run)
		return
	}
	if a.Queue.Nodes() > 1 { // another node may make the backups
		return
	}
	a.tasks.Go(func() {
		if err := backup.Stop(ctx, a.DB); err != nil {
			a.log.WarnContext(ctx, "the schedule of backups was not removed", "error", err)
		}
	})
}

// backupAge returns the age of the last backup in seconds, or -1 if there is none.
func (a *App) backupAge(ctx context.Context) (int, error) {
	r, err := backup.LastRecord(ctx, a.DB)
	if err != nil || r.CompletedAt.IsZero() {
		return -1, err
	}
	return int(a.DB.Now().Sub(r.CompletedAt) / time.Second), nil
}

// backupProblems returns 1 if the backups have a problem, and otherwise 0.
func (a *App) backupProblems(ctx context.Context) (int, error) {
	r, err := backup.LastRecord(ctx, a.DB)
	if err != nil || r.Problem(a.DB.Now()) == "" {
		return 0, err
	}
	return 1, nil
}

// examineBackups describes the last backup and the schedule. If the backups have a problem, it returns the
// problem as an error.
func examineBackups(ctx context.Context, d *db.DB) (detail string, err error) {
	r, err := backup.LastRecord(ctx, d)
	if err != nil {
		return "", err
	}
	now := d.Now()
	detail = "none was made by certvault"
	if !r.CompletedAt.IsZero() {
		detail = fmt.Sprintf("the last one is %s old, in %s", now.Sub(r.CompletedAt).Round(time.Second), r.Dir)
	}
	if r.Every > 0 {
		detail += fmt.Sprintf("; one is made every %s", r.Every)
	} else {
		detail += "; no server makes backups at intervals (--backup)"
	}
	if problem := r.Problem(now); problem != "" {
		return "", fmt.Errorf("%s; %s", problem, detail)
	}
	if r.Every == 0 || r.Dir == "" {
		return detail, nil
	}
	// The folder need not exist on this machine.
	dir := filepath.Dir(r.Dir)
	if future, err := backup.Future(dir, now); err == nil && len(future) > 0 {
		return "", warning{fmt.Errorf("%s in %s with a date in the future, because a clock was ahead, up to %s: they count as the oldest; "+
			"delete them before their date, when there are newer backups; %s", count(len(future), "backup"), dir, filepath.Base(future[len(future)-1]), detail)}
	}
	return detail, nil
}
