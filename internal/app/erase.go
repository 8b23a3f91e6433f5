package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/vault"
)

// Erase deletes the files of a certificate at once; see cert.Service.Erase. The server may be
// running. It returns an error if the files belong to another installation than the database,
// because the files of the certificate would then not be deleted.
func (b *Base) Erase(ctx context.Context, s config.Storage, referenceID, reason string) (*cert.Erasure, error) {
	if err := checkInstallation(ctx, s, b.DB); err != nil {
		return nil, err
	}
	blobs := blob.OpenFolder(filesDir(s))
	if _, err := blobs.Installation(); err != nil {
		return nil, fmt.Errorf("%s: %w; set --data to the data folder of the vault, or start certvault serve once", blobs.Location(), err)
	}
	log := slog.New(slog.DiscardHandler)
	queue, err := job.New(b.DB, job.Config{NodeID: "erase", MaxAttempts: 1, Timeout: cert.SealTimeout, Logger: log})
	if err != nil {
		return nil, err
	}
	certs := cert.New(cert.Config{
		DB: b.DB, Blobs: blobs, Queue: queue, Hooks: b.Hooks, Purged: vault.PurgedTx, Now: time.Now, Log: log,
		Deletions: vault.Deletions(deletion.Config{DB: b.DB, Blobs: blobs, Now: time.Now, Log: log}),
	})
	return certs.Erase(ctx, referenceID, reason)
}
