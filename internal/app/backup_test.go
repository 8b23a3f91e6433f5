package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestServerMakesBackups checks that a running vault makes backups, and that doctor, the status page
// and the metrics show the last one.
func TestServerMakesBackups(t *testing.T) {
	t.Parallel()
	data, dir := warmFolder(t), t.TempDir()
	var out bytes.Buffer
	a := newApp(t, data, &out, func(c *config.Serve) {
		c.Backup, c.BackupEvery, c.BackupKeep = dir, 5*time.Second, 2
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var r *backup.Record
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var err error
		if r, err = backup.LastRecord(t.Context(), a.DB); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) >= 2 && !r.CompletedAt.IsZero() && r.CompletedAt.Sub(r.StartedAt) < time.Second && filepath.Base(r.Dir) == entries[len(entries)-1].Name() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("record = %+v, backups = %v, want at least two backups, and a record of the newest with CompletedAt less than a second after StartedAt", r, entries)
		}
	}
	if detail, err := examineBackups(t.Context(), a.DB); err != nil || !strings.Contains(detail, dir) || !strings.Contains(detail, "one is made every 5s") {
		t.Errorf("detail = %q, error = %v, want the last backup and the interval", detail, err)
	}
	status, err := a.status(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range status.Findings {
		found = found || f.Name == "Backups" && f.Good
	}
	if !found {
		t.Errorf("findings = %+v, want a good finding Backups", status.Findings)
	}
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]float64{}
	for _, m := range families {
		if strings.HasPrefix(m.GetName(), "certvault_backup_") {
			metrics[m.GetName()] = m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if age := metrics["certvault_backup_age_seconds"]; age < 0 || age > 60 || metrics["certvault_backup_problems"] != 0 || len(metrics) != 2 {
		t.Errorf("metrics = %v, want the age of the last backup and no problem", metrics)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopping the vault: error = %v, want none", err)
	}
	report, ownKey, err := VerifyBackup(t.Context(), config.Storage{Data: data}, r.Dir)
	if err == nil && len(report.Problems) != 0 || err != nil && !strings.Contains(err.Error(), "no such file") && !strings.Contains(err.Error(), "contains no backup") || ownKey {
		t.Errorf("report = %+v, own key = %v, error = %v, want an intact backup, or one that the vault has removed", report, ownKey, err)
	}
}

// TestDoctorReportsFutureBackups checks that the finding about backups names those with a date in the future.
func TestDoctorReportsFutureBackups(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		dir, now := t.TempDir(), time.Now().UTC()
		create := func(at time.Time) string {
			t.Helper()
			name := filepath.Join(dir, at.Format("20060102T150405Z"))
			// The manifest has no valid header, but it is complete.
			if err := errors.Join(os.Mkdir(name, 0o700), os.WriteFile(filepath.Join(name, "manifest.jsonl"), []byte("{}\n{\"count\":0,\"mac\":\"\"}\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			return name
		}
		last := create(now)
		if _, err := d.Writer().ExecContext(t.Context(), `UPDATE backups SET every_seconds = 3600, started_at = $1, completed_at = $1, dir = $2`, db.Micros(now), last); err != nil {
			t.Fatal(err)
		}
		if detail, err := examineBackups(t.Context(), d); err != nil {
			t.Errorf("detail = %q, error = %v, want none", detail, err)
		}
		create(now.AddDate(1, 0, 0))
		future := create(now.AddDate(2, 0, 0))
		_, err := examineBackups(t.Context(), d)
		if f := finding("backups", "", err); f.Good || !f.Warning || !strings.Contains(f.Detail, "2 backups in "+dir) || !strings.Contains(f.Detail, filepath.Base(future)) {
			t.Errorf("finding = %+v, want a warning about two backups up to %s", f, filepath.Base(future))
		}
	})
}

// TestFolderOfBackupsIsCheckedAtTheStart checks that a vault with an unusable folder of backups does
// not start.
func TestFolderOfBackupsIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{filepath.Join(data, "files"): "belongs to the vault", filepath.Join(data, "none"): "does not exist"} {
		cfg := settings(t, data)
		cfg.Backup, cfg.BackupEvery, cfg.BackupKeep = dir, time.Hour, 1
		if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler), io.Discard); err == nil || !strings.HasPrefix(err.Error(), "--backup: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("--backup %s: error = %v, want an error that contains %q", dir, err, want)
		}
	}
}
