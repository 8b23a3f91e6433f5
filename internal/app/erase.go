package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/vault"
)

// Erase deletes the files of a certificate at once; see cert.Service.Erase. The server may run at the
// same time. Erase returns an error if the file store belongs to another installation than the database,
// because that store does not contain the files of the certificate.
func (b *Base) Erase(ctx context.Context, s config.Storage, referenceID, reason string) (*cert.Erasure, error) {
	blobs, err := b.installedFiles(ctx, s)
	if err != nil {
		return nil, err
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
