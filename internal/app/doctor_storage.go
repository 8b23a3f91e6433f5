package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// oldTransaction is the age from which an open transaction is a problem. The vault's own
	// transactions take a few seconds at most.
	oldTransaction = 5 * time.Minute
	// lateMail is the age from which a waiting message is a problem.
	lateMail = time.Hour
	// lateCheck is the delay of a check of a stored file from which examineChecks warns.
	lateCheck = 5 * 24 * time.Hour
	// largeFree is the free space in the file of a SQLite database from which examineSpace warns, in bytes,
	// if it is more than half of the file.
	largeFree = 1e9
)

// finding returns the result of a check. The finding is good and has the given detail if err is nil.
// Otherwise its detail is the text of the error.
func finding(name, detail string, err error) Finding {
	if err != nil {
		_, intended := errors.AsType[warning](err)
		return Finding{Name: name, Warning: intended, Detail: err.Error()}
	}
	return Finding{Name: name, Good: true, Detail: detail}
}

// examineStorage checks that the database is intact and works, and that mail, webhooks, backups and the
// checks of stored files work. read reports whether the vault has a read replica.
func examineStorage(ctx context.Context, d *db.DB, read bool, now time.Time) (list []Finding) {
	if d.Dialect == db.SQLite {
		problems, err := d.QuickCheck(ctx)
		if len(problems) > 0 {
			err = errors.New("the file is damaged: " + strings.Join(problems, "; "))
		}
		space, spaceErr := d.Space(ctx)
		list = append(list, finding("database structure", "intact", err), examineSpace(space, spaceErr))
	}
	list = append(list, finding("database writes", "accepted", d.CheckWritable(ctx)))
	old, err := d.OldTransaction(ctx, oldTransaction)
	if old != "" {
		err = errors.New(old)
	}
	list = append(list, finding("database transactions", "none is old", err))
	if d.Dialect == db.PostgreSQL {
		list = append(list, finding("clock", "the database server has the same time", checkClock(ctx, d)))
		list = append(list, examineServer(ctx, d, read)...)
	}
	oldest, err := mail.OldestQueued(ctx, d)
	if err == nil && !oldest.IsZero() && now.Sub(oldest) > lateMail {
		err = fmt.Errorf("a message has been waiting since %s; the log of the server shows why", oldest.Format(time.RFC3339))
	}
	if err == nil {
		var unsent int
		if unsent, err = mail.UnsentSince(ctx, d); err == nil && unsent > 0 {
			err = warning{fmt.Errorf("%s not sent, because no mail server is configured", count(unsent, "message"))}
		}
	}
	list = append(list, finding("mail", "no message has been waiting for long", err), examineWebhooks(ctx, d))
	detail, err := examineBackups(ctx, d)
	list = append(list, finding("backups", detail, err))
	damaged, err := cert.CountDamaged(ctx, d)
	if damaged > 0 {
		err = fmt.Errorf("%s with a file that failed its last check", count(damaged, "certificate"))
	}
	return append(list, finding("stored files", "all passed their last check", err), examineChecks(ctx, d, now))
}

// examineNetwork warns of a SQLite database on a network file system.
func examineNetwork(data string) error {
	kind, err := db.NetworkFileSystem(data)
	if err == nil && kind != "" {
		err = warning{fmt.Errorf("%s is on %s, where SQLite may lose acknowledged certificates or damage its file", data, kind)}
	}
	return err
}

// warnOfNetwork logs a warning about a SQLite database on a network file system.
func (a *App) warnOfNetwork(ctx context.Context) {
	if a.DB.Dialect != db.SQLite {
		return
	}
	if err := examineNetwork(a.cfg.Data); err != nil {
		a.log.WarnContext(ctx, "the data folder is not on a local disk", slog.Any("error", err))
	}
}

// examineSpace checks that the file of a SQLite database does not have much free space.
func examineSpace(s db.Space, err error) Finding {
	if err == nil && s.Free > largeFree && s.Free > s.Size/2 {
		err = warning{fmt.Errorf("%d of %d MB in the file of the database are free", s.Free/1e6, s.Size/1e6)}
	}
	return finding("database size", fmt.Sprintf("%d MB, of which %d MB are free", s.Size/1e6, s.Free/1e6), err)
}

// examineChecks checks that the server reads all stored files often enough.
func examineChecks(ctx context.Context, d *db.DB, now time.Time) Finding {
	oldest, err := cert.OldestCheck(ctx, d)
	detail := "no file is stored"
	if !oldest.IsZero() {
		detail = "all files were read since " + oldest.Format(time.DateOnly)
		if now.Sub(oldest) > cert.RehashAge+lateCheck {
			err = warning{fmt.Errorf("the oldest check of a file was on %s, and each file should be read every %d days",
				oldest.Format(time.DateOnly), int(cert.RehashAge/(24*time.Hour)))}
		}
	}
	return finding("checks of stored files", detail, err)
}
