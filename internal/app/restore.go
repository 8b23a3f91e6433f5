package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// RestoreOptions selects the backup to restore, and whether the restore is a drill.
type RestoreOptions struct {
	// Dir is a backup, or a folder of scheduled backups.
	Dir string
	// At selects the newest backup of Dir that is not newer than At. The zero value selects the
	// newest.
	At    time.Time
	Drill bool
}

// errRestoreToS3 means that --blob is set for a restore.
var errRestoreToS3 = errors.New("a backup is restored into a folder: run the command without --blob and with a new --data folder; " +
	"then run certvault blob copy DATA/files s3://..., move the files of DATA/keys to the places of --master-key-file and --key-identity-file, and start the server with --blob")

// Restore creates a vault from a backup. The storage must not contain a vault.
func Restore(ctx context.Context, c config.Storage, o RestoreOptions) (*backup.Restored, error) {
	if c.Blob != "" {
		return nil, errRestoreToS3
	}
	setUmask()
	options := backup.RestoreOptions{Dir: o.Dir, At: o.At, Target: c, Drill: o.Drill, Now: time.Now}
	var err error
	if c.MasterKey != "" || c.MasterKeyFile != "" {
		if options.Keyring, err = masterKey(c, false); err != nil {
			return nil, err
		}
	}
	switch {
	case c.KeyIdentity != "":
		options.Identity = []byte(c.KeyIdentity)
	case c.KeyIdentityFile != "":
		if options.Identity, err = os.ReadFile(c.KeyIdentityFile); err != nil {
			return nil, fmt.Errorf("--key-identity-file: %w", err)
		}
	}
	return backup.Restore(ctx, options)
}

// Prepare prepares a database that was restored by other means to its state of the time copied; see
// backup.Prepare. No server may use the data folder or the database. The file store must belong to the
// database.
func Prepare(ctx context.Context, c config.Storage, copied time.Time) (r *db.Restore, err error) {
	if _, err := makePrivate(c.Data); err != nil {
		return nil, err
	}
	lock, err := tryLock(c.Data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	files, err := existingFiles(c)
	if err != nil {
		return nil, err
	}
	ctx = db.Unlimited(ctx)
	s, err := openStorage(ctx, c, "", func(ctx context.Context, d *db.DB) error {
		if err := checkInstallation(ctx, c, d, files); err != nil {
			return err
		}
		r, err = backup.Prepare(ctx, d, copied, time.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, s.DB.Close()
}

// Unknown lists what may have been revoked, removed, changed or replaced after the backup from which the vault
// was restored.
func (b *Base) Unknown(ctx context.Context) (*backup.Unknown, error) {
	return backup.ListUnknown(ctx, backup.Services{Accounts: b.Accounts, Tokens: b.Tokens, Hooks: b.Hooks, Keys: b.Keys}, time.Now())
}

// readRestore sets drill, and logs a warning if the vault is a drill or its restore is not accepted.
func (a *App) readRestore(ctx context.Context) error {
	r, err := a.DB.LastRestore(ctx)
	if err != nil {
		return err
	}
	a.drill = r != nil && r.Drill
	if r.Pending() {
		log := a.log.With(slog.Time("copied_at", r.CopiedAt), slog.Time("restored_at", r.RestoredAt))
		if r.Drill {
			log.WarnContext(ctx, "this vault is a drill of a restore: it sends no mail and no webhooks")
		} else {
			log.WarnContext(ctx, "the restore of this vault is not accepted: files without records are kept until it is accepted with certvault restore --accept")
		}
	}
	return nil
}

// examineRestore returns the finding about the last restore, or nil if there is nothing to report.
func examineRestore(ctx context.Context, d *db.DB, unknown func(context.Context) (*backup.Unknown, error)) (*Finding, error) {
	r, err := d.LastRestore(ctx)
	if err != nil || !r.Pending() {
		return nil, err
	}
	u, err := unknown(ctx)
	if err != nil {
		return nil, err
	}
	f := &Finding{Name: "restore", Detail: fmt.Sprintf(
		"restored on %s from a copy of %s; it is unknown which of %s changed after the copy; files without records are kept until the vault is accepted",
		r.RestoredAt.Format(time.RFC3339), r.CopiedAt.Format(time.RFC3339), u.Summary())}
	if r.Drill {
		f.Good = true
		f.Detail = fmt.Sprintf("this vault is a drill, restored on %s from a copy of %s; it sends no mail and no webhooks, and is never accepted",
			r.RestoredAt.Format(time.RFC3339), r.CopiedAt.Format(time.RFC3339))
	}
	return f, nil
}
